#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares optim/ of a mount with the state dicts of real optimizers.

    optim.py CKPTFS

A model with a shared parameter and odd names is trained by AdamW with two groups, by SGD with momentum and by SGD without,
and its state is saved by torch.save and by DCP: by id, with the names of the parameters in the groups, by name, nested and
flattened, alone and in lists, and with Megatron's keys. Jobs of two processes save the state of FSDP1 (FULL, SHARDED and
LOCAL with a sidecar) and of FSDP2. Of each mount all directories, all bytes of tensors, all values and param_groups.json must
be those of the state dict in memory. The result is TAP.
"""
import json
import os
import pathlib
import sys
import tempfile

import live                                                             # also finds the modules of tests/fixtures
import interop
import oracle
import spawn
from tap import Tap

TIED = {"embed.weight": "out.weight", "out.weight": "embed.weight"}
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "mount-helpers" / "python"))


# ---- what must be there -----------------------------------------------------------------------------------------------

def stem(name):
    return os.fsdecode(oracle.stem(oracle.key_bytes(name)))


def leaves(value, path=()):
    """The entries of one parameter's state: names, and values."""
    import torch
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(below, (*path, str(key)))
    elif isinstance(value, list) and any(isinstance(below, torch.Tensor) for below in value):
        for i, below in enumerate(value):
            yield from leaves(below, (*path, str(i)))
    else:
        yield ".".join(path), value


def content(value):
    """The suffix, and the bytes of the file."""
    import torch
    if not isinstance(value, torch.Tensor):
        return ".json", oracle.json_text(value).encode()
    if hasattr(value, "full_tensor"):
        value = value.full_tensor()
    return ".npy", oracle.npy_bytes(oracle.raw_bytes(value), oracle.dtype_name(value.dtype), value.shape)


def files_of(state, keys, top, view):
    """The files of a directory: `keys` has the key of the state for each directory."""
    found = {}
    for name, key in keys.items():
        for leaf, value in leaves(state[key]):
            suffix, data = content(value)
            found[f"{top}{view}/{stem(name)}/{stem(leaf)}{suffix}"] = data
    return found


def named(state, names=None, tied=TIED):
    """{name of the directory: key}, with other names of shared parameters."""
    keys = {names[key] if names else key: key for key in state}
    return keys | {tied[name]: key for name, key in keys.items() if name in tied and tied[name] not in keys}


def expected(state, groups, top="", ids=None, names=None, tied=TIED):
    """All files of a tree. ids, names: {key: id or name}; False: there is no such directory."""
    files = {}
    if names is not False:
        files |= files_of(state, named(state, names, tied), top, "by-name")
    if ids is not False:
        files |= files_of(state, {str(ids[key] if ids else key): key for key in state}, top, "by-id")
    if groups is not None:
        files[f"{top}param_groups.json"] = oracle.json_text(groups).encode()
    return files


def flat_groups(flat):
    """The object of a flattened tree, whose options have no dots."""
    found = {}
    for key, value in flat.items():
        if key.startswith("param_groups."):
            fqn, option = key.removeprefix("param_groups.").rsplit(".", 1)
            found.setdefault(fqn, {})[option] = value
    return found


def problems(top, want):
    """Compares a directory with the files. The order of options in DCP is that of its metadata."""
    have = {}
    for path in pathlib.Path(os.fsdecode(top)).rglob("*"):
        if path.is_file():
            size = path.stat().st_size
            have[str(path.relative_to(os.fsdecode(top)))] = path.read_bytes()
            if size != len(have[str(path.relative_to(os.fsdecode(top)))]):
                yield f"{path}: other bytes than its size"
    for name in sorted(have.keys() ^ want.keys()):
        yield f"{name}: {'not expected' if name in have else 'missing'}"
    for name in have.keys() & want.keys():
        a, b = have[name], want[name]
        if a != b and not (name.endswith("param_groups.json") and json.loads(a) == json.loads(b)):
            yield f"{name}: {a[-60:]}, expected {b[-60:]}"


