#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Messages about directories that are no checkpoint, or not the expected one.

    messages.py CKPTFS

Small directories in the form that DCP, accelerate, DeepSpeed, Megatron and Orbax leave them, with files of torch.save and dcp.save.
Each command must name the files found and the next step; check and status must have the same warnings. The result is TAP.
"""
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import warnings
import zipfile

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
               "check", "step/policy/weights")


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
    import torch
    made = bench.directory("orbax/0")
    for name in "_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt":
        (made / name).write_text("{}")
    (made / "d").mkdir()
    message = ("Orbax, not read: found _CHECKPOINT_METADATA and 1 more; load it with orbax.checkpoint and save it as "
               "safetensors")
    refused(bench, "Orbax", "orbax/0", message)
    bench.prints("Orbax below", 2, f"ckptfs: orbax: {NO_CHECKPOINT}0/; not read: orbax/0 (Orbax)", "inspect", "orbax")
    torch.save({"w": torch.ones(2)}, made / "other.pt")
    refused(bench, "Orbax beside another file", "orbax/0", message)


def archives(bench):
    """Archives that torch.load reads, but torch.save does not make."""
    import torch
    home = bench.directory("archives")
    torch.save({"w": torch.arange(6.), "b": torch.ones(3)}, home / "saved.pt")
    repacked(home / "saved.pt", home / "other.pt", zipfile.ZIP_STORED)
    repacked(home / "saved.pt", home / "small.pt", zipfile.ZIP_DEFLATED)
    bench.tap.check(torch.load(home / "other.pt")["w"].tolist() == torch.load(home / "small.pt")["w"].tolist() == list(range(6)),
                    "archives by another writer: torch.load")
    names = bench.run("ls", "archives/saved.pt", "full")[1]
    bench.tap.check(names == bench.run("ls", "archives/other.pt", "full")[1], "extras, comments, directories: names", *names)
    bench.tap.check(all(subprocess.run([bench.program, "cat", home / "other.pt", f"full/{name}"], capture_output=True,
                                       check=True).stdout ==
                        subprocess.run([bench.program, "cat", home / "saved.pt", f"full/{name}"], capture_output=True,
                                       check=True).stdout for name in names), "extras, comments, directories: bytes")
    reason = "unsupported: record saved/data.pkl is compressed; load the file with torch and save it again"
    bench.prints("a compressed archive", 2, f"ckptfs: archives/small.pt: small.pt: {reason}", "inspect", "archives/small.pt")
    code, lines = bench.run("check", "archives")
    bench.tap.check(code == 1 and any(reason in line for line in lines), "a compressed archive beside others: check", *lines)
    with live.Daemon(bench.program, home, "ro") as mount:
        damage = mount.report("damage")
    bench.tap.check(reason in damage and "EOPNOTSUPP" in damage, "a compressed archive beside others: damage", damage)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)).save(str(bench.home / "traced.pt"))
    bench.prints("torch.jit.save", 2, "ckptfs: traced.pt: traced.pt: TorchScript, not read: load it with torch.jit.load and save "
               "its state_dict()", "inspect", "traced.pt")


def values(bench):
    """A Counter, which is a mapping like others; tensors in protocol 0, which torch.load refuses."""
    import torch
    torch.save({"c": collections.Counter(a=1)}, bench.home / "counter.pt")
    _, lines = bench.run("check", "counter.pt")
    bench.tap.check(not any("unknown" in line for line in lines), "a Counter is no unknown class", *lines)
    torch.save({"n": 1, "l": [2.5]}, bench.home / "plain.pt", pickle_protocol=0)
    code, lines = bench.run("inspect", "plain.pt")
    bench.tap.check(code == 0, "protocol 0 without tensors", *lines)
    for zipped, where in (True, "data.pkl: pickle: byte "), (False, "byte "):
        torch.save({"w": torch.ones(2)}, bench.home / "zero.pt", pickle_protocol=0, _use_new_zipfile_serialization=zipped)
        code, lines = bench.run("inspect", "zero.pt")
        bench.tap.check(code == 2 and any(line.startswith(f"ckptfs: zero.pt: zero.pt: {where}") and "protocol 0, which torch.load "
                                          "does not read either" in line for line in lines),
                        f"protocol 0 with tensors, {zipped}: the message", *lines)


def repacked(source, target, method):
    """A copy with directories, and a comment and an extra for each record, as other programs write them."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        new.writestr(zipfile.ZipInfo("saved/"), b"")
        new.writestr(zipfile.ZipInfo("saved/data/"), b"")
        for record in old.infolist():
            info = zipfile.ZipInfo(record.filename)
            info.compress_type, info.comment, info.extra = method, b"a comment", b"UT\5\0\1abcd"
            new.writestr(info, old.read(record))


# ---- files of ranks --------------------------------------------------------------------------------------------------------

def accelerate(bench):
    import torch
    made = bench.directory("accelerate")
    for rank in range(2):
        torch.save({"w": torch.arange(4.)}, made / f"pytorch_model_fsdp_0_rank{rank}.bin")
    bench.status("accelerate", "kind: ranks (it has files of torch.save of several ranks)", "files: 2")


