#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Messages about directories that are no checkpoint, or not the expected one.

    messages.py CKPTFS

Small directories in the form that DCP, accelerate, DeepSpeed and Orbax leave them, with files of torch.save and dcp.save.
Each command must name the files found and the next step; check and status must have the same warnings. The result is TAP.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import warnings

import live                                                             # finds the modules of tests/fixtures, too
from tap import Tap

NO_CHECKPOINT = ("no checkpoint known here; expected .metadata of torch.distributed.checkpoint, safetensors, or files of "
                 "torch.save, found nothing of a checkpoint: ")


class Bench:
    """One program, and directories of a test."""

    def __init__(self, tap, program, home):
        self.tap, self.program, self.home = tap, program, pathlib.Path(home)

    def run(self, *words):
        """Exit status and lines of both streams."""
        done = subprocess.run([self.program, *words], cwd=self.home, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr.splitlines() + done.stdout.splitlines()

    def prints(self, what, status, line, *words):
        """The command ends so, and one of its lines is that."""
        got, lines = self.run(*words)
        self.tap.check(got == status and line in lines, what, f"status {got}, expected {status}: {line}", *lines)

    def status(self, source, *lines):
        """Lines of the status of a mount, each of which must be there; all of them."""
        with live.Daemon(self.program, self.home / source, "ro") as mount:
            got = mount.report("status").splitlines()
        for line in lines:
            self.tap.check(line in got, f"{source}: status: {line}", *got)
        return got

    def directory(self, name):
        made = self.home / name
        made.mkdir(parents=True)
        return made


def dcp_save(state, home):
    import torch.distributed.checkpoint as dcp
    dcp.save(state, checkpoint_id=str(home), no_dist=True)


# ---- directories that are no checkpoint ----------------------------------------------------------------------------------

def deep(bench):
    """Safetensors and DCP three levels below the directory that is given, as trainers with several parts lay them out."""
    import torch
    model = bench.directory("step/policy/weights/model")
    head = json.dumps({"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
    (model / "shard-00001-model-00001-of-00001.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(16))
    dcp_save({"m": torch.ones(2, 2)}, bench.home / "step/policy/optimizer/optim")
    (bench.home / "step/notes.txt").touch()
    bench.prints("three levels below", 2, f"ckptfs: step: {NO_CHECKPOINT}notes.txt, policy/; "
               "try step/policy/optimizer/optim, step/policy/weights/model", "inspect", "step")
    bench.prints("one level below", 2, "ckptfs: step/policy/weights: a run directory; give one of its steps: model",
               "inspect", "step/policy/weights")


def files(bench):
    import torch
    adapter = bench.directory("adapter")
    torch.save({"lora_A": torch.ones(4, 2)}, adapter / "pytorch_model_fsdp.bin")
    (adapter / "adapter_config.json").write_text("{}")
    _, lines = bench.run("inspect", "adapter")
    bench.tap.check(any(line.split() == ["float32", "[4,2]", "32", "1", "lora_A"] for line in lines), "a .bin by torch.save",
                    *lines)
    bench.prints("a file beside a checkpoint", 2, "ckptfs: adapter/adapter_config.json: no checkpoint: it does not begin as "
               "files of safetensors or of torch.save do; its directory is a checkpoint: try adapter",
               "inspect", "adapter/adapter_config.json")
    strange = bench.directory("strange")
    (strange / "pytorch_model.bin").write_bytes(b"GGUF" + bytes(60))
    bench.prints("a .bin by another program", 2, f"ckptfs: strange: {NO_CHECKPOINT}pytorch_model.bin; pytorch_model.bin: no "
               "checkpoint: it does not begin as files of safetensors or of torch.save do", "inspect", "strange")


def orbax(bench):
    made = bench.directory("orbax/0")
    for name in "_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt":
        (made / name).write_text("{}")
    (made / "d").mkdir()
    bench.prints("Orbax", 2, "ckptfs: orbax/0: Orbax, not read: found _CHECKPOINT_METADATA, manifest.ocdbt, _METADATA; load it "
               "with orbax.checkpoint and save it as safetensors", "inspect", "orbax/0")
    bench.prints("Orbax below", 2, f"ckptfs: orbax: {NO_CHECKPOINT}0/; Orbax, not read: orbax/0", "inspect", "orbax")


# ---- files of ranks --------------------------------------------------------------------------------------------------------

def accelerate(bench):
    import torch
    made = bench.directory("accelerate")
    for rank in range(2):
        torch.save({"w": torch.arange(4.)}, made / f"pytorch_model_fsdp_0_rank{rank}.bin")
    bench.status("accelerate", "kind: ranks (it has files of torch.save of several ranks)", "files: 2")


def deepspeed(bench, stage):
    """Linear(8, 7) in two ranks, as DeepSpeed 0.19.8 lays its files out."""
    import torch
    top = bench.directory(f"zero{stage}")
    (top / "latest").write_text("global_step3")
    (top / "zero_to_fp32.py").touch()
    step = bench.directory(f"zero{stage}/global_step3")
    shapes = [{"a.weight": torch.Size([7, 8]), "a.bias": torch.Size([7])}]
    for rank in range(2):
        empty = {name: torch.empty(0) for name in shapes[0]}
        if stage == 3:
            torch.save({"module": empty, "param_shapes": shapes},
                       step / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        torch.save({"optimizer_state_dict": {"fp32_flat_groups": [torch.arange(32.) + rank]}},
                   step / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    if stage == 1:
        torch.save({"module": {"a.weight": torch.ones(7, 8)}}, step / "mp_rank_00_model_states.pt")
    note = ("DeepSpeed: latest names global_step3, which is one of these checkpoints; slices of ZeRO in it are not put "
            "together, zero_to_fp32.py does that")
    bench.prints(f"ZeRO-{stage}: the directory in latest", 2, f"ckptfs: zero{stage}: {note}", "inspect", f"zero{stage}")
    bench.status(f"zero{stage}", note)
    torch.save({}, top / "scheduler.pt")
    bench.status(f"zero{stage}", "DeepSpeed: latest names global_step3, which is not shown here; give that directory")
    return f"zero{stage}/global_step3"


def zero(bench):
    step = deepspeed(bench, 3)
    note = ("DeepSpeed ZeRO-3: 4 empty tensors of zero_pp_rank_0_mp_rank_00_model_states.pt and 1 more files are not shown: the "
            "parameters are slices in *_optim_states.pt, which are not put together; zero_to_fp32.py does that")
    bench.status(step, note)
    bench.prints("ZeRO-3: inspect", 0, f"ckptfs: {step}: {note}", "inspect", step)
    bench.prints("ZeRO-3: check", 1, f"warning: {note}", "check", step)
    _, lines = bench.run("inspect", step)
    bench.tap.check(not any("module" in line and "[0]" in line for line in lines), "ZeRO-3: no empty tensors", *lines)
    step = deepspeed(bench, 1)
    bench.status(step, "DeepSpeed ZeRO: fp32 parameters and state of optimizers in "
                 "zero_pp_rank_0_mp_rank_00_optim_states.pt are slices of a rank, which are not put together; zero_to_fp32.py "
                 "does that")
    _, lines = bench.run("inspect", step)
    bench.tap.check(any(line.endswith("module.a.weight") for line in lines), "ZeRO-1: its module", *lines)


# ---- what only items have ----------------------------------------------------------------------------------------------------

def placed(name):
    """A class of a package that only this test has."""
    module = sys.modules.setdefault("another.package", types.ModuleType("another.package"))
    sys.modules.setdefault("another", types.ModuleType("another"))
    made = type(name, (), {"__module__": "another.package"})
    setattr(module, name, made)
    return made


def sharded(torch):
    """A DTensor of rank 1 of two."""
    from torch.distributed.tensor import DTensor, Replicate, Shard
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    if not dist.is_initialized():
        dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    return (DTensor.from_local(torch.arange(3., 6.), mesh, [Shard(0)]),
            DTensor.from_local(torch.arange(6.), mesh, [Replicate()], run_check=False))


def quantized(bench):
    import torch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = torch.quantize_per_tensor(torch.tensor([0., .7, 2., 3., 4., 5.]), 0.1, 3, torch.qint8)
        by_row = torch.quantize_per_channel(torch.ones(2, 3), torch.tensor([0.5, 0.25]), torch.tensor([0, 1]), 0, torch.qint8)
        dcp_save({"one": one, "rows": by_row}, bench.home / "quantized")
    sentence = "tensor one is qint8: the scale of its values is only in its item, __0_0.distcp at 0"
    bench.prints("a quantized tensor: check", 0, f"warning: {sentence}: scale 0.1, zero point 3", "check", "quantized")
    _, lines = bench.run("check", "quantized")
    bench.tap.check(any(line.startswith("warning: tensor rows is qint8: ") and
                        line.endswith(": a scale and a zero point for each index of dimension 0") for line in lines),
                    "a quantized tensor: by rows", *lines)
    bench.status("quantized", "warnings: 2", f"  {sentence}")


def packed(bench):
    import torch
    if not hasattr(torch, "float4_e2m1fn_x2"):
        bench.tap.skip("two values in an element", "this PyTorch has no float4")
        return
    values = torch.arange(16, dtype=torch.uint8).reshape(4, 4).view(torch.float4_e2m1fn_x2)
    dcp_save({"w": values}, bench.home / "packed")
    _, lines = bench.run("inspect", "packed", "--summary")
    bench.tap.check(lines and lines[0].startswith("32 parameters (16 elements of 1 tensor), 16 bytes"),
                    "two values in an element", *lines)


def objects(bench):
    import torch
    part, whole = sharded(torch)
    state = {"t": (part, 1), "r": (whole, 1), "o": placed("Strange")(), "p": (placed("Stranger")(), torch.ones(2)),
             "w": torch.ones(2)}
    dcp_save(state, bench.home / "objects")
    sentence = "object t holds a DTensor of one rank: shards of the others are not in the checkpoint"
    _, lines = bench.run("check", "objects", "--full")
    bench.tap.check([line for line in lines if not line.startswith("items")] ==
                    ["unknown class, kept as it is: another.package.Strange",
                     "unknown class, kept as it is: another.package.Stranger", f"warning: {sentence}"],
                    "objects: check", *lines)
    _, lines = bench.run("check", "objects", "--json")
    report = json.loads("\n".join(lines))
    bench.tap.check(report["ok"] and report["unknown_globals"] == ["another.package.Strange", "another.package.Stranger"],
                    "objects: classes in JSON", *lines)
    bench.tap.check([(row["fqn"], row["severity"], row["errno"], row["what"]) for row in report["findings"]] ==
                    [("t", "warning", None, sentence)], "objects: the warning in JSON", *lines)
    with live.Daemon(bench.program, bench.home / "objects", "ro") as mount:
        before = mount.report("status").splitlines()
        for name in "t", "r", "p":
            pathlib.Path(mount.point, "objects", f"{name}.json").read_bytes()
        status = mount.report("status").splitlines()
    bench.tap.check("unknown classes: 0" in before, "objects: nothing is known before a read", *before)
    at = status.index("unknown classes: 1") if "unknown classes: 1" in status else 0
    bench.tap.check(at and status[at + 1] == "  another.package.Stranger", "objects: classes of items read", *status)
    at = status.index("warnings: 1") if "warnings: 1" in status else 0
    bench.tap.check(at and status[at + 1] == f"  {sentence}", "objects: the warning in status", *status)


def many(bench):
    """More unknown classes than lines name."""
    dcp_save({"m": tuple(placed(f"C{i:02}")() for i in range(70))}, bench.home / "many")
    _, lines = bench.run("check", "many")
    bench.tap.check(lines[:-1] == [f"unknown class, kept as it is: another.package.C{i:02}" for i in range(64)] +
                    ["unknown classes: and 6 more"], "many classes: check", *lines)
    with live.Daemon(bench.program, bench.home / "many", "ro") as mount:
        pathlib.Path(mount.point, "objects", "m.json").read_bytes()
        status = mount.report("status").splitlines()
        _, lines = bench.run("status", mount.point, "--json")
    at = status.index("unknown classes: 70") if "unknown classes: 70" in status else 0
    bench.tap.check(at and status[at + 65] == "  and 6 more", "many classes: status", *status)
    bench.tap.check(len(json.loads("\n".join(lines))["unknown_classes"]) == 64, "many classes: status as JSON", *lines)


def main():
    options, tap = live.arguments(__doc__), Tap()
    os.umask(0o022)
    with tempfile.TemporaryDirectory() as home:
        bench = Bench(tap, options.ckptfs, home)
        for test in deep, files, orbax, accelerate, zero, quantized, packed, objects, many:
            test(bench)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
