#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many mounts one after the other, with every kind of end: each removes all its files and processes. Prints TAP.

    many.py CKPTFS [TEST]...

CKPTFS_CASES: mounts (10; --all: 200).
"""
import os
import signal
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from scenes import play  # noqa: E402
from tap import Tap, cases  # noqa: E402

FIXTURE = os.path.join(HERE, "../fixtures/sample")
NET = "net=10.77.0.0/24"
CASES = cases("CKPTFS_CASES", 10, 200)
ENDS = (None, None, signal.SIGTERM, None, signal.SIGKILL)    # None: umount
tap = Tap()


def output(hosts, name, *argv):
    return hosts.run(name, argv, capture_output=True, text=True, check=True).stdout


def left(hosts):
    """Objects of a mount on the hosts: processes, files, sockets, mounts."""
    found = {}
    for name in hosts.names:
        mounts = output(hosts, name, "cat", "/proc/mounts").splitlines()
        sockets = output(hosts, name, "cat", "/proc/net/unix").splitlines()[1:]
        found[name] = {
            "processes": [argv[:3] for _, argv in hosts.processes(name)],
            "files": os.listdir(f"{hosts.base}/tmp/{name}") +
            output(hosts, name, "ls", "/dev/shm").split(),
            "mounts": [line for line in mounts if hosts.mnt in line],
            "sockets": [line.split()[-1] for line in sockets if "@" in line],
        }
    return found


def mount(hosts, ranks="", options=""):
    names = ",".join(name + ranks for name in hosts.names)
    done = hosts.run("h1", [CKPTFS, "mount", "--hosts", names, "-o",
                            f"agent={hosts.agent},{NET}{options}", hosts.src, hosts.mnt],
                     capture_output=True, text=True)
    return f"{done.returncode}: {done.stderr}" if done.returncode or done.stderr else None


def end(hosts, number):
    if number is None:
        done = hosts.run("h1", [CKPTFS, "umount", hosts.mnt], capture_output=True)
        return done.returncode == 0 and not done.stderr
    for pid, argv in hosts.processes("h1"):
        if "mount" in argv[:2] and os.path.basename(argv[0]) == "ckptfs":
            hosts.signal(pid, number)
            break
    if number == signal.SIGKILL:
        time.sleep(0.5)
        hosts.run("h1", ["umount", "-l", hosts.mnt], capture_output=True)
    return True


def gone(hosts, before, seconds=6):
    """Leftovers after at most some seconds; returns early without a difference."""
    limit = time.monotonic() + seconds
    now = left(hosts)
    while now != before and time.monotonic() < limit:
        time.sleep(0.05)
        now = left(hosts)
    return {name: now[name] for name in now if now[name] != before[name]}


def killed(hosts, before):
    """Two processes on each host share memory, which MPI keeps in files."""
    deaths = (("mpirun", "h1", lambda pid, argv: argv[0] == "mpirun"),
              ("ranks here", "h1", lambda pid, argv: "--mpi" in argv and
               "--door" in argv and argv[0] != "mpirun"),
              ("ranks there", "h2", lambda pid, argv: "--mpi" in argv),
              ("launch daemon", "h2", lambda pid, argv: argv[0] == "orted"))
    for what, host, dies in deaths:
        said = mount(hosts, ":2", ",rejoin=off")
        there = left(hosts)[host]["files"]
        for pid, argv in hosts.processes(host):
            if dies(pid, argv):
                hosts.kill(pid)
        time.sleep(0.5)
        end(hosts, None)
        rest = gone(hosts, before, 20)
        tap.check(not said and len(there) == 2 and not rest,
                  f"killed: {what}: no file is left", said, there, rest)


def crashed(hosts, before):
    """The next job removes files that a crash left."""
    said = mount(hosts, ":2", ",rejoin=off")
    hosts.crash("h2")
    end(hosts, None)
    hosts.link("h2", "up")
    until(lambda: hosts.is_reached("h2"))
    there = left(hosts)["h2"]["files"]
    tap.check(not said and len(there) == 2, "canary: a host has crashed", said, there)
    said = mount(hosts)
    end(hosts, None)
    rest = gone(hosts, before)
    tap.check(not said and not rest, "another job removes the files of a crash", said, rest)


def mounts(hosts, before):
    wrong, seen, begun = [], 0, time.monotonic()
    for i in range(CASES):
        number = ENDS[i % len(ENDS)]
        said = mount(hosts)
        if said:
            wrong.append(f"{i}: mount ends with {said!r}")
            break
        seen += left(hosts) != before
        output(hosts, "h1", "sh", "-c", f"cat {hosts.mnt}/raw/* | sha256sum")
        good = end(hosts, number)
        rest = gone(hosts, before)
        if not good or rest:
            wrong.append(f"{i}, {number}: {good}, {rest}")
    tap.result(not wrong, f"{CASES} mounts, and nothing is left", wrong[:20])
    tap.result(seen == CASES, "canary: while it is mounted there is something")
    print(f"# {(time.monotonic() - begun) / CASES:.2f} s each")


def act(test):
    with Hosts(3) as hosts:
        deal.deal(FIXTURE, hosts.directories, "by rank", 1, "one")
        test(hosts, left(hosts))
    return tap.finish()


CKPTFS = os.path.realpath(sys.argv[1])
sys.exit(0 if skipped() else play((mounts, killed, crashed), act))
