# SPDX-License-Identifier: MIT
"""Groups of tests/bench/run: hf/ beside the programs that load and convert checkpoints without it.

tests/bench/make_big.py writes the data: `model` DIR/big, and `safe --count 100000` DIR/safe-many. hf_export and
hf_direct need 2.2 GB in DIR while they run, hf_export 4.4 GB in /dev/shm, too. The python that runs tests/bench/run needs torch
and safetensors, for hf_direct fastsafetensors or runai-model-streamer; a row whose package is missing is skipped.

A figure is the median of --repeat pairs: the other program and ours, in turn, the first of a pair changing from pair to
pair. A ratio above 1 means that ours is faster; its quartiles stand beside it. hf_direct takes seven pairs at least.
Both sides of a cold pair begin with their own files out of the page cache, by POSIX_FADV_DONTNEED; others' files stay.
"""
import importlib.machinery
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from bench_kinds import FIRST
from measure import BIG, clock, favour, number
from pairs import median_of

LOADS = pathlib.Path(__file__).resolve().parent / "hf_loads.py"
LOADERS = (("fastsafetensors", "fastsafetensors"), ("runai", "runai_model_streamer"))
MODEL = "hf/model.safetensors"
NEEDED = "torch", "safetensors"


# ---- pairs ------------------------------------------------------------------------------------------------------------

def seconds_of(*command):
    """Of tests/bench/hf_loads.py."""
    output = subprocess.check_output([sys.executable, LOADS, *command], text=True, stderr=subprocess.DEVNULL)
    return float(output.split()[0])


def measured(bench, count, beside, ours):
    """[(seconds of the other, seconds of ours)]"""
    pairs = []
    for number_ in range(count):
        bench.settle()
        sides = [beside, ours]
        times = [side() for side in (sides[::-1] if number_ % 2 else sides)]
        pairs.append(tuple(times[::-1] if number_ % 2 else times))
    return pairs


def compare(bench, what, beside, ours, *limits, count=0):
    """A row of how many times faster ours is."""
    pairs = measured(bench, count or bench.repeat, beside, ours)
    others, own = ([statistics.median(side)] + [min(side), max(side)] for side in zip(*pairs))
    ratios = [other / mine for other, mine in pairs]
    bench.row(what, "{:.2f} s ({:.2f} to {:.2f})".format(*others),
              "{:.2f} s ({:.2f} to {:.2f}); {}".format(*own, median_of(ratios)), statistics.median(ratios), *limits)


def lacks(*packages):
    return [package for package in packages if not importlib.machinery.PathFinder.find_spec(package)]


