#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hosts that come back: another job takes over, reads in progress do not fail, and files that
changed in the meantime are not read.

    rejoin.py CKPTFS [TEST]...      needs root
"""
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from hosts_mount import (BOX, all_up, left, must_mount,  # noqa: E402
                         must_umount, read, report, status, switchable)
from scenes import play  # noqa: E402
from tap import Tap  # noqa: E402

CKPTFS = os.path.realpath(sys.argv[1])
FIXTURE = os.path.join(HERE, "../fixtures/sample")
tap = Tap()
check = tap.check
mount = partial(must_mount, tap, CKPTFS)
umount = partial(must_umount, tap, CKPTFS)


def content(hosts, path):
    done = hosts.run("h1", ["cat", f"{hosts.mnt}/{path}"],
                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout if done.returncode == 0 else None


def log(hosts):
    return report(hosts, "log")


def wanted(hosts):
    """The bytes of the boxes without a fault."""
    mount(hosts)
    got = {host: content(hosts, path) for host, path in BOX.items()}
    umount(hosts)
    return got


def reads_right(hosts, want):
    return all(content(hosts, path) == want[host]
               for host, path in BOX.items())


def mpiruns(hosts):
    return [pid for pid, argv in hosts.processes("h1")
            if os.path.basename(argv[0]) == "mpirun"]


# Seconds until a reachable host is up: `rejoin=` of most tests, and 5 s.
SECONDS_UP = 2 + 5


def comes_back(hosts, what, want, seconds=SECONDS_UP):
    check(until(lambda: all_up(hosts), seconds),
          f"{what}: all are up again, without a mount", status(hosts),
          log(hosts))
    check(reads_right(hosts, want), f"{what}: with the same bytes", log(hosts))


def test_killed(hosts, want):
    """A process of the job is killed: a read waits, and then succeeds."""
    mount(hosts)
    for what, pids in (
            ("another host's rank", lambda: hosts.programs("h2", "ckptfs", "--mpi")),
            ("mpirun", lambda: mpiruns(hosts)),
            ("this host's rank", lambda: hosts.programs("h1", "ckptfs", "--door")),
            ("the keeper's mpirun, twice", lambda: mpiruns(hosts))):
        for pid in pids():
            hosts.kill(pid)
        got, took = read(hosts, BOX["h2"])
        check(took < 10 and got > 0, f"{what} is killed: bytes within 10 s", got,
              took, log(hosts))
        print(f"# {took:.1f} s")
        comes_back(hosts, what, want)
    umount(hosts)


class Reader(threading.Thread):
    """Reads boxes in a loop, bypassing the page cache, until end() is called."""

    def __init__(self, hosts, names, want):
        super().__init__()
        self.hosts, self.names, self.want = hosts, names, want
        self.over, self.wrong, self.count = False, [], 0
        self.start()

    def run(self):
        while not self.over:
            for host in self.names:
                begun = time.monotonic()
                got, _ = read(self.hosts, BOX[host])
                self.count += 1
                if got != len(self.want[host]) or time.monotonic() - begun > 5:
                    self.wrong.append((host, got, time.monotonic() - begun))

    def end(self):
        self.over = True
        self.join()
        return self.wrong


def test_crash(hosts, want):
    """A host goes down and comes back; reads from other hosts do not fail."""
    mount(hosts, "rejoin=2")
    reader = Reader(hosts, ["h1", "h3"], want)
    hosts.crash("h2")
    got, took = read(hosts, BOX["h2"])
    check(got == -errno.EIO and took < 10, "a host crashes: EIO within 10 s",
          got, took)
    check(until(lambda: status(hosts)[0]["h2"] == "down", 5), "it is down",
          status(hosts))
    got, took = read(hosts, BOX["h2"])
    check(got == -errno.EIO and took < 4, "EIO at once while it is down", got,
          took)
    hosts.link("h2", "up")
    comes_back(hosts, "a crash", want)
    wrong = reader.end()
    check(not wrong and reader.count > 20, "the others' bytes all the time",
          *wrong, reader.count)
    umount(hosts)


def test_missing(hosts, want):
    agent, away = switchable(hosts)
    open(f"{away}/h3", "w").close()
    mount(hosts, "rejoin=2", agent=agent)
    check(status(hosts)[0]["h3"] == "missing" and
          read(hosts, BOX["h3"])[0] == -errno.EIO, "a host is missing",
          status(hosts))
    reader = Reader(hosts, ["h1", "h2"], want)
    os.unlink(f"{away}/h3")
    comes_back(hosts, "it was missing", want, 2 + 5)
    wrong = reader.end()
    check(not wrong and reader.count > 5, "nothing that was read has failed",
          *wrong, reader.count)
    umount(hosts)


def test_changed(hosts, want):
    """A data file or metadata that changed while its host was down is not read."""
    shard = f"{hosts.directory('h2')}/__1_0.distcp"
    before = os.stat(shard)
    mount(hosts, "rejoin=2")
    hosts.crash("h2")
    os.utime(shard)
    check(until(lambda: status(hosts)[0]["h2"] == "down", 8), "it is down",
          status(hosts))
    hosts.link("h2", "up")
    check(until(lambda: status(hosts)[0]["h2"] == "up", SECONDS_UP), "it is up",
          status(hosts), log(hosts))
    check(until(lambda: read(hosts, BOX["h2"])[0] == -errno.ESTALE, 3),
          "a file has changed: ESTALE", read(hosts, BOX["h2"]), log(hosts))
    check(content(hosts, BOX["h3"]) == want["h3"], "the others' bytes")
    time.sleep(3)
    check(read(hosts, BOX["h2"])[0] == -errno.ESTALE, "and stays so",
          read(hosts, BOX["h2"]))
    umount(hosts)
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_same_time(hosts, want):
    """Canary: the test detects a changed byte in a file with the same time and size."""
    shard = f"{hosts.directory('h3')}/__2_0.distcp"
    agent, away = switchable(hosts)
    open(f"{away}/h3", "w").close()
    mount(hosts, "rejoin=1", agent=agent)
    deal.flip(shard)
    os.unlink(f"{away}/h3")
    check(until(lambda: all_up(hosts), 7), "canary: it is up", status(hosts))
    files = hosts.run("h1", ["sh", "-c", f"cat {hosts.mnt}/local/rank-2/*"],
                      stdout=subprocess.PIPE).stdout
    deal.flip(shard)
    hosts.run("h1", ["sh", "-c", "echo 3 >/proc/sys/vm/drop_caches"])
    again = hosts.run("h1", ["sh", "-c", f"cat {hosts.mnt}/local/rank-2/*"],
                      stdout=subprocess.PIPE).stdout
    check(len(files) == len(again) > 0 and files != again,
          "canary: one bit on a host that was missing")
    umount(hosts)


def test_other_metadata(hosts, _):
    metadata = f"{hosts.directory('h3')}/.metadata"
    agent, away = switchable(hosts)
    open(f"{away}/h3", "w").close()
    mount(hosts, "rejoin=1", agent=agent)
    deal.flip(metadata)
    os.unlink(f"{away}/h3")
    check(until(lambda: "h3: has another .metadata" in log(hosts), 8),
          "a host with other metadata is not used", log(hosts))
    check(status(hosts)[0] == {"h1": "up", "h2": "up", "h3": "missing"} and
          read(hosts, BOX["h3"])[0] == -errno.EIO and
          read(hosts, BOX["h2"])[0] > 0, "it is missing still", status(hosts))
    umount(hosts)
    deal.flip(metadata)


def pauses(hosts, count):
    """The pauses between `count` failed jobs, and the log after them."""
    times = []
    for n in range(1, count + 1):
        check(until(lambda: log(hosts).count("no other job: mpirun: it has ended") >= n,
                    15), f"job {n} has failed", log(hosts))
        times.append(time.monotonic())
    return [b - a for a, b in zip(times, times[1:])], log(hosts)


def test_pauses(hosts, want):
    """A host answers, but no process can be started there: the pauses between tries grow."""
    agent, away = switchable(hosts)
    open(f"{away}/h3", "w").close()
    mount(hosts, "rejoin=1", agent=agent)
    with open(f"{hosts.base}/unstartable", "w") as f:
        f.write(f'#!/bin/bash\ncase "$*" in h3*exec*) ;; h3*) exit 1;; esac\n'
                f'exec {hosts.agent} "$@"\n')
    os.chmod(f"{hosts.base}/unstartable", 0o755)
    os.rename(f"{hosts.base}/unstartable", agent)
    took, text = pauses(hosts, 6)
    check(took[3] > took[2] + 0.5 and took[4] > took[3] + 1 and
          text.count("longer pauses before the next") == 1 and
          "nothing can be started on h3" in text, "longer pauses", took, text)
    print(f"# {took}")
    switchable(hosts)
    os.unlink(f"{away}/h3")
    comes_back(hosts, "after longer pauses", want, 20)
    umount(hosts)


def test_no_starter(hosts, _):
    """The spawn helper is killed: the log reports it, and the mount continues with the hosts that
    are up."""
    mount(hosts, "rejoin=1")
    hosts.kill(hosts.programs("h1", "ckptfs", "--jobs")[0])
    for pid in hosts.programs("h2", "ckptfs", "--mpi"):
        hosts.kill(pid)
    got, took = read(hosts, BOX["h2"])
    check(got == -errno.EIO and took < 10, "no process starts jobs: EIO within 10 s", got, took)
    check(log(hosts).count("the process that starts others has ended") == 1,
          "no process starts jobs: the log has it", log(hosts))
    umount(hosts)


def test_off(hosts, _):
    mount(hosts, "rejoin=off")
    for pid in hosts.programs("h2", "ckptfs", "--mpi"):
        hosts.kill(pid)
    got, took = read(hosts, BOX["h2"])
    check(got == -errno.EIO and took < 10, "rejoin=off: EIO within 10 s", got,
          took)
    time.sleep(4)
    check(status(hosts)[0]["h2"] == "down", "rejoin=off: it stays down",
          status(hosts))
    umount(hosts)


def test_ends(hosts, _):
    """The mount ends at a random moment while another job starts."""
    agent, away = switchable(hosts)
    for msec in (0, 200, 500, 800, 1100, 1400, 1700):
        open(f"{away}/h3", "w").close()
        mount(hosts, "rejoin=1", agent=agent)
        os.unlink(f"{away}/h3")
        for pid in hosts.programs("h2", "ckptfs", "--mpi") if msec % 1000 else ():
            hosts.kill(pid)
        time.sleep(0.3 + msec / 1000)
        if msec % 300:
            umount(hosts)
            continue
        os.kill(hosts.programs("h1", "ckptfs", "mount")[0], signal.SIGKILL)
        check(until(lambda: not left(hosts), 6),
              "killed while another job is tried: nothing is left",
              left(hosts))
        hosts.run("h1", ["umount", "-l", hosts.mnt], stderr=subprocess.DEVNULL)


def act(test):
    with Hosts(3) as hosts:
        deal.deal(FIXTURE, hosts.directories, "by rank", 1, "all")
        test(hosts, wanted(hosts))
    return tap.finish()


# Slow tests run first.
TESTS = (test_ends, test_crash, test_changed, test_pauses, test_off, test_killed,
         test_no_starter, test_missing, test_same_time, test_other_metadata)
sys.exit(0 if skipped() else play(TESTS, act))
