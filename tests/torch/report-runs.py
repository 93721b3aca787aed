#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the curves in `ckptfs report RUN` with NumPy's.

    report-runs.py CKPTFS

Steps of random states have tensors of all dtypes, which change in some or all elements, change their shape or dtype, come and
go, and share memory; some steps are damaged. Norms, counts and norms of changes must be those of float64. The result is TAP.
"""
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import live                                                             # also finds the modules of tests/fixtures
import numbers_of
import numpy as np
from diff import tensor_of
from tap import Tap

NEAR = 1e-5                                                             # the page has six digits


def page(program, run, *arguments):
    """The data of the page, and the lines of stderr."""
    done = subprocess.run([program, "report", *arguments, "-o", "-", str(run)], capture_output=True, text=True, check=True)
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', done.stdout, re.S)[1]), done.stderr


# ---- oracle

def parts(values):
    return values.view(np.float64) if values.dtype == np.complex128 else values


def figures(torch, dtype, data):
    values = parts(numbers_of.values(torch, dtype, data))
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        norm = float(np.sqrt((finite.astype(np.longdouble) ** 2).sum()))
    return norm if finite.size else None, int(np.isnan(values).sum()), int(np.isinf(values).sum())


def change(torch, was, now):
    """None if there is no tensor of this form in the step before, or no finite element in both."""
    if not was or was[:2] != now[:2]:
        return None
    one, two = (numbers_of.values(torch, now[0], data) for data in (was[2], now[2]))
    finite = np.isfinite(one) & np.isfinite(two)
    if not finite.any():
        return None
    return float(np.sqrt((np.abs(one[finite] - two[finite]).astype(np.longdouble) ** 2).sum()))


def is_near(got, want):
    if got is None or want is None:
        return got is want
    return math.isclose(got, want, rel_tol=NEAR, abs_tol=NEAR * 1e-30)


def fault(torch, run, names, states):
    """None, or the figure that differs. states: for each step of the page {name: (dtype, shape, bytes)}."""
    for i, name in enumerate(names):
        before = None
        for s, state in enumerate(states):
            now = state.get(name)
            got = [run[key][i] and run[key][i][s] for key in ("norm", "nan", "inf", "change")]
            norm, nan, inf = figures(torch, now[0], now[2]) if now else (None, None, None)
            want = change(torch, before, now) if now else None
            if not is_near(got[0], norm) or not is_near(got[3], want) or ((got[1] or 0), (got[2] or 0)) != (nan or 0, inf or 0):
                return f"step {run['steps'][s]}: {name} {now and now[:2]}: {got}, expected {norm}, {nan}, {inf}, {want}"
            before = now
    return None


# ---- runs

def changed(torch, generator, tensor):
    """The same tensor, or one with other values in some or all elements, or of another form."""
    dtype, shape, data = tensor
    elements, case = math.prod(shape), generator.integers(0, 8)
    if case < 2 or not elements:
        return tensor
    if case == 2:
        shape = [elements, 1]
    if case == 3:
        dtype = str(generator.choice(numbers_of.ALL))
    other = numbers_of.random_bytes(torch, generator, dtype, elements)
    if case < 6 or not len(data):
        return dtype, shape, other
    size = len(data) // elements
    cut = int(generator.integers(0, elements)) * size
    return dtype, shape, data[:cut] + other[cut:]


def next_state(torch, generator, state):
    out = {name: changed(torch, generator, tensor) for name, tensor in state.items() if generator.random() > 0.1}
    for i in range(40):
        if f"t.{i}" not in out and generator.random() < (0.02 if state else 0.6):
            dtype, shape = str(generator.choice(numbers_of.ALL)), [int(n) for n in generator.integers(0, 12, generator.integers(0, 4))]
            out[f"t.{i}"] = dtype, shape, numbers_of.random_bytes(torch, generator, dtype, math.prod(shape))
    return out


def save(torch, state, step, ckptfs=None):
    """A file of torch.save, or with ckptfs its copy as a DCP checkpoint of three ranks."""
    step.mkdir(parents=True)
    path = step / "model.bin"
    torch.save({name: tensor_of(torch, *tensor) for name, tensor in state.items()}, path)
    if ckptfs:
        subprocess.run([ckptfs, "cp", "-r", str(path), "dcp/3", f"{step}.new"], capture_output=True, check=True)
        path.unlink()
        step.rmdir()
        os.rename(f"{step}.new", step)


def natural(name):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def check_random(tap, program, torch, home, generator):
    run, states = home / "random", [{}]
    for i in range(12):
        states.append(next_state(torch, generator, states[-1]))
        save(torch, states[-1], run / f"step-{5 * (i + 1)}", program if i % 3 == 1 else None)
    states.pop(0)
    data, errors = page(program, run)
    names = sorted(set().union(*states), key=natural)
    tap.check(data["names"] == names and data["source"]["kind"] == "run" and not errors, "report: the tensors of all steps",
              data["names"], errors)
    found = data["run"]
    tap.check((found["steps"], found["all"], found["skipped"]) == ([5 * (i + 1) for i in range(12)], 12, {}),
              "report: the steps of a run", found["steps"])
    wrong = fault(torch, found, names, states)
    tap.check(not wrong, "report: norm, NaN, Inf and change of each tensor and step", wrong)
    layouts = [data["layouts"][i]["shape"] for i in data["layout"]]
    newest = [next(state[name][:2] for state in reversed(states) if name in state) for name in names]
    tap.check([(data["dtypes"][d], shape) for d, shape in zip(data["dtype"], layouts, strict=True)] == newest,
              "report: dtype and shape of the newest step with the tensor")
    stats = page(program, run, "--values")[0]["stats"]
    want = [figures(torch, dtype, data) for dtype, _, data in
            (next(state[name] for state in reversed(states) if name in state) for name in names)]
    tap.check(all(is_near(stats["norm"][i], norm) and (stats["nan"][i], stats["inf"][i]) == (nan, inf)
                  for i, (norm, nan, inf) in enumerate(want)), "report --values: those of the newest step with the tensor")


def check_samples(tap, program, torch, home):
    """450 steps, of which 200 are read: each is a link to one file."""
    run, file = home / "many", home / "one.bin"
    torch.save({"w": torch.ones(2)}, file)
    for i in range(450):
        step = run / f"{7 * i + 3}"
        step.mkdir(parents=True)
        os.link(file, step / "model.bin")
    found = page(program, run)[0]["run"]
    gaps = {(b - a) // 7 for a, b in zip(found["steps"], found["steps"][1:], strict=False)}
    tap.check((len(found["steps"]), found["all"], found["steps"][0], found["steps"][-1], gaps) == (200, 450, 3, 7 * 449 + 3, {2, 3})
              and len(found["norm"][0]) == 200 and found["nan"] == [None], "report: at most 200 steps, spread evenly", gaps)


def check_shared(tap, program, torch, home, generator):
    """Tied tensors, which are no longer tied in the last step."""
    run, data = home / "tied", [numbers_of.random_bytes(torch, generator, "float32", 500) for _ in range(4)]
    states = []
    for i in range(3):
        one, two = (tensor_of(torch, "float32", [500], data[k]) for k in (i, 3))
        (run / f"step-{i}").mkdir(parents=True)
        torch.save({"a": one, "b": one if i < 2 else two}, run / f"step-{i}" / "model.bin")
        states.append({"a": ("float32", [500], data[i]), "b": ("float32", [500], data[i] if i < 2 else data[3])})
    found = page(program, run)[0]["run"]
    wrong = fault(torch, found, ["a", "b"], states)
    tap.check(not wrong, "report: tensors that share memory in some steps", wrong)


def check_damage(tap, program, torch, home, generator):
    import torch.distributed.checkpoint as dcp
    run, states = home / "damaged", []
    for i in range(1, 6):
        data = {name: numbers_of.random_bytes(torch, generator, "float32", 50) for name in ("a", "b")}
        states.append({name: ("float32", [50], bits) for name, bits in data.items()})
        dcp.save({name: tensor_of(torch, *tensor) for name, tensor in states[-1].items()}, checkpoint_id=str(run / f"step-{i}"),
                 no_dist=True)
    item = (run / "step-2" / "__0_0.distcp").read_bytes()
    at = item.rindex(b"PK\x03\x04", 0, item.index(states[1]["b"][2]))    # the local header of that record
    (run / "step-2" / "__0_0.distcp").write_bytes(item[:at] + b"XX" + item[at + 2:])
    (run / "step-4" / ".metadata").write_bytes(b"\x80\x02rubbish.")
    for number in (2, 4):
        os.utime(run / f"step-{number}", (0, 0))
    data, errors = page(program, run)
    found = data["run"]
    tap.check(found["steps"] == [1, 2, 3, 5] and list(found["skipped"]) == ["4"] and "ckptfs: step-4: skipped: " in errors,
              "report: a step that cannot be opened", found["steps"], found["skipped"], errors)
    del states[1]["b"]
    del states[3]
    wrong = fault(torch, found, ["a", "b"], states)
    tap.check(not wrong and list(data["damage"]) == ["1"] and "step-2" in data["damage"]["1"] and "ckptfs: step-2: b: " in errors,
              "report: a tensor of a step cannot be read", wrong, data["damage"], errors)
    for number in (1, 2, 3, 5):
        (run / f"step-{number}" / ".metadata").write_bytes(b"\x80\x02rubbish.")
    done = subprocess.run([program, "report", "-o", str(home / "no.html"), str(run)], capture_output=True, text=True, check=False)
    tap.check(done.returncode == 2 and not (home / "no.html").exists() and "no step can be opened" in done.stderr,
              "report: no step can be opened", done.stderr)


def check_names(tap, program, torch, home):
    """Steps without numbers of their own; parts of a step."""
    import torch.distributed.checkpoint as dcp
    run = home / "words"
    for i, name in enumerate(("a-1", "b-1", "c-2")):
        for part in ("model_0", "optimizer_0"):
            dcp.save({part: torch.full((4,), float(i))}, checkpoint_id=str(run / name / part), no_dist=True)
    data, _ = page(program, run)
    tap.check((data["names"], data["run"]["steps"], data["run"]["norm"], data["run"]["change"]) ==
              (["model_0", "optimizer_0"], ["a-1", "b-1", "c-2"], [[0, 2, 4]] * 2, [[None, 2, 2]] * 2),
              "report: names of steps, parts of a step", data["run"])


def main():
    program = live.arguments(__doc__).ckptfs
    import torch
    tap, generator = Tap(), np.random.default_rng(live.seed(4102))
    with tempfile.TemporaryDirectory(prefix="report-runs-") as name:
        home = pathlib.Path(name)
        check_random(tap, program, torch, home, generator)
        check_samples(tap, program, torch, home)
        check_shared(tap, program, torch, home, generator)
        check_damage(tap, program, torch, home, generator)
        check_names(tap, program, torch, home)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
