#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Network traffic of a mount: a read transfers little more than the bytes that it needs, and
nothing for local bytes; an idle mount transfers next to nothing. .ckptfs/stats has the same
figures. Prints TAP.

    wire.py CKPTFS

CKPTFS_CASES: reads of each tensor; CKPTFS_SEED.
"""
import json
import mmap
import os
import random
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
from hosts import Hosts, skipped  # noqa: E402
from hosts_mount import measured, mounted, report  # noqa: E402
from shardings import SHARDINGS, SIZE, bytes_of, needed, write  # noqa: E402
from tap import Tap, cases, seed  # noqa: E402

SEED = seed()
CASES = cases("CKPTFS_CASES", 40, 40)
MOST = 1 << 20      # bytes of a read
MORE = 64 << 10     # transferred bytes allowed above 1.1 x the needed ones
IDLE = 20000        # bytes a second, of each host
WORK = 4            # percent of a core, of each process: 1.6 to 2.2 are usual, a busy poll has 90
READ = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
room = mmap.mmap(-1, 1 << 20)
os.preadv(fd, [memoryview(room)[:4096]], 0)
print(flush=True)
for line in sys.stdin:
    at, size = map(int, line.split())
    n = os.preadv(fd, [memoryview(room)[:size]], at)
    print(n, flush=True)
    sys.stdout.buffer.write(room[:n])
    sys.stdout.flush()
"""
tap = Tap()


class Reader:
    """A program on the first host that reads one file."""

    def __init__(self, hosts, name):
        self.child = hosts.popen(
            "h1", [sys.executable, "-c", READ, f"{hosts.mnt}/raw/{name}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.child.stdout.readline()

    def read(self, at, size):
        self.child.stdin.write(f"{at} {size}\n".encode())
        self.child.stdin.flush()
        n = int(self.child.stdout.readline())
        return self.child.stdout.read(n)

    def close(self):
        self.child.stdin.close()
        self.child.wait()
        self.child.stdout.close()


def places(chance):
    """Offset and length of each read; no read continues another one."""
    for i in range(CASES):
        size = MOST if i % 4 == 0 else \
            mmap.PAGESIZE * chance.randrange(1, MOST // mmap.PAGESIZE)
        yield mmap.PAGESIZE * chance.randrange(
            (SIZE - size) // mmap.PAGESIZE), size


def counted(hosts):
    """Bytes returned to readers, read locally, read on the other hosts, received from them,
    and counted by the network interfaces."""
    stats = json.loads(report(hosts, "stats"))
    files, wire = stats["file_bytes"], stats["wire_bytes"]
    return (stats["read_bytes"], files["h1"], files["h2"] + files["h3"],
            sum(wire.values()), hosts.bytes("h1")[0])


def check_counted(name, before, after, size, want, seconds):
    """Besides the bytes of the tensor, headers of its boxes are read."""
    given, here, there, wire, network = (b - a for a, b in zip(before, after))
    headers = 8192 * len(SHARDINGS[name])
    note = (f"{size} bytes were read, {want} of them of others: given {given}, "
            f"read here {here}, there {there}; came {wire}, by the network "
            f"{network}")
    tap.check(given == size, f"{name}: stats has the bytes read", note)
    tap.check(size - want <= here <= size - want + headers and
              want <= there <= want + headers,
              f"{name}: stats has the bytes read of files", note)
    tap.check(there <= wire <= network <= 1.1 * wire + MORE + IDLE * seconds,
              f"{name}: stats has the bytes of the network", note)


def test_reads(hosts, name, chance):
    whole, wrong, sums = bytes_of(name), [], [0, 0]
    begun, first, total = time.monotonic(), counted(hosts), [4096, 0]
    reader = Reader(hosts, name)
    total[1] = needed(name, 0, 4096)
    for at, size in places(chance):
        total[0] += size
        total[1] += needed(name, at, size)
        before, want = hosts.bytes("h1")[0], needed(name, at, size)
        got = reader.read(at, size)
        moved = hosts.bytes("h1")[0] - before
        sums[0] += want
        sums[1] += moved
        if got != whole[at:at + size]:
            wrong.append(f"{size} bytes at {at} are others")
        if moved > 1.1 * want + MORE:
            wrong.append(f"{size} bytes at {at}: needs {want}, {moved} moved")
    reader.close()
    check_counted(name, first, counted(hosts), *total,
                  time.monotonic() - begun)
    tap.result(not wrong, f"{name}: no more moves than is needed", wrong)
    print(f"# {name}: {CASES} reads, {sums[0]} bytes needed, {sums[1]} moved")
    return sums


def ticks(hosts):
    """The processor time of each process of the mount."""
    used = {}
    for name in hosts.names:
        for pid, argv in hosts.processes(name):
            if os.path.basename(argv[0]) == "ckptfs":
                with open(f"/proc/{pid}/stat") as f:
                    fields = f.read().rpartition(")")[2].split()
                used[name, pid, argv[1]] = int(fields[11]) + int(fields[12])
    return used


def test_idle(hosts):
    seconds = 5
    used = ticks(hosts)
    before = {name: sum(hosts.bytes(name)) for name in hosts.names}
    time.sleep(seconds)
    moved = {name: sum(hosts.bytes(name)) - before[name]
             for name in hosts.names}
    tap.result(max(moved.values()) <= IDLE * seconds,
               "without a reader: next to nothing moves", [str(moved)])
    hertz = os.sysconf("SC_CLK_TCK") * seconds / 100
    after = ticks(hosts)
    used = {who: (after[who] - used[who]) / hertz for who in used}
    tap.check(len(used) > 3 and max(used.values()) <= WORK,
              "without a reader: next to no work is done", used)
    print(f"# {seconds} s: {moved} bytes, {used} % of a core")


def test_all(hosts, chance):
    tap.check(measured(hosts), "stats has the rate of each host", report(hosts, "stats"))
    sums = {name: test_reads(hosts, name, chance) for name in SHARDINGS}
    tap.result(sums["here"][0] == 0 and sums["here"][1] <= IDLE * 5,
               "nothing moves for bytes of this host", [str(sums["here"])])
    tap.result(all(moved >= want for want, moved in sums.values()),
               "canary: what moves is counted", [str(sums)])
    test_idle(hosts)


def main():
    if skipped():
        return 0
    chance = random.Random(SEED)
    with Hosts(3) as hosts:
        write(hosts)
        with mounted(hosts, CKPTFS):
            test_all(hosts, chance)
    return tap.finish()


CKPTFS = os.path.realpath(sys.argv[1])
sys.exit(main())
