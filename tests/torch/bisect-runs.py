#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds NaN and infinities that were put into runs of PyTorch's checkpoints.

    bisect-runs.py CKPTFS

Runs have 20 steps, of DCP, torch.save or safetensors, with the first NaN or Inf at a known step and tensor. `ckptfs bisect`
must find it in at most 2 + log2(20) steps, and exit with 2 if it cannot be certain. The result is TAP.
"""
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import live                                                             # also finds the modules of tests/fixtures
import numpy as np
from tap import Tap

STEPS = 20
MOST = 2 + int(math.log2(STEPS))                                        # steps that a search reads
FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
          "float8_e5m2fnuz", "complex64", "complex128")


def bisect(program, run, *arguments):
    """The exit status, the object of --json, and the lines of stderr."""
    done = subprocess.run([program, "bisect", "--nan", "--json", *arguments, str(run)], capture_output=True, text=True,
                          check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def state(torch, generator, poisoned=(), value=math.nan):
    """A state whose names are not in natural order. poisoned: the names with one such value."""
    out = {name: torch.from_numpy(generator.standard_normal(shape).astype(np.float32)).to(dtype) for name, shape, dtype in (
        ("layers.10.weight", (40, 30), torch.float32), ("layers.9.weight", (30, 20), torch.bfloat16),
        ("norm.weight", (64,), torch.float16), ("embed.weight", (300, 8), torch.bfloat16))}
    out["step"] = torch.arange(6)
    for name in poisoned:
        flat = out[name].view(-1)
        flat[int(generator.integers(0, flat.numel()))] = value
    return out


class Runs:
    """Run directories made of two files, of a state without and one with a NaN: each step is a link to one of them."""

    def __init__(self, torch, home, generator):
        self.home, self.count = home, 0
        self.files = [home / "clean.bin", home / "nan.bin"]
        torch.save(state(torch, generator), self.files[0])
        torch.save(state(torch, generator, ["norm.weight", "layers.9.weight"]), self.files[1])

    def make(self, has, names=None):
        """has: for each step whether it has a NaN, in layers.9.weight first."""
        self.count += 1
        run = self.home / f"run-{self.count}"
        for i, bad in enumerate(has):
            step = run / (names[i] if names else f"step-{i + 1}")
            step.mkdir(parents=True)
            os.link(self.files[bad], step / "pytorch_model.bin")
        return run


def check_places(tap, program, runs):
    """The first NaN at each step; a run without NaN."""
    faults = []
    for first in range(STEPS + 1):
        status, found, _ = bisect(program, runs.make([i >= first for i in range(STEPS)]))
        near = [found["before"] and found["before"]["has"], found["after"] and found["after"]["has"]]
        want = [first > 0 and False if first else None, True if first < STEPS - 1 else None]
        if first == STEPS:
            good = (status, found["step"], found["fqn"], found["nan"]) == (1, None, None, None)
        else:
            good = (status, found["step"], found["fqn"], found["nan"], found["inf"], near) == (
                0, f"step-{first + 1}", "layers.9.weight", 1, 0, want)
        if not good or len(found["steps_read"]) > MOST or found["steps"] != STEPS or not found["certain"]:
            faults.append(f"{first}: {status} {found}")
    tap.check(not faults, "bisect: the first NaN at each step, in few reads", *faults)


def check_lines(tap, program, runs):
    run = runs.make([i >= 12 for i in range(STEPS)])
    done = subprocess.run([program, "bisect", "--nan", str(run)], capture_output=True, text=True, check=False)
    tap.check(done.stdout.splitlines() == [
        "step-13: layers.9.weight has the first NaN or Inf: 1 NaN, 0 Inf",
        "the step before, step-12, has no NaN or Inf",
        "the step after, step-14, has NaN or Inf",
        "steps read: 5 of 20, assuming that NaN and Inf stay once they appear; --all-steps reads every step"]
        and not done.stderr and done.returncode == 0, "bisect: its lines", done.stdout, done.stderr)
    done = subprocess.run([program, "bisect", "--nan", "--all-steps", str(runs.make([i in (3, 4, 5, 9) for i in range(12)]))],
                          capture_output=True, text=True, check=False)
    tap.check(done.stdout.splitlines()[3:] == ["steps with NaN or Inf: step-4 to step-6, step-10", "steps read: all 12"],
              "bisect --all-steps: its lines", done.stdout)


def check_vanished(tap, program, runs):
    """NaN that the search meets, and that are gone in the next step; and NaN that it does not meet."""
    run = runs.make([i == 10 for i in range(STEPS)])
    status, found, errors = bisect(program, run)
    tap.check((status, found["step"], found["contradicted"], found["certain"], found["after"]) ==
              (2, "step-11", True, False, {"step": "step-12", "has": False}) and "--all-steps" in errors,
              "bisect: a neighbour contradicts the assumption", found, errors)
    status, found, errors = bisect(program, run, "--all-steps")
    tap.check((status, found["step"], found["assumption"], len(found["steps_read"]), errors) == (0, "step-11", None, STEPS, ""),
              "bisect --all-steps: NaN that vanish", found, errors)
    run = runs.make([i in (3, 4) for i in range(STEPS)])
    status, found, _ = bisect(program, run)
    every, all_found, _ = bisect(program, run, "--all-steps")
    tap.check((status, found["step"], found["assumption"]) == (1, None, "NaN and Inf stay once they appear") and
              (every, all_found["step"], all_found["steps_with"]) == (0, "step-4", ["step-4", "step-5"]),
              "bisect: NaN that vanish between the steps read", found, all_found)


def special(torch, dtype, value):
    """A tensor of 1,000 elements, one of which is NaN or Inf; None if the dtype has no such value."""
    out = torch.ones(1000).to(getattr(torch, dtype))
    if dtype in ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3fn") and math.isinf(value):
        return None
    if dtype.startswith("float8"):
        bits = {"float8_e4m3fn": 0xff, "float8_e5m2": 0x7c if math.isinf(value) else 0x7e}.get(dtype, 0x80)
        out.view(torch.uint8)[777] = bits
    else:
        out[777] = complex(1, value) if dtype.startswith("complex") else value
    return out


def check_dtypes(tap, program, torch, home):
    faults = []
    for dtype in FLOATS:
        for value in (math.nan, math.inf, -math.inf):
            bad, run = special(torch, dtype, value), home / f"{dtype}{value}"
            if bad is None:
                continue
            for i in range(1, 4):
                (run / f"{i}").mkdir(parents=True)
                torch.save({"i": torch.full((99,), -1), "w": bad if i > 1 else torch.ones(9).to(bad.dtype)},
                           run / f"{i}" / "model.bin")
            status, found, _ = bisect(program, run)
            if (status, found["step"], found["fqn"], found["nan"], found["inf"]) != (
                    0, "2", "w", int(math.isnan(value)), int(math.isinf(value))):
                faults.append(f"{dtype} {value}: {status} {found}")
    tap.check(not faults, "bisect: NaN and Inf of each dtype", *faults)


def check_order(tap, program, torch, home, generator):
    """The first of many tensors with a NaN, in the order of the dict, whatever thread finds one first."""
    faults = []
    for case in range(12):
        names = [f"t.{i}" for i in generator.permutation(150)]
        bad = sorted(int(i) for i in generator.choice(150, 1 + case, replace=False))
        tensors = {name: torch.zeros(int(generator.integers(1, 20000))) for name in names}
        for i in bad:
            tensors[names[i]][-1] = math.nan
        path = home / f"order-{case}" / "step-1"
        path.mkdir(parents=True)
        torch.save(tensors, path / "model.bin")
        status, found, _ = bisect(program, path.parent)
        if (status, found["fqn"]) != (0, names[bad[0]]):
            faults.append(f"{names[bad[0]]}: {status} {found}")
    tap.check(not faults, "bisect: the first tensor in the checkpoint's order", *faults)


def settled(step):
    """No step that is just being removed."""
    os.utime(step, (0, 0))


def check_damage(tap, program, torch, home, generator):
    """Steps of DCP, of which tensors or all cannot be read."""
    import torch.distributed.checkpoint as dcp
    run = home / "damaged"
    for i in range(1, STEPS + 1):
        bad = ["norm.weight"] if i >= 13 else []
        dcp.save({"model": state(torch, generator, bad)}, checkpoint_id=str(run / f"step-{i}"), no_dist=True)
    status, found, _ = bisect(program, run)
    tap.check((status, found["step"], found["fqn"]) == (0, "step-13", "model.norm.weight"), "bisect: steps of DCP", found)
    for number in (6, 12):
        os.truncate(run / f"step-{number}" / "__0_0.distcp", 10)
        settled(run / f"step-{number}")
    status, found, errors = bisect(program, run)
    tap.check((status, found["step"], found["certain"], found["before"]["has"]) == (2, "step-13", False, None) and
              {(u["step"], u["errno"]) for u in found["unreadable"]} == {("step-12", "ENODATA")} and
              "ckptfs: step-12: model.norm.weight: ENODATA: box " in errors, "bisect: a step that may be the first cannot be read",
              found, errors)
    status, found, errors = bisect(program, run, "-o", "exclude=model.*")
    tap.check((status, found["step"], errors.count("\n")) == (1, None, 0), "bisect: tensors that are not selected are not read",
              found, errors)
    shutil.rmtree(run / "step-12")
    (run / "step-12").mkdir()
    (run / "step-12" / ".metadata").write_bytes(b"\x80\x02rubbish.")
    settled(run / "step-12")
    status, found, errors = bisect(program, run)
    tap.check(status == 2 and found["unreadable"][0]["fqn"] is None and "ckptfs: step-12: " in errors,
              "bisect: a step that cannot be opened", found, errors)
    shutil.rmtree(run / "step-12")
    status, found, errors = bisect(program, run)
    tap.check((status, found["step"], found["before"]) == (0, "step-13", {"step": "step-11", "has": False}),
              "bisect: damage that does not matter", found, errors)
    status, found, errors = bisect(program, run, "--all-steps")
    tap.check(status == 2 and found["step"] == "step-13" and "ckptfs: step-6: model." in errors,
              "bisect --all-steps: a step before the one found cannot be read", found, errors)


def check_hidden_tensor(tap, program, torch, home, generator):
    """An unreadable tensor before, and one behind the first one with a NaN."""
    import torch.distributed.checkpoint as dcp
    for first, status in (("a", 2), ("z", 0)):
        step = home / f"hidden-{first}" / "step-1"
        tensors = {"a.lost": torch.ones(5000), "nan": torch.full((10,), math.nan)}
        if first == "z":
            tensors = {"nan": tensors["nan"], "z.lost": torch.ones(5000)}
        dcp.save(tensors, checkpoint_id=str(step), no_dist=True)
        data = (step / "__0_0.distcp").read_bytes()
        ones = np.ones(5000, dtype=np.float32).tobytes()
        at = data.index(ones[:4000])
        zip_start = data.rindex(b"PK\x03\x04", 0, at)                   # the local header of that record
        (step / "__0_0.distcp").write_bytes(data[:zip_start] + b"XX" + data[zip_start + 2:])
        settled(step)
        got, found, errors = bisect(program, step.parent)
        tap.check((got, found["fqn"], found["certain"]) == (status, "nan", status == 0) and
                  ("a.lost: E" in errors) == (status == 2), f"bisect: an unreadable tensor, {first}", found, errors)


def check_left_out(tap, program, runs):
    """A step that is left out, before the one found, and one that is not."""
    for broken, status in ((3, 2), (2, 0)):
        run = runs.make([0, 0, 0, 1, 1], [f"step-{i}" for i in range(1, 6)])
        step = run / f"step-{broken}"
        (step / "pytorch_model.bin").unlink()                           # a hard link
        (step / "pytorch_model.bin").write_bytes(b"")
        settled(step)
        got, found, errors = bisect(program, run)
        text = f"ckptfs: step-{broken}, which is left out, may have the first NaN or Inf"
        tap.check((got, found["step"], found["certain"], text in errors) == (status, "step-4", status == 0, status == 2),
                  f"bisect: step {broken} is left out", found, errors)


def check_names(tap, program, torch, runs, home, generator):
    """Steps in the order of their numbers; nested steps; and sources that are refused."""
    import torch.distributed.checkpoint as dcp
    names = ["ckpt-2", "ckpt-10", "epoch=3-step=11", "x-100"]
    status, found, errors = bisect(program, runs.make([0, 0, 1, 1, 1], [*names, "final"]))
    tap.check((status, found["step"], found["steps"]) == (0, "epoch=3-step=11", 4) and
              errors == "ckptfs: final: left out: its name has no number\n", "bisect: the order of steps", found, errors)
    run = home / "nested"
    for i in range(1, 4):
        for part in ("model_0", "optimizer_0"):
            bad = ["norm.weight"] if i > 1 and part == "optimizer_0" else []
            dcp.save(state(torch, generator, bad, math.inf), checkpoint_id=str(run / f"checkpoint-{i}" / part), no_dist=True)
    status, found, errors = bisect(program, run)
    tap.check((status, found["step"], found["fqn"], found["inf"]) == (0, "checkpoint-2", "optimizer_0/norm.weight", 1),
              "bisect: parts of a step", found, errors)
    for arguments, text in (((str(run / "checkpoint-1" / "model_0"),), "expected a run directory"), ((str(home / "no"),), "no"),
                            ((), "usage")):
        done = subprocess.run([program, "bisect", "--nan", *arguments], capture_output=True, text=True, check=False)
        tap.check(done.returncode == 2 and text in done.stderr and not done.stdout, f"bisect: refused: {text}", done.stderr)


def main():
    program = live.arguments(__doc__).ckptfs
    import torch
    tap, generator = Tap(), np.random.default_rng(live.seed(4101))
    with tempfile.TemporaryDirectory(prefix="bisect-") as name:
        home = pathlib.Path(name)
        runs = Runs(torch, home, generator)
        check_places(tap, program, runs)
        check_lines(tap, program, runs)
        check_vanished(tap, program, runs)
        check_dtypes(tap, program, torch, home)
        check_order(tap, program, torch, home, generator)
        check_damage(tap, program, torch, home, generator)
        check_hidden_tensor(tap, program, torch, home, generator)
        check_left_out(tap, program, runs)
        check_names(tap, program, torch, runs, home, generator)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
