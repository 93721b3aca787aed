#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hosts that return, or join after the mount, with equal or different metadata and replicas;
and hosts that answer, but never take part in a job.

    returns.py CKPTFS            needs root
"""
import contextlib
import errno
import os
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
import hosts_mount  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from hosts_mount import BOX  # noqa: E402
from scenes import play  # noqa: E402
from tap import Tap  # noqa: E402

FIXTURE = os.path.join(HERE, "../fixtures/sample")
tap = Tap()
check = tap.check


class Mount:
    """A mount of all hosts on the first one. Its agent does not reach a host that has a
    file of its name in `away`."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.agent, self.away = hosts_mount.switchable(hosts)

    @contextlib.contextmanager
    def mounted(self, *options):
        done = hosts_mount.mount(CKPTFS, self.hosts, *options, agent=self.agent)
        check(done.returncode == 0, "mount", done.stderr)
        try:
            yield
        finally:
            done = hosts_mount.umount(CKPTFS, self.hosts)
            check(done.returncode == 0, "umount", done.stderr)

    def unstartable(self, host):
        """The agent reaches the host, but no process can be started there."""
        path = f"{self.hosts.base}/unstartable"
        shutil.copy2(self.agent, f"{self.hosts.base}/kept-agent")
        with open(path, "w") as f:
            f.write(f'#!/bin/bash\ncase "$*" in {host}*exec*) ;; {host}*) exit 1;; esac\n'
                    f'exec {self.hosts.base}/kept-agent "$@"\n')
        os.chmod(path, 0o755)
        os.rename(path, self.agent)

    def startable(self):
        os.rename(f"{self.hosts.base}/kept-agent", self.agent)

    def leave_out(self, host):
        with open(f"{self.away}/{host}", "w"):
            pass

    def let_in(self, host):
        os.unlink(f"{self.away}/{host}")

    def report(self, name):
        return hosts_mount.report(self.hosts, name)

    def states(self):
        return hosts_mount.status(self.hosts)[0]

    def are_up(self, *names, seconds=15):
        """Waits until exactly these hosts are up."""
        return until(lambda: {host for host, state in self.states().items()
                              if state == "up"} == set(names), seconds)

    def read(self, path):
        return self.hosts.read("h1", f"{self.hosts.mnt}/{path}")[0]

    def content(self, path):
        done = self.hosts.run("h1", ["cat", f"{self.hosts.mnt}/{path}"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return done.stdout if done.returncode == 0 else None

    def direct(self, path):
        """The bytes of the file, bypassing the page cache; None if the read fails."""
        done = self.hosts.run("h1", ["dd", f"if={self.hosts.mnt}/{path}", "bs=1M",
                                     "iflag=direct", "status=none"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return done.stdout if done.returncode == 0 else None

    def lose(self, host):
        """The host crashes and cannot be reached again."""
        self.leave_out(host)
        self.hosts.crash(host)
        return until(lambda: self.states()[host] == "down", 10)

    def find(self, host):
        self.hosts.link(host, "up")
        self.let_in(host)

    def kill_rank(self, host):
        """Kills the processes of the host, so that it has to rejoin."""
        for pid in self.hosts.programs(host, "ckptfs", "--mpi"):
            self.hosts.kill(pid)


def dealt(hosts, metadata):
    """.metadata on those hosts only, and each data file on its own host."""
    for directory in hosts.directories.values():
        for name in os.listdir(directory):
            os.unlink(f"{directory}/{name}")
    deal.deal(FIXTURE, hosts.directories, "by rank", 1, "all")
    for host in set(hosts.names) - set(metadata):
        os.unlink(f"{hosts.directory(host)}/.metadata")


def refused(mount, host, what):
    others = {"h1", "h2", "h3"} - {host}
    check(until(lambda: f"host {host}: has another .metadata, and is not used" in
                mount.report("log"), 15), f"{what}: it is refused", mount.report("log"))
    check(mount.are_up(*others) and mount.read(BOX[host]) == -errno.EIO and
          all(mount.read(BOX[other]) > 0 for other in others),
          f"{what}: the others are used", mount.states())


# --- metadata -----------------------------------------------------------------------------


def test_had_none(hosts, mount):
    """A host took part without .metadata, and comes back with a different one."""
    dealt(hosts, ["h1"])
    file = f"{hosts.directory('h3')}/.metadata"
    with mount.mounted("rejoin=1"):
        shutil.copy2(f"{hosts.directory('h1')}/.metadata", file)
        deal.flip(file)
        mount.kill_rank("h3")
        refused(mount, "h3", "it had none")
        deal.flip(file)
        check(mount.are_up("h1", "h2", "h3", seconds=20), "with the same: it is used",
              mount.report("log"))


def test_had_the_same(hosts, mount):
    """.metadata has its old time and size, but other bytes."""
    dealt(hosts, ["h1", "h2", "h3"])
    file = f"{hosts.directory('h2')}/.metadata"
    with mount.mounted("rejoin=1"):
        deal.flip(file)
        hosts.crash("h2")
        hosts.link("h2", "up")
        refused(mount, "h2", "it had the same")
        deal.flip(file)
        os.utime(file)
        check(mount.are_up("h1", "h2", "h3", seconds=20),
              "the same bytes, another time: it is used", mount.report("log"))


def test_had_the_only_one(hosts, mount):
    """The only host with .metadata returns: .metadata is compared with the bytes read before."""
    dealt(hosts, ["h2"])
    file = f"{hosts.directory('h2')}/.metadata"
    with mount.mounted("rejoin=1"):
        deal.flip(file)
        mount.kill_rank("h2")
        refused(mount, "h2", "it had the only one")
        mount.kill_rank("h3")
        check(mount.are_up("h1", "h3"), "a host without a replica comes back without it",
              mount.report("log"))
        deal.flip(file)
        check(mount.are_up("h1", "h2", "h3", seconds=20), "it is used again",
              mount.report("log"))


# --- replicas -----------------------------------------------------------------------------


def copied(hosts, names):
    """Files of h1 and h2, also on h3."""
    dealt(hosts, hosts.names)
    for name in names:
        for host in ("h1", "h2"):
            path = f"{hosts.directory(host)}/{name}"
            if os.path.exists(path):
                shutil.copy2(path, hosts.directory("h3"))


def test_late(hosts, mount):
    """A host that was missing has replicas of files of others: they are not used before
    the next mount, also if they are the only ones left."""
    copied(hosts, ["__1_0.distcp"])
    mount.leave_out("h3")
    with mount.mounted("rejoin=1"):
        want = mount.direct(BOX["h2"])
        mount.let_in("h3")
        check(mount.are_up("h1", "h2", "h3") and mount.direct(BOX["h2"]) == want and
              mount.direct(BOX["h3"]), "a host joins: its own files are read",
              mount.report("log"))
        check(mount.lose("h2") and mount.direct(BOX["h2"]) is None,
              "a late replica is not used", mount.report("log"))
        mount.find("h2")
        check(mount.are_up("h1", "h2", "h3") and mount.direct(BOX["h2"]) == want,
              "the host of the file is back", mount.report("log"))
        check("damaged entries 0" in mount.report("damage"), "nothing is damaged",
              mount.report("damage"))
    with mount.mounted():
        check(mount.lose("h2") and mount.direct(BOX["h2"]) == want,
              "the next mount uses it", mount.report("log"))


def let_in_at_once(mount):
    """Makes all hosts reachable in one step."""
    os.rename(mount.away, f"{mount.away}.before")
    shutil.rmtree(f"{mount.away}.before")
    os.mkdir(mount.away)


def test_both_are_late(hosts, mount):
    """Two hosts that were missing join at once, with different replicas of a file: the
    preferred one is read."""
    copied(hosts, ["__1_0.distcp"])
    with mount.mounted("prefer=h3"):
        want = mount.direct(BOX["h2"])
    with open(f"{hosts.directory('h2')}/__1_0.distcp", "ab") as f:
        f.write(b"more")
    mount.leave_out("h2")
    mount.leave_out("h3")
    with mount.mounted("rejoin=1", "prefer=h3"):
        let_in_at_once(mount)
        check(mount.are_up(*hosts.names, seconds=20) and mount.direct(BOX["h2"]) == want and
              "whole: yes" in mount.report("status"),
              "one of two late replicas is preferred, and read", mount.report("log"))
        check(mount.lose("h3") and mount.direct(BOX["h2"]) is None,
              "the other one is not used", mount.report("log"))


# --- hosts that never take part -----------------------------------------------------------


def left_out(mount, host):
    """How often the log reports that the host takes no part."""
    return mount.report("log").count(f"host {host}: it answers, but takes no part")


def others_return(hosts, mount, what):
    """Each job with h2 fails, and the log names h2: h3 comes back, twice."""
    for how in "its process", "all of it":
        if how == "its process":
            mount.kill_rank("h3")
            until(lambda: mount.states()["h3"] == "down", 10)
        else:
            mount.lose("h3")
            mount.find("h3")
        check(mount.are_up("h1", "h3", seconds=20), f"{what}: another one returns, {how}",
              mount.states(), mount.report("log"))
    check(left_out(mount, "h2") == 1, f"{what}: logged once", mount.report("log"))


def test_unstartable(hosts, mount):
    """A host answers, but no process can be started there."""
    dealt(hosts, hosts.names)
    mount.leave_out("h2")
    with mount.mounted("rejoin=2"):
        mount.unstartable("h2")
        mount.let_in("h2")
        check(until(lambda: left_out(mount, "h2"), 15), "it cannot be started: it is left out",
              mount.report("log"))
        others_return(hosts, mount, "it cannot be started")
        mount.startable()
        check(mount.are_up(*hosts.names, seconds=40), "it can be started: it is up",
              mount.report("log"))


def test_not_the_newcomer(hosts, mount):
    """A host returns, and no program can be started on one that is up."""
    dealt(hosts, hosts.names)
    orted = shutil.which("orted")
    mount.leave_out("h2")
    with mount.mounted("rejoin=2"):
        hosts.run("h3", ["mount", "--bind", "/bin/false", orted], check=True)
        mount.let_in("h2")
        check(until(lambda: mount.report("log").count("; nothing can be started on h3") >= 3, 40),
              "nothing can be started on a host that is up: that is logged", mount.report("log"))
        check(left_out(mount, "h2") == 0 and mount.are_up("h1", "h3"),
              "the host that returns is not left out for that", mount.report("log"))
        hosts.run("h3", ["umount", orted], check=True)
        check(mount.are_up(*hosts.names, seconds=12), "it is up soon after",
              mount.report("log"))


def test_silent(hosts, mount):
    """A host returns while the agent cannot reach another one that is up. The pause before the
    next try stays short."""
    dealt(hosts, hosts.names)
    mount.leave_out("h2")
    with mount.mounted("rejoin=5"):
        mount.leave_out("h3")
        mount.let_in("h2")
        check(until(lambda: mount.report("log").count(
            "no other job: host h3 is up, and has not answered") >= 2, 14),
            "one that is up is silent: logged, and tried again", mount.report("log"))
        check(mount.states()["h3"] == "up", "it is up", mount.states())
        mount.let_in("h3")
        check(mount.are_up(*hosts.names), "it is not: both are up", mount.report("log"))


def test_cable(hosts, mount):
    """The link of a host comes up too late to reach the others. The job is cancelled 4 s
    later."""
    dealt(hosts, hosts.names)
    mount.leave_out("h2")
    with mount.mounted("rejoin=2"):
        hosts.link("h2", "down")
        mount.let_in("h2")
        check(until(lambda: hosts.programs("h2", "orted", "ess_base_vpid"), 12), "a job begins",
              hosts.processes("h2"))
        time.sleep(4)
        hosts.link("h2", "up")
        check(mount.are_up(*hosts.names, seconds=3.5), "its cable comes in: it is up at once",
              mount.report("log"))


def test_unreachable(hosts, mount):
    """The agent reaches a host, but the other hosts do not."""
    dealt(hosts, hosts.names)
    mount.leave_out("h2")
    with mount.mounted("rejoin=2"):
        hosts.link("h2", "down")
        mount.let_in("h2")
        check(until(lambda: left_out(mount, "h2"), 25), "it is cut off: it is left out",
              mount.report("log"))
        others_return(hosts, mount, "it is cut off")
        hosts.link("h2", "up")
        check(mount.are_up(*hosts.names, seconds=60), "it is reached: it is up",
              mount.report("log"))


def test_two_are_back(hosts, mount):
    """Two hosts return at once, and one of them makes the job fail. The error does not name it."""
    dealt(hosts, hosts.names)
    mount.leave_out("h2")
    mount.leave_out("h3")
    with mount.mounted("rejoin=2"):
        hosts.link("h2", "down")
        mount.let_in("h2")
        mount.let_in("h3")
        check(mount.are_up("h1", "h3", seconds=40), "two are back: the good one is up",
              mount.report("log"))
        hosts.link("h2", "up")
        check(mount.are_up(*hosts.names, seconds=60), "and then the other",
              mount.report("log"))


def act(test):
    with Hosts(3) as hosts:
        test(hosts, Mount(hosts))
    return tap.finish()


CKPTFS = os.path.realpath(sys.argv[1])
LONG = (test_both_are_late, test_unreachable, test_not_the_newcomer)     # begin first
TESTS = [*LONG, *(test for name, test in globals().items()
                  if name.startswith("test_") and test not in LONG)]
sys.exit(0 if skipped() else play(TESTS, act, 6))
