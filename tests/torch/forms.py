#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`.metadata` with objects that are not PyTorch's own, but have their form, as OLMo-core and Megatron-core store them.

    forms.py CKPTFS

Each checkpoint is saved by dcp.save; then objects of its `.metadata` are replaced by those of other classes. ckptfs must
read what dcp.load reads, list the classes, write where all of them are known, and leave them as they were: the changed
checkpoint is read again by dcp.load, which finds these classes. The result is TAP.
"""
import collections
import dataclasses
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import types

import live                                                             # finds the modules of tests/fixtures, too
from tap import Tap

OLMO = "olmo_core.distributed.checkpoint.filesystem"
MEGATRON = "megatron.core.dist_checkpointing.strategies.torch"


def placed(module, made):
    """The class under its name in a module, which need not exist."""
    parts = module.split(".")
    for i in range(len(parts)):
        sys.modules.setdefault(".".join(parts[:i + 1]), types.ModuleType(parts[i]))
    made.__module__ = module
    setattr(sys.modules[module], made.__name__, made)
    return made


def record_class(module, name):
    """Without transform_descriptors, which PyTorch's reader wants, and OLMo-core's does not, in the file."""
    fields = [("relative_path", str), ("offset", int), ("length", int)]
    return placed(module, dataclasses.make_dataclass(name, fields, namespace={"transform_descriptors": None}))


def olmo(meta):
    record = record_class(OLMO, "_StorageInfo")
    meta.storage_data = {key: record(info.relative_path, info.offset, info.length)
                         for key, info in meta.storage_data.items()}
    return meta


def stranger(meta):
    record = record_class("another.package", "Place")
    meta.storage_data = {key: record(info.relative_path, info.offset, info.length)
                         for key, info in meta.storage_data.items()}
    return meta


def plan(plan_class):
    """The plan of a rank that saves one tensor."""
    import torch
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
    from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
    size, zero = torch.Size([4, 3]), torch.Size([0, 0])
    data = TensorWriteData(ChunkStorageMetadata(zero, size), TensorProperties(torch.float32), size)
    return plan_class([WriteItem(MetadataIndex("w", zero), WriteItemType.SHARD, data)])


def plans(meta):
    from torch.distributed.checkpoint.planner import SavePlan
    meta.all_local_plans = [plan(SavePlan)]
    return meta


def megatron(meta):
    from torch.distributed.checkpoint.metadata import Metadata
    from torch.distributed.checkpoint.planner import SavePlan
    extra = [("mcore_data", dict, dataclasses.field(default_factory=dict))]
    own = placed(MEGATRON, dataclasses.make_dataclass("MCoreMetadata", extra, bases=(Metadata,)))
    own_plan = placed(MEGATRON, dataclasses.make_dataclass("MCoreSavePlan", extra, bases=(SavePlan,), frozen=True))
    meta = own(**vars(meta), mcore_data={"w": {"nd_reformulated_orig_global_shape": (4, 3)}})
    meta.all_local_plans = [plan(own_plan)]
    return meta


def ordered(meta):
    meta.storage_data = collections.OrderedDict(meta.storage_data)
    meta.state_dict_metadata = collections.defaultdict(dict, meta.state_dict_metadata)
    return meta


# The change of .metadata, and the unknown classes that are listed.
FORMS = {
    "records of OLMo-core": (olmo, [f"{OLMO}._StorageInfo"]),
    "Metadata of Megatron-core": (megatron, [f"{MEGATRON}.MCoreMetadata", f"{MEGATRON}.MCoreSavePlan"]),
    "plans of PyTorch": (plans, []),
    "OrderedDict and defaultdict": (ordered, []),
    "records of another package": (stranger, ["another.package.Place"]),
}


def saved(change, home):
    import torch
    import torch.distributed.checkpoint as dcp
    state = {"w": torch.arange(12.).reshape(4, 3), "b": torch.arange(7).bfloat16(), "s": torch.tensor(3.5)}
    dcp.save({**state, "optim": {"lr": 0.1}}, checkpoint_id=home)
    with open(f"{home}/.metadata", "rb") as file:
        meta = pickle.load(file)
    with open(f"{home}/.metadata", "wb") as file:
        pickle.dump(change(meta), file)
    return state


def differs(home, state):
    """The tensors that dcp.load reads otherwise."""
    import torch
    import torch.distributed.checkpoint as dcp
    loaded = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    dcp.load(loaded, checkpoint_id=home)
    return [name for name in state if not torch.equal(loaded[name], state[name])]


def raw(tensor):
    import torch
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def classes(home):
    """The classes of the objects in .metadata, as many as there are of each."""
    import pickletools
    with open(f"{home}/.metadata", "rb") as file:
        words = [arg for op, arg, _ in pickletools.genops(file) if op.name == "SHORT_BINUNICODE"]
    return sorted(word for word in words if word.startswith(("olmo", "megatron", "another", "torch")))


def check(tap, program, what, change, listed):
    import torch
    with tempfile.TemporaryDirectory() as home:
        state = saved(change, home)
        for name, tensor in state.items():
            got = subprocess.run([program, "cat", home, f"raw/{name}"], capture_output=True, check=False)
            tap.check(got.stdout == raw(tensor), f"{what}: {name}", got.stderr.decode())
        before, known = classes(home), not any(name.startswith("another") for name in listed)
        if not known:
            with tempfile.TemporaryDirectory() as point:
                refused = subprocess.run([program, "mount", home, point, "-o", "write"], capture_output=True,
                                         text=True, check=False)
            tap.check(refused.returncode and f"the unknown class {listed[0]}," in refused.stderr,
                      f"{what}: writing is refused", refused.stderr)
        with live.Daemon(program, home, "write" if known else "write,keep_unknown") as mount:
            status = mount.report("status").splitlines()
            at = status.index(f"unknown classes: {len(listed)}")
            tap.check(status[at + 1:at + 1 + len(listed)] == [f"  {name}" for name in listed],
                      f"{what}: unknown classes are listed", *status)
            state["w"] = torch.arange(100., 112.).reshape(4, 3)
            pathlib.Path(mount.path("raw", "w")).write_bytes(raw(state["w"]))
        tap.check(classes(home) == before, f"{what}: a commit keeps the classes", before, classes(home))
        tap.check(not differs(home, state), f"{what}: dcp.load has the new values", *differs(home, state))


def check_subclass(tap, program):
    """A tensor of a subclass of torch.Tensor, which dcp.load itself refuses (weights_only)."""
    import torch
    import torch.distributed.checkpoint as dcp
    marked = placed("another.package", type("Marked", (torch.Tensor,), {}))
    tensor = torch.arange(12.).reshape(4, 3)
    with tempfile.TemporaryDirectory() as home:
        dcp.save({"w": tensor.as_subclass(marked)}, checkpoint_id=home)
        got = subprocess.run([program, "cat", home, "raw/w"], capture_output=True, check=False)
        tap.check(got.stdout == raw(tensor), "a tensor of a subclass", got.stderr.decode())


def read(program, home, path):
    """What `ckptfs cat` gives, or its message."""
    got = subprocess.run([program, "cat", home, path], capture_output=True, check=False)
    return got.stderr.decode() if got.returncode else got.stdout


def check_unfinished(tap, program):
    """A second save of the same form was killed: the old .metadata, and a data file with new values that is shorter."""
    import torch
    import torch.distributed.checkpoint as dcp
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as other:
        old, new = ({name: torch.arange(500.) + n for name in "abc"} for n in (0, 1000))
        dcp.save(old, checkpoint_id=home)
        dcp.save(new, checkpoint_id=other)
        with open(f"{home}/.metadata", "rb") as file:
            items = sorted((item.offset, key.fqn) for key, item in pickle.load(file).storage_data.items())
        written = pathlib.Path(other, "__0_0.distcp").read_bytes()[:items[-1][0] + 100]
        pathlib.Path(home, "__0_0.distcp").write_bytes(written)
        os.utime(f"{home}/.metadata", (1_700_000_000,) * 2)
        for _, name in items[:-1]:
            found = read(program, home, f"raw/{name}")
            tap.check(found == raw(new[name]), f"a killed save: {name} is new", found[:100])
        found = read(program, home, f"raw/{items[-1][1]}")
        tap.check("No data available" in str(found), "a killed save: bytes behind the end", found)
        report = json.loads(subprocess.run([program, "check", "--json", home], capture_output=True, check=False).stdout)
        found = {(finding["fqn"], finding["errno"], finding.get("severity")) for finding in report["findings"]}
        tap.check(found == {(None, None, "warning"), (items[-1][1], "ENODATA", None)},
                  "a killed save: check warns, and names the lost tensors", *found)


def check_gaps(tap, program):
    """Empty containers leave nothing in .metadata: a list lacks its first element."""
    import torch
    import torch.distributed.checkpoint as dcp
    with tempfile.TemporaryDirectory() as home:
        dcp.save({"c": [{}, torch.ones(2)], "d": [{}, {}, 5]}, checkpoint_id=home)
        tap.check(read(program, home, "raw/c.1") == raw(torch.ones(2)), "a list that begins with {}")
        found = json.loads(read(program, home, ".ckptfs/state_dict.json"))
        tap.check(found == {"c": [None, "c.1"], "d": [None, None, "d.2"]}, "unused positions are null", found)


def main():
    options, tap = live.arguments(__doc__), Tap()
    check_subclass(tap, options.ckptfs)
    check_unfinished(tap, options.ckptfs)
    check_gaps(tap, options.ckptfs)
    for what, (change, listed) in FORMS.items():
        check(tap, options.ckptfs, what, change, listed)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
