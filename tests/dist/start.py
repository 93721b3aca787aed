#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A mount of several hosts that cannot start reports the reason in time and leaves nothing. Prints
TAP.

    start.py CKPTFS [TEST]...       needs root
"""
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from scenes import play  # noqa: E402
from tap import Tap  # noqa: E402

FIXTURE = os.path.join(HERE, "../fixtures/sample")
NET = "net=10.77.0.0/24"
tap = Tap()

# Shell code of agents: for the request to a host, and for the start of its process.
AGENTS = {
    "hangs or speaks without end": 'case "$*" in *h2*) sleep 1000;; esac\n'
                                   "yes >&2\n",
    "says what is no text": "head -c 100000 /dev/urandom >&2\nexit 1\n",
    "fails later": 'case "$*" in *exec*) exec {agent} "$@";; esac\nexit 1\n',
    "hangs later": 'case "$*" in *exec*) exec {agent} "$@";; esac\n'
                   'sleep 1000 & sleep 1000\n',
    "hangs later at one host":
        'case "$*" in h2*exec*) ;; h2*) sleep 1000;; esac\n'
        'exec {agent} "$@"\n',
}


def agent(hosts, what):
    path = f"{hosts.base}/agent-{what.replace(' ', '-')}"
    with open(path, "w") as f:
        f.write("#!/bin/bash\n" + AGENTS[what].format(agent=hosts.agent))
    os.chmod(path, 0o755)
    return path


def left(hosts):
    return [(name, argv) for name in hosts.names
            for _, argv in hosts.processes(name)]


def start(hosts, names="h1,h2,h3", options=(), source=None, agent=None,
          before=(), net=NET):
    begun = time.monotonic()
    done = hosts.run(
        "h1", [*before, CKPTFS, "mount", "--hosts", names, "-o",
               ",".join((f"agent={agent or hosts.agent}", net, *options)),
               source or hosts.src, hosts.mnt],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)
    return done, time.monotonic() - begun


def fails(hosts, what, *words, seconds=5, **how):
    """Exit status 2 with these words, in time; 2 s later nothing is left."""
    done, took = start(hosts, **how)
    end = time.monotonic() + 2
    while left(hosts) and time.monotonic() < end:
        time.sleep(0.05)
    good = done.returncode == 2 and took < seconds and not left(hosts) and \
        all(word in done.stderr for word in words) and \
        not os.path.ismount(hosts.mnt) and not sessions(hosts)
    tap.result(good, what, [] if good else [
        repr(done.stderr[-400:]), f"{done.returncode}, {took:.1f} s",
        str(left(hosts)), str(sessions(hosts))])


def sessions(hosts):
    """Files of OpenMPI in the hosts' $TMPDIR."""
    return [(name, entry) for name in hosts.names
            for entry in os.listdir(f"{hosts.base}/tmp/{name}")]


def works(hosts, what, **how):
    """Canary: the mount can start."""
    done, _ = start(hosts, **how)
    tap.result(done.returncode == 0, what, [repr(done.stderr)])
    hosts.run("h1", [CKPTFS, "umount", hosts.mnt], capture_output=True)


def test_programs(hosts):
    fails(hosts, "no mpirun", "mpirun: not found; the package openmpi-bin",
          before=("env", "PATH=/nonexistent"))
    fails(hosts, "no agent", "option agent: /nonexistent: not found",
          agent="/nonexistent")
    fails(hosts, "no program", "this host does not tell its versions",
          "/nonexistent: not found", options=("program=/nonexistent",))


def test_agents(hosts):
    """Only the other hosts have .metadata."""
    for what in "hangs or speaks without end", "says what is no text":
        fails(hosts, f"the agent {what}", "host h2: missing",
              "host h3: missing", "no host has a .metadata", seconds=14,
              agent=agent(hosts, what))
    fails(hosts, "the agent fails later", "host h2: missing: nothing can be started there",
          "host h3: missing: nothing can be started there", "no host has a .metadata",
          agent=agent(hosts, "fails later"))


def test_agent_hangs(hosts):
    fails(hosts, "the agent hangs later", "host h2: missing: nothing can be started there",
          "host h3: missing: nothing can be started there", "no host has a .metadata",
          seconds=38, agent=agent(hosts, "hangs later"))


