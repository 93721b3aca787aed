#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A mount of several hosts whose ranks take part in rounds. Each host has a process for rounds,
which ends with its rank in every case. The mount has a channel to them from each job. The test
uses neither a GPU nor NCCL. Prints TAP.

    rounds.py PROGRAM CKPTFS [TEST]...      needs root
"""
import os
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from hosts_mount import BOX, all_up, left, must_mount, must_umount, read  # noqa: E402
from scenes import play  # noqa: E402
from tap import Tap  # noqa: E402

FIXTURE = os.path.join(HERE, "../fixtures/sample")
tap = Tap()
check = tap.check


def program(hosts):
    return f"{hosts.base}/{os.path.basename(PROGRAM)}"


def mount(hosts, *options, env=None, **how):
    must_mount(tap, program(hosts), hosts, *options,
               env={"CKPTFS_ROUNDS": f"{hosts.base}/messages", **(env or {})}, **how)


def umount(hosts, names=None):
    return must_umount(tap, program(hosts), hosts, names)


def messages(hosts):
    """The messages to the initiator of rounds beside the mount."""
    with open(f"{hosts.base}/messages") as file:
        return file.read().splitlines()


def programs(hosts, name, word):
    return hosts.programs(name, os.path.basename(PROGRAM), word)


def forkers(hosts):
    """The number of processes for rounds on each host. Without a GPU only the forking one
    remains."""
    return [len(programs(hosts, name, "--gpus")) for name in hosts.names]


def deal_out(hosts):
    deal.deal(FIXTURE, hosts.directories, "by rank", 1, "all")


def variables(pid):
    with open(f"/proc/{pid}/environ") as file:
        return dict(line.partition("=")[::2] for line in file.read().split("\0") if line)


# --- processes and channels -------------------------------------------------------------------


GIVEN = {"NCCL_DEBUG": "WARN", "NCCL_HOSTID": "this", "CKPTFS_NCCL_LIB": "/l"}


def forgetful(hosts):
    """An agent that does not pass these variables to other hosts, like ssh."""
    path = f"{hosts.base}/forgetful"
    with open(path, "w") as file:
        file.write(f'#!/bin/bash\nunset {" ".join(GIVEN)}\nexec {hosts.agent} "$@"\n')
    os.chmod(path, 0o755)
    return path


def test_there(hosts):
    deal_out(hosts)
    mount(hosts, env=GIVEN, agent=forgetful(hosts))
    check(until(lambda: forkers(hosts) == [0, 1, 1]),
          "each host but the mount's has a process for rounds", forkers(hosts))
    for name in ("h2", "h3"):
        pid = programs(hosts, name, "--gpus")[0]
        has = variables(pid)
        check(has.get("NCCL_DEBUG") == "WARN" and has.get("CKPTFS_NCCL_LIB") == "/l" and
              "NCCL_HOSTID" not in has, f"{name}: it has the variables of NCCL", has)
        check(has.get("NCCL_SOCKET_IFNAME") == "=eth0",
              f"{name}: its network is the one that was named", has)
        with open(f"/proc/{pid}/cmdline") as file:
            check(file.read().split("\0")[2:-1] == ["--gpus", "0", "1"],
                  f"{name}: its devices are those that were named")
    # Without a GPU no process takes part in rounds.
    check(until(lambda: len(messages(hosts)) == 4), "the mount hears of that", messages(hosts))
    check(messages(hosts)[:2] == ["take 1 0 1 2", "job 1 0 3"] and
          sorted(messages(hosts)[2:]) == ["lost 1 1", "lost 1 2"],
          "the mount has a way, and hears who takes no part", messages(hosts))
    check(all_up(hosts) and all(read(hosts, BOX[name])[0] > 0 for name in hosts.names),
          "and reads are what they are")
    umount(hosts)
    check(messages(hosts)[-1] == "end 1" or len(messages(hosts)) == 4,
          "no other message was sent", messages(hosts))


def test_chosen_interface(hosts):
    deal_out(hosts)
    mount(hosts, env={"NCCL_SOCKET_IFNAME": "lo"})
    check(until(lambda: forkers(hosts) == [0, 1, 1]) and all(
        variables(programs(hosts, name, "--gpus")[0])["NCCL_SOCKET_IFNAME"] == "lo"
        for name in ("h2", "h3")), "who names an interface has that")
    umount(hosts)
    mount(hosts, net=None)
    check(until(lambda: forkers(hosts) == [0, 1, 1]) and not any(
        "NCCL_SOCKET_IFNAME" in variables(programs(hosts, name, "--gpus")[0])
        for name in ("h2", "h3")), "without networks NCCL chooses")
    umount(hosts)


def test_launched(hosts):
    """An external launcher has started the ranks, of which two have a mount."""
    deal_out(hosts)
    words = ["mpirun", *hosts.mpi, "-x", "CKPTFS_ROUNDS"]
    for name, more in ("h1", ["--mount", hosts.mnt]), ("h2", []), ("h3", ["--mount", hosts.mnt]):
        words += ["-H", f"{name}:1", "-n", "1", program(hosts), "serve", *more, hosts.src, ":"]
    job = hosts.popen("h1", words[:-1], stdin=subprocess.DEVNULL,
                      env={**os.environ, "CKPTFS_ROUNDS": f"{hosts.base}/messages"})
    want = ["job 1 0 3", "job 1 2 3", "lost 1 1", "lost 1 1", "take 1 0 1 2", "take 1 2 0 1"]
    check(until(lambda: os.path.exists(f"{hosts.base}/messages") and
                sorted(messages(hosts)) == want, 30),
          "each mount has a way to its rank", sorted(messages(hosts)))
    check(forkers(hosts) == [0, 1, 0], "the rank without mount has a process for rounds",
          forkers(hosts))
    for name in ("h1", "h3"):
        check(until(lambda: hosts.run(name, ["test", "-e", f"{hosts.mnt}/.ckptfs"]
                                      ).returncode == 0), f"{name}: mounted")
        done = hosts.run(name, [program(hosts), "umount", hosts.mnt])
        check(done.returncode == 0, f"{name}: umount")
    check(until(lambda: job.poll() == 0 and not left(hosts), 6), "nothing is left",
          job.poll(), left(hosts))


# --- ends -------------------------------------------------------------------------------------


def test_ends(hosts):
    """Every end of the mount leaves no process on any host."""
    deal_out(hosts)
    for number in signal.SIGTERM, signal.SIGKILL:
        mount(hosts)
        check(until(lambda: forkers(hosts) == [0, 1, 1]), "the processes are there")
        os.kill(programs(hosts, "h1", "mount")[0], number)
        check(until(lambda: not left(hosts), 6),
              f"{number.name}: no process is left on any host", left(hosts))
        hosts.run("h1", ["umount", "-l", hosts.mnt], capture_output=True)


def test_killed(hosts):
    """A rank is killed, and so is a process for rounds."""
    deal_out(hosts)
    mount(hosts, "rejoin=off")
    check(until(lambda: forkers(hosts) == [0, 1, 1]), "the processes are there")
    hosts.kill(programs(hosts, "h3", "--gpus")[0])
    check(until(lambda: forkers(hosts) == [0, 1, 0]) and all_up(hosts) and
          read(hosts, BOX["h3"])[0] > 0, "a process for rounds is killed: its rank serves")
    hosts.kill(programs(hosts, "h2", "--mpi")[0])
    check(until(lambda: forkers(hosts) == [0, 0, 0], 5),
          "a rank is killed: its process for rounds is gone, too", forkers(hosts))
    check(read(hosts, BOX["h3"])[0] > 0, "others are read")
    umount(hosts)


def test_returns(hosts):
    """A job that takes over has its own channel."""
    deal_out(hosts)
    mount(hosts, "rejoin=1", "timeout=5")
    hosts.crash("h3")
    read(hosts, BOX["h3"])
    hosts.link("h3", "up")
    check(until(lambda: all_up(hosts), 40), "a host is back")
    rows = messages(hosts)
    taken = [row for row in rows if row.startswith("take")]
    check(taken[0] == "take 1 0 1 2" and taken[-1].endswith(" 0 1 2") and len(taken) > 1,
          "the mount has another way", rows)
    epoch = taken[-1].split()[1]
    check(until(lambda: {f"job {epoch} 0 3", f"lost {epoch} 1", f"lost {epoch} 2", "end 1"} <=
                set(messages(hosts))), "which is that of the new job; the old one has ended",
          messages(hosts))
    check(until(lambda: forkers(hosts) == [0, 1, 1]), "of the old job nothing is left",
          forkers(hosts))
    umount(hosts)


def act(test):
    with Hosts(3) as hosts:
        # The program loads its modules from its own directory.
        shutil.copy(PROGRAM, hosts.base)
        shutil.copy(f"{os.path.dirname(CKPTFS)}/ckptfs-mpi.so", hosts.base)
        test(hosts)
    return tap.finish()


PROGRAM, CKPTFS = map(os.path.realpath, sys.argv[1:3])
# Slow tests run first.
TESTS = (test_returns, test_ends, test_launched, test_chosen_interface, test_killed, test_there)
sys.exit(0 if skipped() else play(TESTS, act, words=2))
