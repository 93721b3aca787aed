# SPDX-License-Identifier: MIT
"""Whether each header compiles alone.

The build shows it of headers that some C file includes before anything else. The others are
compiled here."""
import glob
import os
import re
import subprocess
from concurrent import futures

HERE = os.path.dirname(os.path.abspath(__file__))
WHEELS = os.path.join(HERE, '../../.venv-cuda-*/lib/python3*/site-packages/'
                      'nvidia/cu13/include')
NCCL = os.path.join(HERE, '../../.venv-nccl-*/lib/python3*/site-packages/'
                    'nvidia/nccl/include')


def cflags(package):
    return subprocess.run(['pkg-config', '--cflags', package],
                          capture_output=True, text=True).stdout.split()


def cuda_flags():
    for place in ['/usr/local/cuda/include', *glob.glob(WHEELS)]:
        if os.path.exists(place + '/cuda.h'):
            return ['-isystem', place]
    return []


def nccl_flags():
    for place in glob.glob(NCCL):
        return cuda_flags() and [*cuda_flags(), '-isystem', place]
    return []


# Modules of several folders: their headers include those of the other folders.
FOLDERS = {'mount-helpers/': ('', 'cmd', 'offline', 'run')}


def places_of(path):
    return [f'-I{home}{folder}' for home, folders in FOLDERS.items() for folder in folders
            if path.startswith(home)]


FIRST = re.compile(r'^#\s*(?:include "([^"]+)"|\w)', re.M)


def shown_by_build(tree):
    """The headers that a C file includes first, in a line without condition."""
    headers, shown = set(tree.ending('.h')), set()
    for path in tree.ending('.c'):
        line = FIRST.search(tree.text(path))
        if line and line[1]:
            places = [os.path.dirname(path), 'include', 'core', 'tests/lib',
                      *(place[2:] for place in places_of(path))]
            found = (os.path.normpath(os.path.join(place, line[1])) for place in places)
            shown.add(next((header for header in found if header in headers), None))
    return shown


def findings(tree):
    compiler = os.environ.get('CC', 'cc').split()
    # Who has these need not be there: their headers are left out then.
    needed = {'core/dist/transport/mpi/': cflags('ompi-c'),
              'core/gpu/nccl/nccl_': nccl_flags(),
              'tests/gpu/standin/nccl_': nccl_flags(),
              'tests/gpu/tools/': nccl_flags(),
              'core/gpu/': cuda_flags(), 'tests/gpu/': cuda_flags(),
              '': cflags('fuse3')}

    def fault(path):
        flags = next(flags for folder, flags in needed.items()
                     if path.startswith(folder))
        if not flags:
            return None
        command = compiler + [
            '-std=gnu17', '-fsyntax-only', '-Wall', '-Wextra', '-Werror',
            '-D_GNU_SOURCE', '-D_FILE_OFFSET_BITS=64', '-Iinclude', '-Icore',
            '-I' + (os.path.dirname(path) or '.'), '-Itests/lib',
            *places_of(path), *flags, '-include', path, '-x', 'c', '/dev/null']
        out = subprocess.run(command, cwd=tree.root, capture_output=True,
                             text=True)
        if out.returncode == 0:
            return None
        why = next((line for line in out.stderr.split('\n')
                    if 'error' in line), out.stderr[:200])
        return f'{path}:1: does not compile alone: {why}'

    with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        shown = shown_by_build(tree)
        yield from filter(None, pool.map(fault, [p for p in tree.ending('.h') if p not in shown]))
