# SPDX-License-Identifier: MIT
"""Whether each header compiles alone."""
import glob
import os
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


def findings(tree):
    compiler = os.environ.get('CC', 'cc').split()
    # Who has these need not be there: their headers are left out then.
    needed = {'core/peer/mpi/': cflags('ompi-c'),
              'core/move/cuda/nccl_': nccl_flags(),
              'tests/gpu/standin/nccl_': nccl_flags(),
              'tests/gpu/tools/': nccl_flags() and [*nccl_flags(), '-Icore/move/cuda'],
              'core/move/cuda/': cuda_flags(), 'tests/gpu/': cuda_flags(),
              '': cflags('fuse3')}

    def fault(path):
        flags = next(flags for folder, flags in needed.items()
                     if path.startswith(folder))
        if not flags:
            return None
        command = compiler + [
            '-std=gnu17', '-fsyntax-only', '-Wall', '-Wextra', '-Werror',
            '-D_GNU_SOURCE', '-D_FILE_OFFSET_BITS=64', '-Iinclude',
            '-I' + (os.path.dirname(path) or '.'), '-Itests/lib',
            '-Imount-helpers', '-Imount-helpers/offline',
            *flags, '-include', path, '-x', 'c', '/dev/null']
        out = subprocess.run(command, cwd=tree.root, capture_output=True,
                             text=True)
        if out.returncode == 0:
            return None
        why = next((line for line in out.stderr.split('\n')
                    if 'error' in line), out.stderr[:200])
        return f'{path}:1: does not compile alone: {why}'

    with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from filter(None, pool.map(fault, tree.ending('.h')))