def evict(folder):
    """Drops the pages of files; written bytes are synced first, since only clean pages can be
    dropped."""
    for file in pathlib.Path(folder).iterdir():
        fd = os.open(file, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


# ---- 100,000 tensors --------------------------------------------------------------------------------------------------

def daemon_of(bench):
    """Its process, found without .ckptfs/status: that report needs hf/'s plan, and would make it."""
    want = os.fsencode(bench.mnt)
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if want in file.read_bytes().split(b"\0"):
                return int(file.parent.name)
        except OSError:
            continue
    raise SystemExit(f"{bench.mnt}: its daemon is not in /proc")


def many_once(bench):
    """Seconds of mount and first tensor, of the first lookup, of the header; MiB above the catalog by the lookup, the header,
    and all reads."""
    start = time.monotonic()
    bench.mount("safe-many")
    (bench.mnt / "full" / f"{FIRST}.npy").read_bytes()
    times = [time.monotonic() - start]
    pid = daemon_of(bench)
    if os.nice(0) < 0:
        favour(pid)
    memory = [number(f"/proc/{pid}/status", "VmRSS")]
    for step in (lambda: os.stat(bench.mnt / MODEL), lambda: read_header(bench.mnt / MODEL),
                 lambda: (bench.mnt / MODEL).read_bytes()):
        start = time.monotonic()
        step()
        times.append(time.monotonic() - start)
        memory.append(number(f"/proc/{pid}/status", "VmRSS"))
    bench.umount()
    return times + [(after - memory[0]) / 1024 for after in memory[1:]]


def read_header(path):
    with open(path, "rb") as file:
        file.read(int.from_bytes(file.read(8), "little"))


def group_hf_many(bench):
    if not (bench.data / "safe-many").is_dir():
        return bench.skip("hf/ of 100,000 tensors", f"{bench.data / 'safe-many'} is not there, see make_big.py")
    runs = []
    for _ in range(bench.repeat):
        bench.settle()
        runs.append(many_once(bench))
    columns = list(zip(*runs))
    for (what, floor, target), column in zip((
            ("mount of a safetensors model of 100,000 tensors, and the first tensor (s)", 0.5, 0.3),
            (f"its first lookup of {MODEL} (s)", 0.5, 0.2),
            ("then the header of that file (s)", None, None), ("then all of that file (s)", None, None),
            ("memory above the catalog after the lookup (MiB)", 64, 32), ("after the header (MiB)", 64, 32),
            ("after all tensors were read (MiB)", None, None)), columns):
        middle = statistics.median(column)
        bench.row(what, "", f"{middle:.3f} ({min(column):.3f} to {max(column):.3f})", middle, floor, target, True)


# ---- the checkpoint of 2.1 GiB ----------------------------------------------------------------------------------------

def loads(bench):
    """The page cache of the mount is cold in the first pass, and warm in the others."""
    source = bench.data / "big"
    with bench.mounted("big") as mnt:
        def loaded(*way):
            bench.warm()
            return seconds_of(*way)

        loaded("dcp.load", source)
        first = loaded("safe_open", mnt / MODEL)
        bench.row(f"all tensors through safe_open({MODEL}), first pass on the mount (s)", "", f"{first:.2f} s", first)
        compare(bench, "the same, later passes; dcp.load", lambda: loaded("dcp.load", source),
                lambda: loaded("safe_open", mnt / MODEL), 2, 3)


class Place:
    """A destination of copies, emptied each time."""
    def __init__(self, parent, name):
        self.path = pathlib.Path(parent) / f"{name}-out"

    def empty(self):
        shutil.rmtree(self.path, ignore_errors=True)
        return self.path


def converted(bench, place):
    """What a user does without ckptfs, in memory as ours."""
    out = place.empty()
    bench.warm()
    out.mkdir()
    return seconds_of("convert", bench.data / "big", out / "whole.pt", out / "model.safetensors")


def exported(bench, place):
    out = place.empty()
    bench.warm()
    seconds = clock(bench.program, "cp", "-r", bench.data / "big", "hf", out)
    return seconds + clock("sync", "-f", out)


def copied(bench, place):
    out = place.empty()
    bench.warm()
    out.mkdir()
    seconds = clock("cp", *sorted((bench.data / "big").glob("*.distcp")), out)
    return seconds + clock("sync", "-f", out)


def first_reads(bench):
    """Seconds a GB."""
    def fresh(*names):
        bench.warm()
        with bench.mounted("big") as mnt:
            return 1 / bench.rate("read", [path for name in names for path in sorted(mnt.glob(name))])
    what = f"first read of {MODEL}, 1 MiB reads (s/GB)"
    compare(bench, f"{what}; all files of full/", lambda: fresh("full/*.npy"), lambda: fresh(MODEL), 0.9, 1)
    compare(bench, f"{what}; {BIG} of full/", lambda: fresh(f"full/{BIG}.npy"), lambda: fresh(MODEL))


def group_hf(bench):
    first_reads(bench)
    if lacks(*NEEDED):
        bench.skip("all tensors through safe_open; dcp.load", f"{sys.executable} has no {lacks(*NEEDED)[0]}")
    else:
        loads(bench)


def group_hf_export(bench):
    memory, disk = Place("/dev/shm", bench.base.name), Place(bench.data, bench.base.name)
    try:
        if lacks(*NEEDED):
            bench.skip("ckptfs cp -r SRC hf; dcp_to_torch_save", f"{sys.executable} has no {lacks(*NEEDED)[0]}")
        else:
            compare(bench, "ckptfs cp -r SRC hf, to tmpfs; dcp_to_torch_save, torch.load and save_file",
                    lambda: converted(bench, memory), lambda: exported(bench, memory), 4, 8)
        compare(bench, "the same; cp of the shards and sync", lambda: copied(bench, memory), lambda: exported(bench, memory),
                0.8, 1)
        memory.empty()
        compare(bench, "the same, to disk and synced; cp of the shards and sync", lambda: copied(bench, disk),
                lambda: exported(bench, disk))
    finally:
        memory.empty()
        disk.empty()


# ---- loaders that read with O_DIRECT ----------------------------------------------------------------------------------

def group_hf_direct(bench):
    """The merged copy lies on the disk of the shards."""
    place = Place(bench.data, bench.base.name)

    def copy_loaded(way):
        evict(place.path)
        return seconds_of(way, place.path / "model.safetensors")

    def mount_loaded(way):
        evict(bench.data / "big")
        with bench.mounted("big") as mnt:
            return seconds_of(way, mnt / MODEL)
    try:
        exported(bench, place)
        for way, package in LOADERS:
            if lacks("torch", package):
                bench.skip(f"{way} loading all of hf/", f"{sys.executable} has no {package}")
                continue
            compare(bench, f"{way} loading all of hf/, cold; a merged copy on the same disk", lambda: copy_loaded(way),
                    lambda: mount_loaded(way), 0.8, 1.2, count=max(7, bench.repeat))
    finally:
        place.empty()
