# SPDX-License-Identifier: MIT
"""Mounts of several hosts with GPUs, on the stand-ins for CUDA's driver and NCCL: what tests
of them ask and read. begin() comes first."""
import contextlib
import json
import os
import threading

import deal
import two_trees
from hosts import until
from hosts_mount import BOX, all_up, left, must_mount, must_umount, read, report
from trees_differ import differ

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fixtures")
VIEWS = ("full", "raw", "local")
given = {}


def begin(tap, ckptfs, standin, options):
    """options: those of all mounts."""
    given.update(tap=tap, ckptfs=ckptfs, standin=standin, options=options)


def driver(faults=""):
    return {"LD_LIBRARY_PATH": os.path.dirname(given["standin"]),
            "CKPTFS_STANDIN": faults}


def mount(hosts, *options, faults=""):
    must_mount(given["tap"], given["ckptfs"], hosts, given["options"], *options,
               env=driver(faults))


def umount(hosts, names=None):
    return must_umount(given["tap"], given["ckptfs"], hosts, names)


def place(hosts):
    """Of the mount, for this process."""
    return f"/proc/{hosts.pids['h1']}/root{hosts.mnt}"


def stats(hosts):
    return json.loads(report(hosts, "stats"))


def paths(hosts):
    return stats(hosts)["paths"]


def kinds_of(rows):
    """[(host, path)]"""
    return [(row["host"], row["path"]) for row in rows]


def measured(hosts):
    """Whether each path was, soon: from then on only readers make bytes move."""
    return until(lambda: all("GBps" in row and "reason" not in row for row in paths(hosts)), 30)


def names_of(hosts, *views):
    """Paths of the files, sorted."""
    return [f"{view}/{name}" for view in views
            for name in deal.files_of(f"{place(hosts)}/{view}")]


def bytes_of(hosts, name):
    with open(f"{place(hosts)}/{name}", "rb") as file:
        return file.read()


def whole(hosts, name):
    """The tree of a fixture in one directory."""
    path = f"{FIXTURES}/{name}"
    done = hosts.run("h1", [given["ckptfs"], "mount", path, hosts.mnt])
    given["tap"].check(done.returncode == 0, f"{name}: a mount without hosts")
    tree = two_trees.seen(place(hosts))
    hosts.run("h1", [given["ckptfs"], "umount", hosts.mnt], check=True)
    return tree


class Readers:
    """Read all files again and again, past the page cache."""

    def __init__(self, hosts, tree):
        self.hosts = hosts
        self.want = {name: file.data for name, file in tree.files.items()
                     if name.partition("/")[0] in VIEWS}
        self.over, self.wrong, self.rounds = False, [], 0
        self.threads = [threading.Thread(target=self.run) for _ in range(2)]

    def run(self):
        while not self.over:
            try:
                self.wrong += [name for name, data in self.want.items()
                               if bytes_of(self.hosts, name) != data]
            except OSError as error:
                self.wrong.append(repr(error))
            self.rounds += 1

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        for thread in self.threads:
            thread.join()


def grows(hosts, name):
    """Whether that number of stats does, soon."""
    before = stats(hosts)[name]
    return until(lambda: stats(hosts)[name] > before, 30)


def without_h3(hosts, begin_, name):
    """{file: its bytes, or the errno} when that host has crashed, and how much that number
    of stats has grown meanwhile."""
    tap = given["tap"]
    begin_()
    tap.check(until(lambda: all_up(hosts)), "all are up")
    hosts.crash("h3")
    read(hosts, BOX["h3"])      # it is down after that
    got = {}
    before = stats(hosts)[name]
    for file in names_of(hosts, *VIEWS):
        try:
            got[file] = bytes_of(hosts, file)
        except OSError as error:
            got[file] = error.errno
    grown = stats(hosts)[name] - before
    umount(hosts, ["h1", "h2"])
    hosts.link("h3", "up")
    tap.check(until(lambda: hosts.is_reached("h3")), "its cable is in again")
    return got, grown


def deal_sample(hosts):
    """That fixture, its tree in one directory."""
    deal.deal(f"{FIXTURES}/sample", hosts.directories, "by rank", 1, "all")
    return whole(hosts, "sample")


@contextlib.contextmanager
def mounted_and_read(hosts, *options, faults=""):
    """The readers, who have ended when this goes on."""
    tree = deal_sample(hosts)
    mount(hosts, "direct", *options, faults=faults)
    with Readers(hosts, tree) as readers:
        yield readers


def ended_by(hosts, number):
    """Whether no process of a mount is left soon after it gets that signal."""
    mount(hosts)
    program = os.path.basename(given["ckptfs"])
    os.kill(hosts.programs("h1", program, "mount")[0], number)
    over = until(lambda: not left(hosts), 6)
    hosts.run("h1", ["umount", "-l", hosts.mnt], capture_output=True)
    return over


def paths_by_a_bad_gpu(hosts):
    """Those that are not the same by a GPU of which one thread does nothing."""
    want = deal_sample(hosts)
    mount(hosts, faults="idle=4")
    found = {line.partition(":")[0] for line in
             differ(want, two_trees.seen(place(hosts)))}
    umount(hosts)
    return found
