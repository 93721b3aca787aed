#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A checkpoint of several hosts whose bytes come to a GPU by NCCL, on the stand-ins for CUDA's
driver and NCCL: the same bytes and errors as without, whatever becomes of a host, of NCCL or
of the processes that make rounds. Prints TAP.

    nccl.py CKPTFS STANDIN [TEST]...     needs root
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
import hosts_mount  # noqa: E402
import privileges  # noqa: E402
import shardings  # noqa: E402
import two_trees  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from hosts_gpu import (FIXTURES, bytes_of, deal_sample, driver, ended_by,  # noqa: E402
                       grows, kinds_of, measured, mount, mounted_and_read, names_of, paths,
                       paths_by_a_bad_gpu, place, stats, umount, whole, without_h3)
from hosts_mount import all_up, left, must_mount, report  # noqa: E402
from scenes import play  # noqa: E402
from tap import Tap  # noqa: E402
from trees_differ import differ  # noqa: E402

tap = Tap()
check = tap.check


# --- processes --------------------------------------------------------------------------------


def process(hosts, host):
    """The one that makes rounds there; the one that forks it is older."""
    pids = hosts.programs(host, "ckptfs", "--gpus")
    return pids[1] if len(pids) == 2 else None


def by_nccl(hosts):
    """Hosts from which bytes come so."""
    return [row["host"] for row in paths(hosts) if row["path"] == "nccl" and row["used"]]


def rounds_measured(hosts):
    return until(lambda: all("GBps" in row for row in paths(hosts) if row["path"] == "nccl"), 60)


# --- reads ------------------------------------------------------------------------------------


def try_fixture(hosts, name, how):
    deal.deal(f"{FIXTURES}/{name}", hosts.directories, how, 1, "all")
    want = whole(hosts, name)
    mount(hosts)
    check(rounds_measured(hosts), f"{name}, {how}: NCCL was measured", paths(hosts))
    before = stats(hosts)
    for path in names_of(hosts, "raw"):
        bytes_of(hosts, path)
    after = stats(hosts)
    check(after["rounds"] > before["rounds"],
          f"{name}, {how}: bytes have come by rounds", after)
    found = list(differ(want, two_trees.seen(place(hosts))))
    check(not found, f"{name}, {how}: the same tree as without hosts and NCCL",
          *found[:9])


def test_same(hosts):
    try_fixture(hosts, "sample", "by rank")
    rows = paths(hosts)
    check(kinds_of(rows) ==
          [("h1", "file"), ("h2", "mpi"), ("h3", "mpi"), ("h1", "gpu"), ("h2", "nccl"),
           ("h3", "nccl")] and by_nccl(hosts) == ["h2", "h3"],
          "paths: a row for each host by NCCL", rows)
    status = report(hosts, "status")
    check("NCCL: 2." in status and "libnccl.so.2" in status,
          "status names the version of NCCL and its file", status)
    umount(hosts)


def test_strides(hosts):
    """Tensors of which values change."""
    try_fixture(hosts, "strides_sharded", "random")
    umount(hosts)


def test_columns(hosts):
    try_fixture(hosts, "dtensor_columns", "by rank")
    umount(hosts)


