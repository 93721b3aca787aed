# SPDX-License-Identifier: MIT
"""Mounts of all hosts of hosts.py on the first one.

    with mounted(hosts, CKPTFS, "timeout=5"): ...

or with a result for each step:

    mount = functools.partial(must_mount, tap, CKPTFS)
    umount = functools.partial(must_umount, tap, CKPTFS)
    mount(hosts, "rejoin=off")
    umount(hosts)
"""
import contextlib
import json
import os
import re
import subprocess
import time

from hosts import until

NET = "net=10.77.0.0/24"
# Of the fixture `sample`, dealt by rank to three hosts: a tensor of all four ranks, and for
# each host a box of it that only that host has.
TENSOR = "model.tok_embeddings.weight"
BOX = {f"h{i + 1}": f"local/rank-{i}/{TENSOR}.npy" for i in range(3)}


def mount(program, hosts, *options, agent=None, net=NET, alone=False, names=None, env=None):
    """What the command comes to. net=None: MPI chooses its networks. alone: the first
    host's files only. names: other than each host once. env: more variables."""
    words = [program, "mount"]
    if not alone:
        words += ["--hosts", names or ",".join(hosts.names), "-o", ",".join(
            (f"agent={agent or hosts.agent}", *((net,) if net else ()), *options))]
    return hosts.run(hosts.names[0], [*words, hosts.src, hosts.mnt],
                     env={**os.environ, **(env or {})},
                     stdin=subprocess.DEVNULL, capture_output=True, text=True)


def umount(program, hosts):
    return hosts.run(hosts.names[0], [program, "umount", hosts.mnt],
                     capture_output=True, text=True)


def left(hosts, names=None):
    """Processes on these hosts, or on all."""
    return [(name, argv[:4]) for name in names or hosts.names
            for _, argv in hosts.processes(name)]


def must_mount(tap, program, hosts, *options, **how):
    """Without a word."""
    done = mount(program, hosts, *options, **how)
    tap.check(done.returncode == 0, "mount", done.stderr)


def must_umount(tap, program, hosts, names=None):
    """Seconds until nothing of it is left on these hosts, or all."""
    begun = time.monotonic()
    done = umount(program, hosts)
    tap.check(done.returncode == 0 and not done.stderr, "umount", done.stderr)
    tap.check(until(lambda: not left(hosts, names), 6), "nothing is left",
              left(hosts, names))
    return time.monotonic() - begun


@contextlib.contextmanager
def mounted(hosts, program, *options):
    done = mount(program, hosts, *options)
    if done.returncode:
        raise RuntimeError(f"mount: {done.stderr}")
    try:
        yield hosts.mnt
    finally:
        done = umount(program, hosts)
    if done.returncode:
        raise RuntimeError(f"umount: {done.stderr}")


def agent_without(hosts, name):
    """What starts programs on the others only."""
    path = f"{hosts.base}/agent-without-{name}"
    with open(path, "w") as f:
        f.write(f'#!/bin/bash\nfor word; do\n\t[ "$word" != {name} ] || '
                f'exit 255\ndone\nexec {hosts.agent} "$@"\n')
    os.chmod(path, 0o755)
    return path


def switchable(hosts):
    """An agent that does not reach hosts whose names are in this directory."""
    away, path = f"{hosts.base}/away", f"{hosts.base}/switchable"
    os.makedirs(away, exist_ok=True)
    with open(path, "w") as f:
        f.write(f'#!/bin/bash\nfor word; do\n\t[ ! -e "{away}/$word" ] || '
                f'exit 255\ndone\nexec {hosts.agent} "$@"\n')
    os.chmod(path, 0o755)
    return path, away


def read(hosts, path):
    """As hosts.read(), of the mount."""
    return hosts.read(hosts.names[0], f"{hosts.mnt}/{path}")


def report(hosts, name, host=None):
    """The text of one of its reports."""
    return hosts.run(host or hosts.names[0], ["cat", f"{hosts.mnt}/.ckptfs/{name}"],
                     stdout=subprocess.PIPE, text=True, check=True).stdout


def status(hosts, host=None):
    """The state of each host, and whether all is there."""
    said = report(hosts, "status", host)
    return dict(re.findall(r"^host (\S+) (\S+) ", said, re.M)), \
        re.search(r"^whole: (\w+)", said, re.M).group(1)


def all_up(hosts, host=None):
    return status(hosts, host) == (dict.fromkeys(hosts.names, "up"), "yes")


def measured(hosts):
    """Waits until each path was measured: from then on only reads cause traffic."""
    def known():
        rows = json.loads(report(hosts, "stats"))["paths"]
        return len(rows) == len(hosts.names) and \
            all("GBps" in row and "reason" not in row for row in rows)
    return until(known)
