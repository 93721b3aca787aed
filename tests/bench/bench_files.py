# SPDX-License-Identifier: MIT
"""The group `files` of tests/bench/run: files/ of a mount beside the directory of the source itself, in a copy of DIR/big."""
import os
import random
import time

MIB = 1 << 20
SIZE = 256 * MIB
MANY = 10_000


def rate_of(call, size):
    start = time.monotonic()
    call()
    return size / MIB / (time.monotonic() - start)


def sequential(directory, bench):
    """Rates in MiB/s of a new file that is written, and read twice: the pages of the mount are dropped, those of the
    source are there."""
    path, piece = directory / "large", random.Random(1).randbytes(MIB)

    def write():
        with open(path, "wb", buffering=0) as f:
            for _ in range(SIZE // MIB):
                f.write(piece)

    def read():
        with open(path, "rb", buffering=0) as f:
            while f.read(MIB):
                pass

    bench.warm()
    written = rate_of(write, SIZE)
    with open(path, "r+b") as f:
        os.fsync(f.fileno())
    got = rate_of(read, SIZE)
    path.unlink()
    return written, got


def small(directory, bench, count=20_000):
    """Writes of 4 KiB in a second, over the same pages."""
    path, piece = directory / "small", bytes(4096)
    bench.warm()
    with open(path, "wb", buffering=0) as f:
        start = time.monotonic()
        for i in range(count):
            os.pwrite(f.fileno(), piece, i % 256 * 4096)
        rate = count / (time.monotonic() - start)
    path.unlink()
    return rate


def at_random(directory, bench, count=20_000):
    """Reads of 4 KiB in a second."""
    path, pick = directory / "random", random.Random(2)
    with open(path, "w+b", buffering=0) as f:
        for _ in range(SIZE // MIB):
            f.write(bytes(MIB))
        os.fsync(f.fileno())
    bench.warm()
    with open(path, "rb", buffering=0) as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        start = time.monotonic()
        for _ in range(count):
            os.pread(f.fileno(), 4096, pick.randrange(SIZE // 4096) * 4096)
        rate = count / (time.monotonic() - start)
    path.unlink()
    return rate


def many(directory, bench):
    """Seconds to create, stat and remove MANY empty files."""
    below = directory / "many"
    below.mkdir()
    names = [f"{below}/{i}" for i in range(MANY)]
    bench.warm()
    start = time.monotonic()
    for name in names:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    for name in names:
        os.stat(name)
    for name in names:
        os.unlink(name)
    seconds = time.monotonic() - start
    below.rmdir()
    return seconds


def group_files(bench):
    runs = {"source": [], "files/": []}
    with bench.copied("big") as copy, bench.mounted(copy, "write") as mnt:
        for _ in range(bench.repeat):
            for name, directory in (("source", copy), ("files/", mnt / "files")):
                bench.settle()
                runs[name].append((*sequential(directory, bench), at_random(directory, bench), small(directory, bench),
                                   many(directory, bench)))
    source, ours = ([best(column) for best, column in zip((max, max, max, max, min), zip(*runs[name]))] for name in runs)
    for i, (what, unit, floor) in enumerate((("sequential write, 1 MiB", "MiB/s", 0.5), ("sequential read, 1 MiB", "MiB/s", 0.5),
                                             ("4 KiB at random", "/s", 0.2), ("4 KiB writes", "/s", None))):
        bench.row(f"files/: {what}", f"{source[i]:.0f} {unit}", f"{ours[i]:.0f} {unit}", ours[i] / source[i], floor)
    bench.row(f"files/: create, stat, unlink {MANY:,} files", f"{source[4]:.2f} s", f"{ours[4]:.2f} s", ours[4] / source[4],
              6, less=True)