def read_by_rounds(hosts, name):
    """-> its bytes, and how many rounds brought some. On a busy machine a round may be given up, and its
    bytes come otherwise: then it is read again."""
    for _ in range(5):
        with open(f"{place(hosts)}/raw/{name}", "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        before = stats(hosts)
        data = bytes_of(hosts, f"raw/{name}")
        rounds = stats(hosts)["rounds"] - before["rounds"]
        if rounds or name == "here" or data != shardings.bytes_of(name):
            break
    return data, rounds


def test_streams(hosts):
    """Who reads a large tensor from front to back."""
    shardings.write(hosts)
    for options in ((), ("segment=256K", "cache=2M"), ("gather=host",), ("pinned=16M",)):
        mount(hosts, *options)
        measured(hosts)
        wrong = []
        for name in shardings.SHARDINGS:
            data, rounds = read_by_rounds(hosts, name)
            if data != shardings.bytes_of(name):
                wrong.append(f"{name}: other bytes")
            if (rounds > 0) == (name == "here"):
                wrong.append(f"{name}: {rounds} rounds")
        what = ", ".join(options) or "as a mount is"
        check(not wrong, f"front to back, {what}: the right bytes, by NCCL", wrong)
        umount(hosts)


# --- what fails -------------------------------------------------------------------------------


def test_lost(hosts):
    deal.deal(f"{FIXTURES}/sample", hosts.directories, "by rank", 1, "all")
    want, _ = without_h3(hosts, lambda: must_mount(tap, CKPTFS, hosts, "rejoin=off"),
                         "read_bytes")
    got, rounds = without_h3(hosts, lambda: mount(hosts, "rejoin=off"), "rounds")
    check(rounds > 0, "a host is lost: others' bytes come by NCCL", rounds)
    check(got == want, "a host is lost: the same bytes and errors by NCCL",
          [name for name in want if got.get(name) != want[name]])


@contextlib.contextmanager
def read_all_the_time(hosts, what, *options, faults=""):
    with mounted_and_read(hosts, *options, faults=faults) as readers:
        yield
    check(not readers.wrong and readers.rounds > 1, f"{what}: no reader has noticed",
          readers.wrong[:3])
    umount(hosts)


def test_killed(hosts):
    """What makes rounds on another host: its bytes come by MPI, others' by NCCL."""
    with read_all_the_time(hosts, "a process of rounds is killed"):
        check(grows(hosts, "rounds"), "bytes come by NCCL")
        hosts.kill(process(hosts, "h3"))
        check(grows(hosts, "rounds"), "a process of rounds is killed: others go on")
        check(all_up(hosts) and stats(hosts)["restarts"] == 0,
              "a process of rounds is killed: no host has noticed", stats(hosts))


def test_stopped(hosts):
    with read_all_the_time(hosts, "a process of rounds is stopped", "timeout=4"):
        check(grows(hosts, "rounds"), "bytes come by NCCL")
        pid = process(hosts, "h2")
        hosts.stop(pid)
        before = stats(hosts)["read_bytes"]
        check(until(lambda: stats(hosts)["read_bytes"] > before + (1 << 20), 30),
              "a process of rounds is stopped: all is read on")
        os.kill(pid, signal.SIGCONT)
        check(grows(hosts, "rounds"), "it goes on: bytes come by NCCL again")


def test_mover(hosts):
    """The mover of the mount: a new one takes part in the next job."""
    with read_all_the_time(hosts, "the mover of the mount is killed", "rejoin=2"):
        check(grows(hosts, "rounds"), "bytes come by NCCL")
        hosts.kill(process(hosts, "h1"))
        check(grows(hosts, "gpu_bytes"),
              "the mover of the mount is killed: there is another one")
        check(until(lambda: any("replaced" in row.get("reason", "")
                                for row in paths(hosts) if row["path"] == "nccl")),
              "and paths says why nothing comes by NCCL", paths(hosts))


def test_back(hosts):
    """A host that comes back takes part in rounds again."""
    tree = deal_sample(hosts)
    mount(hosts, "rejoin=2", "direct")
    check(until(lambda: by_nccl(hosts) == ["h2", "h3"], 30), "both come by NCCL")
    hosts.crash("h3")
    hosts_mount.read(hosts, hosts_mount.BOX["h3"])
    hosts.link("h3", "up")
    check(until(lambda: all_up(hosts) and stats(hosts)["restarts"] > 0, 60),
          "the host is back", report(hosts, "status"))
    check(until(lambda: by_nccl(hosts) == ["h2", "h3"], 60),
          "and its bytes come by NCCL", paths(hosts))
    check(grows_by_reading(hosts), "as all do")
    found = list(differ(tree, two_trees.seen(place(hosts))))
    check(not found, "the same tree", *found[:9])
    umount(hosts)


def grows_by_reading(hosts):
    before = stats(hosts)["rounds"]
    for name in names_of(hosts, "raw"):
        bytes_of(hosts, name)
    return stats(hosts)["rounds"] > before


def test_faults(hosts):
    """NCCL fails now and then, of those who send and who receive."""
    for call, how in (("ncclGroupEnd", "40"), ("ncclSend", "40"), ("ncclAsync", "40"),
                      ("ncclGroupEnd", "600+")):
        what = f"{call} fails, {how}"
        with read_all_the_time(hosts, what, "timeout=8",
                               faults=f"fail={call}:{how}:UNKNOWN"):
            check(grows(hosts, "read_bytes"), f"{what}: bytes come")


# --- privileges -------------------------------------------------------------------------------


def keeps_more(pid):
    """Threads of a process that may more than read."""
    reader = privileges.of_reader(CKPTFS)
    return {thread: may for thread, may in privileges.threads(pid).items() if may != reader}


def check_threads(hosts, what):
    """Of the daemon all; of ranks and movers those that are ours: the library that they speak
    with others by has started its own before. What starts processes has one thread."""
    daemon, = (pid for pid in hosts.programs("h1", "ckptfs", "mount")
               if len(privileges.threads(pid)) > 1)
    more = keeps_more(daemon)
    check(not more and len(privileges.threads(daemon)) > 4,
          f"{what}: no thread of the daemon may more than read", more)
    for name in hosts.names:
        rank, = hosts.programs(name, "ckptfs", "--mpi")
        forker, mover = hosts.programs(name, "ckptfs", "--gpus")
        for kind, pid in ("rank", rank), ("mover of GPUs", mover):
            all_, more = len(privileges.threads(pid)), keeps_more(pid)
            check(pid not in more and all_ - len(more) > 1,
                  f"{what}: {name}: the {kind}'s threads may no more than read", all_, more)
        check(len(privileges.threads(forker)) == 1,
              f"{what}: {name}: what forks movers has one thread",
              privileges.threads(forker))
    check(all(len(privileges.threads(pid)) == 1
              for pid in hosts.programs("h1", "ckptfs", "--jobs")),
          f"{what}: what starts jobs has one thread")


def test_privileges(hosts):
    """Also when another job has taken over, of which the link is a new one."""
    deal.deal(f"{FIXTURES}/sample", hosts.directories, "by rank", 1, "all")
    mount(hosts, "rejoin=2")
    check(measured(hosts), "each way was measured", paths(hosts))
    check_threads(hosts, "mounted")
    hosts.crash("h3")
    hosts_mount.read(hosts, hosts_mount.BOX["h3"])
    hosts.link("h3", "up")
    check(until(lambda: all_up(hosts) and stats(hosts)["restarts"] > 0, 60),
          "the host is back", report(hosts, "status"))
    check(until(lambda: by_nccl(hosts) == ["h2", "h3"], 60), "and its bytes come by NCCL",
          paths(hosts))
    check(until(lambda: all(len(hosts.programs(name, "ckptfs", "--mpi")) == 1 and
                            len(hosts.programs(name, "ckptfs", "--gpus")) == 2
                            for name in hosts.names), 30), "the job before it has ended")
    check_threads(hosts, "a host is back")
    umount(hosts)


# --- options ----------------------------------------------------------------------------------


def test_off(hosts):
    deal.deal(f"{FIXTURES}/sample", hosts.directories, "by rank", 1, "all")
    must_mount(tap, CKPTFS, hosts, "gpu=0,gather=gpu", env=driver())
    check(not process(hosts, "h2") and not process(hosts, "h3"),
          "no option: no process of rounds")
    check(not any(row["path"] == "nccl" for row in paths(hosts)) and
          "NCCL" not in report(hosts, "status"), "no option: status has no line of NCCL")
    umount(hosts)


def test_none(hosts):
    """There is no NCCL: force is refused."""
    deal.deal(f"{FIXTURES}/sample", hosts.directories, "by rank", 1, "all")
    env = {**driver(), "CKPTFS_NCCL_LIB": "/nowhere/libnccl.so.2"}
    done = hosts_mount.mount(CKPTFS, hosts, "gpu=0,nccl=force", env=env)
    check(done.returncode == 2 and "option nccl=force: host h2: " in done.stderr and
          "/nowhere/libnccl.so.2" in done.stderr, "no NCCL: force is refused, and why",
          done.stderr)
    check(until(lambda: not left(hosts), 6), "nothing is left of that", left(hosts))


def test_none_at_one(hosts):
    """Another host has no NCCL: the message names the host and the reason."""
    deal.deal(f"{FIXTURES}/sample", hosts.directories, "by rank", 1, "all")
    library = "/dev/shm/libnccl.so.2"       # of each host its own
    env = {**driver(), "CKPTFS_NCCL_LIB": library}
    for host in ("h1", "h3"):
        hosts.run(host, ["ln", "-s", f"{os.path.dirname(STANDIN)}/libnccl.so.2", library],
                  check=True)
    done = hosts_mount.mount(CKPTFS, hosts, "gpu=0,nccl=force", env=env)
    check(done.returncode == 2 and "option nccl=force: host h2: " in done.stderr and
          library in done.stderr, "no NCCL at one host: force is refused, and why", done.stderr)
    check(until(lambda: not left(hosts), 6), "nothing is left of that", left(hosts))


def test_one_of_many(hosts):
    """Several processes of another host cannot be forced."""
    deal.deal(f"{FIXTURES}/sample", hosts.directories, "by rank", 1, "all")
    done = hosts_mount.mount(CKPTFS, hosts, "gpu=0,nccl=force", names="h1,h2:2,h3",
                             env=driver())
    check(done.returncode == 2 and "option nccl=force: host h2: " in done.stderr and
          "no :N" in done.stderr, "nccl=force with HOST:N is refused", done.stderr)


# --- the end ----------------------------------------------------------------------------------


def test_ends(hosts):
    """However it ends, nothing of it is left on any host."""
    deal.deal(f"{FIXTURES}/sample", hosts.directories, "by rank", 1, "all")
    mount(hosts)
    check(all(process(hosts, name) for name in ("h1", "h2", "h3")),
          "a process of rounds is on each host")
    umount(hosts)
    for number in signal.SIGTERM, signal.SIGKILL:
        over = ended_by(hosts, number)
        check(over, f"{number.name}: no process is left on any host", left(hosts))


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
hosts_gpu.begin(tap, CKPTFS, STANDIN, "gpu=0,gather=gpu,nccl=force")
# Those that take long first.
TESTS = (test_back, test_privileges, test_lost, test_faults, test_streams, test_mover, test_stopped,
         test_killed, test_none, test_none_at_one, test_one_of_many, test_ends, test_strides, test_columns, test_same,
         test_off, test_canary)
sys.exit(0 if skipped() else play(TESTS, act, words=2))