def compare(tap, ckptfs, name, source, want, *options, top=b"optim"):
    with interop.Mount(ckptfs, source, *options) as mnt:
        found = list(problems(os.path.join(mnt, top), want))
        order = os.listdir(os.path.join(mnt, top, b"by-id")) if os.path.isdir(os.path.join(mnt, top, b"by-id")) else []
        listed = os.path.isdir(os.path.join(mnt, b"optim"))
    tap.check(not found and listed == bool(want), f"{name}: {len(want)} files", *found[:8])
    if order:
        tap.check(order == sorted(order, key=int), f"{name}: ids in numeric order", order)


# ---- models and optimizers ---------------------------------------------------------------------------------------------

def model_of():
    import torch
    torch.manual_seed(3)
    model = torch.nn.Module()
    model.embed = torch.nn.Embedding(7, 4)
    model.inner = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 4))
    model.register_parameter("odd %/ü", torch.nn.Parameter(torch.ones(4)))
    for i in range(10):
        model.register_parameter(f"scale{i}", torch.nn.Parameter(torch.ones(())))
    model.out = torch.nn.Linear(4, 7, bias=False)
    model.out.weight = model.embed.weight
    return model


def step(model, *optimizers):
    import torch
    hidden = model.inner(model.embed(torch.arange(7))) * getattr(model, "odd %/ü")
    for i in range(10):
        hidden = hidden * getattr(model, f"scale{i}")
    model.out(hidden).pow(2).sum().backward()
    for optimizer in optimizers:
        optimizer.step()


def groups_of(model, with_names=False):
    """Two groups; of pairs with names, or of parameters."""
    pairs = list(model.named_parameters())
    first = [pair for pair in pairs if pair[0].endswith("weight")]
    second = [pair for pair in pairs if not pair[0].endswith("weight")]
    return [{"params": group if with_names else [p for _, p in group], "lr": lr}
            for group, lr in ((first, 0.5), (second, 0.25))]


def odd_state(optimizer):
    """Adds state that AdamW does not have."""
    import torch
    for i, state in enumerate(optimizer.state.values()):
        state["count"], state["none"], state["text"] = i, None, "a/b"
        state["nested"] = {"pair": [torch.arange(3), torch.zeros(0, 2)], "bf16": torch.ones(3, dtype=torch.bfloat16)}
        state["mask"], state["wave"] = torch.tensor([True, False]), torch.tensor(1j)
        state["fp8"], state["big"] = torch.ones(2, 2).to(torch.float8_e4m3fn), float("inf")


