# SPDX-License-Identifier: MIT
"""Many threads that each read one page of a file at the same time, and say what they got.

    parked_readers.py FILE WANT HOW FIRST COUNT

HOW is read, direct or mmap, FIRST the first page; WANT has the bytes that are right. Prints a line when all can
begin, begins with the first line of its standard input, and prints JSON when all have
ended: {what: how many}, and the seconds that the longest took. what is right, wrong or
an errno.
"""
import collections
import json
import mmap
import os
import sys
import threading
import time

PAGE = mmap.PAGESIZE


def reader(path, how):
    """A function: the bytes of a page."""
    fd = os.open(path, os.O_RDONLY | (os.O_DIRECT if how == "direct" else 0))
    if how == "direct":
        def read(at):
            with mmap.mmap(-1, PAGE) as room:
                return room[:os.preadv(fd, [room], at)]
    elif how == "mmap":
        pages = memoryview(mmap.mmap(fd, 0, prot=mmap.PROT_READ))
        pages.obj.madvise(mmap.MADV_RANDOM)

        def read(at):
            """Through write(2): a page that cannot be had is EFAULT then, no signal. Who
            writes has a lock of the file, so each thread has its own."""
            scratch = os.memfd_create("page")
            try:
                os.pwrite(scratch, pages[at:at + PAGE], 0)
                return os.pread(scratch, PAGE, 0)
            finally:
                os.close(scratch)
    else:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)

        def read(at):
            return os.pread(fd, PAGE, at)
    return read


def main(path, want, how, first, count):
    with open(want, "rb") as f:
        right = f.read()
    read, got, go = reader(path, how), [], threading.Event()

    def run(at):
        go.wait()
        begun = time.monotonic()
        try:
            bytes_ = read(at)
            what = "right" if bytes_ == right[at:at + PAGE] else "wrong"
        except OSError as problem:
            what = problem.errno
        got.append((what, time.monotonic() - begun))
    threading.stack_size(1 << 18)
    sys.setswitchinterval(1)    # else each that has its bytes wakes every 5 msec to go on
    threads = [threading.Thread(target=run, args=(PAGE * (int(first) + i),))
               for i in range(int(count))]
    for thread in threads:
        thread.start()
    print(flush=True)
    sys.stdin.readline()
    go.set()
    for thread in threads:
        thread.join()
    print(json.dumps([collections.Counter(what for what, _ in got),
                      max(seconds for _, seconds in got)]))


main(*sys.argv[1:])
