# SPDX-License-Identifier: MIT
"""Transient errors: each system call of a mount beneath the checkpoint's
directory fails once with each of ten errnos, at the mount and at the first open
and read of a file. That use may fail with the errno. The next use must return
the right bytes, and `.ckptfs` must not report damage.

    run BUILD moment CKPTFS [NAME...]

The test draws a tenth of the points from CKPTFS_SEED, or a hundredth outside of
the long run; CKPTFS_ERRORS=all runs all points.
NAME: only points whose name begins with NAME.
"""
import collections
import ctypes
import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../lib")]
import images  # noqa: E402
import injector  # noqa: E402
import tap  # noqa: E402

libc = ctypes.CDLL(None, use_errno=True)
FIXTURES = os.path.join(HERE, "../fixtures")
ERRORS = ("EIO EACCES ENOSPC EMFILE ENFILE ENOMEM ETIMEDOUT EINTR EAGAIN "
          "ESTALE").split()
# A failed close(2) has closed.
CALLS = injector.CHANGES | injector.LOOKS | set(
    "mmap fstat newfstatat statx stat lstat faccessat faccessat2 access "
    "readlink readlinkat getdents64 flock".split())
Use = collections.namedtuple("Use", "name source path how")


class Fail(injector.Fail):
    """Call `at` fails; with `always` all later calls fail, too."""

    def __init__(self, at, error, always=False):
        super().__init__(at, error, counted=CALLS)
        self.always = always

    def others(self, call):
        if self.always and self.hit and call.name in CALLS:
            return f"return {-self.error}"
        return super().others(call)


def read_whole(path):
    with open(path, "rb", buffering=0) as f:
        return f.readall()


class Handle:
    """One open file, read twice."""

    def __init__(self):
        self.fd = None

    def __call__(self, path):
        if self.fd is None:
            self.fd = os.open(path, os.O_RDONLY)
        out, size = b"", 1 << 20
        while True:
            piece = os.pread(self.fd, size, len(out))
            out += piece
            if not piece:
                return out

    def close(self):
        if self.fd is not None:
            os.close(self.fd)


class Mount:
    def __init__(self, ckptfs, source, mnt, fault):
        self.mnt = mnt
        self.run = injector.Injector([ckptfs, "mount", "-f", source, mnt],
                                     source, fault)

    def wait(self):
        """Waits until the mount answers; False if its process exits instead."""
        end = time.monotonic() + injector.PATIENCE
        while time.monotonic() < end:
            if self.run.process.poll() is not None:
                return False
            with open("/proc/self/mountinfo") as mounts:
                if any(line.split()[4] == self.mnt for line in mounts):
                    return True
            time.sleep(0.002)
        return False

    def end(self):
        end = time.monotonic() + injector.PATIENCE / 2
        while self.run.process.poll() is None and time.monotonic() < end:
            if libc.umount2(self.mnt.encode(), 0) == 0:
                break
            time.sleep(0.002)
        return self.run.wait()