def alone(model, tap, ckptfs, home):
    """Files of torch.save, and DCP by one process."""
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict
    adam = torch.optim.AdamW(groups_of(model), betas=(0.5, 0.75))
    sgd = torch.optim.SGD(groups_of(model), momentum=0.5)
    plain = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.5))
    with_names = torch.optim.AdamW(groups_of(model, True), fused=False)
    step(model, adam, sgd, plain, with_names)
    odd_state(adam)
    weights, state = model.state_dict(), adam.state_dict()
    by_name, momentum = get_optimizer_state_dict(model, adam), get_optimizer_state_dict(model, sgd)
    flat = get_optimizer_state_dict(model, sgd, options=StateDictOptions(flatten_optimizer_state_dict=True))
    ids = {name: i for i, name in enumerate(sum((group["params"] for group in by_name["param_groups"]), []))}

    def file(name, saved, want, *options):
        torch.save(saved, home / f"{name}.pt")
        compare(tap, ckptfs, f"torch.save: {name}", home / f"{name}.pt", want, *options)

    def directory(name, saved, want, **more):
        dcp.save(saved, storage_writer=dcp.FileSystemWriter(home / f"dcp {name}"), no_dist=True, **more)
        compare(tap, ckptfs, f"DCP: {name}", home / f"dcp {name}", want)

    by_id = expected(state["state"], state["param_groups"], names=False)
    file("by id", {"model": weights, "optimizer": state, "step": 1}, by_id)
    file("an optimizer alone", state, by_id)
    named_state = with_names.state_dict()
    names = dict(zip(sum((g["params"] for g in named_state["param_groups"]), []),
                     sum((g["param_names"] for g in named_state["param_groups"]), [])))
    file("names in the groups", {"state_dict": weights, "optimizer_state_dict": named_state},
         expected(named_state["state"], named_state["param_groups"], names=names))
    file("a list", {"model": weights, "optimizers": [state, plain.state_dict()]},
         expected(state["state"], state["param_groups"], "optimizers.0/", names=False) |
         expected({}, plain.state_dict()["param_groups"], "optimizers.1/"))
    file("by name", {"app": {"model": weights, "optim": by_name}}, expected(by_name["state"], by_name["param_groups"], ids=ids))
    file("flattened", {"model": weights, "optim": flat}, expected(momentum["state"], flat_groups(flat), ids=False))
    file("flattened, in one dict of all", weights | {f"optim.{key}": value for key, value in flat.items()},
         expected(momentum["state"], flat_groups(flat), ids=False))
    file("flattened, alone", flat, expected(momentum["state"], flat_groups(flat), ids=False, tied={}))
    file("no optimizer", {"model": weights, "optim": [1, 2], "state": {"a": torch.ones(2)}}, {})
    directory("by id", {"model": weights, "optimizer": state}, expected(state["state"], state["param_groups"], names=False, tied={}))
    directory("by name", {"model": weights, "optim": by_name},
              expected(by_name["state"], by_name["param_groups"], ids=ids, tied={}))
    directory("flattened", {"model": weights, "optim": flat}, expected(momentum["state"], flat_groups(flat), ids=False, tied={}))
    directory("no state", {"model": weights, "optim": plain.state_dict()}, expected({}, plain.state_dict()["param_groups"]))
    keys = {f"optimizer.state.{name}.{fqn}": value for fqn, has in momentum["state"].items() for name, value in has.items()}
    planner = dcp.DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    for name, saved in ("Megatron", weights | keys), ("Megatron, without the model", keys):
        directory(name, saved, expected(momentum["state"], None, ids=False, tied={}), planner=planner)
    shuffled = {"model": weights, "optimizer": dict(state, state={0: state["state"][1], 1: state["state"][0]})}
    torch.save(shuffled, home / "shuffled.pt")
    with interop.Mount(ckptfs, home / "shuffled.pt") as mnt:
        tap.check(len(list(problems(os.path.join(mnt, b"optim"), by_id))) > 2, "canary: the state of other parameters")


