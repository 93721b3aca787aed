# SPDX-License-Identifier: MIT
"""Reads all files of a mount repeatedly and prints the results; several such programs run
together, each with another method:

    faults_readers.py MNT HOW SEED

HOW is read, direct or mmap. Lines of JSON: file, SHA-256 of all its bytes or errno,
seconds of the longest call. Ends when its standard input does.
"""
import hashlib
import json
import mmap
import os
import random
import select
import sys
import time

STEP = 1 << 16


def by_read(fd, size):
    for at in range(0, size, STEP):
        yield os.pread(fd, min(STEP, size - at), at)


def by_mmap(fd, size):
    """Through write(2): a page that cannot be had is EFAULT then, no signal."""
    if size == 0:
        return
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as bytes_, \
            memoryview(bytes_) as view:
        for at in range(0, size, STEP):
            end = min(at + STEP, size)
            os.pwrite(SCRATCH, view[at:end], 0)
            yield os.pread(SCRATCH, end - at, 0)


def read(path, how):
    flags = os.O_RDONLY | (os.O_DIRECT if how == "direct" else 0)
    longest, digest = [0], hashlib.sha256()

    def timed(call):
        begun = time.monotonic()
        try:
            return call()
        finally:
            longest[0] = max(longest[0], time.monotonic() - begun)
    try:
        fd = timed(lambda: os.open(path, flags))
    except OSError as e:
        return e.errno, longest[0]
    try:
        size = os.fstat(fd).st_size
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        steps = (by_mmap if how == "mmap" else by_read)(fd, size)
        while True:
            part = timed(lambda: next(steps, None))
            if part is None:
                return digest.hexdigest(), longest[0]
            digest.update(part)
    except OSError as e:
        return e.errno, longest[0]
    finally:
        os.close(fd)


def main(mnt, how, seed):
    chance = random.Random(seed)
    paths = [line.rstrip("\n") for line in iter(sys.stdin.readline, "\n")]
    while not select.select([sys.stdin], [], [], 0)[0]:
        path = chance.choice(paths)
        what, longest = read(f"{mnt}/{path}", how)
        print(json.dumps([path, what, round(longest, 2)]), flush=True)


SCRATCH = os.memfd_create("page")
main(*sys.argv[1:])
