#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many reads wait for a stopped host and do not block reads from other hosts. When the
host continues, or another process replaces it, the waiting reads succeed; otherwise all
of them fail in time. Prints TAP.

    parked.py CKPTFS

CKPTFS_CASES: reads at the same time (1500; in the long run 12000).
"""
import collections
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
from hosts_mount import mounted  # noqa: E402
from tap import Tap  # noqa: E402

READERS = os.path.join(HERE, "../lib/parked_readers.py")
HOW = ("read", "direct", "mmap")
ERROR = {"read": "5", "direct": "5", "mmap": "14"}      # EIO; EFAULT of a mapping
COUNT = int(os.environ.get("CKPTFS_CASES") or 1500) // len(HOW)
ALL = COUNT * len(HOW)
THREADS = 250
SMALL = 1 << 14
FRESH = 20          # small tensors that were never opened, for each test
SHORT = 3           # seconds of a stop; the host is down after 5
SOON = 1.5          # limit in seconds of a call that does not wait for the host
IN_TIME = 10
OTHERS = """
import json, os, select, sys, time
mount, want, names = sys.argv[1], sys.argv[2], sys.argv[3:]
longest, rounds, faults = [0, None], 0, []

def timed(what, call, *arguments):
    begun = time.monotonic()
    try:
        return call(*arguments)
    finally:
        longest[:] = max(longest, [time.monotonic() - begun, what], key=lambda l: l[0])

