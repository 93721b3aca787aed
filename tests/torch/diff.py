#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares ckptfs diff with an oracle in NumPy, on pairs of random states of all dtypes.

    diff.py CKPTFS [--pairs N]

The second state of a pair has tensors that are equal, changed in some elements or in all, of another shape or dtype,
added and removed. Each state is a file of torch.save, or its copy as a DCP checkpoint of one to four ranks. Names, figures
and the exit status must be those of the oracle; with --atol and --rtol, the tensors that differ by more. The result is TAP.
"""
import json
import math
import subprocess
import sys
import tempfile

import live                                                             # also finds the modules of tests/fixtures
import numbers_of
from tap import Tap


def tensor_of(torch, dtype, shape, data):
    elements = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)
    return elements.view(getattr(torch, dtype)).reshape(shape)


def changed_bytes(torch, np, generator, dtype, data, elements):
    """Other values in some elements, or in all."""
    other = numbers_of.random_bytes(torch, generator, dtype, elements)
    if generator.random() < 0.3 or not elements:
        return other
    size = len(data) // elements
    some = np.frombuffer(data, dtype=np.uint8).reshape(elements, size).copy()
    at = generator.integers(0, elements, 1 + elements // 8)
    some[at] = np.frombuffer(other, dtype=np.uint8).reshape(elements, size)[at]
    return some.tobytes()


def pair_of(torch, np, generator):
    """name: (dtype, shape, bytes) of both states."""
    a, b = {}, {}
    for i in range(int(generator.integers(1, 14))):
        dtype = str(generator.choice(numbers_of.ALL))
        shape = [int(n) for n in generator.integers(0, 9, generator.integers(0, 4))]
        if generator.random() < 0.2:
            shape = [int(generator.integers(1, 40)), int(generator.integers(1, 300))]
        elements = math.prod(shape)
        data = numbers_of.random_bytes(torch, generator, dtype, elements)
        case, name = generator.integers(0, 8), f"layers.{i}.weight"
        if case != 0:
            a[name] = dtype, shape, data
        if case == 1:
            continue
        if case in (2, 3, 4):
            data = changed_bytes(torch, np, generator, dtype, data, elements)
        if case == 5:
            shape = [*shape, 1]
        if case == 6 and dtype in ("float16", "int16"):
            dtype = "bfloat16"
        b[name] = dtype, shape, data
    return a, b


# ---- oracle

def figures(torch, np, dtype, x, y):
    """Largest, mean, share, and how far elements are beyond a tolerance."""
    size = 1 if dtype == "float4_e2m1fn_x2" else getattr(torch, dtype).itemsize
    bits = [np.frombuffer(data, dtype=np.uint8).reshape(-1, size) for data in (x, y)]
    changed = (bits[0] != bits[1]).any(axis=1)
    if dtype == "float4_e2m1fn_x2":
        both = bits[0] ^ bits[1]
        changed = np.stack([both & 15, both >> 4], axis=1).reshape(-1) != 0
    one, two = numbers_of.values(torch, dtype, x), numbers_of.values(torch, dtype, y)
    finite = np.isfinite(one) & np.isfinite(two)
    with np.errstate(all="ignore"):
        distance = np.abs(one - two)

    def parts(values):
        return values.view(np.float64).reshape(-1, 2) if values.dtype == np.complex128 else values.reshape(-1, 1)
    same = ((parts(one) == parts(two)) | (np.isnan(parts(one)) & np.isnan(parts(two)))).all(axis=1)

    def is_beyond(atol, rtol):
        return (distance[finite] > atol + rtol * np.abs(two[finite])).any() or (~finite & ~same).any()
    some = distance[finite]
    return (float(some.max()) if some.size else None, float(some.mean()) if some.size else None,
            float(changed.sum() / changed.size)), is_beyond


def form(tensor):
    return {"dtype": tensor[0], "shape": tensor[1]}


def expected(torch, np, a, b, tolerance):
    found = []
    for name in sorted(set(a) & set(b), key=lambda key: int(key.split(".")[1])):
        row = {"fqn": name, "a": form(a[name]), "b": form(b[name])}
        if row["a"] != row["b"]:
            found.append(row)
        elif a[name][2] != b[name][2]:
            numbers, is_beyond = figures(torch, np, a[name][0], a[name][2], b[name][2])
            if not tolerance or is_beyond(*tolerance):
                found.append({**row, "bytes": True, "figures": numbers})
    return found


def is_near(got, want):
    return got == want if got is None or want is None else abs(got - want) <= 1e-12 * abs(want)


def fault(done, a, b, wanted, with_stats):
    """None, or what differs from the oracle."""
    status = int(bool(wanted or set(a) ^ set(b)))
    if done.returncode != status:
        return f"exit status {done.returncode}, expected {status}: {done.stderr[:300]}"
    got = json.loads(done.stdout)
    names = [sorted(set(x) - set(y), key=lambda key: int(key.split(".")[1])) for x, y in ((a, b), (b, a))]
    if [got["only_a"], got["only_b"], got["unreadable"]] != [*names, []]:
        return f"names {got['only_a']}, {got['only_b']}"
    if [row["fqn"] for row in got["changed"]] != [row["fqn"] for row in wanted]:
        return f"changed {[row['fqn'] for row in got['changed']]}, expected {[row['fqn'] for row in wanted]}"
    for row, want in zip(got["changed"], wanted, strict=True):
        numbers = tuple(row.pop(name, 0) for name in ("max_abs", "mean_abs", "changed"))
        wanted_numbers = want.pop("figures", (0, 0, 0)) if with_stats else (0, 0, 0)
        want.pop("figures", None)
        if row != want:
            return f"{row}, expected {want}"
        if not all(map(is_near, numbers, wanted_numbers)):
            return f"{row['fqn']} {row['a']}: {numbers}, expected {wanted_numbers}"
    return None


# ---- pairs

def saved(torch, generator, ckptfs, home, name, state):
    """A file of torch.save, or its copy of another layout."""
    path = f"{home}/{name}.pt"
    torch.save({key: tensor_of(torch, *value) for key, value in state.items()}, path)
    if not state or generator.random() < 0.5:
        return path
    copy = f"{home}/{name}"
    subprocess.run([ckptfs, "cp", "-r", path, f"dcp/{generator.integers(1, 5)}", copy], check=True, capture_output=True)
    return copy


def check_pair(torch, np, generator, ckptfs):
    a, b = pair_of(torch, np, generator)
    with tempfile.TemporaryDirectory() as home:
        paths = [saved(torch, generator, ckptfs, home, name, state) for name, state in (("a", a), ("b", b))]
        tolerance = 10.0 ** generator.integers(-3, 1), float(generator.integers(0, 2) * 0.1)
        for more, limits in ((["--stats"], None), ([], None), ([f"--atol={tolerance[0]}", f"--rtol={tolerance[1]}"], tolerance)):
            done = subprocess.run([ckptfs, "diff", "--json", *more, *paths], capture_output=True, check=False)
            found = fault(done, a, b, expected(torch, np, a, b, limits), "--stats" in more)
            if found:
                return f"{more}: {found}"
    return None


def main():
    options = live.arguments(__doc__, pairs=(20, 200))
    import numpy as np
    import torch
    tap, generator = Tap(), np.random.default_rng(live.seed(41))
    faults = []
    for i in range(options.pairs):
        found = check_pair(torch, np, generator, options.ckptfs)
        if found:
            faults.append(f"pair {i}: {found}")
    tap.check(not faults, "random pairs: the oracle's differences", *faults[:5])
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
