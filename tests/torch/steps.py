#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A training job saves into a run directory, while eight readers read its mount.

    steps.py CKPTFS [--saves N]

The job is a process that trains a small model and saves each step: by dcp.save, in place or under a temporary name that it
renames, by torch.save in two files, or by the safetensors package. Some saves are incomplete, as of a killed job. `latest`
moves, and old steps are removed at once, or file by file like shutil.rmtree. The values of a step are its number, so a reader
must get a single value in all tensors; removed steps are ESTALE or missing. A new step is visible, in the long run within
2 s. CKPTFS_SEED repeats a run. The result is TAP.
"""
import errno
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import sys
import tempfile
import threading
import time

import live                                                             # also finds the modules of tests/fixtures
import interop

fork = multiprocessing.get_context("fork")
READERS = 8
HANG = 120                                                              # seconds; only a fault takes so long
GONE = (errno.ESTALE, errno.ENOENT)
SHAPES = {"embed.weight": (64, 32), "norm.weight": (32,), "head.weight": (8, 32), "scale": ()}


# ---- the job --------------------------------------------------------------------------------------------------------

class Job:
    """Saves step after step, and reports each action on its output."""

    def __init__(self, run, seed):
        self.run, self.lot, self.kept, self.number = run, random.Random(seed), [], 0

    def state(self):
        import torch
        return {name: torch.full(shape, float(self.number)) for name, shape in SHAPES.items()}

    def fill(self, path, how):
        import torch
        import torch.distributed.checkpoint as dcp
        from safetensors.torch import save_file
        if how == "dcp":
            dcp.save({"model": self.state(), "step": self.number}, checkpoint_id=path, no_dist=True)
            return
        path.mkdir()
        halves = list(self.state().items())
        for number, half in enumerate((dict(halves[:2]), dict(halves[2:]))):
            if how == "torch":
                torch.save(half, path / f"pytorch_model-0000{number + 1}-of-00002.bin")
            else:
                save_file(half, path / f"model-0000{number + 1}-of-00002.safetensors")

    def save(self):
        how, path = self.lot.choice(("dcp", "dcp", "torch", "safetensors")), self.run / f"step-{self.number}"
        if how == "dcp" and self.lot.random() < 0.5:
            self.fill(path, how)
        else:
            self.fill(self.run / ".saving", how)
            os.rename(self.run / ".saving", path)
        self.kept.append(self.number)
        (self.run / "latest.new").write_text(path.name + "\n")
        os.rename(self.run / "latest.new", self.run / "latest")

    def torn(self):
        """A save that never completes under its name."""
        path = self.run / ".saving"
        self.fill(path, "dcp")
        self.lot.choice((lambda: os.remove(path / ".metadata"),
                         lambda: os.truncate(path / ".metadata", 100)))()
        os.rename(path, self.run / f"torn-{self.number}")

    def remove(self):
        number = self.kept.pop(0)
        path = self.run / f"step-{number}"
        if self.lot.random() < 0.5:
            os.rename(path, self.run / ".old")
            path = self.run / ".old"
        print(json.dumps({"removes": number}), flush=True)
        shutil.rmtree(path)

    def work(self, saves):
        import warnings
        import torch.distributed.checkpoint                                                  # noqa: F401
        warnings.simplefilter("ignore")
        for self.number in range(1, saves + 1):
            if self.lot.random() < 0.2:
                self.torn()
            else:
                self.save()
                print(json.dumps({"saved": self.number}), flush=True)
            while len(self.kept) > 2:
                self.remove()
            time.sleep(self.lot.random() / 8)


# ---- readers ------------------------------------------------------------------------------------------------------

class Watch:
    def __init__(self, run, top):
        self.run, self.top, self.faults = run, top, []
        self.reads = self.gone = 0
        self.slowest, self.ended, self.removed = 0.0, False, 0

    def whole(self, step):
        """All tensors of a step have one value, its number."""
        number = float(step.removeprefix("step-"))
        names = os.listdir(f"{self.top}/{step}/raw")
        if len(names) != len(SHAPES):
            raise ValueError(f"{step} has {sorted(names)}")
        for name in names:
            with open(f"{self.top}/{step}/raw/{name}", "rb") as file:
                data = file.read()
            values = memoryview(data).cast("f")
            count = 1
            for size in SHAPES[name.removeprefix("model.")]:
                count *= size
            if len(values) != count or any(value != number for value in values):
                raise ValueError(f"{step}: {name} has {len(values)} elements, {set(values)}")

    def is_removed(self, step):
        """True also if the step is just being removed."""
        end = time.monotonic() + HANG
        while os.path.isdir(f"{self.run}/{step}") and time.monotonic() < end:
            time.sleep(0.01)
        return not os.path.isdir(f"{self.run}/{step}")

    def read(self, lot):
        steps = os.listdir(self.top)
        if any(step.startswith("torn") for step in steps):
            self.faults.append(f"shown: {steps}")
        step = lot.choice([step for step in steps if step.startswith("step-")] or [None])
        if lot.random() < 0.3 and "latest" in steps:
            step = os.readlink(f"{self.top}/latest")
        if not step:
            return
        try:
            self.whole(step)
            self.reads += 1
        except OSError as error:
            self.gone += 1
            if error.errno not in GONE or not self.is_removed(step):
                self.faults.append(f"{step}: {error}")
        except ValueError as error:
            self.faults.append(str(error))

    def reader(self, seed):
        lot, end = random.Random(seed), None
        while not self.ended or (not self.reads and time.monotonic() < end):
            end = end or (time.monotonic() + HANG if self.ended else None)
            try:
                self.read(lot)
            except OSError as error:
                if error.errno not in GONE:
                    self.faults.append(str(error))

    def heard(self, lines):
        for line in lines:
            said = json.loads(line)
            if "removes" in said:
                self.removed += 1
                continue
            begun = time.monotonic()
            while not os.path.isdir(f"{self.top}/step-{said['saved']}/raw"):
                if not os.path.isdir(f"{self.run}/step-{said['saved']}") or time.monotonic() - begun > HANG:
                    break                                               # the step was removed meanwhile
                time.sleep(0.01)
            self.slowest = max(self.slowest, time.monotonic() - begun)


def first(run, seed):
    Job(run, seed).fill(run / "step-0", "dcp")


def work(run, seed, saves, out):
    sys.stdout = open(out, "w", encoding="utf-8")
    Job(run, seed).work(saves)
    sys.stdout.flush()


def forked(target, *args):
    """A forked process, without another import of torch."""
    process = fork.Process(target=target, args=args)
    process.start()
    return process


def look_on(watch, run, seed, saves):
    """Collects the reports of the job and of the readers. Returns the exit status of the
    job."""
    threads = [threading.Thread(target=watch.reader, args=(f"{seed} {i}",)) for i in range(READERS)]
    said, out = os.pipe()
    job = forked(work, run, seed, saves, out)
    os.close(out)
    for thread in threads:
        thread.start()
    watch.heard(open(said, encoding="utf-8"))
    watch.ended = True
    for thread in threads:
        thread.join()
    job.join()
    return job.exitcode


def main():
    options = live.arguments(__doc__, saves=(16, 150))
    tap, seed = interop.Tap(), live.seed()
    with tempfile.TemporaryDirectory(prefix="steps-") as home:
        run = pathlib.Path(home, "run")
        run.mkdir()
        forked(first, run, seed).join()
        with interop.Mount(options.ckptfs, run) as top:
            watch = Watch(str(run), os.fsdecode(top))
            status = look_on(watch, run, seed, options.saves)
    print(f"# {watch.reads} steps read whole, {watch.gone} gone, {watch.removed} removed, "
          f"the slowest new one {watch.slowest:.2f} s")
    tap.line(status == 0, "the job ends")
    tap.line(not watch.faults and watch.reads > 0, "no half step is seen", watch.faults[:8])
    tap.line(watch.slowest < (2 if live.is_long() else HANG), "a new one within 2 s" if live.is_long() else "a new one is seen")
    tap.line(watch.removed > 0, "some were removed")
    sys.exit(tap.finish())


if __name__ == "__main__":
    main()
