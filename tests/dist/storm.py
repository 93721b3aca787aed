#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""64 threads fault random pages of mapped tensors whose shards are on three hosts, beside
readers, while their pages are dropped from the cache and another program calls readdir,
stat and open: no thread hangs, every word is right, and no call is slow. Prints TAP.

    storm.py CKPTFS STORM       STORM: tests/mount/storm.c

CKPTFS_SECONDS: of each storm (4; a long one: 60).
"""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
from hosts import Hosts, skipped  # noqa: E402
from hosts_mount import mounted  # noqa: E402
from tap import Tap  # noqa: E402

BIG = os.path.join(HERE, "../mount/big.py")
SECONDS = int(os.environ.get("CKPTFS_SECONDS") or 4)
LONGEST = 10        # limit in seconds of a call that reads no data
SHARD = 1 << 20
ROW = 1024
# Arguments of big.py: tensors, ranks, bytes of a shard.
SOURCES = {"rows": ([], ["6", "3", str(SHARD)]),
           "columns": (["--columns"], ["2", "6", str(SHARD // 2), str(ROW)])}
LOOK = """
import json, os, select, sys, time
longest, rounds, first, faults = 0, 0, None, []

def timed(call, *arguments):
    global longest
    begun = time.monotonic()
    try:
        return call(*arguments)
    finally:
        longest = max(longest, time.monotonic() - begun)

def look(path):
    size = timed(os.stat, path).st_size
    fd = timed(os.open, path, os.O_RDONLY)
    attributes = sorted(timed(os.listxattr, fd))
    os.close(fd)
    return size, attributes

print("it looks", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    try:
        seen = {view: {name: look(f"{sys.argv[1]}/{view}/{name}")
                       for name in timed(os.listdir, f"{sys.argv[1]}/{view}")}
                for view in ("raw", "full", "local/rank-1")}
    except OSError as problem:
        faults.append(str(problem))
        break
    first = first or seen
    if seen != first:
        faults.append(f"round {rounds} shows something else")
    rounds += 1
print(json.dumps([rounds, longest, faults]))
"""
tap = Tap()


def looked_at(hosts, work):
    """The result of work(), and of another program at the same time: number of rounds, the
    longest call, errors."""
    looker = hosts.popen("h1", [sys.executable, "-c", LOOK, hosts.mnt], text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    looker.stdout.readline()            # a short storm may be over before a program has begun
    result = work()
    said, _ = looker.communicate()
    return result, json.loads(said or '[0, 0, ["it died"]]')


def storm(hosts, files):
    return hosts.run("h1", [STORM, str(SECONDS), *files], capture_output=True, text=True)


def is_right(hosts, number, file):
    return hosts.run("h1", [sys.executable, BIG, "--verify", str(number), file],
                     stderr=subprocess.DEVNULL).returncode == 0


def test_source(hosts, what):
    flags, sizes = SOURCES[what]
    place = f"{hosts.base}/{what}"
    subprocess.run([sys.executable, BIG, *flags, place, *sizes], check=True)
    deal.deal(place, hosts.directories, "by rank", 1, "all", link=True)
    files = [f"{hosts.mnt}/raw/t{number}" for number in range(int(sizes[0]))]
    with mounted(hosts, CKPTFS):
        before = hosts.bytes("h1")[0]
        done, (rounds, longest, faults) = looked_at(hosts, lambda: storm(hosts, files))
        moved = hosts.bytes("h1")[0] - before
        tap.check(done.returncode == 0, f"{what}: every word is right",
                  done.returncode, done.stdout, done.stderr)
        tap.check(not faults and rounds and longest < LONGEST,
                  f"{what}: another program lists, looks and opens", rounds, longest,
                  faults)
        wrong = [file for number, file in enumerate(files)
                 if not is_right(hosts, number, file)]
        tap.check(not wrong, f"{what}: each tensor is right as a whole", wrong)
        tap.check(not is_right(hosts, 1, files[0]), f"{what}: canary: one is not another")
        tap.check(moved > len(files) * SHARD, f"{what}: canary: bytes came from others",
                  moved)
    print(f"# {done.stdout.strip()}, {moved >> 20} MiB moved; {rounds} rounds of "
          f"looking, at most {longest:.2f} s a call")


def fresh(hosts):
    for path in hosts.directories.values():
        for entry in os.listdir(path):
            os.unlink(f"{path}/{entry}")


def main():
    if skipped():
        return 0
    with Hosts(3) as hosts:
        for what in SOURCES:
            fresh(hosts)
            test_source(hosts, what)
    return tap.finish()


CKPTFS, STORM = map(os.path.realpath, sys.argv[1:])
sys.exit(main())
