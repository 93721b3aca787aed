#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares statistics of values with NumPy's in float64.

    value-stats.py PROGRAM

PROGRAM and PROGRAM-plain are tests/lib/value_figures.c with and without AVX2, the latter with wide counts of patterns;
both must have the same output. Each dtype has random
values, special ones, blocks of all lengths, and values far from 0. Counts, minimum and maximum must be equal, sums within
1e-12 of the sum of absolute values. Histograms must be those of numpy.histogram; of values of more than 16 bits, a value may be
counted below an edge that it is above by less than 1/100 of a bin. CKPTFS_CASES: tensors of each dtype.
"""
import subprocess
import sys

import live                                                             # also finds the modules of tests/fixtures
import numbers_of
from tap import Tap, cases, seed

NARROW = (*numbers_of.SMALL, "float16", "bfloat16", "int16", "int8", "uint8", "bool", "uint16", "complex32")


def made(torch, np, generator, dtype, count):
    """Tensors as bytes."""
    lengths = [0, 1, 2, 7, 8, 9, 319, 320, 321, 5000, *generator.integers(0, 3000, max(0, count - 10))]
    found = [numbers_of.random_bytes(torch, generator, dtype, int(n)) for n in lengths[:count]]
    if dtype in ("float64", "float32"):
        far = torch.from_numpy(1e6 + generator.standard_normal(2000) / 100).to(getattr(torch, dtype))
        found.append(far.view(torch.uint8).numpy().tobytes())
        special = torch.tensor([float("nan"), float("inf"), -float("inf")] * 200, dtype=getattr(torch, dtype))
        found.append(special.view(torch.uint8).numpy().tobytes())
        found += [torch.from_numpy(values).to(getattr(torch, dtype)).view(torch.uint8).numpy().tobytes()
                  for values in wide(np, generator)]
    if dtype in ("float64", "complex128"):
        found += [values.tobytes() for values in large(np, generator)]
    return found


def wide(np, generator):
    """Values whose range grows from block to block, or which are all near each other."""
    yield generator.standard_normal(3000) * 2.0 ** np.arange(3000)[::-1].clip(0, 100)
    yield np.cumsum(generator.random(5000))
    yield -np.cumsum(generator.random(5000))
    yield np.concatenate([np.full(1000, 3.5), generator.standard_normal(1000) * 1e-3 + 1000])
    yield np.full(700, -0.1)
    yield np.array([0.0] * 500 + [1e-300, -1e30])
    yield 1 + np.ldexp(generator.integers(0, 5, 1000).astype(float), -52)
    yield generator.standard_normal(4000) * 1e-40
    yield np.arange(4096.0) - 500


def large(np, generator):
    """Doubles whose squares, sums or differences no double has."""
    most = np.finfo(float).max
    yield np.array([1e308, -1e308] * 400)
    yield np.array([most, -most])
    yield np.full(1000, most)
    yield np.concatenate([generator.standard_normal(1000), [1e200, -1e300, np.nan, np.inf]])
    yield 1e200 * generator.standard_normal(5000)
    yield 1e308 * generator.uniform(-1.7, 1.7, 5000)


def is_near(got, want, scale):
    return got == want or abs(got - want) <= 1e-12 * scale < float("inf")


def bins_fault(np, bins, finite, is_exact):
    """None, or the bin whose count differs. Sums of bins are compared, so that each value counts at one edge."""
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        return None if bins == [finite.size] + [0] * 31 else f"bins {bins} of equal values"
    if is_exact:
        wanted = np.histogram(finite, 32, (low, high))[0].tolist()
        return None if bins == wanted else f"bins {bins}, expected {wanted}"
    if high - low == np.inf:
        finite = finite / 4
        low, high = low / 4, high / 4
    edges = np.linspace(low, high, 33)
    step, rounding = high / 32 - low / 32, 4 * np.spacing(max(abs(low), abs(high)))
    ordered = np.sort(finite)
    least = np.searchsorted(ordered, edges[1:-1] - rounding)
    most = np.searchsorted(ordered, edges[1:-1] + np.maximum(step / 100, rounding))
    found = np.cumsum(bins)
    if found[-1] != finite.size or (found[:-1] < least).any() or (found[:-1] > most).any():
        return f"bins {bins}, expected {np.histogram(finite, edges)[0].tolist()}"
    return None


def tally_fault(np, line, stats, values, is_exact):
    """None, or the figure of the tally that differs from NumPy's or from the one in `stats`."""
    words, stats = line.split(), stats.split()
    if words[:5] != stats[:5]:
        return f"tally: counts {words[:5]}, expected {stats[:5]}"
    values = values.view(np.float64) if values.dtype == np.complex128 else values
    finite = values[np.isfinite(values)]
    numbers, bins = list(map(float.fromhex, words[5:10])), list(map(int, words[10:]))
    if not finite.size:
        return None if not any(numbers) and not any(bins) else "tally: no finite values"
    exact = finite.astype(np.longdouble)
    size, mean, deviation = float(np.abs(exact).mean()), float(exact.mean()), float(exact.std())
    norm = float(np.sqrt((exact * exact).sum()))
    wanted = [finite.min(), finite.max(), mean, deviation, norm]
    scales = [0, 0, size, max(deviation, 1e-9 * size), norm]
    if not all(map(is_near, numbers, wanted, scales)):
        return f"tally: {numbers}, expected {wanted}"
    return bins_fault(np, bins, finite, is_exact)


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
    size = np.abs(exact).sum()
    if (low, high) != (finite.min(), finite.max()):
        return f"{low} to {high}, expected {finite.min()} to {finite.max()}"
    if not is_near(total, float(exact.sum()), float(size)) or not is_near(mean, float(exact.mean()), float(size / finite.size)):
        return f"sum {total}, mean {mean}; expected {exact.sum()}, {exact.mean()}"
    if not is_near(deviation, float(exact.std()), float(max(exact.std(), 1e-9 * size / finite.size))):
        return f"deviation {deviation}, expected {exact.std()}"
    want = float(np.sqrt((exact * exact).sum()))
    return None if is_near(norm, want, want) else f"norm {norm}, expected {want}"


def main():
    import numpy as np
    import torch
    tap, generator = Tap(), np.random.default_rng(seed(41))
    for dtype in numbers_of.ALL:
        tensors = made(torch, np, generator, dtype, cases("CKPTFS_CASES", 12, 300))
        text = b"".join(b"%s %d\n%s" % (dtype.encode(), len(data), data) for data in tensors)
        lines, plain = (subprocess.run([program], input=text, capture_output=True, check=True).stdout.decode().splitlines()
                        for program in (sys.argv[1], sys.argv[1] + "-plain"))
        is_exact = dtype in NARROW
        all_values = [numbers_of.values(torch, dtype, data) for data in tensors]
        faults = [f"{i}: {found}" for i, (line, values) in enumerate(zip(lines[::2], all_values, strict=True))
                  if (found := fault(np, line, values))]
        others = [f"{i}: {found}" for i, (line, tally, values) in enumerate(zip(lines[::2], lines[1::2], all_values, strict=True))
                  if (found := tally_fault(np, tally, line, values, is_exact))]
        tap.check(not faults, f"{dtype}: NumPy's statistics", *faults[:5])
        tap.check(not others, f"{dtype}: NumPy's histogram", *others[:5])
        tap.check(lines == plain, f"{dtype}: the same without AVX2")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
