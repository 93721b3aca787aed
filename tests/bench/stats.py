#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the statistics of `ckptfs report --values`, without the histogram, of files of safetensors, by NumPy.

    stats.py FILE...

One process. Values of bfloat16 become float32 by ml_dtypes, in blocks that stay in the cache of the processor; sums are in
float64. It is what the group `values` of tests/bench/run compares the command with. One line of JSON for each tensor.
"""
import json
import math
import struct
import sys

import ml_dtypes
import numpy as np

BLOCK = 1 << 18         # elements: 1 MiB of float32; blocks of 64 Ki and 4 Mi elements take longer
TYPES = {"BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32}


def tensors(path):
    """(name, elements) of a file."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        head = json.loads(file.read(length))
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + length)
    for name, row in head.items():
        if name != "__metadata__":
            begin, end = row["data_offsets"]
            yield name, data[begin:end].view(TYPES[row["dtype"]])


class Figures:
    def __init__(self):
        self.zeros = self.nan = self.inf = self.finite = 0
        self.min, self.max, self.sum, self.squares = math.inf, -math.inf, 0.0, 0.0

    def add(self, block):
        values = block.astype(np.float32)
        finite = np.isfinite(values)
        if not finite.all():
            self.nan += int(np.count_nonzero(np.isnan(values)))
            self.inf += int(np.count_nonzero(np.isinf(values)))
            values = values[finite]
        if values.size:
            self.finite += values.size
            self.zeros += values.size - int(np.count_nonzero(values))
            self.min, self.max = min(self.min, float(values.min())), max(self.max, float(values.max()))
            self.sum += float(values.sum(dtype=np.float64))
            self.squares += float(np.square(values, dtype=np.float64).sum())

    def as_dict(self):
        mean = self.sum / self.finite if self.finite else 0
        deviation = math.sqrt(max(0, self.squares / self.finite - mean * mean)) if self.finite else 0
        return {"count": self.finite + self.nan + self.inf, "min": self.min, "max": self.max, "mean": mean, "std": deviation,
                "norm": math.sqrt(self.squares), "zeros": self.zeros, "nan": self.nan, "inf": self.inf}


def main():
    for path in sys.argv[1:]:
        for name, elements in tensors(path):
            figures = Figures()
            for at in range(0, elements.size, BLOCK):
                figures.add(elements[at:at + BLOCK])
            print(json.dumps({"name": name, **figures.as_dict()}))


main()
