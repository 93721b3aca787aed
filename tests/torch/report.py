#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the values in the page of ckptfs report with NumPy's, for random states of all dtypes.

    report.py CKPTFS [--states N]

Each state is a file of torch.save, or its copy as a DCP checkpoint of one to four ranks. A tied tensor has the values of its
target, and state of an optimizer is beside its parameter. Counts, minimum and maximum must be equal, other figures within 1e-12;
the histogram is that of NumPy, scaled to 255: of values of more than 16 bits within 1/100 of a bin. The result is TAP.
"""
import base64
import json
import math
import re
import subprocess
import sys
import tempfile

import live                                                             # also finds the modules of tests/fixtures
import numbers_of
from tap import Tap

NARROW = (*numbers_of.SMALL, "float16", "bfloat16", "int16", "int8", "uint8", "bool", "uint16", "complex32")


def tensor_of(torch, dtype, data):
    elements = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)
    return elements.view(getattr(torch, dtype))


def state_of(torch, generator):
    """name: (dtype, bytes)."""
    state = {}
    for i in range(int(generator.integers(1, 12))):
        dtype = str(generator.choice(numbers_of.ALL))
        elements = int(generator.choice([0, 1, 7, generator.integers(2, 3000)]))
        state[f"layers.{i}.weight"] = dtype, numbers_of.random_bytes(torch, generator, dtype, elements)
    return state


def saved(torch, generator, ckptfs, home, state):
    """A file of torch.save, or its copy of another layout."""
    path, names = f"{home}/state.pt", list(state)
    tensors = {name: tensor_of(torch, *value) for name, value in state.items()}
    tensors["tied"] = tensors[names[0]]
    optimizer = {"state": {0: {"exp_avg": torch.full((3,), 2.0), "exp_avg_sq": torch.ones(3)}},
                 "param_groups": [{"lr": 0.1, "params": [0], "param_names": [names[0]]}]}
    torch.save({"model": tensors, "optimizer": optimizer}, path)
    if generator.random() < 0.5:
        return path
    copy = f"{home}/copy"
    subprocess.run([ckptfs, "cp", "-r", path, f"dcp/{generator.integers(1, 5)}", copy], check=True, capture_output=True)
    return copy


# ---- the page

def data_of(ckptfs, source, *options):
    page = subprocess.run([ckptfs, "report", *options, "-o", "-", source], check=True, capture_output=True).stdout.decode()
    return json.loads(re.search(r'id="data">\n(.*?)\n</script>', page, re.S)[1])


def bins_fault(np, found, finite, is_narrow):
    """None, or bins that are not between the counts of the values that are surely in them, and of those that may be."""
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        return None if found == [255] + [0] * 31 else f"bins {found} of equal values"
    edges, ordered = np.linspace(low, high, 33), np.sort(finite)
    slack = 0 if is_narrow else (high / 32 - low / 32) / 100 + 4 * np.spacing(max(abs(low), abs(high)))
    ends = [np.concatenate([[0], np.searchsorted(ordered, edges[1:-1] + side * slack), [finite.size]]) for side in (-1, 1)]
    least, most = np.maximum(ends[0][1:] - ends[1][:-1], 0), ends[1][1:] - ends[0][:-1]
    scales = 255 / most.max(), 255 / max(least.max(), 1)
    for i, n in enumerate(found):
        if not least[i] * scales[0] - 0.51 <= n <= max(most[i] * scales[1] + 0.51, most[i] > 0) or (n == 0) and least[i]:
            return f"bin {i} of {found} is {n}, expected {np.histogram(finite, edges)[0].tolist()}"
    return None


def is_near(got, want, scale):
    return got is not None and abs(got - want) <= 1e-12 * scale


def fault(np, stats, i, values, is_narrow):
    """None, or the figure of row i that differs."""
    row = {key: column[i] for key, column in stats.items()}
    values = values.view(np.float64) if values.dtype == np.complex128 else values
    finite = values[np.isfinite(values)]
    counts = {"count": values.size, "zeros": int((values == 0).sum()), "nan": int(np.isnan(values).sum()),
              "inf": int(np.isinf(values).sum())}
    if {key: row[key] for key in counts} != counts:
        return f"{row}, expected {counts}"
    if not finite.size:
        others = {key: value for key, value in row.items() if key not in counts and value is not None}
        return f"without finite values: {others}" if others else None
    exact = finite.astype(np.longdouble)
    size, deviation, norm = float(np.abs(exact).mean()), float(exact.std()), float(np.sqrt((exact * exact).sum()))
    near = (is_near(row["mean"], float(exact.mean()), size), is_near(row["std"], deviation, max(deviation, 1e-9 * size)),
            is_near(row["norm"], norm, norm), row["min"] == finite.min(), row["max"] == finite.max())
    if not all(near):
        return f"{row}, expected {exact.mean()}, {deviation}, {norm}, {finite.min()}, {finite.max()}"
    return bins_fault(np, list(base64.b64decode(row["bins"])), finite, is_narrow)


def state_fault(torch, np, data, state):
    names, first = data["names"], next(iter(state))
    rows = {**{f"model.{name}": value for name, value in state.items()}, "model.tied": state[first]}
    for name, (dtype, content) in rows.items():
        found = fault(np, data["stats"], names.index(name), numbers_of.values(torch, dtype, content), dtype in NARROW)
        if found:
            return f"{name}, {dtype}: {found}"
    states = data["optimizer"].get(str(names.index(f"model.{first}")), {})
    if sorted(states) != ["exp_avg", "exp_avg_sq"]:
        return f"state of the optimizer {states}"
    norm = data["stats"]["norm"][states["exp_avg"]]
    return None if math.isclose(norm, 12 ** 0.5) else f"norm of exp_avg {norm}"


def check_state(torch, np, generator, ckptfs):
    state = state_of(torch, generator)
    with tempfile.TemporaryDirectory() as home:
        source = saved(torch, generator, ckptfs, home, state)
        data, plain = data_of(ckptfs, source, "--values"), data_of(ckptfs, source)
        found = state_fault(torch, np, data, state)
        stats = data.pop("stats")
        if any(len(column) != len(data["names"]) for column in stats.values()):
            return "columns of other lengths"
        if not found and {**data, "values": False} != plain:
            return "without --values the page has other data"
        return found


def main():
    options = live.arguments(__doc__, states=(12, 200))
    import numpy as np
    import torch
    tap, generator = Tap(), np.random.default_rng(live.seed(41))
    faults = []
    for i in range(options.states):
        found = check_state(torch, np, generator, options.ckptfs)
        if found:
            faults.append(f"state {i}: {found}")
    tap.check(not faults, "random states: NumPy's figures and histograms", *faults[:5])
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
