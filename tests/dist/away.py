#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hosts that are missing at the mount, and hosts that go down later: tensors stored
only there fail within the promised time, all others stay readable, and unmounting
leaves no process or file.

    away.py CKPTFS [TEST]...    needs root
"""
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
import hosts_mount  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from hosts_mount import (agent_without, all_up, left, must_mount,  # noqa: E402
                         must_umount, read, report, status)
from scenes import play  # noqa: E402
from tap import Tap  # noqa: E402

CKPTFS = os.path.realpath(sys.argv[1])
FIXTURE = os.path.join(HERE, "../fixtures/sample")
TENSOR = "model.tok_embeddings.weight"    # of all four ranks
REPORTS = """
import os, sys
path = f"{sys.argv[1]}/{sys.argv[2]}"
fault = "user.ckptfs.error"
print(os.getxattr(path, fault).decode() if fault in os.listxattr(path) else "",
      open(f"{sys.argv[1]}/.ckptfs/damage").read(), sep="\\0")
"""
signal.signal(signal.SIGHUP, signal.SIG_DFL)   # nohup(1) ignores it
tap = Tap()
check = tap.check
umount = partial(must_umount, tap, CKPTFS)


def mounts(hosts, rejoin="off"):
    must_mount(tap, CKPTFS, hosts, f"rejoin={rejoin}")


def servers(hosts, name):
    return hosts.programs(name, "ckptfs", "--mpi")


def daemons(hosts):
    return hosts.programs("h1", "ckptfs", "mount")


def reports_of(hosts, path):
    """The error attribute of this file, and the damage report of the mount."""
    done = hosts.run("h1", [sys.executable, "-c", REPORTS, hosts.mnt, path],
                     stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split("\0")


def paths_of(hosts):
    """The path below local/ of a tensor's box on each host."""
    return {"h1": f"local/rank-0/{TENSOR}.npy",
            "h2": f"local/rank-1/{TENSOR}.npy",
            "h3": f"local/rank-2/{TENSOR}.npy"}


def test_missing(hosts):
    mount = partial(hosts_mount.mount, CKPTFS, hosts, "rejoin=off")
    done = mount(agent=agent_without(hosts, "h3"))
    errors = [line for line in done.stderr.splitlines()
            if ".ckptfs/damage" not in line]
    check(done.returncode == 0 and len(errors) == 1 and "h3" in errors[0],
          "a host is missing: one line", done.stderr)
    states, whole = status(hosts)
    check(states == {"h1": "up", "h2": "up", "h3": "missing"} and
          whole == "no", "status", states, whole)
    got = {host: read(hosts, path) for host, path in paths_of(hosts).items()}
    check(got["h1"][0] > 0 and got["h2"][0] > 0, "the others' bytes", got)
    check(got["h3"][0] == -errno.EIO and got["h3"][1] < 2,
          "EIO for its files", got)
    check(umount(hosts) < 5, "umount in time")
    done = mount("allhosts", agent=agent_without(hosts, "h3"))
    check(done.returncode == 2 and "h3" in done.stderr,
          "allhosts: it is an error", done.returncode, done.stderr)
    check(until(lambda: not left(hosts), 6), "nothing is left", left(hosts))


def test_unstartable(hosts):
    """The agent reaches a host, but the launch daemon there exits at once."""
    hosts.run("h2", ["mount", "--bind", "/bin/false", shutil.which("orted")], check=True)
    begun = time.monotonic()
    done = hosts_mount.mount(CKPTFS, hosts, "rejoin=1")
    took = time.monotonic() - begun
    errors = [line for line in done.stderr.splitlines()
            if ".ckptfs/damage" not in line]
    check(done.returncode == 0 and len(errors) == 1 and took < 8 and
          errors[0].startswith("ckptfs: host h2: missing: nothing can be started there"),
          "a host cannot be started: one line", done.returncode, took, done.stderr)
    got = {host: read(hosts, path) for host, path in paths_of(hosts).items()}
    check(got["h1"][0] > 0 and got["h3"][0] > 0 and got["h2"][0] == -errno.EIO,
          "it cannot be started: the others' bytes", got)
    hosts.run("h2", ["umount", shutil.which("orted")], check=True)
    check(until(lambda: all_up(hosts), 15), "it can be started: it is up",
          status(hosts), report(hosts, "log"))
    check(umount(hosts) < 5, "umount in time")


def test_killed(hosts):
    done = hosts_mount.mount(CKPTFS, hosts, "rejoin=off", net=None)
    check(done.returncode == 0 and not done.stderr, "mount", done.stderr)
    log = report(hosts, "log")
    check("MPI chooses its networks, of: eth0 10.77.0.1" in log,
          "the log names the networks", log)
    paths = paths_of(hosts)
    for pid in servers(hosts, "h2"):
        hosts.kill(pid)
    got = {host: read(hosts, path) for host, path in paths.items()}
    check(got["h2"][0] == -errno.EIO and got["h2"][1] < 10,
          "a process is killed: EIO within 10 s for its files", got)
    check(got["h1"][0] > 0, "this host's bytes", got)
    check(until(lambda: status(hosts)[0]["h2"] == "down", 5), "it is down",
          status(hosts))
    check(umount(hosts) < 5, "umount in time: a process is killed")


