# SPDX-License-Identifier: MIT
"""Groups of tests/bench/run: directories of files that ranks have written by torch.save, and what other kinds with as many
boxes take. tests/bench/make_big.py writes the data: `ranks` DIR/ranks, `ranks --count 15625` DIR/ranks-million, `torch`
DIR/torch-million, `safe` DIR/safe-million, and `boxes` DIR/safe-boxes."""
import contextlib
import os
import pathlib
import subprocess
import sys
import threading
import time

from measure import MIB, number

FIRST = "model.model.layers.0.part0.weight"
LOAD = """
import sys, time, torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
import torch.distributed.tensor
dist.init_process_group("fake", rank=0, world_size=64, store=FakeStore())
start = time.monotonic()
for file in sys.argv[1:]:
    torch.load(file, weights_only=False, mmap=True)
print(time.monotonic() - start)
"""


class Memory(threading.Thread):
    """The most memory that a process and its descendants had together, looked at every 2 ms."""
    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.done = pid, 0, False

    def run(self):
        while not self.done:
            self.peak = max(self.peak, self.sum())
            time.sleep(0.002)

    def sum(self):
        pids, pages = [self.pid], 0
        for pid in pids:
            with contextlib.suppress(OSError):
                pids += map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
                pages += int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def mounts(bench, source, first, repeat):
    """Seconds from nothing until the first tensor's attributes, the best."""
    times = []
    for _ in range(repeat):
        bench.settle()
        start = time.monotonic()
        bench.mount(source)
        os.stat(bench.mnt / "full" / f"{first}.npy")
        times.append(time.monotonic() - start)
        bench.umount()
    return min(times)


def memory(bench, source):
    """MiB that the daemon keeps, and the most that all processes of a mount have had."""
    process = subprocess.Popen(bench.mount_command(source))
    watch = Memory(process.pid)
    watch.start()
    process.wait()
    watch.done = True
    watch.join()
    resident, peak = (number(f"/proc/{bench.daemon()}/status", field) / 1024 for field in ("VmRSS", "VmHWM"))
    bench.umount()
    return resident, max(peak, watch.peak)


def read_all(files):
    start = time.monotonic()
    subprocess.run(["cat", *files], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def load_all(files):
    """Seconds of torch.load of all files in one process, without the import of torch; None
    without torch."""
    loaded = subprocess.run([sys.executable, "-c", LOAD, *files], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return float(loaded.stdout.split()[-1]) if loaded.returncode == 0 else None


def group_ranks(bench):
    files = sorted((bench.data / "ranks").glob("*.pt"))
    before = read_all(files)
    ours = mounts(bench, "ranks", FIRST, bench.repeat)
    after = read_all(files)
    bench.row("mount of 64 per-rank files of 1,000 tensors each (s); native: cat", f"{before:.3f} / {after:.3f} s",
              f"{ours:.2f} s", ours, 1, 0.4, True)
    loaded = load_all(files)
    if loaded is None:
        bench.skip("that, against torch.load of the files", f"{sys.executable} has no torch")
    else:
        bench.row("that, against torch.load(mmap=True) of the files: times sooner", f"{loaded:.2f} s", f"{ours:.2f} s",
                  loaded / ours)
    resident, peak = memory(bench, "ranks")
    bench.row("its peak, all processes (MiB)", f"{resident:.0f} MiB stay", f"{peak:.0f} MiB", peak, 40, 25, True)


def group_million(bench):
    """Of each source that is there."""
    for source, what, first in (("ranks-million", "64 per-rank files", FIRST),
                                ("torch-million", "one torch file", "model.layers.0.mlp.experts.0.w0.weight"),
                                ("safe-million", "10 safetensors files", "model.layers.0.mlp.experts.0.w0.weight"),
                                ("safe-boxes", "safetensors files of 64 ranks", "model.layers.0.part0.weight")):
        if not (bench.data / source).is_dir():
            bench.skip(f"mount of 10^6 boxes of {what}", f"{bench.data / source} is not there, see make_big.py")
            continue
        took = mounts(bench, source, first, 1)
        resident, peak = memory(bench, source)
        bench.row(f"mount of 10^6 boxes of {what} (s)", "", f"{took:.2f} s", took)
        bench.row("its memory afterwards (MiB)", "", f"{resident:.0f} MiB", resident, 250, None, True)
        bench.row("its peak, all processes (MiB)", "", f"{peak:.0f} MiB", peak, 600, None, True)
