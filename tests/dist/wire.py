#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What goes over the wire: what a read needs and little more, nothing for bytes of this
host, and next to nothing while nobody reads; and that .ckptfs/stats says so. Prints TAP.

    wire.py CKPTFS

CKPTFS_CASES: reads of each tensor; CKPTFS_SEED.
"""
import array
import json
import mmap
import os
import random
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, name) for name in ("../lib", "../damage")]
import source  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from tap import Tap  # noqa: E402

NET = "10.77.0.0/24"
SEED = int(os.environ.get("CKPTFS_SEED") or random.SystemRandom().randrange(1 << 32))
CASES = int(os.environ.get("CKPTFS_CASES") or 40)
ROWS, COLUMNS, ITEM = 1200, 1024, 4
MOST = 1 << 20      # bytes of a read
MORE = 64 << 10     # that may move beside 1.1 x what is needed
IDLE = 20000        # bytes a second, of each host
WORK = 2            # percent of a core, of each process
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


def cuts(size, parts):
    """[begin, end) of each part."""
    at = [size * i // parts for i in range(parts + 1)]
    return list(zip(at, at[1:]))


def boxes(rows, columns):
    return [(r, c) for r in rows for c in columns]


# Boxes, (rows, columns) each; box i is on host i % 3.
SHARDINGS = {
    "rows": boxes(cuts(ROWS, 3), [(0, COLUMNS)]),
    "columns": boxes([(0, ROWS)], cuts(COLUMNS, 3)),
    "grid": boxes(cuts(ROWS, 2), cuts(COLUMNS, 5)),
    "strided": boxes(cuts(ROWS, 75), [(0, COLUMNS)]),
    "uneven": boxes([(0, 1000), (1000, 1190), (1190, ROWS)], [(0, COLUMNS)]),
    "here": [((0, ROWS), (0, COLUMNS))],
}


def element(name):
    """The first one of a tensor; they are counted from there, row by row."""
    return list(SHARDINGS).index(name) * ROWS * COLUMNS


def bytes_of(name):
    first = element(name)
    return array.array("f", range(first, first + ROWS * COLUMNS)).tobytes()


def box_bytes(whole, box):
    (r0, r1), (c0, c1) = box
    width = COLUMNS * ITEM
    return b"".join(whole[r * width + c0 * ITEM:r * width + c1 * ITEM]
                    for r in range(r0, r1))


def write(hosts):
    """The checkpoint, each box where it belongs."""
    checkpoint = source.Checkpoint()
    checkpoint.items, checkpoint.entries = {}, {}
    for name, list_ in SHARDINGS.items():
        whole = bytes_of(name)
        for i, box in enumerate(list_):
            (r0, r1), (c0, c1) = box
            checkpoint.items[name, (r0, c0)] = [
                f"__{i % 3}_0.distcp",
                source.item((r1 - r0, c1 - c0), box_bytes(whole, box))]
        checkpoint.entries[name] = source.d.tensor(
            (ROWS, COLUMNS), [((r0, c0), (r1 - r0, c1 - c0))
                              for (r0, r1), (c0, c1) in list_])
    place = f"{hosts.base}/whole"
    checkpoint.write(place)
    for i, host in enumerate(hosts.names):
        os.rename(f"{place}/__{i}_0.distcp",
                  f"{hosts.directory(host)}/__{i}_0.distcp")
    os.rename(f"{place}/.metadata", f"{hosts.directory('h1')}/.metadata")


def needed(name, at, size):
    """Bytes of [at, at + size) that are on the other hosts."""
    total, width = 0, COLUMNS * ITEM
    for row in range(at // width, (at + size - 1) // width + 1):
        begin = max(at - row * width, 0)
        end = min(at + size - row * width, width)
        for i, ((r0, r1), (c0, c1)) in enumerate(SHARDINGS[name]):
            if i % 3 and r0 <= row < r1:
                total += max(min(end, c1 * ITEM) - max(begin, c0 * ITEM), 0)
    return total


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
    """Where a read begins, and how long it is: none continues another."""
    whole = ROWS * COLUMNS * ITEM
    for i in range(CASES):
        size = MOST if i % 4 == 0 else \
            mmap.PAGESIZE * chance.randrange(1, MOST // mmap.PAGESIZE)
        yield mmap.PAGESIZE * chance.randrange(
            (whole - size) // mmap.PAGESIZE), size


def report(hosts, name):
    return hosts.run("h1", ["cat", f"{hosts.mnt}/.ckptfs/{name}"],
                     stdout=subprocess.PIPE, text=True, check=True).stdout


def is_measured(hosts):
    """From then on nothing moves that nobody reads."""
    rows = report(hosts, "paths").splitlines()[1:]
    return len(rows) == 3 and all(row.split(",")[2] for row in rows)


def counted(hosts):
    """Bytes given to readers, read here, read on the others, that came from them, and
    that the network knows of."""
    stats = json.loads(report(hosts, "stats"))
    files, wire = stats["file_bytes"], stats["wire_bytes"]
    return (stats["read_bytes"], files["h1"], files["h2"] + files["h3"],
            sum(wire.values()), hosts.bytes("h1")[0])


def check_counted(name, before, after, size, want, seconds):
    """Beside bytes of the tensor headers of its boxes are read."""
    given, here, there, wire, network = (b - a for a, b in zip(before, after))
    headers = 8192 * len(SHARDINGS[name])
    note = (f"{size} bytes were read, {want} of them of others: given {given}, "
            f"read here {here}, there {there}; came {wire}, by the network "
            f"{network}")
    tap.check(given == size, f"{name}: stats has what was read", note)
    tap.check(size - want <= here <= size - want + headers and
              want <= there <= want + headers,
              f"{name}: stats has what was read of files", note)
    tap.check(there <= wire <= network <= 1.1 * wire + MORE + IDLE * seconds,
              f"{name}: stats has what came over the network", note)


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
    """Time that each process of the mount has used."""
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
               "nobody reads: next to nothing moves", [str(moved)])
    hertz = os.sysconf("SC_CLK_TCK") * seconds / 100
    after = ticks(hosts)
    used = {who: (after[who] - used[who]) / hertz for who in used}
    tap.check(len(used) > 3 and max(used.values()) <= WORK,
              "nobody reads: next to no work is done", used)
    print(f"# {seconds} s: {moved} bytes, {used} % of a core")


def main():
    print(f"# CKPTFS_SEED={SEED}")
    if skipped():
        return 0
    chance = random.Random(SEED)
    with Hosts(3) as hosts:
        write(hosts)
        hosts.run("h1", [CKPTFS, "mount", "--hosts", "h1,h2,h3", "-o",
                         f"agent={hosts.agent},net={NET}", hosts.src,
                         hosts.mnt], check=True)
        tap.check(until(lambda: is_measured(hosts)), "paths is complete",
                  report(hosts, "paths"))
        sums = {name: test_reads(hosts, name, chance) for name in SHARDINGS}
        tap.result(sums["here"][0] == 0 and sums["here"][1] <= IDLE * 5,
                   "nothing moves for bytes of this host",
                   [str(sums["here"])])
        tap.result(all(moved >= want for want, moved in sums.values()),
                   "canary: what moves is counted", [str(sums)])
        test_idle(hosts)
        hosts.run("h1", [CKPTFS, "umount", hosts.mnt], check=True)
    return tap.finish()


CKPTFS = os.path.realpath(sys.argv[1])
sys.exit(main())
