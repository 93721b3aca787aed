#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One fault of each kind: a process of a host is killed or stopped, a host is cut off, and a
host crashes and returns. Reads of tensors that only this host has fail with EIO, reads of all
others succeed, a copy on another host is used, and everything is readable again once the fault
is over. No duration is checked: away.py, rejoin.py and silent.py do that. Prints TAP.

    one_of_each.py CKPTFS [TEST]...     needs root
"""
import errno
import os
import shutil
import subprocess
import sys
from functools import partial

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from hosts_mount import BOX, all_up, left, must_mount, report, status, umount  # noqa: E402
from scenes import play  # noqa: E402
from tap import Tap  # noqa: E402

FIXTURE = os.path.join(HERE, "../fixtures/sample")
SHARD = "__1_0.distcp"      # of BOX["h2"]
LIMIT = 120                 # seconds; only a hang takes longer
tap = Tap()
check = tap.check
soon = partial(until, seconds=LIMIT)


class Reader:
    """Reads the box of each host past the page cache, and compares it with the bytes that it
    had before the fault."""

    def __init__(self, hosts):
        self.hosts, self.wrong, self.want = hosts, [], {}
        check(soon(self.has_all), "all hosts are up: their bytes", report(hosts, "log"))

    def has_all(self):
        """A host that a busy machine keeps silent for long is down for a while."""
        self.want = {host: self.bytes_of(host) for host in BOX}
        return all(self.want.values())

    def bytes_of(self, host):
        """None: the read fails with EIO."""
        done = self.hosts.run("h1", ["dd", f"if={self.hosts.mnt}/{BOX[host]}", "bs=1M",
                                     "iflag=direct", "status=none"],
                              env={**os.environ, "LC_ALL": "C"}, capture_output=True)
        if done.returncode == 0:
            return done.stdout
        if os.strerror(errno.EIO).encode() not in done.stderr:
            self.wrong.append((host, done.stderr))
        return None

    def is_read(self, host):
        got = self.bytes_of(host)
        if got is not None and got != self.want[host]:
            self.wrong.append((host, "other bytes"))
        return got == self.want[host]

    def end(self):
        check(not self.wrong, "no other error, and no other bytes", self.wrong[:5])


def dealt(hosts, *copies):
    """By rank; these hosts have a copy of the shard of h2."""
    deal.deal(FIXTURE, hosts.directories, "by rank", 1, "all")
    for host in copies:
        shutil.copy2(f"{hosts.directory('h2')}/{SHARD}", hosts.directory(host))


def servers(hosts, name):
    return hosts.programs(name, "ckptfs", "--mpi")


def mount(hosts, rejoin):
    must_mount(tap, CKPTFS, hosts, f"timeout={LIMIT}", f"rejoin={rejoin}")
    return Reader(hosts)


def end(hosts, reader):
    reader.end()
    done = umount(CKPTFS, hosts)
    check(done.returncode == 0 and soon(lambda: not left(hosts)),
          "umount: no process is left", done.stderr, left(hosts))


def lost(hosts, reader, what, name):
    """Only what this host has."""
    check(soon(lambda: not reader.is_read(name) and status(hosts)[0][name] == "down"),
          f"{what}: EIO for the bytes of {name}, which is down", status(hosts),
          report(hosts, "log"))
    for other in sorted(set(BOX) - {name}):
        check(soon(lambda host=other: reader.is_read(host)), f"{what}: the bytes of {other}",
              status(hosts), report(hosts, "log"))
    check(f"host {name}: down since 20" in report(hosts, "damage"), f"{what}: damage has {name}",
          report(hosts, "damage"))


def back(hosts, reader, what):
    check(soon(lambda: all_up(hosts)), f"{what}: all hosts are up", status(hosts),
          report(hosts, "log"))
    for host in BOX:
        check(soon(lambda host=host: reader.is_read(host)), f"{what}: the bytes of {host}",
              report(hosts, "log"))
    check(soon(lambda: "down since" not in report(hosts, "damage")), f"{what}: no damage",
          report(hosts, "damage"))


def stopped(hosts, reader):
    pids = servers(hosts, "h3")
    for pid in pids:
        hosts.stop(pid)
    lost(hosts, reader, "stopped", "h3")
    for pid in pids:
        hosts.cont(pid)
    back(hosts, reader, "continued")


def cut_off(hosts, reader):
    """Two hosts have the same shard, of which the mount reads one: each is cut off once."""
    hosts.link("h2", "down")
    check(soon(lambda: status(hosts)[0]["h2"] == "down"), "cut off: the host is down",
          status(hosts))
    check(soon(lambda: reader.is_read("h2")), "cut off: the copy is read", report(hosts, "log"))
    hosts.link("h2", "up")
    back(hosts, reader, "connected again")
    hosts.link("h3", "down")
    lost(hosts, reader, "cut off", "h3")
    hosts.link("h3", "up")
    back(hosts, reader, "connected again")


def killed(hosts, reader):
    """The rank of a host; without rejoin= it stays down."""
    for pid in servers(hosts, "h3"):
        hosts.kill(pid)
    lost(hosts, reader, "killed", "h3")


def test_one_mount(hosts):
    """One fault after the other in the same mount."""
    dealt(hosts, "h3")
    reader = mount(hosts, "off")
    for fault in (stopped, cut_off, killed):
        fault(hosts, reader)
    end(hosts, reader)


def test_returned(hosts):
    """All programs of a host have ended; another job takes over once it is reached."""
    dealt(hosts)
    reader = mount(hosts, 1)
    hosts.crash("h2")
    lost(hosts, reader, "crashed", "h2")
    hosts.link("h2", "up")
    back(hosts, reader, "returned")
    check(servers(hosts, "h2"), "returned: it has a rank", hosts.processes("h2"))
    end(hosts, reader)


def act(test):
    with Hosts(3) as hosts:
        test(hosts)
    return tap.finish()


CKPTFS = os.path.realpath(sys.argv[1])
TESTS = [test for name, test in globals().items() if name.startswith("test_")]
sys.exit(0 if skipped() else play(TESTS, act))