def test_agent_hangs_once(hosts):
    fails(hosts, "the agent hangs later at one host",
          "host h2: missing: nothing can be started there", "option allhosts: h2 is missing",
          options=("allhosts",), names="h1,h3,h2", seconds=38,
          agent=agent(hosts, "hangs later at one host"))


def test_names(hosts):
    fails(hosts, "a host that is not known", "host h9: missing",
          "option allhosts", names="h1,h2,h9", options=("allhosts",))
    fails(hosts, "no directory", "/nowhere: no host has a .metadata",
          source="/nowhere")
    for name in "h1,-x", "h1,a b", "h1,$(touch x)", "h1,h2,h2", "h1,h2:17":
        fails(hosts, f"hosts {name}", "option hosts", names=name)
    fails(hosts, "two names of one host",
          "option hosts: h2 and 10.77.0.2 are one host", names="h1,h2,10.77.0.2")


def test_room(hosts):
    """A host lacks the disk space or open files that MPI needs."""
    place = f"{hosts.base}/tmp/h2"
    hosts.run("h2", ["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", place],
              check=True)
    done, took = start(hosts, options=("allhosts",))
    hosts.run("h2", ["umount", place], check=True)
    tap.check(done.returncode == 2 and took < 5 and f"host h2: missing: {place}: "
              "No space left on device" in done.stderr, "a full /tmp", done.stderr)
    fails(hosts, "few open files", "this host cannot take part: a process may have "
          "24 open files", before=("prlimit", "--nofile=24"))


def test_networks(hosts):
    """No network of the option is available; MPI by itself would use any other one."""
    fails(hosts, "this host is not in the network", "this host cannot take part",
          "option net: no address in 10.78.0.0/24", net="net=10.78.0.0/24")
    fails(hosts, "the others are not in the network",
          "host h2: missing: option net: no address in 10.77.0.1/32",
          "host h3: missing: option net: no address in 10.77.0.1/32",
          "no host has a .metadata", net="net=10.77.0.1/32")
    works(hosts, "canary: all are in a smaller one", net="net=10.77.0.0/30")


def test_path(hosts):
    """A path with characters that a shell interprets is one name."""
    for name in "a b", "$(touch made)", "a'b", 'a"b', "a;b", "a\\b", "-x", "é":
        for host in hosts.names:
            at = f"{hosts.directory(host)}/{name}"
            os.mkdir(at)
            for entry in os.listdir(hosts.directory(host)):
                if entry != name:
                    os.link(f"{hosts.directory(host)}/{entry}",
                            f"{at}/{entry}")
        works(hosts, f"a path with {name}", source=f"{hosts.src}/{name}")
        for host in hosts.names:
            subprocess.run(["rm", "-r", "--",
                            f"{hosts.directory(host)}/{name}"], check=True)


def test_signals(hosts):
    """Signals to the process in the foreground, or to its whole process group, during the
    requests to hosts and during their start."""
    for what in "hangs or speaks without end", "hangs later":
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGKILL:
            for is_group in False, True:
                stopped(hosts, what, number, is_group)


def stopped(hosts, what, number, is_group):
    process = hosts.popen(
        "h1", [CKPTFS, "mount", "--hosts", "h1,h2,h3", "-o",
               f"agent={agent(hosts, what)},{NET}", hosts.src, hosts.mnt],
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True)
    until(lambda: ["sleep", "1000"] in
          [argv for _, argv in hosts.processes("h1")])
    (os.killpg if is_group else os.kill)(process.pid, number)
    begun = time.monotonic()
    good = until(lambda: not left(hosts), 5)
    tap.check(good and not os.path.ismount(hosts.mnt),
              f"{number.name} to {'all' if is_group else 'one'}, the agent "
              f"{what}: nothing is left", time.monotonic() - begun,
              *left(hosts))


def act(test):
    with Hosts(3) as hosts:
        names = ("h2", "h3")
        deal.deal(FIXTURE, {name: hosts.directory(name) for name in names},
                  "by rank", 1, "one")
        works(hosts, "canary: nothing is wrong")
        test(hosts)
    return tap.finish()


# Slow tests run first.
TESTS = (test_agent_hangs, test_agent_hangs_once, test_agents, test_signals, test_path,
         test_names, test_programs, test_room, test_networks)
CKPTFS = os.path.realpath(sys.argv[1])
sys.exit(0 if skipped() else play(TESTS, act))
