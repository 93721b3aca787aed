# SPDX-License-Identifier: MIT
"""What the groups of tests/bench/run share: mounts, readings, clocks and the rows of the table."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

MIB = 2 ** 20
WARM = 1536 * MIB
DROP = "/proc/sys/vm/drop_caches"
COLD = f"needs root, for {DROP}"
BIG, COLUMNS, SMALL = "model.tok_embeddings.weight", "model.output.weight", "model.layers.0.attention.wk.weight"


def is_there(pid):
    """Whether it has not ended; who has, and was not waited for, is a zombie for as long as init likes."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


class Bench:
    def __init__(self, options):
        self.program = options.program.resolve()
        self.reader = self.program.parent.parent / "tests/bench/reader"
        self.data, self.repeat, self.settle_most = options.data.resolve(), options.repeat, options.settle
        self.span, self.options = options.span, []
        self.natives = True     # False: native reads are not measured, and ratios are to 1
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="ckptfs-bench-"))
        self.mnt = self.base / "mnt"
        self.mnt.mkdir()
        self.settled, self.busy, self.chunks = 0, 0, {}

    # ---- the machine ----

    def settle(self):
        """Waits until the processors have had 0.1 s with at most 15 % of work."""
        self.settled += 1
        end = time.monotonic() + self.settle_most
        while True:
            before = cpu_times()
            time.sleep(0.1)
            all_, idle = (after - earlier for after, earlier in zip(cpu_times(), before))
            if idle >= 0.85 * all_:
                return
            if time.monotonic() >= end:
                break
        self.busy += 1

    def drop_caches(self):
        os.sync()
        pathlib.Path(DROP).write_text("3\n")

    def warm(self):
        """A virtual machine may have to ask its host for every page that is free: 0.5 GB/s instead of 4 or more. Pages
        freed just now are still there, so that what fills the page cache next finds some."""
        len(b"\1" * WARM)

    # ---- mounts ----

    def mount_command(self, source, *options):
        options = [*self.options, *options]
        flags = ["-o", ",".join(options)] if options else []
        return [self.program, "mount", self.data / source, self.mnt, *flags]

    def mount(self, source, *options):
        subprocess.run(self.mount_command(source, *options), check=True)

    def daemon(self):
        return number(self.mnt / ".ckptfs/status", "daemon")

    def umount(self):
        pid = self.daemon()
        subprocess.run([self.program, "umount", self.mnt], check=True)
        while is_there(pid):
            time.sleep(0.005)

    def umount_left(self):
        """What an error has left."""
        if os.path.ismount(self.mnt):
            self.umount()

    @contextlib.contextmanager
    def copied(self, source):
        """A writable copy of a checkpoint on the same filesystem. Its data files are hard
        links and do not change."""
        copy = pathlib.Path(tempfile.mkdtemp(prefix=".bench-", dir=self.data))
        try:
            for file in (self.data / source).iterdir():
                if file.name == ".metadata":
                    shutil.copy(file, copy)
                else:
                    os.link(file, copy / file.name)
            os.sync()
            yield copy
        finally:
            shutil.rmtree(copy)

    @contextlib.contextmanager
    def mounted(self, source, *options):
        self.mount(source, *options)
        try:
            if os.nice(0) < 0:
                favour(self.daemon())
            yield self.mnt
        finally:
            self.umount()

    # ---- readings ----

    def read(self, pattern, pieces, *flags):
        """(seconds, bytes) of one run of the reader."""
        command = [self.reader, pattern, *map(str, flags), *pieces]
        seconds, count = subprocess.check_output(command, text=True).split()
        return float(seconds), int(count)

    def rate(self, pattern, pieces, *flags):
        seconds, count = self.read(pattern, pieces, *flags)
        return count / seconds / 1e9

    def boxes(self, source, name):
        """The pieces of shard files that hold a tensor, as the reader takes them."""
        if source not in self.chunks:
            text = subprocess.check_output([self.program, "inspect", "--json", "--chunks", self.data / source])
            self.chunks[source] = {tensor["fqn"]: tensor["boxes"] for tensor in json.loads(text)["tensors"]}
        return [f"{self.data / source / box['file']}@{box['pos']}+{box['length']}"
                for box in self.chunks[source][name]]

    def rates(self, native, ours):
        """Both are called in turn, native first and last. Returns the best before, the best after, our best."""
        before, after, best = [], [], []
        for _ in range(self.repeat):
            self.settle()
            before.append(native() if self.natives else 1)
            best.append(ours())
            after.append(native() if self.natives else 1)
        return max(before), max(after), max(best)

    # ---- the table ----

    def wants(self, what):
        """Whether a comparison is to be measured."""
        return True

    def row(self, what, native, ours, figure, floor=None, target=None, less=False):
        """figure: what floor and target are about. less: it should be small."""
        def missed(limit):
            return limit is not None and (figure > limit if less else figure < limit)
        verdict = "reported" if floor is None else "**floor missed**" if missed(floor) else \
            "floor met" if target is None else "floor met, target missed" if missed(target) else "target met"
        limits = ("" if limit is None else f"{limit:g}" for limit in (floor, target))
        cells = [what, native, ours, f"{figure:.3g}", *limits, verdict]
        print("| " + " | ".join(cells) + " |", flush=True)

    def skip(self, what, why):
        print(f"| {what} | | | | | | skipped: {why} |", flush=True)

    def compare(self, what, native, ours, floor=None, target=None):
        if not self.wants(what):
            return
        before, after, best = self.rates(native, ours)
        self.row(what, f"{before:.2f} / {after:.2f} GB/s", f"{best:.2f} GB/s", best / max(before, after), floor, target)


def cpu_times():
    fields = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]))
    return sum(fields), fields[3] + fields[4]


def number(path, field):
    """Of a file with lines "field: number", as those of /proc."""
    return int(re.search(rf"^{field}:\s*(\d+)", pathlib.Path(path).read_text(), re.M)[1])


def favour(pid):
    """Gives the session of a process that we started the nice value of ours: the scheduler may group processes by session,
    and then nice values count within a group only. Ours has to be made by setsid(1), else it is the user's."""
    file = pathlib.Path(f"/proc/{pid}/autogroup")
    is_made = os.getsid(pid) != os.getsid(0) or os.getsid(0) == os.getpid()
    if os.nice(0) < 0 and is_made and file.exists():
        file.write_text(str(os.nice(0)))


def clock(*command):
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
    return time.monotonic() - start
