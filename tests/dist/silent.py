#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hosts that stop responding while another host has a replica: reads fail over to the
replica, also with a short timeout.

    silent.py CKPTFS [TEST]...    needs root
"""
import json
import os
import shutil
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
import hosts_mount  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from hosts_mount import BOX, all_up, must_mount, must_umount, report  # noqa: E402
from scenes import play  # noqa: E402
from tap import Tap  # noqa: E402

FIXTURE = os.path.join(HERE, "../fixtures/sample")
SHARD = "__1_0.distcp"
tap = Tap()
check = tap.check


def dealt(hosts, *names):
    """Puts the shard of BOX["h2"] on these hosts; it is read from the first one."""
    deal.deal(FIXTURE, hosts.directories, "by rank", 1, "all")
    for name in names:
        if name != "h2":
            shutil.copy2(f"{hosts.directory('h2')}/{SHARD}", hosts.directory(name))


def first_of(hosts):
    """The host that the box is read from."""
    path = f"{hosts.mnt}/{BOX['h2']}"
    return json.loads(hosts.run("h1", [
        sys.executable, "-c", "import os, sys; "
        "print(os.getxattr(sys.argv[1], 'user.ckptfs.hosts').decode())", path],
        capture_output=True, text=True, check=True).stdout)[0]


def drop_caches(hosts):
    hosts.run("h1", ["sh", "-c", "echo 1 >/proc/sys/vm/drop_caches"])


def read(hosts):
    """Reads without the page cache; returns the bytes and the time in seconds."""
    drop_caches(hosts)
    begun = time.monotonic()
    done = hosts.run("h1", ["dd", f"if={hosts.mnt}/{BOX['h2']}", "bs=1M",
                            "iflag=direct", "status=none"], capture_output=True)
    return done.stdout if done.returncode == 0 else None, time.monotonic() - begun


def copies(hosts):
    return json.loads(report(hosts, "stats"))["copies"]


def silence(hosts, name, how):
    """Silences a host; returns the function that ends this."""
    if how == "its link is cut":
        hosts.link(name, "down")
        return lambda: hosts.link(name, "up")
    pids = hosts.programs(name, "ckptfs", "--mpi")
    for pid in pids:
        hosts.stop(pid)
    return lambda: [hosts.cont(pid) for pid in pids]


def silent(hosts, seconds, how, names):
    """Silences all these hosts, one of which is read from."""
    ends = [silence(hosts, name, how) for name in names]
    got, took = read(hosts)
    left = copies(hosts)
    for end in ends:
        end()
    time.sleep(2)   # the mount has detected the hosts that were down
    check(until(lambda: all_up(hosts), 20), "all are up again", report(hosts, "status"))
    return got, took, left


def test_timeouts(hosts):
    """The timeout of a read is below, equal to and above the time to detect a host that is down."""
    dealt(hosts, "h2", "h3")
    for seconds in 5, 1, 2, 8:
        must_mount(tap, CKPTFS, hosts, f"timeout={seconds}", "rejoin=off")
        want, _ = read(hosts)
        for how in "its process is stopped", "its link is cut":
            first = first_of(hosts)
            before = copies(hosts)
            got, took, after = silent(hosts, seconds, how, [first])
            check(want and got == want and after > before,
                  f"timeout={seconds}, {how}: the copy is read",
                  first, took, report(hosts, "log"))
            print(f"# timeout={seconds}, {how}: {took:.2f} s")
        must_umount(tap, CKPTFS, hosts)


def test_streams(hosts):
    """The same for prefetched data."""
    dealt(hosts, "h2", "h3")
    must_mount(tap, CKPTFS, hosts, "timeout=4", "rejoin=off")
    want, _ = read(hosts)
    end = silence(hosts, first_of(hosts), "its process is stopped")
    drop_caches(hosts)
    done = hosts.run("h1", ["cat", f"{hosts.mnt}/{BOX['h2']}"], capture_output=True)
    check(want and done.stdout == want, "it is read through", done.stderr)
    end()
    must_umount(tap, CKPTFS, hosts)


def test_slow(hosts):
    """Reads do not fail over from a slow host that sends heartbeats."""
    dealt(hosts, "h2", "h3")
    must_mount(tap, CKPTFS, hosts, "timeout=2", "rejoin=off")
    want, _ = read(hosts)
    hosts.netem(first_of(hosts), "delay 600ms")
    time.sleep(3)   # the host was silent while netem was set up
    got, took = read(hosts)
    check(want and got == want and copies(hosts) == 0 and took > 0.6,
          "it is slow, and is read", took, copies(hosts), report(hosts, "log"))
    hosts.netem(first_of(hosts), None)
    must_umount(tap, CKPTFS, hosts)


def test_two(hosts):
    """Two of three hosts with a replica are silent."""
    dealt(hosts, "h2", "h3", "h4")
    must_mount(tap, CKPTFS, hosts, "timeout=5", "rejoin=off")
    want, _ = read(hosts)
    others = [name for name in ("h2", "h3", "h4") if name != first_of(hosts)]
    got, took, _ = silent(hosts, 5, "its process is stopped",
                          [first_of(hosts), others[0]])
    check(want and got == want, "two are silent: the third is read", took,
          report(hosts, "log"))
    must_umount(tap, CKPTFS, hosts)


def act(test):
    with Hosts(4 if test is test_two else 3) as hosts:
        test(hosts)
    return tap.finish()


CKPTFS = os.path.realpath(sys.argv[1])
TESTS = [test for name, test in globals().items() if name.startswith("test_")]
sys.exit(0 if skipped() else play(TESTS, act))
