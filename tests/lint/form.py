# SPDX-License-Identifier: MIT
"""Whether C files are as clang-format leaves them."""
import os
import shutil
import subprocess
from concurrent import futures


class Skip(Exception):
    """The check cannot run here; the text is the reason."""


def clang_format():
    for name in ('clang-format-14', 'clang-format'):
        if shutil.which(name):
            out = subprocess.run([name, '--version'], capture_output=True,
                                 text=True, check=True).stdout
            if 'version 14.' in out:
                return name
    raise Skip('clang-format 14 is not installed; other versions differ')


def findings(tree):
    tool = clang_format()
    files, jobs = tree.ending('.c', '.h'), os.cpu_count() or 1

    def complaints(part):
        return part and subprocess.run(
            [tool, '--dry-run', '--ferror-limit=1', *part], cwd=tree.root,
            capture_output=True, text=True).stderr

    with futures.ThreadPoolExecutor(jobs) as pool:
        parts = pool.map(complaints, [files[i::jobs] for i in range(jobs)])
        for line in '\n'.join(filter(None, parts)).split('\n'):
            if 'clang-format-violations' in line:
                where = line.split(': ', 1)[0]
                yield f'{where}: not as {tool} -i leaves it'
