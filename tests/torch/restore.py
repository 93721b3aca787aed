#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does the steps of PyTorch's own state-dict tests with files: save, change everything,
restore.

    restore.py CKPTFS

The procedures of test_dtensor_sharded_optim_load_state_dict and test_dtensor_sharded_model_load_state_dict (offloaded
or not, even and uneven): a job under FSDP saves, trains one more step and saves elsewhere. All files of the first
checkpoint are copied out; those of the second are copied into it, and each has other bytes then; those that were copied
out are copied in again. The job that loads them has the saved model and optimizer, of the same types, and
its next step gives the same bits as before. The result is TAP.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple

import live                                                             # finds the modules of tests/fixtures, too
import interop
import spawn
import train

# Which FSDP, sizes, whether tensors are offloaded when they are saved, processes, the files that are copied.
Case = namedtuple("Case", "fsdp model offload world view")
CASES = (Case(1, "even", True, 2, "full"), Case(1, "uneven", False, 4, "raw"),
         Case(2, "even", False, 4, "full"), Case(2, "uneven", True, 4, "local"))
FEW = CASES[3]._replace(world=2),


def job_options(case, *words):
    return train.arguments([f"--fsdp={case.fsdp}", f"--model={case.model}", *(["--offload"] if case.offload else []),
                            *map(str, words)])


def save_two(rank, size, options, first, second, report):
    """A step, a save, another step, another save."""
    job, states = train.Job(options, rank, size), []
    for path in (first, second):
        job.train()
        job.save(path)
        states.append(job.digests())
    if rank == 0:
        pathlib.Path(report).write_text(json.dumps(states))


def files_of(folder):
    """Relative path -> bytes, of all below."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(pathlib.Path(folder).rglob("*"))
            if path.is_file()}


def copy_in(source, target, names):
    for name in names:
        subprocess.run(["cp", source / name, target / name], check=True)


def loaded(path):
    """What dcp.load has: the raw file of each tensor."""
    with interop.DcpLoad(path) as top:
        return files_of(pathlib.Path(top.decode(), "raw"))


def metadata(path):
    from torch.distributed.checkpoint import FileSystemReader
    return FileSystemReader(path).read_metadata()


def same_but_places(old, new):
    """True if two .metadata are equal, except for the positions of bytes and the ID of the
    save."""
    return (old.state_dict_metadata == new.state_dict_metadata and
            list(old.state_dict_metadata) == list(new.state_dict_metadata) and
            old.planner_data == new.planner_data and old.storage_data.keys() == new.storage_data.keys())


def differing(a, b):
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))


class Restore:
    """One case; `first` is the checkpoint that everything happens to."""

    def __init__(self, tap, program, case, scratch):
        self.tap, self.program, self.case, self.scratch = tap, program, case, scratch
        self.first, self.second = scratch / "first", scratch / "second"
        self.name = (f"FSDP{case.fsdp} {case.model}{' offloaded' if case.offload else ''}, {case.world} processes, "
                     f"{case.view}/")

    def line(self, good, text, notes=()):
        self.tap.line(good, f"{self.name}: {text}", notes)

    def mounted(self, path, *arguments):
        return interop.Mount(self.program, path, *arguments)

    def run_job(self, world, *words):
        report = self.scratch / "report"
        spawn.run(train.run, world, job_options(self.case, f"--report={report}", *words))
        return json.loads(report.read_text())

    def save(self):
        report = self.scratch / "states"
        spawn.run(save_two, self.case.world, job_options(self.case), self.first, self.second, report)
        self.states = json.loads(report.read_text())
        shutil.copytree(self.first, self.scratch / "kept")
        with self.mounted(self.first) as top, self.mounted(self.second) as other:
            for source, name in ((top, "out"), (other, "others")):
                subprocess.run(["cp", "-r", source.decode(), self.scratch / name], check=True)

    def change_and_restore(self):
        out, others = (self.scratch / name / self.case.view for name in ("out", "others"))
        names = [name for name, data in files_of(out).items() if data]
        with self.mounted(self.first, "-o", "write") as top:
            inside = pathlib.Path(top.decode(), self.case.view)
            copy_in(others, inside, names)
            self.line(loaded(self.first) == files_of(self.scratch / "others" / "raw") and
                      differing(files_of(self.scratch / "others" / "raw"), files_of(self.scratch / "out" / "raw")) ==
                      sorted(name for name, data in files_of(self.scratch / "out" / "raw").items() if data),
                      "dcp.load finds every tensor changed")
            copy_in(out, inside, names[:-1])
            found = differing(files_of(inside), files_of(out))
            self.line(found == names[-1:], "canary: one that was not put back is found", found)
            copy_in(out, inside, names[-1:])
        with self.mounted(self.first) as top:
            wrong = [name for view in ("full", "raw", "local", "objects")
                     for name in differing(files_of(f"{top.decode()}/{view}"), files_of(self.scratch / "out" / view))]
        self.line(not wrong, f"{len(names)} files put back: all views have the bytes that were copied out", wrong)
        old, new = metadata(self.scratch / "kept"), metadata(self.first)
        self.line(same_but_places(old, new), ".metadata is equal")
        next(entry for entry in new.state_dict_metadata.values() if hasattr(entry, "chunks")).properties.pin_memory = 1
        self.line(not same_but_places(old, new), "canary: one that says something else is found")

    def resume(self):
        report = self.run_job(self.case.world, f"--load={self.first}", "--seed=5", "--steps=1")
        for part, text in (("optim", "e5, the optimizer"), ("model", "e6, the model")):
            before, after = ([{key: value for key, value in state.items() if key.startswith(part)} for state in states]
                             for states in (self.states, (report["loaded"], report["trained"])))
            self.line(before[0] == after[0] and len(before[0]) > 0, f"{text}: loads as it was saved",
                      differing(before[0], after[0]))
            self.line(before[1] == after[1], f"{text}: the next step is the same", differing(before[1], after[1]))
        missed = differing(self.states[0], self.states[1])
        self.line(len(missed) == len(self.states[0]), "canary: the two states differ in every tensor",
                  self.states[0].keys() - set(missed))
        fewer = self.run_job(self.case.world // 2, f"--load={self.first}", "--seed=5", "--steps=0")["loaded"]
        same = {key: value[1:] for key, value in fewer.items()} == {k: v[1:] for k, v in self.states[0].items()}
        self.line(same, "half as many processes load the same")


def main():
    options = live.arguments(__doc__)
    tap = interop.Tap()
    for case in CASES if live.is_long() else FEW:
        with tempfile.TemporaryDirectory(prefix="restore-") as scratch:
            restore = Restore(tap, options.ckptfs, case, pathlib.Path(scratch))
            restore.save()
            restore.change_and_restore()
            restore.resume()
    sys.exit(tap.finish())


if __name__ == "__main__":
    main()
