#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The content of `.ckptfs/stats` of several hosts, while all are up and after a failure. How many bytes there are is for wire.py. Prints TAP.

    reports.py CKPTFS            needs root
"""
import errno
import json
import os
import subprocess
import sys
from functools import partial

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from hosts_mount import (agent_without, measured, must_mount,  # noqa: E402
                         must_umount, read, report)
from tap import Tap  # noqa: E402

CKPTFS = os.path.realpath(sys.argv[1])
FIXTURE = os.path.join(HERE, "../fixtures/sample")
TENSOR = "model.tok_embeddings.weight"    # of all four ranks
BOX = {"h1": f"local/rank-0/{TENSOR}.npy", "h2": f"local/rank-1/{TENSOR}.npy",
       "h3": f"local/rank-2/{TENSOR}.npy"}
REPORTS = {"status", "damage", "log", "tensors.csv", "tensors.jsonl",
           "state_dict.json", "stats", "shards"}
tap = Tap()
check = tap.check
mount = partial(must_mount, tap, CKPTFS)
umount = partial(must_umount, tap, CKPTFS)


def stats(hosts):
    return json.loads(report(hosts, "stats"))


def paths(hosts, text=None):
    """{host: its object of "paths", without the name}"""
    rows = json.loads(text or report(hosts, "stats"))["paths"]
    return {row.pop("host"): row for row in rows}


def is_good(row, path):
    return row == {**row, "path": path, "used": True} and "reason" not in row and \
        row["GBps"] > 0 and row["us"] > 0


def all_measured(rows, names=("h1", "h2", "h3")):
    return list(rows) == list(names) and all(
        is_good(row, "file" if name == "h1" else "mpi")
        for name, row in rows.items())


def complete(hosts, what):
    measured(hosts)
    rows = paths(hosts)
    check(all_measured(rows), f"{what}: a row for each host, measured", rows)


def test_well(hosts):
    mount(hosts)
    names = set(hosts.run("h1", ["ls", f"{hosts.mnt}/.ckptfs"], text=True,
                          stdout=subprocess.PIPE).stdout.split())
    check(names == REPORTS, "stats is there", names)
    complete(hosts, "a mount")
    begun = stats(hosts)
    check(list(begun) == ["read_bytes", "file_bytes", "errors", "seconds",
                          "wire_bytes", "copies", "waits", "cache_bytes",
                          "restarts", "gpu_bytes", "rounds", "paths"] and
          list(begun["file_bytes"]) == hosts.names and
          list(begun["wire_bytes"]) == ["h2", "h3"], "stats: its members",
          begun)
    check(not begun["errors"] and begun["copies"] == begun["read_bytes"] ==
          begun["cache_bytes"] == begun["restarts"] == 0, "nothing was read: no message", begun)
    sizes = {host: read(hosts, path)[0] for host, path in BOX.items()}
    now = stats(hosts)
    check(now["read_bytes"] == sum(sizes.values()), "read_bytes", now, sizes)
    check(sum(now["waits"].values()) >= 2 and
          max(map(int, now["waits"])) < 2048, "waits: not for long", now)
    check(all(now["file_bytes"][host] > begun["file_bytes"][host]
              for host in hosts.names), "file_bytes of each host", begun, now)
    check(all(now["wire_bytes"][host] - begun["wire_bytes"][host] >
              now["file_bytes"][host] - begun["file_bytes"][host]
              for host in ("h2", "h3")), "wire_bytes of the others", begun,
          now)
    umount(hosts)


def test_snapshot(hosts):
    """An open file of statistics does not change."""
    mount(hosts)
    with open_there(hosts, ".ckptfs/stats") as kept:
        before = kept.read()
        read(hosts, BOX["h2"])
        kept.seek(0)
        again = kept.read()
    check(before == again != report(hosts, "stats"),
          "an open stats does not change", before, again)
    umount(hosts)


def open_there(hosts, path):
    """Opens a file of the mount, whose path exists only in the namespace of the host."""
    return open(f"/proc/{hosts.pids['h1']}/root{hosts.mnt}/{path}")


def test_down(hosts):
    mount(hosts, "rejoin=off")
    complete(hosts, "before")
    hosts.crash("h2")
    got, took = read(hosts, BOX["h2"])
    check(got == -errno.EIO and took < 10, "a host crashes: EIO", got, took)
    now = stats(hosts)
    check(list(now["errors"]) == ["EIO"] and now["errors"]["EIO"] >= 1,
          "errors has it", now)
    check(max(map(int, now["waits"])) >= 2048,
          "waits: the read waited for seconds", now)
    check(until(lambda: not paths(hosts)["h2"]["used"] and
                paths(hosts)["h2"]["reason"] == "down", 5), "paths: it is down", paths(hosts))
    rows = paths(hosts)
    check(is_good(rows["h1"], "file") and is_good(rows["h3"], "mpi"),
          "paths: the others are used", rows)
    umount(hosts)
    hosts.link("h2", "up")


def test_restart(hosts):
    mount(hosts)
    complete(hosts, "before")
    for pid, argv in hosts.processes("h1"):
        if os.path.basename(argv[0]) == "mpirun":
            hosts.kill(pid)
    check(until(lambda: stats(hosts)["restarts"] == 1, 15),
          "mpirun is killed: restarts is 1", stats(hosts))
    check(read(hosts, BOX["h2"])[0] > 0, "its bytes are there")
    complete(hosts, "another job")
    umount(hosts)


def test_missing(hosts):
    mount(hosts, agent=agent_without(hosts, "h3"))
    rows = paths(hosts)
    check(rows["h3"] == {"path": "mpi", "used": False, "reason": "missing"},
          "paths: a host is missing", rows)
    umount(hosts)


def test_slow(hosts):
    """A host's path is measured for at most 50 ms, which does not delay those of other hosts."""
    hosts.netem("h3", "delay 80ms")
    mount(hosts)
    check(until(lambda: paths(hosts)["h3"].get("reason") == "nothing came in time", 8),
          "paths: nothing came in time", paths(hosts))
    rows = paths(hosts)
    check(rows["h3"] == {"path": "mpi", "used": True, "reason": "nothing came in time"} and
          is_good(rows["h2"], "mpi"), "paths: the others are measured", rows)
    umount(hosts)
    hosts.netem("h3", None)