class Sweep(tap.Tap):
    def __init__(self, ckptfs, work, only):
        super().__init__()
        self.ckptfs, self.work, self.only = ckptfs, work, only
        self.points = 0
        self.mnt = work + "/mnt"
        os.mkdir(self.mnt)
        self.sources, self.truth = {}, {}
        self.whole = os.environ.get("CKPTFS_ERRORS") == "all"
        self.share = tap.cases("CKPTFS_SHARE", 0.01, 0.1)
        self.lot = random.Random(tap.seed())

    def source(self, name):
        if name not in self.sources:
            self.sources[name] = f"{self.work}/{name}"
            shutil.copytree(f"{FIXTURES}/{name}", self.sources[name])
        return self.sources[name]

    def mount(self, name, fault):
        return Mount(self.ckptfs, self.source(name), self.mnt, fault)

    def learn(self, name):
        """The contents of every file of the mount, without a fault."""
        fault = injector.Fault()
        mount = self.mount(name, fault)
        mount.wait()
        fault.over = True
        for top, _, files in os.walk(self.mnt):
            for file in files:
                path = f"{top}/{file}"[len(self.mnt) + 1:]
                if not path.startswith(".ckptfs"):
                    self.truth[name, path] = read_whole(f"{self.mnt}/{path}")
        mount.end()
        return [path for source, path in self.truth if source == name]

    # --- one point ---

    def attempt(self, use, read):
        """None if the bytes are right, or the errno."""
        try:
            got = read(f"{self.mnt}/{use.path}")
        except OSError as problem:
            return problem.errno
        return None if got == self.truth[use.source, use.path] else "bytes"

    def look(self, use, read, what, problems):
        found = self.attempt(use, read)
        if found is not None:
            problems.append(f"{what} {use.path}: "
                            f"{errno.errorcode.get(found, found)}")

    def after(self, uses, read, problems):
        """The failure has no later effect."""
        for use in uses:
            self.look(use, read, "next", problems)
            try:
                if b"user.ckptfs.error" in str(os.listxattr(
                        f"{self.mnt}/{use.path}")).encode():
                    problems.append(f"{use.path}: has the attribute error")
            except OSError as problem:
                problems.append(f"{use.path}: listxattr: {problem}")
        damage = read_whole(f"{self.mnt}/.ckptfs/damage").decode()
        if not damage.startswith("damaged entries 0 "):
            problems.append("damage: " + damage.split("\n")[0])
        status = read_whole(f"{self.mnt}/.ckptfs/status").decode()
        if "the source's present one" not in status:
            problems.append("status: another generation")

    def used(self, use, at, error, always=False):
        """The call of number `at` of a use fails."""
        fault, problems = Fail(at, error, always), []
        read = Handle() if use.how == "handle" else read_whole
        fault.armed = False
        mount = self.mount(use.source, fault)
        if not mount.wait():
            return fault, ["was not mounted"]
        fault.armed = True
        first = self.attempt(use, read)
        if first not in (None, fault.error if at else None):
            problems.append(f"first: {errno.errorcode.get(first, first)}")
        fault.over = not always
        self.after([use], read, problems)
        fault.over = True
        if read is not read_whole:
            read.close()
        self.after([use], read_whole, problems)
        status, _ = mount.end()
        if status > 2:
            problems.append(f"exit status {status}")
        return fault, problems

    def mounted(self, name, paths, at, error):
        """The call of number `at` of the mount fails: exit 2, or every file of
        the mount is right."""
        fault, problems = Fail(at, error), []
        mount = self.mount(name, fault)
        if mount.wait():
            fault.over = True
            uses = [Use("", name, path, "") for path in paths]
            self.after(uses, read_whole, problems)
            status, output = mount.end()
            if status > 2:
                problems.append(f"exit status {status}")
        else:
            status, output = mount.run.wait()
            if status != 2 or not output.startswith("ckptfs: "):
                problems.append(f"exit status {status}: {output}")
        return fault, problems

    # --- all points ---

    def wanted(self, name):
        if self.only:
            return any(name.startswith(o) for o in self.only)
        return self.whole or self.lot.random() < self.share

    def sweep(self, title, trial):
        """trial(at, error); `at` = 0 counts the calls."""
        fault, problems = trial(0, "EIO")
        calls, bad, tried = len(fault.seen), problems, 0
        for at in range(1, calls + 1):
            for error in ERRORS:
                point = f"{title}/{at}/{error}"
                if not self.wanted(point):
                    continue
                tried += 1
                fault, problems = trial(at, error)
                where = " ".join(fault.hit[1:2] + fault.hit.paths) \
                    if fault.hit else "nothing"
                bad += [f"{point} ({where}): {p}" for p in problems]
        self.points += tried
        self.result(calls > 0 and not bad, f"{title}: {tried} errors in "
                    f"{calls} calls, the next use is right", bad[:20])

    def go(self):
        uses = [
            Use("tensor in two files", "sample", "full/", "open"),
            Use("open file of it", "sample", "full/", "handle"),
            Use("box", "sample", "local/rank-0/", "open"),
            Use("zstd", "zstd", "raw/weight", "open"),
            Use("open file of zstd", "zstd", "raw/weight", "handle"),
            Use("object", "nested", "objects/", "open"),
            Use("item", "nested", "objects/", "open"),
            Use("zstd object", "zstd", "objects/", "open"),
        ]
        paths = {use.source: self.learn(use.source) for use in uses}
        chunks = json.loads(subprocess.run(
            [self.ckptfs, "inspect", "--json", "--chunks",
             self.source("sample")], capture_output=True, check=True).stdout)
        stem = next(t["stem"] for t in chunks["tensors"] if len(
            {box["file"] for box in t["boxes"] if all(box["size"])}) > 1)
        for use in uses:
            suffix = ".pt" if use.name == "item" else ".json"
            if use.source == "sample":
                suffix = stem + ".npy"
            use = use._replace(path=next(
                path for path in paths[use.source]
                if path.startswith(use.path) and path.endswith(
                    suffix if use.path.endswith("/") else "")))
            self.sweep(use.name,
                       lambda at, error: self.used(use, at, error))
            if use.name == "tensor in two files":
                _, problems = self.used(use, 1, "EIO", always=True)
                self.result(problems, "canary: an error that stays is found")
        for name in ("sample", "zstd"):
            self.sweep(f"mount of {name}", lambda at, error: self.mounted(
                name, paths[name], at, error))


def main():
    if not os.access("/dev/fuse", os.W_OK):
        print("1..0 # SKIP FUSE cannot be used here")
        return os.environ.get("CI") == "true"
    # A copy of a mount in another mount namespace would keep it busy.
    if os.geteuid() == 0:
        images.keep_mounts_private()
    work = tempfile.mkdtemp(prefix="ckptfs-moment-")
    sweep = Sweep(sys.argv[1], work, sys.argv[2:])
    try:
        sweep.go()
    finally:
        subprocess.run(["umount", "-l", sweep.mnt], capture_output=True)
        shutil.rmtree(work)
    print(f"# {sweep.points} points")
    return sweep.finish()


sys.exit(main())
