#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sequential reads are prefetched, for each form of sharding, way of reading and size of
segments. The bytes are right, each is transferred once, and the prefetched bytes never exceed
the bytes read so far. Prints TAP.

    streams.py CKPTFS [TEST]...
"""
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
from hosts import Hosts, skipped  # noqa: E402
from hosts_mount import measured, mounted  # noqa: E402
from scenes import play  # noqa: E402
from shardings import COLUMNS, ITEM, SHARDINGS, SIZE, bytes_of, needed, write  # noqa: E402
from tap import Tap  # noqa: E402

ROW = COLUMNS * ITEM
PIECE = 4 * ROW     # bytes of a read when a host is lost
MORE = 1 << 20      # transferred bytes allowed above 1.1 x the needed ones: reads before the
                    # stream is detected
# One program reads a file sequentially, whole or up to END, and writes the bytes that it
# read: FILE WAY STEP END
READ = """
import errno, mmap, os, sys
name, way, step, end = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
size = min(os.stat(name).st_size, end)
fd = os.open(name, os.O_RDONLY | (os.O_DIRECT if way in ("direct", "lost") else 0))
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)    # no page of it is in the page cache
room = mmap.mmap(-1, 1 << 20)
if way == "mapped":
    file = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
at = size if way == "backward" else 0
while at > 0 if way == "backward" else at < size:
    if way == "backward":
        at = (at - 1) // step * step
    n = min(step, size - at)
    try:
        if way == "mapped":
            piece = file[at:at + n]
        else:
            n = os.preadv(fd, [memoryview(room)[:n]], at)
            piece = room[:n]
    except OSError as e:
        if way != "lost" or e.errno != errno.EIO:
            raise
        piece = b"?" * n
    sys.stdout.buffer.write(piece)
    at += n if way != "backward" else 0
"""
tap = Tap()


def start(hosts, name, way, step, end=SIZE):
    return hosts.popen("h1", [sys.executable, "-c", READ, f"{hosts.mnt}/raw/{name}", way,
                              str(step), str(end)], stdout=subprocess.PIPE)


def read(hosts, name, way, step, end=SIZE):
    return start(hosts, name, way, step, end).communicate()[0]


def in_order(got, step):
    """The whole tensor, from pieces that were read backward."""
    first = SIZE % step or step
    pieces = [got[:first]] + [got[at:at + step] for at in range(first, SIZE, step)]
    return b"".join(reversed(pieces))


def try_ways(hosts, segment):
    """Each form of sharding, each way of reading; returns the bytes needed and transferred for
    the first one."""
    wrong, sums, first = [], [0, 0], None
    for name in SHARDINGS:
        want, most = bytes_of(name), needed(name, 0, SIZE)
        for way, step in (("read", 65536), ("direct", 1 << 20), ("direct", 131072),
                          ("mapped", 4096), ("backward", 65536)):
            before = hosts.bytes("h1")[0]
            got = read(hosts, name, way, step)
            moved = hosts.bytes("h1")[0] - before
            first = first or (most, moved)
            if way == "backward":
                got = in_order(got, step)
            if got != want:
                wrong.append(f"{name}, {way} by {step}: other bytes")
            if moved > 1.1 * most + MORE:
                wrong.append(f"{name}, {way} by {step}: needs {most}, {moved} moved")
            sums[0] += most
            sums[1] += moved
    tap.result(not wrong, f"segments of {segment}: the right bytes, each once", wrong)
    tap.result(first[1] >= first[0] > 0, "canary: what moves is counted", [str(first)])
    print(f"# {sums[0]} bytes read, {sums[1]} moved")


def test_ways(hosts):
    try_ways(hosts, "8M")


def test_small_ways(hosts):
    try_ways(hosts, "256K")


def test_cache(hosts):
    try_ways(hosts, "256K, 2 MiB in all")


def test_little(hosts):
    """A reader that stops early transfers at most twice the bytes that it read."""
    wrong = []
    for name in SHARDINGS:
        for end in (256 << 10, 1 << 20, 2 << 20):
            before = hosts.bytes("h1")[0]
            got = read(hosts, name, "direct", 65536, end)
            time.sleep(0.2)
            moved = hosts.bytes("h1")[0] - before
            most = needed(name, 0, min(2 * end, SIZE))
            if got != bytes_of(name)[:end] or moved > 1.1 * most + MORE:
                wrong.append(f"{name}: {end} read, {moved} moved")
    tap.result(not wrong, "no more is read ahead than was read", wrong)


def test_together(hosts):
    """Several readers of the same file at the same time, bypassing the page cache."""
    wrong, sums = [], [0, 0]
    for name in SHARDINGS:
        before = hosts.bytes("h1")[0]
        readers = [start(hosts, name, "direct", 65536 << i) for i in range(4)]
        got = [reader.communicate()[0] for reader in readers]
        wrong += [name for data in got if data != bytes_of(name)]
        sums[0] += needed(name, 0, SIZE)
        sums[1] += hosts.bytes("h1")[0] - before
    tap.result(not wrong, "four at a time: the right bytes", wrong)
    tap.result(sums[1] < 3 * sums[0], "and most of them once for all", [str(sums)])
    print(f"# {sums[0]} bytes of four readers each, {sums[1]} moved")


def test_lost(hosts):
    """A rank is killed permanently: only reads of its own tensors fail, with EIO."""
    for pid in hosts.programs("h3", "ckptfs", "--mpi"):
        hosts.kill(pid)
    wrong, lost = [], 0
    begin = time.monotonic()
    for name, boxes in SHARDINGS.items():
        want = bytes_of(name)
        got = read(hosts, name, "lost", PIECE)
        for at in range(0, SIZE, PIECE):
            # Whole rows: all boxes of each row must be readable.
            rows = range(at // ROW, min(at + PIECE, SIZE) // ROW)
            gone = any(i % 3 == 2 and r0 < rows[-1] + 1 and rows[0] < r1
                       for i, ((r0, r1), _) in enumerate(boxes))
            piece = want[at:at + PIECE]
            lost += gone
            if got[at:at + PIECE] != (b"?" * len(piece) if gone else piece):
                wrong.append(f"{name} at {at}: {'bytes' if gone else 'an error'}")
    tap.result(not wrong and lost, "a host is lost: only its files are EIO", wrong[:5])
    print(f"# {lost} reads of {PIECE} are lost, {time.monotonic() - begin:.1f} s")


# Slow tests run first.
OPTIONS = {
    test_lost: "rejoin=off", test_cache: "segment=256K,cache=2M",
    test_ways: "segment=8M", test_small_ways: "segment=256K",
    test_little: "segment=256K", test_together: "segment=256K",
}


def act(test):
    with Hosts(3) as hosts:
        write(hosts)
        with mounted(hosts, CKPTFS, OPTIONS[test]):
            measured(hosts)
            test(hosts)
    return tap.finish()


CKPTFS = os.path.realpath(sys.argv[1])
sys.exit(0 if skipped() else play(tuple(OPTIONS), act, at_a_time=2))
