#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hosts, processes and links fail while eight programs read all tensors. No read returns wrong
bytes. Only tensors stored solely on the failed host return EIO, in time. Prints TAP.

    faults.py CKPTFS

CKPTFS_CASES: rounds (9, each fault once; --all: 200); CKPTFS_SEED.
"""
import errno
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from hosts_mount import all_up, left, mount, report, umount  # noqa: E402
from tap import Tap, cases, seed  # noqa: E402

FIXTURE = os.path.join(HERE, "../fixtures/sample")
READERS = os.path.join(HERE, "../lib/faults_readers.py")
SEED = seed()
CASES = cases("CKPTFS_CASES", 9, 200)
IN_TIME = 10        # seconds of one call
HOW = ("read", "direct", "mmap")
tap = Tap()


# --- mounts ------------------------------------------------------------------------------

def ends(hosts):
    """Leftovers on any host 6 s after umount, or the error of umount."""
    done = umount(CKPTFS, hosts)
    until(lambda: not left(hosts), 6)
    return done.stderr or left(hosts)


def paths_of(hosts):
    return [os.path.join(view, name) for view in ("raw", "full", "local/rank-1")
            for name in listed(hosts, view)]


def listed(hosts, view):
    done = hosts.run("h1", ["ls", f"{hosts.mnt}/{view}"], capture_output=True, text=True)
    return done.stdout.split()


def hosts_of(hosts, paths):
    """For each path: the hosts with its bytes."""
    code = "import json, os, sys\n" \
        "print(json.dumps([json.loads(os.getxattr(f'{sys.argv[1]}/{p}', " \
        "'user.ckptfs.hosts')) for p in json.load(sys.stdin)]))"
    done = hosts.run("h1", [sys.executable, "-c", code, hosts.mnt], text=True,
                     input=json.dumps(paths), capture_output=True, check=True)
    return dict(zip(paths, json.loads(done.stdout)))


def digests(hosts, paths):
    code = "import hashlib, json, sys\n" \
        "print(json.dumps([hashlib.sha256(open(f'{sys.argv[1]}/{p}', 'rb').read())." \
        "hexdigest() for p in json.load(sys.stdin)]))"
    done = hosts.run("h1", [sys.executable, "-c", code, hosts.mnt], text=True,
                     input=json.dumps(paths), capture_output=True, check=True)
    return dict(zip(paths, json.loads(done.stdout)))


# --- readers ------------------------------------------------------------------------------

class Readers:
    """Eight readers. Their results: (seconds, how, path, digest or errno, longest call)."""

    def __init__(self, hosts, paths, chance):
        self.got, self.begun, self.children = [], time.monotonic(), []
        for i in range(8):
            how = HOW[i % len(HOW)]
            child = hosts.popen("h1", [sys.executable, READERS, hosts.mnt, how,
                                       str(chance.randrange(1 << 30))],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            child.stdin.write("\n".join(paths) + "\n\n")
            child.stdin.flush()
            thread = threading.Thread(target=self.hear, args=(child, how))
            thread.start()
            self.children.append((child, thread))

    def hear(self, child, how):
        for line in child.stdout:
            self.got.append((time.monotonic() - self.begun, how, *json.loads(line)))

    def end(self):
        """True if all readers have finished in time."""
        good = True
        for child, _ in self.children:
            child.stdin.close()
        for child, thread in self.children:
            try:
                good = child.wait(IN_TIME + 5) == 0 and good
            except subprocess.TimeoutExpired:
                good = False
                child.kill()
                child.wait()
            thread.join()
            child.stdout.close()
        return good


# --- faults ---------------------------------------------------------------------------------

def pids(hosts, name, word):
    return [pid for pid, argv in hosts.processes(name)
            if any(os.path.basename(part) == word for part in argv[:2])]


def each(hosts, name, word, act):
    each_pid(pids(hosts, name, word), act)


def each_pid(found, act):
    for pid in found:
        try:
            act(pid)
        except ProcessLookupError:
            pass


def nothing():
    """The end of a fault that another job repairs without an action of the test."""


def jobs(hosts):
    return json.loads(report(hosts, "stats"))["restarts"]


class Fault:
    """begin() injects the fault, end() reverts it. whose: hosts whose bytes may be lost;
    for_good: until the next mount; may: allowed errnos of lost bytes; hold: duration in
    seconds, of which 5 pass before a host counts as down."""

    def __init__(self, what, whose, begin, end=None, may=(errno.EIO,), hold=7):
        self.what, self.whose, self.begin, self.end = what, whose, begin, end
        self.may, self.hold = may, hold

    @property
    def for_good(self):
        return self.end is None


def faults(hosts, name):
    """The faults of a host other than the first."""
    shard = next(f"{hosts.directory(name)}/{entry}"
                 for entry in os.listdir(hosts.directory(name)) if entry.startswith("__"))
    return [
        Fault(f"a process on {name} is killed", [name],
              lambda: each(hosts, name, "ckptfs", hosts.kill), nothing),
        Fault(f"the launch daemon of {name} is killed", [name],
              lambda: each(hosts, name, "orted", hosts.kill), nothing),
        Fault(f"a process on {name} is stopped", [name],
              lambda: each(hosts, name, "ckptfs", hosts.stop),
              lambda: each(hosts, name, "ckptfs", hosts.cont)),
        Fault(f"the cable of {name} is out", [name], lambda: hosts.link(name, "down"),
              lambda: hosts.link(name, "up")),
        Fault(f"{name} is slow and loses packets", [],
              lambda: hosts.netem(name, "delay 200ms loss 5%"),
              lambda: hosts.netem(name, None), hold=5),
        Fault(f"a file of {name} is replaced", [name],
              lambda: (shutil.copy(shard, f"{shard}.new"),
                       os.replace(f"{shard}.new", shard)),
              may=(errno.ESTALE,), hold=2),
        Fault(f"a file of {name} is cut", [name], lambda: os.truncate(shard, 100),
              may=(errno.ESTALE, errno.EIO, errno.ENODATA), hold=2),
        Fault("mpirun is killed", [],
              lambda: each(hosts, "h1", "mpirun", hosts.kill), nothing),
        Fault("the mover is killed", [],
              lambda: each_pid(hosts.programs("h1", "ckptfs", "--door"), hosts.kill),
              nothing),
    ]


def wrong(got, want, where, fault):
    """Lines about unexpected results."""
    for when, how, path, what, longest in got:
        lost = any(host in fault.whose for host in where[path])
        # A file opened while its bytes are lost bypasses the page cache and cannot be mapped.
        may = {*fault.may, *((errno.EFAULT, errno.ENODEV) if how == "mmap" else ())}
        note = f"{when:.1f} s: {how} {path} of {where[path]}: {what}, {longest} s"
        if longest > IN_TIME + 1:
            yield f"late: {note}"
        elif isinstance(what, str) and what != want[path]:
            yield f"other bytes: {note}"
        elif isinstance(what, int) and not (lost and what in may):
            yield f"an error: {note}"


def back(hosts, paths, want):
    """All bytes are readable again within 10 s."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        hosts.run("h1", ["sh", "-c", "echo 1 >/proc/sys/vm/drop_caches"])
        try:
            if digests(hosts, paths) == want:
                return True
        except subprocess.CalledProcessError:
            time.sleep(0.2)
    return False


