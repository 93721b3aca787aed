# SPDX-License-Identifier: MIT
"""Group of tests/bench/run: the views torch/, dcp/ and f32/ of DIR/big, and dcp/8/.metadata of DIR/chunks. Loads need PyTorch
in the Python that runs the benchmark."""
import os
import pathlib
import subprocess
import sys
import time

from measure import BIG, SMALL, number

LOADS = pathlib.Path(__file__).resolve().parent / "loads.py"
NESTED = ":".join(SMALL.split(".", 1))


def loads(*words):
    """The figures that loads.py prints; None without PyTorch."""
    done = subprocess.run([sys.executable, LOADS, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return list(map(float, done.stdout.split())) if done.returncode == 0 else None


def torch_file(bench):
    """torch.load of the view, and one tensor; of a file that dcp_to_torch_save makes first."""
    what = "torch.load(torch/checkpoint.pt, mmap=True) and one tensor; dcp_to_torch_save and the same: times sooner"
    with bench.mounted("big") as mnt:
        ours = [loads("file", mnt / "torch/checkpoint.pt", NESTED) for _ in range(bench.repeat)]
    converted = bench.data / ".bench-converted.pt"
    try:
        theirs = loads("converted", bench.data / "big", converted, NESTED)
    finally:
        converted.unlink(missing_ok=True)
    if theirs is None or None in ours:
        return bench.skip(what, f"{sys.executable} has no torch, or it failed")
    best = min(figure for figures in ours for figure in figures)
    bench.row(what, f"{theirs[0]:.2f} + {theirs[1]:.3f} s", f"{best:.3f} s", sum(theirs) / best, 50, 100)


def dcp_loads(bench, what, words, view, floor):
    """dcp.load of the original, and two times of a view on one mount, in turn."""
    firsts, seconds, theirs = [], [], []
    for _ in range(bench.repeat):
        bench.settle()
        theirs.append(loads(words[0], bench.data / "big", *words[1:], 2))
        with bench.mounted("big") as mnt:
            ours = loads(words[0], mnt / view, *words[1:], 2)
        if ours is None or theirs[-1] is None:
            return bench.skip(what, f"{sys.executable} has no torch, or it failed")
        firsts.append(ours[0])
        seconds.append(ours[1])
    original = [min(figures) for figures in zip(*theirs)]
    bench.row(f"{what}, first pass", f"{original[0]:.2f} s", f"{min(firsts):.2f} s", original[0] / min(firsts), 0.7)
    bench.row(f"{what}, second pass", f"{original[1]:.2f} s", f"{min(seconds):.2f} s", original[1] / min(seconds), floor, 1.2)
    return None


def first_read(bench, view, floor, target, measure=os.path.getsize):
    """By bytes, against full/; each read has a mount of its own."""
    def reading(path):
        def rate():
            bench.warm()
            with bench.mounted("big") as mnt:
                seconds, _ = bench.read("read", [mnt / path])
                return measure(mnt / path) / seconds / 1e9
        return rate

    bench.compare(f"first read of {view}, against full/", reading(f"full/{BIG}.npy"), reading(view), floor, target)


def many_chunks(bench):
    times, peaks = [], []
    for _ in range(bench.repeat):
        bench.settle()
        with bench.mounted("chunks") as mnt:
            start = time.monotonic()
            size = os.stat(mnt / "dcp/8/.metadata").st_size
            times.append(time.monotonic() - start)
            peaks.append(number(f"/proc/{bench.daemon()}/status", "VmHWM") / 1024)
    bench.row("dcp/8/.metadata of 1,024,000 chunks: first stat (s)", "", f"{min(times):.2f} s, {size / 2 ** 20:.0f} MiB", min(times),
              3, 1, True)
    bench.row("peak of the daemon (MiB)", "", f"{max(peaks):.0f} MiB", max(peaks), 600, None, True)


def group_views(bench):
    torch_file(bench)
    dcp_loads(bench, "dcp.load of dcp/1; of the original", ["dcp"], "dcp/1", 0.95)
    dcp_loads(bench, "dcp.load in 3 processes of dcp/3; of the original by 8", ["shards", 3], "dcp/3", 0.9)
    first_read(bench, "torch/checkpoint.pt", 0.9, 1)
    first_read(bench, "dcp/1/__0_0.distcp", 0.9, 1)
    first_read(bench, f"f32/{BIG}.npy", 0.7, 1)
    if (bench.data / "chunks").is_dir():
        many_chunks(bench)
    else:
        bench.skip("dcp/8/.metadata", f"{bench.data / 'chunks'} is not there, see make_big.py")
