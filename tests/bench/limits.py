# SPDX-License-Identifier: MIT
"""Compares reads of a tensor of 1 GiB with the limit of the kernel and with other filesystems, in alternating runs.

The limit is tests/bench/hot: a file of the same size, answered from one buffer. The other filesystems serve the tensor as
an ordinary file: squashfuse_ll (packages squashfuse and squashfs-tools) from an image without compression, and libfuse's
example passthrough_ll, compiled from the documentation of libfuse3-dev. The source files are in page cache: they are read
completely before each measurement.
"""
import contextlib
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from measure import BIG, favour

EXAMPLE = pathlib.Path("/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c")
ROWS = (("first", "first read", 0.75, 2), ("again", "hot re-read", 0.95, None), ("direct", "O_DIRECT", 0.7, 1.4))


@contextlib.contextmanager
def served(command, mnt):
    """A mount by a foreground program, which runs in its own session and is scheduled like a daemon."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        try:
            while not os.path.ismount(mnt):
                if process.poll() is not None:
                    output.seek(0)
                    raise RuntimeError(f"{command[0]} ended with {process.returncode}: {output.read()}")
                time.sleep(0.005)
            favour(process.pid)
            yield
        finally:
            if process.poll() is None:
                subprocess.run(["fusermount3", "-u", mnt], check=True)
            process.wait()


def ahead_of(mnt):
    """The file in /sys that sets the read-ahead of this mount."""
    device = os.stat(mnt).st_dev
    return pathlib.Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")


class Limit:
    """The limit, with the request size and the read-ahead of a ckptfs mount."""
    name = "limit"

    def __init__(self, bench, file):
        self.bench, self.size, self.sources = bench, file.stat().st_size, []
        with bench.mounted("big") as mnt:
            lines = pathlib.Path("/proc/self/mounts").read_text().split("\n")
            line = next(line for line in lines if line.split()[1:2] == [str(mnt)])
            self.max_read, self.ahead = re.search(r"max_read=(\d+)", line)[1], ahead_of(mnt).read_text()

    @contextlib.contextmanager
    def mounted(self, direct):
        mnt = self.bench.mnt
        with served([self.bench.reader.parent / "hot", mnt, str(self.size), self.max_read], mnt):
            if ahead_of(mnt).read_text() != self.ahead:
                ahead_of(mnt).write_text(self.ahead)
            yield mnt / "hot", ["-d"] if direct else []


class Ours:
    name = "ckptfs"

    def __init__(self, bench, file):
        self.bench, self.file, self.sources = bench, file, bench.boxes("big", BIG)

    @contextlib.contextmanager
    def mounted(self, direct):
        with self.bench.mounted("big") as mnt:
            yield mnt / "full" / self.file.name, ["-d"] if direct else []


class Squashfuse:
    name = "squashfuse_ll"

    def __init__(self, bench, file):
        self.bench, self.file, self.image = bench, file, file.parent.parent / "image"
        self.sources = [self.image]
        command = ["mksquashfs", file.parent, self.image, "-quiet", "-no-progress", *"-noI -noD -noF -noX".split()]
        subprocess.run(command, check=True)

    @staticmethod
    def missing():
        tools = [tool for tool in ("squashfuse_ll", "mksquashfs") if not shutil.which(tool)]
        return f"there is no {' and no '.join(tools)}" if tools else None

    @contextlib.contextmanager
    def mounted(self, direct):
        mnt = self.bench.mnt
        with served(["squashfuse_ll", "-f", self.image, mnt], mnt):
            yield mnt / self.file.name, ["-d"] if direct else []


class Passthrough:
    """passthrough_ll would pass O_DIRECT on to the disk. The option cache=never makes its reads
    as direct, with bytes from memory."""
    name = "passthrough_ll"

    def __init__(self, bench, file):
        self.bench, self.file, self.program = bench, file, bench.base / "passthrough_ll"
        self.sources = [file]
        flags = subprocess.check_output(["pkg-config", "--cflags", "--libs", "fuse3"], text=True).split()
        subprocess.run(["cc", "-O2", "-w", EXAMPLE, "-o", self.program, *flags], check=True)

    @staticmethod
    def missing():
        tools = [tool for tool in ("cc", "pkg-config") if not shutil.which(tool)]
        return f"there is no {' and no '.join(tools)}" if tools else \
            None if EXAMPLE.exists() else f"there is no {EXAMPLE}"

    @contextlib.contextmanager
    def mounted(self, direct):
        options = f"source={self.file.parent},cache={'never' if direct else 'always'}"
        with served([self.program, "-f", "-o", options, self.bench.mnt], self.bench.mnt):
            yield self.bench.mnt / self.file.name, []


@contextlib.contextmanager
def as_file(bench):
    """The tensor as a file in a temporary directory, on the disk of the shards."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=".bench-", dir=bench.data))
    try:
        (folder / "tensor").mkdir()
        file = folder / "tensor" / f"{BIG}.npy"
        with bench.mounted("big") as mnt:
            shutil.copyfile(mnt / "full" / file.name, file)
        yield file
    finally:
        shutil.rmtree(folder)


def rates(bench, contender):
    """GB/s of each row. The cached rows share a fresh mount; the O_DIRECT row has another
    one."""
    found = {}
    for direct, rows in ((False, ("first", "again")), (True, ("direct",))):
        bench.settle()
        if contender.sources:
            bench.read("read", contender.sources)
        bench.warm()
        with contender.mounted(direct) as (file, flags):
            for row in rows:
                found[row] = bench.rate("read", [file], *flags)
    return found


def rounds(bench, contenders):
    """The rates of each contender, round by round. The first contender of a round
    alternates."""
    found = {contender.name: [] for contender in contenders}
    for first in range(bench.repeat):
        for i in range(len(contenders)):
            contender = contenders[(first + i) % len(contenders)]
            found[contender.name].append(rates(bench, contender))
    return found


def print_rows(bench, found):
    """Figures are medians of the rounds; ratios are medians of the ratios of the rounds."""
    for row, what, floor, floor_others in ROWS:
        figures = {name: [rates[row] for rates in list_] for name, list_ in found.items()}
        medians = {name: statistics.median(list_) for name, list_ in figures.items()}

        def compare(what, names, floor):
            best = max(names, key=medians.get)
            ratio = statistics.median(ours / other for ours, other in zip(figures["ckptfs"], figures[best]))
            bench.row(what, "; ".join(f"{name} {medians[name]:.2f} GB/s" for name in names),
                      f"{medians['ckptfs']:.2f} GB/s", ratio, floor)

        compare(f"{what}, x the limit", ["limit"], floor)
        others = [name for name in found if name not in ("limit", "ckptfs")]
        if others:
            compare(f"{what}, x the best of the others", others, floor_others)


def group_limits(bench):
    kinds = [Limit, Ours]
    for kind in (Squashfuse, Passthrough):
        why = kind.missing()
        if why:
            bench.skip(f"limits: {kind.name}", why)
        else:
            kinds.append(kind)
    with as_file(bench) as file:
        contenders = [kind(bench, file) for kind in kinds]
        os.sync()
        print_rows(bench, rounds(bench, contenders))
