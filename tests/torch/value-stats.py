#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares statistics of values with NumPy's in float64.

    value-stats.py PROGRAM

PROGRAM and PROGRAM-plain are tests/lib/value_figures.c with and without AVX2; both must have the same output. Each dtype has random
values, special ones, blocks of all lengths, and values far from 0. Counts, minimum and maximum must be equal, sums within
1e-12 of the sum of absolute values. CKPTFS_CASES: tensors of each dtype.
"""
import subprocess
import sys

import live                                                             # also finds the modules of tests/fixtures
import numbers_of
from tap import Tap, cases, seed


def made(torch, generator, dtype, count):
    """Tensors as bytes."""
    lengths = [0, 1, 2, 7, 8, 9, 319, 320, 321, 5000, *generator.integers(0, 3000, max(0, count - 10))]
    found = [numbers_of.random_bytes(torch, generator, dtype, int(n)) for n in lengths[:count]]
    if dtype in ("float64", "float32"):
        far = torch.from_numpy(1e6 + generator.standard_normal(2000) / 100).to(getattr(torch, dtype))
        found.append(far.view(torch.uint8).numpy().tobytes())
        special = torch.tensor([float("nan"), float("inf"), -float("inf")] * 200, dtype=getattr(torch, dtype))
        found.append(special.view(torch.uint8).numpy().tobytes())
    return found


def is_near(got, want, scale):
    return abs(got - want) <= 1e-12 * scale


def fault(np, line, values):
    """None, or the figure that differs."""
    counts, numbers = list(map(int, line.split()[:5])), list(map(float.fromhex, line.split()[5:]))
    values = values.view(np.float64) if values.dtype == np.complex128 else values
    finite = values[np.isfinite(values)]
    wanted = [values.size, int((values == 0).sum()), int(np.isnan(values).sum()), int(np.isinf(values).sum()), finite.size]
    if counts != wanted:
        return f"counts {counts}, expected {wanted}"
    low, high, total, mean, deviation, norm = numbers
    if not finite.size:
        return None if (total, mean, deviation, norm) == (0, 0, 0, 0) else "no finite values"
    exact = finite.astype(np.longdouble)
    size = float(np.abs(exact).sum())
    if (low, high) != (finite.min(), finite.max()):
        return f"{low} to {high}, expected {finite.min()} to {finite.max()}"
    if not is_near(total, float(exact.sum()), size) or not is_near(mean, float(exact.mean()), size / finite.size):
        return f"sum {total}, mean {mean}; expected {exact.sum()}, {exact.mean()}"
    if not is_near(deviation, float(exact.std()), max(float(exact.std()), 1e-9 * size / finite.size)):
        return f"deviation {deviation}, expected {exact.std()}"
    want = float(np.sqrt((exact * exact).sum()))
    return None if is_near(norm, want, want) else f"norm {norm}, expected {want}"


def main():
    import numpy as np
    import torch
    tap, generator = Tap(), np.random.default_rng(seed(41))
    for dtype in numbers_of.ALL:
        tensors = made(torch, generator, dtype, cases("CKPTFS_CASES", 12, 300))
        text = b"".join(b"%s %d\n%s" % (dtype.encode(), len(data), data) for data in tensors)
        lines, plain = (subprocess.run([program], input=text, capture_output=True, check=True).stdout.decode().splitlines()
                        for program in (sys.argv[1], sys.argv[1] + "-plain"))
        faults = [f"{i}: {found}" for i, (line, data) in enumerate(zip(lines, tensors, strict=True))
                  if (found := fault(np, line, numbers_of.values(torch, dtype, data)))]
        tap.check(not faults, f"{dtype}: NumPy's statistics", *faults[:5])
        tap.check(lines == plain, f"{dtype}: the same without AVX2")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