def test_copies(hosts):
    """One host has replicas of all files; it is read when the others are down."""
    mount(hosts, "rejoin=off")
    check(read(hosts, BOX["h2"])[0] > 0 and stats(hosts)["copies"] == 0,
          "copies: the first is none", stats(hosts))
    first, = json.loads(hosts.run("h1", [
        "getfattr", "--absolute-names", "--only-values", "-n", "user.ckptfs.hosts",
        f"{hosts.mnt}/{BOX['h2']}"], stdout=subprocess.PIPE).stdout)
    for pid in hosts.programs(first, "ckptfs", "serve"):
        hosts.kill(pid)
    got, now = read(hosts, BOX["h2"])[0], stats(hosts)
    check(got > 0 and now["copies"] > 0 and not now["errors"],
          "copies: another host is read", got, now)
    umount(hosts)


def test_alone(hosts):
    """Without hosts stats has no counters of other hosts."""
    mount(hosts, alone=True)
    now = stats(hosts)
    check(set(now) == {"read_bytes", "file_bytes", "errors", "seconds"}, "no hosts: its members", now)
    umount(hosts)


def cat(hosts, *names):
    done = hosts.run("h1", [
        CKPTFS, "cat", "--hosts", ",".join(hosts.names), "-o",
        f"agent={hosts.agent},net=10.77.0.0/24", hosts.src, *names],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace")
    check(done.returncode == 0, "cat", done.stderr)
    return done.stdout


def test_unmounted(hosts):
    text = cat(hosts, ".ckptfs/stats")
    now, rows = json.loads(text), paths(hosts, text)
    check(all_measured(rows), "cat: paths", rows)
    check(now["wire_bytes"]["h2"] > 0 and now["read_bytes"] == 0,
          "cat: stats", now)


def main():
    if skipped():
        return 0
    with Hosts(3) as hosts:
        deal.deal(FIXTURE, hosts.directories, "by rank", 1, "all")
        for test in (test_alone, test_well, test_snapshot, test_unmounted,
                     test_missing, test_slow, test_restart, test_down):
            print(f"# {test.__name__}")
            test(hosts)
    with Hosts(3) as hosts:
        whole = {name: hosts.directory(name) for name in ("h2", "h3")}
        deal.deal(FIXTURE, whole, "copies", 1, "all")
        test_copies(hosts)
    return tap.finish()


sys.exit(main())