def read(name):
    path = f"{mount}/raw/{name}"
    size = timed(f"stat {name}", os.stat, path).st_size
    fd = timed(f"open {name}", os.open, path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    bytes_ = timed(f"read {name}", os.pread, fd, size, 0)
    os.close(fd)
    with open(f"{want}/{name}", "rb") as f:
        if f.read() != bytes_:
            faults.append(f"{name}: other bytes")

while not rounds or not select.select([sys.stdin], [], [], 0)[0]:
    for view in ("raw", "full", "local/rank-1"):
        timed(f"list {view}", os.listdir, f"{mount}/{view}")
    for name in names:
        try:
            read(name)
        except OSError as problem:
            faults.append(str(problem))
    rounds += 1
print(json.dumps([rounds, *longest, faults[:5]]))
"""
tap = Tap()


# --- the checkpoint -------------------------------------------------------------------------

def sizes():
    """Makes tensors that are stored on one host each."""
    large = COUNT * mmap.PAGESIZE
    for i in range(3):
        for n in range(3 * FRESH):
            yield i, f"h{i + 1}.t{n}", SMALL
    for how in HOW:
        yield 1, f"h2.{how}", large


def write(hosts):
    checkpoint = source.Checkpoint()
    checkpoint.items, checkpoint.entries = {}, {}
    os.mkdir(f"{hosts.base}/want")
    for i, name, size in sizes():
        bytes_, shape = random.Random(name).randbytes(size), (size // 4,)
        checkpoint.items[name, (0,)] = [f"__{i}_0.distcp", source.item(shape, bytes_)]
        checkpoint.entries[name] = source.d.tensor(shape, [((0,), shape)])
        with open(f"{hosts.base}/want/{name}", "wb") as f:
            f.write(bytes_)
    checkpoint.write(f"{hosts.base}/whole")
    for i, host in enumerate(hosts.names):
        os.rename(f"{hosts.base}/whole/__{i}_0.distcp",
                  f"{hosts.directory(host)}/__{i}_0.distcp")
    os.rename(f"{hosts.base}/whole/.metadata", f"{hosts.directory('h1')}/.metadata")


# --- programs on the first host -----------------------------------------------------------------

class Parked:
    """COUNT reads of each kind, all from the second host. The threads of one Python
    program block each other, so several programs run."""

    def __init__(self, hosts):
        self.children = [(how, self.start(hosts, how, first))
                         for how in HOW for first in range(0, COUNT, THREADS)]
        for _, child in self.children:
            child.stdout.readline()

    @staticmethod
    def start(hosts, how, first):
        return hosts.popen("h1", [
            sys.executable, READERS, f"{hosts.mnt}/raw/h2.{how}",
            f"{hosts.base}/want/h2.{how}", how, str(first),
            str(min(THREADS, COUNT - first))], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def go(self):
        for _, child in self.children:
            child.stdin.write("\n")
            child.stdin.flush()

    def end(self):
        """For each kind: the number of each result, and the longest time in seconds."""
        got = {how: [collections.Counter(), 0] for how in HOW}
        for how, child in self.children:
            counts, seconds = json.loads(child.communicate()[0] or '[{"died": 1}, 99]')
            got[how][0].update(counts)
            got[how][1] = max(got[how][1], seconds)
        return got


class Others:
    """A program that reads tensors of the two other hosts; those of part `part` were
    never opened before."""

    def __init__(self, hosts, part):
        names = [f"h{i}.t{n}" for n in range(part * FRESH, (part + 1) * FRESH)
                 for i in (1, 3)]
        self.child = hosts.popen("h1", [sys.executable, "-c", OTHERS, hosts.mnt,
                                        f"{hosts.base}/want", *names], text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def end(self):
        output, _ = self.child.communicate()
        return json.loads(output or '[0, 99, "it died", []]')


def waiting(hosts):
    """The number of requests in the kernel without a reply."""
    ask = 'mountpoint -q "$1" || mount -t fusectl none "$1"; cat "$1/$2/waiting"'
    device = hosts.run("h1", ["stat", "-c", "%Ld", hosts.mnt], capture_output=True,
                       text=True, check=True).stdout.strip()
    done = hosts.run("h1", ["sh", "-c", ask, "sh", "/sys/fs/fuse/connections", device],
                     capture_output=True, text=True, check=True)
    return int(done.stdout)


# --- tests ----------------------------------------------------------------------------------------

def stopped(hosts, part, seconds):
    """Results of the waiting reads and of others while the second host is stopped for some
    seconds, or until all reads have ended (None); and the kernel's most waiting requests."""
    parked = Parked(hosts)
    pids = hosts.programs("h2", "ckptfs", "serve")
    for pid in pids:
        hosts.stop(pid)
    parked.go()
    begun, others, most = time.monotonic(), Others(hosts, part), 0
    while most < 0.9 * ALL and time.monotonic() < begun + SHORT - 1:
        most = max(most, waiting(hosts))
    if seconds:
        time.sleep(max(begun + seconds - time.monotonic(), 0))
        goes_on(hosts, pids)
    got = parked.end()
    seen = others.end()
    goes_on(hosts, pids)
    return got, seen, most


def goes_on(hosts, pids):
    """Continues the processes that no other job has replaced."""
    for pid in set(pids) & set(hosts.programs("h2", "ckptfs", "serve")):
        hosts.cont(pid)


def check_others(what, seen, most):
    rounds, longest, call, faults = seen
    tap.check(not faults and rounds and longest < SOON,
              f"{what}: files of other hosts are read, opened and listed at once", *seen)
    tap.check(most >= 0.9 * ALL, f"{what}: canary: so many wait", most)
    print(f"# {most} wait; {rounds} rounds of others, at most {longest:.2f} s: {call}")


def test_short(hosts):
    got, seen, most = stopped(hosts, 0, SHORT)
    tap.check(all(counts == {"right": COUNT} for counts, _ in got.values()),
              "it goes on: all reads get their bytes", got)
    check_others("stopped for a while", seen, most)
    print(f"# {got}")


def test_long(hosts):
    got, seen, most = stopped(hosts, 1, None)
    tap.check(all(counts == {ERROR[how]: COUNT} and seconds < IN_TIME + 1
                  for how, (counts, seconds) in got.items()),
              "it does not: all reads are errors within 10 s", got)
    check_others("stopped for long", seen, most)
    print(f"# {got}")
    begun = time.monotonic()
    tap.check(until(lambda: hosts.read("h1", f"{hosts.mnt}/raw/h2.direct")[0] > 0, 8),
              "it goes on later: its bytes are back", time.monotonic() - begun)
    check_again(hosts, "and all reads get their bytes")


def check_again(hosts, what):
    parked = Parked(hosts)
    parked.go()
    got = parked.end()
    tap.check(all(counts == {"right": COUNT} for counts, _ in got.values()), what, got)


def test_replaced(hosts):
    """Reads may fail until the next job has taken over."""
    got, seen, most = stopped(hosts, 2, None)
    tap.check(all(set(counts) <= {"right", ERROR[how]} and seconds < IN_TIME + 1
                  for how, (counts, seconds) in got.items()),
              "it is replaced: all reads end within 10 s", got)
    check_others("replaced", seen, most)
    print(f"# {got}")
    check_again(hosts, "it is replaced: then all reads get their bytes")


def main():
    if skipped():
        return 0
    with Hosts(3) as hosts:
        write(hosts)
        for test, *options in ((test_short,), (test_long, "rejoin=off"),
                               (test_replaced,)):
            with mounted(hosts, CKPTFS, *options):
                test(hosts)
    return tap.finish()


CKPTFS = os.path.realpath(sys.argv[1])
sys.exit(main())