def unusual(tap, ckptfs, home):
    """A frozen copy that shares tensors with the model it copies, and parameters whose names are numbers."""
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict
    pair = torch.nn.ModuleDict({"student": torch.nn.Linear(3, 2), "teacher": torch.nn.Linear(3, 2)})
    for copy, parameter in zip(pair["teacher"].parameters(), pair["student"].parameters()):
        copy.data, copy.requires_grad = parameter.data, False
    optimizer = torch.optim.Adam(pair.named_parameters())
    pair["student"](torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    torch.save({"model": pair.state_dict(), "optimizer": state}, home / "teacher.pt")
    names = dict(zip(state["param_groups"][0]["params"], state["param_groups"][0]["param_names"]))
    compare(tap, ckptfs, "a parameter without state shares a tensor", home / "teacher.pt",
            expected(state["state"], state["param_groups"], names=names, tied={}))
    numbers = torch.nn.ParameterList(torch.randn(2 + i) for i in range(5))
    optimizer = torch.optim.Adam(list(numbers.named_parameters())[::-1])
    sum(p.square().sum() for p in numbers).backward()
    optimizer.step()
    flat = get_optimizer_state_dict(numbers, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
    nested = get_optimizer_state_dict(numbers, optimizer)
    dcp.save({"model": numbers.state_dict(), "optim": flat}, storage_writer=dcp.FileSystemWriter(home / "numbers"), no_dist=True)
    compare(tap, ckptfs, "names that are numbers, flattened", home / "numbers",
            expected(nested["state"], flat_groups(flat), ids=False, tied={}))


# ---- jobs of two processes ---------------------------------------------------------------------------------------------

def fsdp1(rank, world, home, plain):
    """FULL and SHARDED by name; LOCAL of each rank by id, with a sidecar."""
    import torch
    import torch.distributed.checkpoint as dcp
    import ckptfs_sidecar
    from torch.distributed import fsdp
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, StateDictType
    model = FSDP(plain, device_id=torch.device("cpu"), use_orig_params=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, fsdp.FullStateDictConfig(rank0_only=False),
                              fsdp.FullOptimStateDictConfig(offload_to_cpu=False, rank0_only=False)):
        full, weights = FSDP.optim_state_dict(model, optimizer), model.state_dict()
    with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        sharded = FSDP.optim_state_dict(model, optimizer)
        dcp.save({"model": model.state_dict(), "optimizer": sharded}, storage_writer=dcp.FileSystemWriter(home / "fsdp1 sharded"))
    local = home / "fsdp1 local"
    with FSDP.state_dict_type(model, StateDictType.LOCAL_STATE_DICT):
        local.mkdir(exist_ok=True)
        torch.save({"model": model.state_dict(), "optim": optimizer.state_dict()}, local / f"local_{rank}.pt")
    if rank == 0:
        (home / "sidecar.json").write_text(json.dumps(ckptfs_sidecar.describe(model, optimizers=[optimizer])))
        torch.save({"model": weights, "optimizer": full}, home / "fsdp1 full.pt")
        torch.save(optimizer.state_dict()["param_groups"], home / "groups.pt")


def fsdp2(rank, world, home, model):
    """By name, nested and flattened, as DCP and as a file of each rank."""
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict
    from torch.distributed.fsdp import fully_shard
    fully_shard(model)
    optimizer = torch.optim.Adam(groups_of(model))
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    nested = get_optimizer_state_dict(model, optimizer)
    flat = get_optimizer_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
    whole = {"state": {fqn: {name: value.full_tensor() if hasattr(value, "full_tensor") else value
                             for name, value in has.items()} for fqn, has in nested["state"].items()},
             "param_groups": nested["param_groups"]}
    for name, state in ("nested", nested), ("flat", flat):
        saved = {"model": model.state_dict(), "optim": state}
        dcp.save(saved, storage_writer=dcp.FileSystemWriter(home / f"fsdp2 {name} dcp"))
        (home / f"fsdp2 {name} ranks").mkdir(exist_ok=True)
        torch.save(saved, home / f"fsdp2 {name} ranks" / f"rank_{rank}.pt")
    if rank == 0:
        torch.save({"nested": whole, "flat": flat_groups(flat)}, home / "whole.pt")


def job(rank, world, home, one, two):
    import warnings
    warnings.simplefilter("ignore")
    fsdp1(rank, world, home, one)
    fsdp2(rank, world, home, two)


def jobs(one, two, tap, ckptfs, home):
    import torch
    spawn.run(job, 2, home, one, two)
    full = torch.load(home / "fsdp1 full.pt")["optimizer"]
    ids = {fqn: i for i, fqn in enumerate(sum((group["params"] for group in full["param_groups"]), []))}
    want = expected(full["state"], full["param_groups"], ids=ids)
    compare(tap, ckptfs, "FSDP1, FULL", home / "fsdp1 full.pt", want)
    compare(tap, ckptfs, "FSDP1, SHARDED", home / "fsdp1 sharded", want)
    groups = torch.load(home / "groups.pt")
    compare(tap, ckptfs, "FSDP1, LOCAL with a sidecar", home / "fsdp1 local", expected(full["state"], groups, ids=False),
            "-o", f"sidecar={home}/sidecar.json")
    whole = torch.load(home / "whole.pt")
    nested = whole["nested"]
    ids = {fqn: i for i, fqn in enumerate(sum((group["params"] for group in nested["param_groups"]), []))}
    for kind in "dcp", "ranks":
        compare(tap, ckptfs, f"FSDP2, {kind}", home / f"fsdp2 nested {kind}",
                expected(nested["state"], nested["param_groups"], ids=ids))
        compare(tap, ckptfs, f"FSDP2, {kind}, flattened", home / f"fsdp2 flat {kind}",
                expected(nested["state"], whole["flat"], ids=False))


def main():
    options, tap = live.arguments(__doc__), Tap()
    import torch
    with tempfile.TemporaryDirectory() as home:
        torch.manual_seed(5)
        one, two = (torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)) for _ in range(2))
        jobs(one, two, tap, options.ckptfs, pathlib.Path(home))
        alone(model_of(), tap, options.ckptfs, pathlib.Path(home))
        unusual(tap, options.ckptfs, pathlib.Path(home))
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
