#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A checkpoint of several hosts whose reads are put together on a GPU, on the stand-in for
CUDA's driver: the same bytes and errors as without, whatever becomes of a host, of the GPU
or of its mover. Prints TAP.

    gpu.py CKPTFS STANDIN [TEST]...     needs root
"""
import contextlib
import os
import signal
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
import hosts_gpu  # noqa: E402
import shardings  # noqa: E402
import two_trees  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from hosts_gpu import (FIXTURES, bytes_of, ended_by, grows, kinds_of, measured, mount,  # noqa: E402
                       mounted_and_read, names_of, paths, paths_by_a_bad_gpu, place,
                       stats, umount, whole, without_h3)
from hosts_mount import BOX, all_up, left, must_mount, report  # noqa: E402
from scenes import play  # noqa: E402
from tap import Tap  # noqa: E402
from trees_differ import differ  # noqa: E402

tap = Tap()
check = tap.check


# --- mounts -----------------------------------------------------------------------------------


def mover(hosts):
    """The process that speaks with the GPU; the one that forks it is older."""
    pids = hosts.programs("h1", "ckptfs", "--gpus")
    return pids[1] if len(pids) == 2 else None


# --- reads ------------------------------------------------------------------------------------


def try_fixture(hosts, name, how):
    deal.deal(f"{FIXTURES}/{name}", hosts.directories, how, 1, "all")
    want = whole(hosts, name)
    mount(hosts)
    measured(hosts)
    before = stats(hosts)["gpu_bytes"]
    raw = sum(len(bytes_of(hosts, path)) for path in names_of(hosts, "raw"))
    gathered = stats(hosts)["gpu_bytes"] - before
    check(raw == gathered > 0, f"{name}, {how}: every byte of raw/ was gathered there",
          raw, gathered)
    found = list(differ(want, two_trees.seen(place(hosts))))
    check(not found, f"{name}, {how}: the same tree as without hosts and GPU",
          *found[:9])


def test_same(hosts):
    try_fixture(hosts, "sample", "by rank")
    rows = paths(hosts)
    check(kinds_of(rows) ==
          [("h1", "file"), ("h2", "mpi"), ("h3", "mpi"), ("h1", "gpu")] and
          all(row["used"] and row["GBps"] > 0 for row in rows), "paths: a row for each host, and one for the GPU", rows)
    umount(hosts)


def test_strides(hosts):
    """Tensors of which values change."""
    try_fixture(hosts, "strides_sharded", "random")
    umount(hosts)


def test_columns(hosts):
    try_fixture(hosts, "dtensor_columns", "copies")
    umount(hosts)


def test_streams(hosts):
    """Who reads a large tensor from front to back."""
    shardings.write(hosts)
    for options in ((), ("segment=256K", "cache=2M"), ("pinned=64M",)):
        mount(hosts, *options)
        measured(hosts)
        wrong = []
        for name in shardings.SHARDINGS:
            before = stats(hosts)["gpu_bytes"]
            if bytes_of(hosts, f"raw/{name}") != shardings.bytes_of(name):
                wrong.append(f"{name}: other bytes")
            gathered = stats(hosts)["gpu_bytes"] - before
            if gathered < shardings.SIZE:
                wrong.append(f"{name}: {gathered} bytes of {shardings.SIZE}")
        what = ", ".join(options) or "as a mount is"
        check(not wrong, f"front to back, {what}: the right bytes, by the GPU", wrong)
        umount(hosts)


# --- what fails -------------------------------------------------------------------------------


def test_lost(hosts):
    deal.deal(f"{FIXTURES}/sample", hosts.directories, "by rank", 1, "all")
    want, _ = without_h3(hosts, lambda: must_mount(tap, CKPTFS, hosts, "rejoin=off"),
                         "read_bytes")
    got, gathered = without_h3(hosts, lambda: mount(hosts, "rejoin=off"), "gpu_bytes")
    check(gathered > 0, "and reads go by the GPU")
    failed = [name for name, data in want.items() if isinstance(data, int)]
    check(BOX["h3"] in failed and BOX["h1"] not in failed and
          BOX["h2"] not in failed and len(failed) < len(want) / 2,
          "a host is lost: what it has fails", failed)
    check(got == want, "a host is lost: the same bytes and errors by the GPU",
          [name for name in want if got.get(name) != want[name]])


def again(hosts):
    """Whether reads go through the GPU again, soon."""
    return grows(hosts, "gpu_bytes")


@contextlib.contextmanager
def read_all_the_time(hosts, what, *options, faults=""):
    with mounted_and_read(hosts, *options, faults=faults) as readers:
        yield
    check(not readers.wrong and readers.rounds > 1, f"{what}: no reader has noticed",
          readers.wrong[:3])
    check(all_up(hosts) and stats(hosts)["restarts"] == 0, f"{what}: nor have the hosts",
          stats(hosts))
    umount(hosts)


def test_killed(hosts):
    with read_all_the_time(hosts, "the mover of GPUs is killed"):
        for _ in range(3):
            pid = mover(hosts)
            hosts.kill(pid)
            check(until(lambda: mover(hosts) not in (None, pid)),
                  "the mover of GPUs is killed: there is another one")
            check(again(hosts), "and reads go there")


def test_stopped(hosts):
    with read_all_the_time(hosts, "the mover of GPUs is stopped", "timeout=2"):
        pid = mover(hosts)
        hosts.stop(pid)
        check(until(lambda: mover(hosts) not in (None, pid)),
              "the mover of GPUs is stopped: there is another one")
        check(again(hosts), "and reads go there")


def test_device_lost(hosts):
    with read_all_the_time(hosts, "a device is lost",
                           faults="fail=operation:400:ILLEGAL_ADDRESS"):
        check(until(lambda: report(hosts, "log").count(
            "CUDA_ERROR_ILLEGAL_ADDRESS") > 1, 30), "a device is lost, again and again")


def test_ends(hosts):
    """However it ends, nothing of it is left on any host."""
    deal.deal(f"{FIXTURES}/sample", hosts.directories, "by rank", 1, "all")
    mount(hosts)
    pids = hosts.programs("h1", "ckptfs", "--gpus")
    check(len(pids) == 2 and not any(hosts.programs(name, "ckptfs", "--gpus")
                                     for name in ("h2", "h3")),
          "a mover of GPUs is where the mount is, and nowhere else", pids)
    umount(hosts)
    for number in signal.SIGTERM, signal.SIGKILL:
        over = ended_by(hosts, number)
        check(over, f"{number.name}: no process is left on any host", left(hosts))


# --- canaries ---------------------------------------------------------------------------------


def test_canary(hosts):
    """A GPU of which one thread does nothing is seen."""
    found = paths_by_a_bad_gpu(hosts)
    check(any(name.startswith("raw/") for name in found),
          "canary: a bad GPU gives other bytes", found)


def act(test):
    with Hosts(3) as hosts:
        test(hosts)
    return tap.finish()


CKPTFS, STANDIN = map(os.path.realpath, sys.argv[1:3])
hosts_gpu.begin(tap, CKPTFS, STANDIN, "gpu=0,gather=gpu,nccl=off")
# Those that take long first.
TESTS = (test_lost, test_stopped, test_streams, test_strides, test_columns, test_same,
         test_killed, test_ends, test_device_lost, test_canary)
sys.exit(0 if skipped() else play(TESTS, act, words=2))
