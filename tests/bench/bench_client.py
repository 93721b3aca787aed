# SPDX-License-Identifier: MIT
"""Group `python` of tests/bench/run: the Python package beside PyTorch's readers.

tests/bench/make_big.py writes the data: `model` DIR/big, and `hf` DIR/hf. The python that runs tests/bench/run needs torch and
safetensors. All ways of a row run in one process in turn (client_loads.py), from page cache, into the same touched
memory. A figure is the median of --repeat rounds, with the quartiles of the ratios.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys

from bench_hf import lacks
from measure import BIG
from pairs import median_of

HERE = pathlib.Path(__file__).resolve().parent
SAMPLE = HERE.parent / "fixtures/sample"


def rounds_of(bench, way, source, *words):
    """Columns of seconds."""
    build = bench.program.parent.parent
    places = {"CKPTFS_PACKAGE": str(HERE.parent.parent / "mount-helpers/python"),
              "CKPTFS_LIBRARY": str(build / "core/libckptfs.so.1"), "PYTHONPYCACHEPREFIX": str(bench.base / "pycache")}
    environment = {**os.environ, **places}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)    # an installed package is compiled
    bench.settle()
    command = [sys.executable, HERE / "client_loads.py", way, source, str(bench.repeat), *words]
    output = subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL, env=environment)
    return list(zip(*json.loads(output.splitlines()[-1])))


def faster(bench, what, theirs, ours, floor, target, size=0):
    """A row of how many times faster ours is."""
    ratios = [other / mine for other, mine in zip(theirs, ours)]

    def shown(times):
        middle = statistics.median(times)
        return f"{1000 * middle:.1f} ms" + (f", {size / middle / 1e9:.2f} GB/s" if size else "")
    bench.row(what, shown(theirs), f"{shown(ours)}; {median_of(ratios)}", statistics.median(ratios), floor, target)


def bytes_of(folder, pattern):
    return sum(file.stat().st_size for file in folder.glob(pattern))


def group_python(bench):
    if lacks("torch", "safetensors"):
        return bench.skip("the Python package", f"{sys.executable} has no {lacks('torch', 'safetensors')[0]}")
    big, hf = bench.data / "big", bench.data / "hf"
    size = bytes_of(big, "*.distcp")
    faster(bench, "dcp.load by StorageReader; FileSystemReader", *rounds_of(bench, "dcp", big), 3, 5, size)
    loads, reads, ours = rounds_of(bench, "state_dict", big)
    faster(bench, "ckptfs.open().state_dict(out=); dcp.load", loads, ours, 6, 10, size)
    faster(bench, "the same; reads of the shards into one buffer by as many threads", reads, ours, 0.7, 0.85, size)
    faster(bench, "64 rows of a tensor of 1 GiB; dcp.load of a target of 64 rows", *rounds_of(bench, "slice", big, BIG), 50, 200)
    if hf.is_dir():
        faster(bench, "dcp.load of 1.1 GiB of 8 safetensors files by StorageReader; HuggingFaceStorageReader",
               *rounds_of(bench, "hf", hf), 3, 10, bytes_of(hf, "*.safetensors"))
    else:
        bench.skip("HuggingFaceStorageReader", f"{hf} is not there, see make_big.py")
    times = [rounds_of(bench, "open", SAMPLE) for _ in range(bench.repeat)]
    first = 1000 * min(imports[0] for imports, _ in times)
    bench.row("import ckptfs, the best of new processes (ms)", "", f"{first:.1f} ms", first, 30, None, True)
    opened = 1000 * statistics.median(opens[0] for _, opens in times)
    bench.row("the first ckptfs.open of the sample (ms)", "", f"{opened:.2f} ms", opened, 5, None, True)
