# SPDX-License-Identifier: MIT
"""The group of commands that read all elements. Needs three more copies of the model in DIR while it runs, and for the statistics
numpy and ml_dtypes in the python that runs tests/bench/run."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from bench_hf import lacks
from measure import clock

STATS = pathlib.Path(__file__).resolve().parent / "stats.py"


def together(*commands):
    """Seconds until all of these processes have ended."""
    start = time.monotonic()
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in commands]
    if any(process.wait() for process in running):
        raise RuntimeError(f"{commands[0][0]} has failed")
    return time.monotonic() - start


def digest(bench):
    """Beside xxhsum -H2 of the shards by two processes."""
    shards = sorted((bench.data / "big").glob("*.distcp"))
    size = sum(shard.stat().st_size for shard in shards) / 1e9
    halves = [["xxhsum", "-H2", *shards[i::2]] for i in range(2)]
    together(*halves)
    bench.compare("ckptfs digest of 2.1 GiB in 8 shards, beside xxhsum", lambda: size / together(*halves),
                  lambda: size / clock(bench.program, "digest", bench.data / "big"), 0.7, 0.9)


def diff(bench):
    """Two equal checkpoints of different layout, beside cmp of two merged files."""
    base = pathlib.Path(tempfile.mkdtemp(prefix=".bench-", dir=bench.data))
    try:
        subprocess.run([bench.program, "cp", "-r", bench.data / "big", "dcp/3", base / "other"], check=True, capture_output=True)
        for name in ("a", "b"):
            with open(base / name, "wb") as file:
                subprocess.run([bench.program, "cat", bench.data / "big", "raw/*"], check=True, stdout=file)
        size = os.path.getsize(base / "a") / 1e9
        ours = bench.program, "diff", bench.data / "big", base / "other"
        clock(*ours)
        bench.compare("ckptfs diff of 2.1 GiB, 8 and 3 ranks, beside cmp", lambda: size / clock("cmp", base / "a", base / "b"),
                      lambda: size / clock(*ours), 0.7, 1.0)
    finally:
        shutil.rmtree(base)


def normal_files(folder):
    """2 GiB of bfloat16 as weights have it, normal values of standard deviation 0.02: 8 files of safetensors, each of one
    tensor of 256 MiB. make_big.py's model has each bit pattern equally often, so its counts do not fit into a cache."""
    import ml_dtypes
    import numpy as np
    data = (np.random.default_rng(1).standard_normal(1 << 24, dtype=np.float32) * 0.02).astype(ml_dtypes.bfloat16).tobytes()
    pieces, folder = 8, pathlib.Path(folder)
    folder.mkdir()
    for i in range(8):
        size = pieces * len(data)
        head = json.dumps({f"layers.{i}.weight": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}).encode()
        with open(folder / f"model-{i + 1:05}-of-00008.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(head)) + head + data * pieces)


def values(bench):
    """Statistics of all values, beside those of one process of NumPy from safetensors."""
    if lacks("numpy", "ml_dtypes"):
        return bench.skip("ckptfs report --values", f"{sys.executable} has no {lacks('numpy', 'ml_dtypes')[0]}")
    base = pathlib.Path(tempfile.mkdtemp(prefix=".bench-", dir=bench.data))
    try:
        subprocess.run([bench.program, "cp", "-r", bench.data / "big", "hf", base / "hf"], check=True, capture_output=True)
        files = sorted((base / "hf").glob("*.safetensors"))
        size = sum(file.stat().st_size for file in files) / 1e9
        theirs = sys.executable, STATS, *files
        ours = bench.program, "report", "--values", "-o", base / "page.html", bench.data / "big"
        bench.compare("ckptfs report --values of 2.1 GiB of bfloat16, each pattern equally often, beside NumPy",
                      lambda: size / clock(*theirs), lambda: size / clock(*ours), 4, 8)
        normal_files(base / "normal")
        normal = sorted((base / "normal").iterdir())
        size = sum(file.stat().st_size for file in normal) / 1e9
        bench.compare("ckptfs report --values of 2 GiB of bfloat16, normal values, beside NumPy",
                      lambda: size / clock(sys.executable, STATS, *normal), lambda: size / clock(*ours[:-1], base / "normal"), 4, 8)
    finally:
        shutil.rmtree(base)


def report(bench):
    """The page of many tensors without values."""
    if not (bench.data / "tensors").is_dir():
        return bench.skip("ckptfs report of 100,000 tensors", "no DIR/tensors, see make_big.py")
    times = []
    for _ in range(bench.repeat):
        bench.settle()
        times.append(clock(bench.program, "report", "-o", bench.base / "page.html", bench.data / "tensors"))
    bench.row("ckptfs report of 100,000 tensors (s)", "", f"{min(times):.2f} s", min(times), 2, 1, True)


def group_values(bench):
    if shutil.which("xxhsum"):
        digest(bench)
    else:
        bench.skip("ckptfs digest", "no xxhsum")
    diff(bench)
    values(bench)
    report(bench)
