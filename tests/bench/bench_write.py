# SPDX-License-Identifier: MIT
"""The groups of tests/bench/run that write: to copies, of which the data files are hard links."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from measure import BIG, clock, number


def content(bench, source, name, folder):
    """A file in memory with a tensor's content."""
    copy = folder / f"{name}.npy"
    with bench.mounted(source) as mnt:
        shutil.copyfile(mnt / "full" / copy.name, copy)
    return copy


class Work:
    """What a process did, in times of `size` bytes: read from and given to the kernel by calls, sent to disk."""
    FIELDS = "rchar", "wchar", "write_bytes"

    def __init__(self, pid):
        self.pid, self.before = pid, self.now(pid)

    @classmethod
    def now(cls, pid):
        times = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        return [number(f"/proc/{pid}/io", field) for field in cls.FIELDS] + [sum(map(int, times))]

    def text(self, size):
        *counts, ticks = (now - then for now, then in zip(self.now(self.pid), self.before))
        read, written, disk = (f"{count / size:.2f}" for count in counts)
        return f"read {read} x, written {written} x, to disk {disk} x", ticks / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def syncs(pid):
    """Yields a list, which is filled at the end with the sync calls of the process; None
    without strace."""
    calls, kinds = [], "fsync,fdatasync,syncfs,sync_file_range"
    if not shutil.which("strace"):
        yield None
        return
    with tempfile.NamedTemporaryFile("r") as log:
        command = ["strace", "-f", "-q", "-e", f"trace={kinds}", "-e", "signal=none", "-o", log.name, "-p", str(pid)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as tracer:
            time.sleep(0.5)
            yield calls
            time.sleep(0.2)
            tracer.terminate()
        calls += [line for line in log if "sync" in line]


def write_once(bench, source, options, put):
    """Seconds that put(mount) takes, in a new copy."""
    with bench.copied(source) as copy, bench.mounted(copy, "write", *options) as mnt:
        bench.warm()
        start = time.monotonic()
        put(mnt)
        return time.monotonic() - start


def write_counts(bench, what, source, options, put, size):
    """One more time, counting, which may be slower."""
    with bench.copied(source) as copy, bench.mounted(copy, "write", *options) as mnt:
        work = Work(bench.daemon())
        with syncs(work.pid) as calls:
            put(mnt)
        counts = "not counted, no strace" if calls is None else str(len(calls))
        text, seconds = work.text(size)
        bench.row(f"{what}: bytes and syncs of the daemon", "", f"{text}, syncs {counts}; {seconds:.2f} s of processor",
                  seconds, less=True)


def native_write(bench, put):
    """Seconds that put(directory) takes beside the copies."""
    place = pathlib.Path(tempfile.mkdtemp(prefix=".bench-", dir=bench.data))
    try:
        os.sync()
        bench.warm()
        start = time.monotonic()
        put(place)
        return time.monotonic() - start
    finally:
        shutil.rmtree(place)


def compare_writes(bench, what, source, size, native, ours, floor, target, options=()):
    bench.compare(what, lambda: size / native_write(bench, native) / 1e9,
                  lambda: size / write_once(bench, source, options, ours) / 1e9, floor, target)
    write_counts(bench, what, source, options, ours, size)


def sync_file(file):
    fd = os.open(file, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


@contextlib.contextmanager
def in_memory(bench):
    folder = pathlib.Path("/dev/shm") / bench.base.name
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def group_write(bench):
    """A tensor of 1 GiB in, which goes to 8 new data files; cp returns when it is committed and durable."""
    def native(place):
        clock("cp", file, place)
        sync_file(place / file.name)

    with in_memory(bench) as folder:
        file = content(bench, "big", BIG, folder)
        compare_writes(bench, "cp of 1 GiB into 8 shards, durable", "big", file.stat().st_size, native,
                       lambda mnt: clock("cp", file, mnt / "full"), 0.5, 0.7)
        rate = file.stat().st_size / write_once(bench, "big", (), lambda mnt: renamed(mnt, file)) / 1e9
        bench.row("the same under another name, then renamed", "", f"{rate:.2f} GB/s", rate)


def renamed(mnt, file):
    """As rsync and editors save."""
    scratch = mnt / "full" / f".{file.name}.tmp"
    clock("cp", file, scratch)
    scratch.rename(mnt / "full" / file.name)


def group_batch(bench):
    """100 tensors of 1 MiB, in one commit if there is one for several, and one by one."""
    def native(place):
        clock("cp", *files, place)
        os.sync()

    def together(mnt):
        clock("cp", *files, mnt / "full")
        clock(bench.program, "commit", mnt)

    with in_memory(bench) as folder:
        with bench.mounted("hundred") as mnt:
            clock("cp", "-r", mnt / "full", folder)
        files = sorted((folder / "full").iterdir())
        size = sum(file.stat().st_size for file in files)
        if takes_manual(bench):
            compare_writes(bench, "100 tensors of 1 MiB in one commit", "hundred", size, native, together, 0.5, 0.8,
                           ["commit=manual"])
        else:
            bench.skip("100 tensors of 1 MiB in one commit", "this program has no commit=manual")
        compare_writes(bench, "100 tensors of 1 MiB, a commit each", "hundred", size, native,
                       lambda mnt: clock("cp", *files, mnt / "full"), None, None)


def takes_manual(bench):
    with bench.copied("hundred") as copy:
        command = [bench.program, "mount", copy, bench.mnt, "-o", "write,commit=manual"]
        if subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
            return False
        bench.umount()
        return True


def group_commit(bench):
    """One tensor of 1024 boxes, 256 KiB, in a checkpoint of 1,024,000; .metadata is 144 MB. The native figure is a copy
    of .metadata with fsync."""
    def native(place):
        clock("cp", bench.data / "chunks/.metadata", place)
        sync_file(place / ".metadata")

    walls, processor, peaks, before, after = [], [], [], [], []
    with in_memory(bench) as folder:
        file = content(bench, "chunks", "model.layers.0.part0.weight", folder)
        for _ in range(bench.repeat):
            bench.settle()
            before.append(native_write(bench, native) if bench.natives else 1)
            with bench.copied("chunks") as copy, bench.mounted(copy, "write"):
                pid = bench.daemon()
                bench.warm()
                pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")         # VmHWM counts from here on
                work, start = Work(pid), time.monotonic()
                clock("cp", file, bench.mnt / "full")
                walls.append(time.monotonic() - start)
                processor.append(work.text(1)[1])
                peaks.append(number(f"/proc/{pid}/status", "VmHWM") / 1024)
            after.append(native_write(bench, native) if bench.natives else 1)
        bench.row("one commit in 1,024,000 chunks (s)", f"{min(before):.2f} / {min(after):.2f} s", f"{min(walls):.2f} s",
                  min(walls), 2, 1, True)
        bench.row("its processor time (s)", "", f"{min(processor):.2f} s", min(processor),
                  less=True)
        bench.row("its peak memory (MiB)", "", f"{max(peaks):.0f} MiB", max(peaks), 600, None, True)
        size = (bench.data / "chunks/.metadata").stat().st_size
        write_counts(bench, "one commit in 1,024,000 chunks", "chunks", (), lambda mnt: clock("cp", file, mnt / "full"),
                     size)