def zero_files(torch, step, stage):
    """Linear(8, 7) in two ranks, as DeepSpeed 0.19.8 lays its files out."""
    step.mkdir(parents=True)
    shapes = [{"a.weight": torch.Size([7, 8]), "a.bias": torch.Size([7])}]
    for rank in range(2):
        if stage == 3:
            torch.save({"module": {name: torch.empty(0) for name in shapes[0]}, "param_shapes": shapes},
                       step / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        torch.save({"optimizer_state_dict": {"fp32_flat_groups": [torch.arange(32.) + rank]}},
                   step / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    if stage == 1:
        torch.save({"module": {"a.weight": torch.ones(7, 8)}}, step / "mp_rank_00_model_states.pt")


def refused(bench, what, source, message, *words):
    """Commands that open it end with status 2 and that message."""
    for command in "inspect", "check", "ls":
        bench.prints(f"{what}: {command}", 2, f"ckptfs: {source}: {message}", command, source, *words)


CONVERT = "zero_to_fp32.py DIR OUT, which DeepSpeed saves in the directory DIR that has latest, writes files that are read"


def zero(bench):
    import torch
    for stage, first in (3, "zero_pp_rank_0_mp_rank_00_model_states.pt and 3 more"), \
                        (1, "zero_pp_rank_0_mp_rank_00_optim_states.pt and 1 more"):
        top = bench.directory(f"zero{stage}")
        (top / "latest").write_text("global_step3")
        (top / "zero_to_fp32.py").touch()
        zero_files(torch, top / "global_step3", stage)
        refused(bench, f"ZeRO-{stage}", f"zero{stage}/global_step3", f"DeepSpeed, not read: found {first}; {CONVERT}")
        refused(bench, f"ZeRO-{stage}: its directory", f"zero{stage}",
                f"DeepSpeed, not read: found latest, global_step3; {CONVERT}")
    for kind in "ranks", "run":
        bench.prints(f"ZeRO-3: kind={kind} is refused, too", 2, "ckptfs: zero3/global_step3: DeepSpeed, not read: found "
                   f"zero_pp_rank_0_mp_rank_00_model_states.pt and 3 more; {CONVERT}", "inspect", "zero3/global_step3", "-o",
                   f"kind={kind}")
    code, lines = bench.run("inspect", "zero3/global_step3", "-o", "kind=torch")
    bench.tap.check(code == 0, "ZeRO-3: kind=torch shows each file by itself", *lines)
    code, lines = bench.run("inspect", "zero1/global_step3/mp_rank_00_model_states.pt")
    bench.tap.check(code == 0 and any(line.endswith("  a.weight") for line in lines), "ZeRO-1: one file is shown", *lines)


def gathered(bench):
    """A checkpoint of Trainer with DeepSpeed: the whole model is beside the directory of slices."""
    import torch
    top = bench.directory("gathered")
    head = json.dumps({"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
    (top / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(16))
    (top / "latest").write_text("global_step3")
    zero_files(torch, top / "global_step3", 3)
    note = f"DeepSpeed: global_step3/ is not read; {CONVERT}"
    bench.prints("ZeRO beside safetensors: inspect", 0, f"ckptfs: gathered: {note}", "inspect", "gathered")
    bench.prints("ZeRO beside safetensors: check", 0, f"warning: {note}", "check", "gathered")
    bench.status("gathered", "kind: safetensors (it has safetensors files)", note)


def foreign_steps(bench):
    """Steps of a run directory, one of which is DeepSpeed's; names of DeepSpeed without its files."""
    import torch
    run = bench.directory("mixed")
    dcp_save({"m": torch.ones(2, 2)}, run / "step-1")
    zero_files(torch, run / "step-2", 3)
    bench.status("mixed", "steps: 1", f"  step-2: DeepSpeed, not read: found zero_pp_rank_0_mp_rank_00_model_states.pt and 3 more; "
                 f"{CONVERT}")
    run = bench.directory("named")
    dcp_save({"m": torch.ones(2, 2)}, run / "global_step3")
    (run / "latest").write_text("global_step3")
    bench.status("named", "kind: run (its subdirectories are checkpoints)", "steps: 1")


def megatron(bench):
    """Megatron's format before torch_dist: a directory for each model-parallel rank."""
    import torch
    for rank in range(2):
        torch.save({"model": {"w": torch.ones(2) * rank}},
                   bench.directory(f"legacy/iter_0000100/mp_rank_0{rank}") / "model_optim_rng.pt")
    (bench.home / "legacy/latest_checkpointed_iteration.txt").write_text("100")
    advice = "save it with Megatron's --ckpt-format torch_dist"
    refused(bench, "Megatron's legacy format", "legacy/iter_0000100",
            f"Megatron's legacy format, not read: found mp_rank_00 and 1 more; {advice}")
    bench.prints("Megatron's legacy format below", 2, f"ckptfs: legacy: {NO_CHECKPOINT}iter_0000100/, "
               "latest_checkpointed_iteration.txt; not read: legacy/iter_0000100 (Megatron's legacy format)", "inspect",
               "legacy")
    files = bench.directory("states")
    for rank in range(2):
        torch.save({"module": {"w": torch.ones(2) * rank}}, files / f"mp_rank_0{rank}_model_states.pt")
    refused(bench, "DeepSpeed without ZeRO", "states", "DeepSpeed, not read: found mp_rank_00_model_states.pt and 1 more; load "
            "it with DeepSpeed and save the state_dict() of its module, or give one of the files")


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
                    ["unknown classes: and 6 more", "warning: no tensor of a model: hf/ is absent"], "many classes: check", *lines)
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
        for test in deep, files, orbax, archives, values, accelerate, zero, gathered, foreign_steps, megatron, quantized, packed, objects, many:
            test(bench)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