def test_stopped(hosts):
    mounts(hosts)
    paths = paths_of(hosts)
    pids = servers(hosts, "h2")
    for pid in pids:
        hosts.stop(pid)
    begun = time.monotonic()
    got = {host: read(hosts, path) for host, path in paths.items()}
    check(got["h2"][0] == -errno.EIO and got["h2"][1] < 10,
          "a process is stopped: EIO within 10 s for its files", got)
    check(got["h1"][0] > 0 and got["h3"][0] > 0 and got["h3"][1] < 2,
          "the others' bytes at once", got)
    reports = reports_of(hosts, paths["h2"])
    check(all("host h2: down since 20" in text for text in reports),
          "the attribute error and damage name the host", reports)
    check(reports_of(hosts, paths["h3"])[0] == "", "others have no error")
    for pid in pids:
        hosts.cont(pid)
    check(until(lambda: read(hosts, paths["h2"])[0] > 0, 8),
          "it goes on: its bytes are back without a mount",
          time.monotonic() - begun)
    check(until(lambda: all_up(hosts), 5), "and it is up", status(hosts))
    check(until(lambda: "down since" not in
                "".join(reports_of(hosts, paths["h2"])), 5),
          "nothing is damaged any more", reports_of(hosts, paths["h2"]))
    check(umount(hosts) < 5, "umount in time")


def test_link(hosts):
    mounts(hosts)
    paths = paths_of(hosts)
    hosts.link("h3", "down")
    got = {host: read(hosts, path) for host, path in paths.items()}
    check(got["h3"][0] == -errno.EIO and got["h3"][1] < 10,
          "a cable is out: EIO within 10 s for its files", got)
    check(got["h1"][0] > 0 and got["h2"][0] > 0, "the others' bytes", got)
    hosts.link("h3", "up")
    check(until(lambda: read(hosts, paths["h3"])[0] > 0, 20),
          "it is in again: its bytes are back without a mount",
          status(hosts))
    check(umount(hosts) < 5, "umount in time")


def test_umount_away(hosts):
    """Umount while hosts are stopped and the link of another one is cut."""
    mounts(hosts)
    pids = [pid for pid, _ in hosts.processes("h2")]
    for pid in pids:
        hosts.stop(pid)
    hosts.link("h3", "down")
    begun = time.monotonic()
    check(umount(hosts, ["h1"]) < 5, "umount in time: the others are away")
    for pid in {at for at, _ in hosts.processes("h2")} & set(pids):
        hosts.cont(pid)
    check(until(lambda: not left(hosts, ["h2"]), 5),
          "nothing is left on a host that goes on", left(hosts))
    check(until(lambda: not left(hosts), begun + 30 - time.monotonic()),
          "nothing is left after 30 s on a host that is cut off", left(hosts))
    hosts.link("h3", "up")
    check(until(lambda: hosts.is_reached("h3"), 10), "its cable is in again")


def mode(hosts, path):
    """The mode of the file after an open, which refreshes it."""
    done = hosts.run("h1", ["sh", "-c", 'head -c 1 "$1" >&2; stat -c %a "$1"',
                            "sh", f"{hosts.mnt}/{path}"],
                     stderr=subprocess.DEVNULL,
                     stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def test_heard(hosts):
    """Changes of a file on another host reach the mount."""
    mounts(hosts)
    path, shard = paths_of(hosts)["h2"], \
        f"{hosts.directory('h2')}/__1_0.distcp"
    before = mode(hosts, path)
    os.chmod(shard, 0o600)
    check(until(lambda: mode(hosts, path) == "400", 10),
          "who may read a file there is heard", before, mode(hosts, path))
    os.chmod(shard, 0o644)
    check(until(lambda: mode(hosts, path) == before, 10), "and again",
          mode(hosts, path))
    os.utime(shard)
    check(until(lambda: read(hosts, path)[0] == -errno.ESTALE, 10),
          "that it has changed, too", read(hosts, path))
    check(read(hosts, paths_of(hosts)["h3"])[0] > 0, "the others' bytes")
    check(umount(hosts) < 5, "umount in time")


def test_killed_away(hosts):
    """The mount is killed while a host is stopped or its link is cut."""
    pids = []

    def stop():
        pids[:] = [pid for pid, _ in hosts.processes("h2")]
        for pid in pids:
            hosts.stop(pid)
    for what, away, back in (
            ("stopped", stop, lambda: [os.kill(pid, signal.SIGCONT)
                                       for pid in pids]),
            ("cut off", lambda: hosts.link("h2", "down"),
             lambda: hosts.link("h2", "up"))):
        mounts(hosts)
        away()
        for pid in daemons(hosts)[:1]:
            os.kill(pid, signal.SIGKILL)
        check(until(lambda: not left(hosts, ["h1", "h3"]), 5),
              f"killed, a host is {what}: nothing is left on the others",
              left(hosts))
        hosts.run("h1", ["umount", "-l", hosts.mnt],
                  stderr=subprocess.DEVNULL)
        back()
        check(until(lambda: not left(hosts), 30) and
              until(lambda: hosts.is_reached("h2"), 10),
              f"nor on the one that was {what}", left(hosts))


def test_signals(hosts):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP,
                   signal.SIGKILL):
        mounts(hosts, rejoin=1)
        for pid in daemons(hosts)[:1]:
            os.kill(pid, number)
        check(until(lambda: not left(hosts), 6),
              f"{number.name}: nothing is left after 6 s", left(hosts))
        hosts.run("h1", ["umount", "-l", hosts.mnt],
                  stderr=subprocess.DEVNULL)


def act(test):
    with Hosts(3) as hosts:
        deal.deal(FIXTURE, hosts.directories, "by rank", 1, "all")
        test(hosts)
    return tap.finish()


# Slow tests run first.
TESTS = (test_killed_away, test_umount_away, test_stopped, test_link, test_signals,
         test_killed, test_heard, test_missing, test_unstartable)
sys.exit(0 if skipped() else play(TESTS, act))
