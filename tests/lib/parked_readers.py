# SPDX-License-Identifier: MIT
"""Threads that each read one page of a file at the same time, and print the results.

    parked_readers.py FILE WANT HOW FIRST COUNT

HOW is read, direct or mmap, FIRST the first page; WANT contains the right bytes. Prints a
line when all threads are ready, and starts them with the first line of standard input. When
all have ended, prints JSON: {result: count} and the seconds of the slowest thread. A result
is "right", "wrong" or an errno.
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
    """A function that returns the bytes of a page."""
    fd = os.open(path, os.O_RDONLY | (os.O_DIRECT if how == "direct" else 0))
    if how == "direct":
        def read(at):
            with mmap.mmap(-1, PAGE) as room:
                return room[:os.preadv(fd, [room], at)]
    elif how == "mmap":
        pages = memoryview(mmap.mmap(fd, 0, prot=mmap.PROT_READ))
        pages.obj.madvise(mmap.MADV_RANDOM)

        def read(at):
            """Copies the page by write(2), so that a failed page is EFAULT and not a
            signal. write(2) locks its file, so each thread has its own."""
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
    sys.setswitchinterval(1)    # no forced thread switches every 5 ms
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
