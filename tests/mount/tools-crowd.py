# SPDX-License-Identifier: MIT
"""Renames, removals, commits and lookups by many concurrent processes: no call hangs, and each
file has the bytes of a single writer. Prints the errors.

    tools-crowd.py MOUNT SECONDS STEM...
"""

import errno
import os
import random
import sys
import time

mount, seconds, *stems = sys.argv[1:]
until = time.monotonic() + float(seconds)
size = os.stat(f'{mount}/raw/{stems[0]}').st_size
EXPECTED = {errno.EBUSY, errno.ENOENT, errno.EEXIST}


def closes(fd, *calls):
    """ESTALE: another process has removed the name meanwhile."""
    for call in calls or (os.close,):
        try:
            call(fd)
        except OSError as e:
            if e.errno != errno.ESTALE:
                raise


def renames(i, path):
    """From either directory: the kernel locks both."""
    name = f'{mount}/{random.choice(("raw", "full"))}/x{i}'
    with open(name, 'wb') as f:
        f.write(bytes([i]) * size)
    os.rename(name, path)


def writes(i, path):
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, bytes([i]) * size)
    closes(fd)


def syncs(i, path):
    """The kernel locks the file for an fsync, and so for a rename onto it."""
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, bytes([i]) * size)
    closes(fd, os.fsync, os.close)


def makes(i, path):
    os.unlink(path)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(fd, bytes([i]) * size)
    closes(fd)


def looks(i, path):
    for directory in 'raw', 'full':
        for e in os.scandir(f'{mount}/{directory}'):
            if random.random() < 0.2:
                try:
                    e.stat()
                except FileNotFoundError:
                    pass
    with open(path, 'rb') as f:
        data = f.read()
    if len(set(data)) != 1 or len(data) != size:
        raise AssertionError(f'{path}: a mixture')


def work(i):
    """How often it went well. Once it must, however slow the machine is."""
    done = 0
    random.seed(i)
    while time.monotonic() < until + (0 if done else 60):
        what = (renames, writes, makes, looks, syncs)[i % 5]
        try:
            what(i, f'{mount}/raw/{random.choice(stems)}')
            done += 1
        except OSError as e:
            if e.errno not in EXPECTED:
                raise
    return done


for stem in stems:
    writes(255, f'{mount}/raw/{stem}')
children = []
for i in range(1, 16):
    pid = os.fork()
    if pid == 0:
        try:
            done = work(i)
            if not done:
                print(f'worker {i} never had its turn')
            os._exit(0 if done else 1)
        except BaseException as e:
            print(f'worker {i}: {e!r}', flush=True)
            os._exit(1)
    children.append(pid)
failed = [pid for pid in children if os.waitpid(pid, 0)[1]]
sys.exit(1 if failed else 0)
