# SPDX-License-Identifier: MIT
"""A mount that uses GPUs, on the stand-in for CUDA's driver, and its processes."""
import contextlib
import json
import os
import subprocess
import time

import tap

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLE = os.path.join(HERE, "../fixtures/sample")
SOON = 10 if tap.is_long() else 120  # seconds until an event


def run(words, **more):
    return subprocess.run(words, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=300, **more)


def until(what, seconds=SOON):
    """Whether it comes true in so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return bool(what())


def children(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(n) for n in file.read().split()]
    return []


def maps(pid):
    with open(f"/proc/{pid}/maps") as file:
        return file.read()


def is_alive(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    return False


class Mount:
    """One at a time."""

    def __init__(self, ckptfs, standin, place):
        self.ckptfs, self.place = ckptfs, place
        self.driver = os.path.dirname(standin)
        os.mkdir(place)

    def environment(self, faults, driver):
        env = {**os.environ, "CKPTFS_STANDIN": faults or ""}
        env["LD_LIBRARY_PATH"] = self.driver if driver else ""
        return env

    def begin(self, options, source=SAMPLE, faults=None, driver=True, host=None):
        """What the command did. host: the name of the machine then."""
        words = [self.ckptfs, "mount", source, self.place]
        if options:
            words[2:2] = ["-o", options]
        if host:
            words[:0] = ["unshare", "--uts", "sh", "-c",
                         "printf %s \"$0\" >/proc/sys/kernel/hostname && exec \"$@\"", host]
        return run(words, env=self.environment(faults, driver))

    def end(self):
        return run([self.ckptfs, "umount", self.place])

    @contextlib.contextmanager
    def at(self, options, **more):
        done = self.begin(options, **more)
        if done.returncode:
            raise RuntimeError(done.stderr)
        try:
            yield done
        finally:
            self.end()

    def report(self, name):
        with open(f"{self.place}/.ckptfs/{name}") as file:
            return file.read()

    def stats(self):
        return json.loads(self.report("stats"))

    def paths(self):
        """{path: its object}"""
        return {row["path"]: row for row in self.stats()["paths"]}

    def daemon(self):
        """The process that serves the mount: the one that has its connection."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/cmdline") as file:
                    words = file.read().split("\0")
                if self.place in words and "mount" in words and children(pid):
                    return int(pid)
        return None

    def forker(self):
        for pid in children(self.daemon()):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/cmdline") as file:
                    if "--gpus" in file.read().split("\0"):
                        return pid
        return None

    def mover(self):
        forker = self.forker()
        found = children(forker) if forker else []
        return found[0] if found else None

    def files(self):
        for view in "full", "raw", "local":
            for directory, _, names in os.walk(f"{self.place}/{view}"):
                for name in sorted(names):
                    yield os.path.join(directory, name)

    def read(self, of=None):
        """{file: bytes}"""
        got = {}
        for name in of or list(self.files()):
            with open(name, "rb") as file:
                got[name[len(self.place):]] = file.read()
        return got
