#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ckptfs serve` under mpirun: its mounts show the tree of one directory. Every end of
the job has the promised exit status and leaves no process or mount.

    serve.py CKPTFS [TEST]...   needs root
    serve.py --seen MOUNT       prints the tree of a mount as a pickle; runs on a host
"""
import errno
import os
import pickle
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
import two_trees  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from hosts_mount import BOX, all_up, status  # noqa: E402
from scenes import play  # noqa: E402
from tap import Tap  # noqa: E402
from trees_differ import differ, hosts_of  # noqa: E402

FIXTURE = os.path.join(HERE, "../fixtures/sample")
RANKS = os.path.join(HERE, "../fixtures/files_ranks")
RECOVERY = ("--mca", "orte_enable_recovery", "1",
            "--mca", "orte_abort_on_non_zero_status", "0")
tap = Tap()
check = tap.check


# --- jobs ---

class Job:
    """apps: (host, ranks there, arguments of serve)."""

    def __init__(self, hosts, apps, mpirun=(), program=None):
        self.hosts, self.output = hosts, ""
        parts = [["-H", f"{host}:{n}", "-n", str(n), program or CKPTFS, "serve",
                  *words, hosts.src] for host, n, words in apps]
        argv = ["mpirun", *hosts.mpi, *mpirun, *parts[0]]
        for part in parts[1:]:
            argv += [":", *part]
        self.log = open(f"{hosts.base}/log", "w+")
        self.process = hosts.popen("h1", argv, stdin=subprocess.DEVNULL,
                                   stdout=self.log, stderr=self.log)

    def ends(self, seconds):
        """The exit status, or None if the job still runs; stores the output."""
        until(lambda: self.process.poll() is not None, seconds)
        self.log.seek(0)
        self.output = self.log.read()
        return self.process.poll()


def everywhere(hosts, *options):
    return [(host, 1, ("--mount", hosts.mnt, *options))
            for host in hosts.names]


def start(hosts, apps, mounts, **how):
    """Starts a job and waits for its mounts on those hosts."""
    job = Job(hosts, apps, **how)
    good = until(lambda: all(shows(hosts, host) for host in mounts), 20)
    check(good, f"mounted on {', '.join(mounts)}", job.ends(0), job.output)
    return job


def shows(hosts, host):
    """True if there is a mount that answers."""
    return hosts.run(host, ["test", "-e", f"{hosts.mnt}/.ckptfs/status"],
                     stderr=subprocess.DEVNULL).returncode == 0


def is_mounted(hosts, host):
    done = hosts.run(host, ["cat", "/proc/self/mounts"], text=True,
                     stdout=subprocess.PIPE)
    return f" {hosts.mnt} fuse.ckptfs " in done.stdout


def left(hosts):
    """Processes and mounts of ckptfs on the hosts."""
    return [(name, argv[:4]) for name in hosts.names
            for _, argv in hosts.processes(name)] + \
        [name for name in hosts.names if is_mounted(hosts, name)]


def ranks(hosts, host):
    return hosts.programs(host, "ckptfs", "serve")


def daemon(hosts, host):
    """The daemon of the mount on the host; its child is the unmount helper."""
    return hosts.programs(host, "ckptfs", "mount")[0]


def umount(hosts, host):
    done = hosts.run(host, [CKPTFS, "umount", hosts.mnt],
                     stderr=subprocess.PIPE, text=True)
    check(done.returncode == 0, f"umount on {host}", done.stderr)


def is_over(hosts, job, status, what, seconds=5):
    """The job has ended and left nothing on any host."""
    begun = time.monotonic()
    got = job.ends(seconds)
    good = until(lambda: not left(hosts),
                 seconds - (time.monotonic() - begun))
    check(good and (got == status if status is not None else
                    got not in (None, 0)),
          f"{what}: the end, and nothing is left", got, job.output, left(hosts))
    if not good:
        sys.exit(tap.finish())


# --- what mounts show ---

def look(hosts, host):
    done = hosts.run(host, [sys.executable, __file__, "--seen", hosts.mnt],
                     stdout=subprocess.PIPE, check=True)
    return pickle.loads(done.stdout)


def read(hosts, host, path):
    """The bytes of a file of the mount on that host."""
    return hosts.read(host, f"{hosts.mnt}/{path}")


def reads_all(hosts, host):
    return all(read(hosts, host, path)[0] > 0 for path in BOX.values())


def one_directory(hosts, fixture=FIXTURE):
    """The tree of a fixture in one directory."""
    hosts.run("h1", [CKPTFS, "mount", fixture, hosts.mnt], check=True)
    tree = look(hosts, "h1")
    umount(hosts, "h1")
    return tree


def dealt(hosts, metadata):
    for place in hosts.directories.values():
        for name in os.listdir(place):
            os.remove(os.path.join(place, name))
    deal.deal(FIXTURE, hosts.directories, "by rank", 1, metadata)


# --- tests ---

def one_mount(hosts, tree):
    """The mount is not on the host of the first rank."""
    dealt(hosts, "one")
    job = start(hosts, [("h1", 1, ()), ("h2", 1, ("--mount", hosts.mnt)),
                        ("h3", 1, ())], ["h2"])
    seen = look(hosts, "h2")
    found = list(differ(tree, seen))
    check(not found and hosts_of(seen) == set(hosts.names),
          "one mount: the tree of one directory", *found[:20], hosts_of(seen))
    check(all_up(hosts, "h2"), "status", status(hosts, "h2"))
    check(not is_mounted(hosts, "h1") and not is_mounted(hosts, "h3"),
          "no other host has a mount")
    umount(hosts, "h2")
    is_over(hosts, job, 0, "umount")
    check(job.output.count("mounted") == 1, "one line is printed", job.output)


def canary(hosts, tree):
    """Canary: a changed byte on one host is detected on another one."""
    dealt(hosts, "one")
    deal.flip(f"{hosts.directory('h2')}/__1_0.distcp")
    job = start(hosts, [("h1", 1, ()), ("h2", 1, ()),
                        ("h3", 1, ("--mount", hosts.mnt))], ["h3"])
    paths = {line.partition(":")[0] for line in
             differ(tree, look(hosts, "h3"))}
    check(1 <= len(paths) <= 4, "canary: one byte on one host", *paths)
    umount(hosts, "h3")
    is_over(hosts, job, 0, "canary: umount")


def all_mount(hosts, tree):
    dealt(hosts, "some")
    job = start(hosts, everywhere(hosts), hosts.names)
    for host in hosts.names:
        found = list(differ(tree, look(hosts, host)))
        check(not found, f"a mount on each: the tree of one directory, {host}",
              *found[:20])
    check(all(all_up(hosts, host) for host in hosts.names), "status of all")
    for host, others in (("h1", ("h2", "h3")), ("h2", ("h3",))):
        umount(hosts, host)
        check(until(lambda: not hosts.programs(host, "ckptfs", "mount"), 5),
              f"its process ends, {host}", left(hosts))
        check(all(reads_all(hosts, other) for other in others),
              f"without the mount of {host} all others read all")
        check(ranks(hosts, host) and job.ends(0) is None,
              f"{host} still serves", left(hosts))
    umount(hosts, "h3")
    is_over(hosts, job, 0, "umount of the last")


def test_mounts(hosts):
    tree = one_directory(hosts)
    for test in one_mount, canary, all_mount:
        test(hosts, tree)


def test_two_ranks(hosts):
    """Two ranks of one host: the first one mounts."""
    dealt(hosts, "all")
    job = start(hosts, [("h2", 2, ("--mount", hosts.mnt)),
                        ("h1", 2, ("--mount", hosts.mnt)), ("h3", 1, ())],
                ["h1", "h2"])
    check([len(ranks(hosts, host)) for host in hosts.names] == [2, 2, 1] and
          job.output.count("a checkpoint is mounted there") == 0,
          "two ranks of a host, one mount", job.output)
    check(reads_all(hosts, "h1") and reads_all(hosts, "h2"), "they read all")
    umount(hosts, "h2")
    umount(hosts, "h1")
    is_over(hosts, job, 0, "umount of two ranks' mount")


def test_options(hosts):
    """`serve` passes options to the mount, and refuses options of the launcher."""
    dealt(hosts, "all")
    deal.flip(f"{hosts.directory('h3')}/.metadata")
    job = Job(hosts, everywhere(hosts))
    is_over(hosts, job, 2, "copies that differ are refused", 10)
    job = start(hosts, everywhere(hosts, "--prefer", "h2", "-o",
                                  "ro,timeout=5,noxattr,fsname=far"),
                hosts.names)
    check(all(reads_all(hosts, host) for host in hosts.names),
          "--prefer decides")
    done = hosts.run("h3", ["cat", "/proc/self/mounts"], text=True,
                     stdout=subprocess.PIPE)
    check(f"far {hosts.mnt} fuse.ckptfs ro" in done.stdout,
          "options of the mount", done.stdout)
    for host in hosts.names:
        umount(hosts, host)
    is_over(hosts, job, 0, "umount, with options")


REFUSED = (
    ("nobody mounts", (), "no rank has --mount"),
    ("hosts", ("--hosts", "h1,h2"), "option hosts: not here"),
    ("hosts=", ("-o", "hosts=h1+h2"), "option hosts: not here"),
    ("hostfile", ("--hostfile", "/x"), "option hostfile: not here"),
    ("map", ("--map", "h1=/x"), "option map: not here"),
    ("agent", ("-o", "agent=x"), "option agent: not here"),
    ("program", ("-o", "program=/x"), "option program: not here"),
    ("net", ("-o", "net=10.0.0.0/8"), "option net: not here"),
    ("allhosts", ("-o", "allhosts"), "option allhosts: not here"),
    ("write", ("-o", "write"), "option write"),
    ("unknown", ("-o", "tiemout=3"), "tiemout"),
    ("two places", ("--mount", "/a", "/b"), "usage"),
)


def test_refused(hosts):
    """Refused by one rank alone, without mpirun, and by many."""
    for what, words, text in REFUSED:
        done = hosts.run("h1", [CKPTFS, "serve", *words, hosts.src],
                         stderr=subprocess.PIPE, text=True, timeout=20)
        check(done.returncode == 2 and text in done.stderr and
              len(done.stderr.splitlines()) == 1,
              f"refused: {what}", done.returncode, done.stderr)
    job = Job(hosts, [(host, 1, ()) for host in hosts.names])
    is_over(hosts, job, 2, "refused: nobody mounts, three ranks", 10)
    check(job.output.count("no rank has --mount") == 1, "the warning is printed once",
          job.output)
    job = Job(hosts, [("h1", 1, ("--mount", hosts.mnt + "/not")),
                      ("h2", 1, ())])
    is_over(hosts, job, 2, "no mount point", 10)
    check("No such file" in job.output, "and why", job.output)


def other_version(hosts):
    """Copies the program, its library and its modules, and changes their version."""
    build = os.path.dirname(os.path.dirname(CKPTFS))
    place = f"{hosts.base}/other"
    for folder in ("mount-helpers", "core"):
        os.makedirs(f"{place}/{folder}", exist_ok=True)
    version = subprocess.run([CKPTFS, "--version"], stdout=subprocess.PIPE,
                             text=True, check=True).stdout.split()[1]
    other = version[:-1] + ("8" if version[-1] == "9" else "9")
    for name in ("mount-helpers/ckptfs", "mount-helpers/ckptfs-dist.so",
                 "mount-helpers/ckptfs-mpi.so", "core/libckptfs.so.1"):
        with open(f"{build}/{name}", "rb") as f:
            data = f.read()
        with open(f"{place}/{name}", "wb") as f:
            f.write(data.replace(version.encode() + b"\0",
                                 other.encode() + b"\0"))
        os.chmod(f"{place}/{name}", 0o755)
    return f"{place}/mount-helpers/ckptfs", version, other


def test_version(hosts):
    program, version, other = other_version(hosts)
    choose = f"{hosts.base}/choose"
    with open(choose, "w") as f:
        f.write(f'#!/bin/sh\n[ "$(hostname)" != h2 ] || exec env -u LD_LIBRARY_PATH {program} "$@"\n'
                f'exec {CKPTFS} "$@"\n')
    os.chmod(choose, 0o755)
    job = Job(hosts, everywhere(hosts), program=choose)
    is_over(hosts, job, 2, "another version on one host", 10)
    check(f"rank 0 is ckptfs {version}, rank 1 is ckptfs {other}" in job.output,
          "both are named", job.output)


def mpiruns(hosts):
    return [pid for pid, argv in hosts.processes("h1")
            if os.path.basename(argv[0]) == "mpirun"]


def test_signals(hosts):
    dealt(hosts, "all")
    for number in (signal.SIGTERM, signal.SIGINT):
        job = start(hosts, everywhere(hosts), hosts.names)
        for pid in mpiruns(hosts):
            os.kill(pid, number)
        is_over(hosts, job, None, f"{number.name} to mpirun")
        job = start(hosts, everywhere(hosts), hosts.names)
        os.kill(ranks(hosts, "h2")[0], number)
        is_over(hosts, job, 0, f"{number.name} to a rank")
    job = start(hosts, everywhere(hosts), hosts.names)
    for pid in mpiruns(hosts):
        os.kill(pid, signal.SIGKILL)
    is_over(hosts, job, None, "SIGKILL to mpirun", 8)


def test_killed(hosts):
    """A rank or the daemon of a mount is killed."""
    dealt(hosts, "all")
    job = start(hosts, everywhere(hosts), hosts.names)
    hosts.kill(ranks(hosts, "h2")[0])
    is_over(hosts, job, None, "a rank is killed")
    job = start(hosts, everywhere(hosts), hosts.names)
    hosts.kill(daemon(hosts, "h2"))
    check(until(lambda: not is_mounted(hosts, "h2"), 5),
          "a mount is killed: it is gone", left(hosts))
    check(reads_all(hosts, "h1") and reads_all(hosts, "h3") and
          job.ends(0) is None, "the others are not")
    umount(hosts, "h1")
    umount(hosts, "h3")
    is_over(hosts, job, 2, "a mount was killed")
    check("died of signal 9" in job.output, "the signal is reported", job.output)


def test_survive(hosts):
    dealt(hosts, "all")
    job = start(hosts, everywhere(hosts, "--survive"), hosts.names,
                mpirun=RECOVERY)
    hosts.kill(ranks(hosts, "h2")[0])
    check(until(lambda: not is_mounted(hosts, "h2"), 5),
          "survive: the mount of a rank that is killed ends", left(hosts))
    got = {host: [read(hosts, host, BOX[of]) for of in hosts.names]
           for host in ("h1", "h3")}
    check(all(result[1][0] == -errno.EIO and result[1][1] < 10
              for result in got.values()),
          "EIO within 10 s for what only it had", got)
    check(all(result[0][0] > 0 and result[2][0] > 0 for result in got.values()),
          "the others' bytes", got)
    check(until(lambda: status(hosts, "h1")[0]["h2"] == "down", 5),
          "it is down", status(hosts, "h1"))
    umount(hosts, "h1")
    check(read(hosts, "h3", BOX["h1"])[0] > 0 and job.ends(0) is None,
          "the last mount still reads", job.output)
    umount(hosts, "h3")
    is_over(hosts, job, 0, "survive: umount of the last", 40)


def test_kinds(hosts):
    """Each rank's file is on the host that saved it."""
    deal.deal(RANKS, hosts.directories, "by rank", 1)
    tree = one_directory(hosts, RANKS)
    job = start(hosts, everywhere(hosts), hosts.names)
    for host in hosts.names:
        found = list(differ(tree, look(hosts, host)))
        check(not found, f"files of ranks, on {host}", *found[:20])
    for host in hosts.names:
        umount(hosts, host)
    is_over(hosts, job, 0, "umount of the last")


def act(test):
    with Hosts(3) as hosts:
        test(hosts)
    return tap.finish()


# Slow tests run first. The end of a job is timed, so at most two run at the same time.
TESTS = (test_survive, test_signals, test_refused, test_killed, test_options,
         test_version, test_mounts, test_two_ranks, test_kinds)
if sys.argv[1] == "--seen":
    pickle.dump(two_trees.seen(sys.argv[2]), sys.stdout.buffer)
else:
    CKPTFS = os.path.realpath(sys.argv[1])
    sys.exit(0 if skipped() else play(TESTS, act, at_a_time=2))
