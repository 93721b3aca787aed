#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A checkpoint whose files are distributed over hosts is shown as in one directory:
names, attributes, reports and every byte, of all fixtures, in all distributions.

    whole.py CKPTFS             needs root; CKPTFS_SEED, CKPTFS_CASES (5; --all: 200)
"""
import os
import random
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
from hosts import Hosts, skipped  # noqa: E402
from tap import Tap, cases, seed  # noqa: E402
from trees_differ import differ, hosts_of  # noqa: E402
from two_trees_at import seen_in  # noqa: E402

FIXTURES = os.path.join(HERE, "../fixtures")
SEED = seed()
CASES = cases("CKPTFS_CASES", 5, 200)
NET = "10.77.0.0/24"


def is_dcp(name):
    return os.path.exists(f"{FIXTURES}/{name}/.metadata")


def fixtures():
    """Fixtures with a .metadata, and half as often the few of other kinds."""
    names = sorted(name for name in os.listdir(FIXTURES)
                   if os.path.isdir(f"{FIXTURES}/{name}") and
                   not name.startswith(("should-fail", "__py")))
    others = [name for name in names if not is_dcp(name)]
    return [name for name in names if is_dcp(name)] + 2 * others


def look(hosts, mount):
    """The tree for programs on the first host."""
    return seen_in(hosts, hosts.names[0], mount)


class Mount:
    """A mount on the first host."""

    def __init__(self, hosts, source, *options):
        self.hosts, self.at = hosts, hosts.mnt
        done = hosts.run(hosts.names[0], [CKPTFS, "mount", *options, source,
                                          self.at],
                         stderr=subprocess.PIPE, text=True)
        self.status, self.said = done.returncode, done.stderr

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status == 0:
            self.hosts.run(self.hosts.names[0], [CKPTFS, "umount", self.at],
                           check=True)


def over(hosts, names, *options):
    return ("--hosts", ",".join(names), "-o",
            ",".join((f"agent={hosts.agent}", f"net={NET}", *options)))


def clear(hosts):
    for place in hosts.directories.values():
        for name in os.listdir(place):
            path = os.path.join(place, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


class Whole:
    """The trees of fixtures in one directory, each read once."""

    def __init__(self, hosts):
        self.hosts, self.trees = hosts, {}

    def __getitem__(self, name):
        if name not in self.trees:
            with Mount(self.hosts, f"{FIXTURES}/{name}") as mount:
                assert mount.status == 0, mount.said
                self.trees[name] = look(self.hosts, mount.at)
        return self.trees[name]


def dealt(hosts, name, count, how, metadata, lot):
    """Distributes a fixture over the first hosts; returns their names."""
    names = hosts.names[:count]
    clear(hosts)
    deal.deal(f"{FIXTURES}/{name}",
              {host: hosts.directory(host) for host in names}, how, lot,
              metadata)
    return names


def try_case(hosts, whole, chance):
    name = chance.choice(fixtures())
    count, how = chance.choice((2, 3, 5)), chance.choice(deal.HOW)
    metadata = chance.choice(("one", "some", "all"))
    lot = chance.randrange(1 << 32)
    what = f"{name} over {count} hosts, {how}, metadata on {metadata}, {lot}"
    found = compared(hosts, whole[name],
                     dealt(hosts, name, count, how, metadata, lot))
    tap.result(not found, what, found[:20])


def compared(hosts, tree, names):
    """The differences between that tree and a mount over these hosts."""
    with Mount(hosts, hosts.src, *over(hosts, names)) as mount:
        if mount.status:
            return [mount.said]
        seen = look(hosts, mount.at)
    if not hosts_of(seen) <= set(names):
        return [f"hosts: {hosts_of(seen)}"]
    return list(differ(tree, seen))


def test_canary(hosts, tree):
    """Canary: one changed byte on one host."""
    names = dealt(hosts, "sample", 3, "by rank", "one", SEED)
    deal.flip(f"{hosts.directory('h2')}/__1_0.distcp")
    found = compared(hosts, tree, names)
    paths = {line.partition(":")[0] for line in found}
    tap.check(1 <= len(paths) <= 12, "canary: one byte on one host",
              *found[:20])


def main():
    if skipped():
        return 0
    chance = random.Random(SEED)
    with Hosts(5) as hosts:
        whole = Whole(hosts)
        test_canary(hosts, whole["sample"])
        for _ in range(CASES):
            try_case(hosts, whole, chance)
    return tap.finish()


CKPTFS = os.path.realpath(sys.argv[1])
tap = Tap()
sys.exit(main())
