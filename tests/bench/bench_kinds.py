# SPDX-License-Identifier: MIT
"""Group of tests/bench/run: what DCP is measured by, of other kinds of checkpoints. tests/bench/make_big.py writes the data:
`kinds` DIR/kinds, `items` DIR/items, `safe --count 100000` DIR/safe-many, `torch --count 100000` DIR/torch-many, and `steps` DIR/steps."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

NAME = "model.tok_embeddings.weight"
FIRST = "model.layers.0.mlp.experts.0.w0.weight"
OTHERS = (("safetensors", "safetensors"), ("torch", "a torch file"), ("ranks", "per-rank files"))
LOAD = """
import sys, time, torch
start = time.monotonic()
torch.load(sys.argv[1], mmap=True)
print(time.monotonic() - start)
"""


ITEM = "layers.0.attention.wq.weight"
OWN_READER = """
import sys, time, torch, torch_checkpointing
sys.path.insert(0, sys.argv[2])
import torch_items
name, shape = sys.argv[3], (2048, 2048)
items = {"model": {name: torch.empty(shape, dtype=torch.bfloat16)}}
with torch_items.manager(torch_checkpointing, items) as reader:
    start = time.monotonic()
    reader.load(sys.argv[1], into=items)
    print(time.monotonic() - start)
"""


def first_read(bench, source):
    """GB/s of a first read, against the same bytes in the files."""
    def ours():
        bench.warm()
        with bench.mounted(source) as mnt:
            return bench.rate("read", [mnt / "full" / f"{NAME}.npy"])

    pieces = bench.boxes(source, NAME)
    before, after, best = bench.rates(lambda: bench.rate("read", pieces), ours)
    return before, after, best, best / max(before, after)


def first_reads(bench):
    kept = first_read(bench, "kinds/dcp")
    bench.row("first read of DCP, against its files", f"{kept[0]:.2f} / {kept[1]:.2f} GB/s", f"{kept[2]:.2f} GB/s", kept[3])
    for kind, what in OTHERS:
        before, after, best, ratio = first_read(bench, f"kinds/{kind}")
        bench.row(f"first read of {what}, against its files, by that of DCP", f"{before:.2f} / {after:.2f} GB/s",
                  f"{best:.2f} GB/s, {ratio:.3f}", ratio / kept[3], 0.95, 1)


def first_tensor(bench, source, name=FIRST):
    """Seconds from nothing until a first tensor was read, the best."""
    times = []
    for _ in range(bench.repeat):
        bench.settle()
        start = time.monotonic()
        bench.mount(source)
        (bench.mnt / "full" / f"{name}.npy").read_bytes()
        times.append(time.monotonic() - start)
        bench.umount()
    return min(times)


def loads(bench, file):
    """The best time of torch.load(mmap=True) in seconds, without the import of torch; None
    without torch."""
    times = []
    for _ in range(bench.repeat):
        bench.settle()
        loaded = subprocess.run([sys.executable, "-c", LOAD, file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if loaded.returncode:
            return None
        times.append(float(loaded.stdout.split()[-1]))
    return min(times)


def many_tensors(bench):
    ours = first_tensor(bench, "safe-many")
    bench.row("mount of 100,000 tensors in 10 safetensors files, and the first tensor (s)", "", f"{ours:.2f} s", ours, 0.5, 0.3,
              True)
    ours = first_tensor(bench, "torch-many")
    loaded = loads(bench, bench.data / "torch-many/million.pt")
    what = "mount of 100,000 tensors in a torch file, and the first tensor; torch.load(mmap=True): times sooner"
    if loaded is None:
        bench.skip(what, f"{sys.executable} has no torch")
    else:
        bench.row(what, f"{loaded:.2f} s", f"{ours:.2f} s", loaded / ours, 5, 10)


@contextlib.contextmanager
def one_more(steps, number):
    """A step that comes at once, as savers make it."""
    part, path = steps / f".part-{number}", steps / f"step-{number}"
    shutil.copytree(steps / "step-0", part)
    part.rename(path)
    try:
        yield path.name
    finally:
        shutil.rmtree(path)


def looked_up(path):
    """Seconds of the first lookup that finds it, and until it began."""
    came = time.monotonic()
    while True:
        start = time.monotonic()
        with contextlib.suppress(FileNotFoundError):
            path.stat()
            return time.monotonic() - start, start - came
        time.sleep(0.01)


def new_steps(bench):
    """The slowest of some, each a step that has just come beside 1,000. Its files are opened by the lookup."""
    with bench.mounted("steps") as mnt:
        os.listdir(mnt)
        looks = []
        for number in range(100000, 100000 + 4 * bench.repeat):
            with one_more(bench.data / "steps", number) as name:
                looks.append(looked_up(mnt / name / "full/weight.npy"))
    slowest, latest = map(max, zip(*looks))
    bench.row("lookup of a new step among 1,000, and of a tensor in it: slowest (ms)", "", f"{1000 * slowest:.1f} ms",
              1000 * slowest, 50, 10, True)
    bench.row("its name is there after (s)", "", f"{latest:.2f} s", latest, 2, None, True)


def own_reader(bench):
    """Seconds in which torch_checkpointing loads one tensor, without imports; None without the package."""
    fixtures = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
    command = [sys.executable, "-c", OWN_READER, bench.data / "items/step", fixtures, ITEM]
    times = []
    for _ in range(bench.repeat):
        bench.settle()
        loaded = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if loaded.returncode:
            return None
        times.append(float(loaded.stdout.split()[-1]))
    return min(times)


def group_items(bench):
    """Checkpoints of torch_checkpointing."""
    kept, (before, after, best, ratio) = first_read(bench, "big"), first_read(bench, "items/step")
    bench.row("first read of torch_checkpointing, against its files, by that of DCP", f"{before:.2f} / {after:.2f} GB/s",
              f"{best:.2f} GB/s, {ratio:.3f}", ratio / kept[3], 0.95, 1)
    ours, theirs = first_tensor(bench, "items/step", f"model.{ITEM}"), own_reader(bench)
    what = "mount of torch_checkpointing, and one tensor of 8 MiB; its own reader: times sooner"
    if theirs is None:
        bench.skip(what, f"{sys.executable} has no torch_checkpointing")
    else:
        bench.row(what, f"{theirs:.3f} s", f"{ours:.3f} s", theirs / ours, 20, 100)


def group_kinds(bench):
    first_reads(bench)
    for part, sources in ((many_tensors, ("safe-many", "torch-many")), (new_steps, ("steps",))):
        left = [source for source in sources if not (bench.data / source).is_dir()]
        if left:
            bench.skip(part.__name__.replace("_", " "), f"{bench.data / left[0]} is not there, see make_big.py")
        else:
            part(bench)