def try_fault(hosts, fault, paths, want, where, chance):
    readers = Readers(hosts, paths, chance)
    time.sleep(0.5 + chance.random())
    before = jobs(hosts)
    fault.begin()
    if fault.end is nothing:
        until(lambda: jobs(hosts) > before and all_up(hosts), fault.hold)
        time.sleep(1)
    else:
        time.sleep(fault.hold)
    if fault.end:
        fault.end()
    notes = [] if readers.end() else ["a reader has not ended"]
    if not fault.for_good and not back(hosts, paths, want):
        notes.append("not all is back")
    notes += wrong(readers.got, want, where, fault)
    errors = sum(isinstance(row[3], int) for row in readers.got)
    slowest = max(row[4] for row in readers.got)
    tap.result(not notes, fault.what, notes[:20])
    print(f"# {len(readers.got)} files, {errors} errors, at most {slowest} s")
    return errors


def fresh(hosts):
    for path in hosts.directories.values():
        for entry in os.listdir(path):
            os.unlink(f"{path}/{entry}")
    deal.deal(FIXTURE, hosts.directories, "by rank", 1, "all")


def main():
    if skipped():
        return 0
    chance, todo, errors, mounted, ended = random.Random(SEED), [], 0, False, []
    with Hosts(3) as hosts:
        for _ in range(CASES):
            if not mounted:
                fresh(hosts)
                done = mount(CKPTFS, hosts)
                if done.returncode:
                    raise RuntimeError(done.stderr)
                paths = paths_of(hosts)
                want, where = digests(hosts, paths), hosts_of(hosts, paths)
                mounted = True
            if not todo:
                todo = list(range(9))
                chance.shuffle(todo)
            fault = faults(hosts, chance.choice(hosts.names[1:]))[todo.pop()]
            errors += try_fault(hosts, fault, paths, want, where, chance)
            if fault.for_good:
                ended.append(ends(hosts))
                mounted = False
        if mounted:
            ended.append(ends(hosts))
    tap.result(not any(ended), "each mount ends, and nothing is left", map(str, ended))
    tap.result(errors > 0 or CASES < 9, "canary: some reads fail")
    return tap.finish()


CKPTFS = os.path.realpath(sys.argv[1])
sys.exit(main())
