#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares sharded/<spec>/rank-<r>/ of a mount with the local tensors that PyTorch itself makes.

    sharded.py CKPTFS [--cases N]

One file of torch.save has random tensors, most of them uneven or empty on most meshes, and weights of a model. A rules file
gives random placements to half of the tensors. For each rank of each mesh, over PyTorch's fake process group in this one
process, a tensor is split by distribute_tensor(), with the dimensions of tensor parallelism as the first of the mesh; the
model by fully_shard(), alone, over replicas, and over weights that distribute_tensor() has split for tensor parallelism.
Each file must have the bytes of numpy.save of the local tensor, and the attributes `offset`, `placements` and `mesh` of it.
A case is one tensor on all ranks of one mesh. CKPTFS_SEED repeats a run. The result is TAP.
"""
import io
import json
import math
import os
import pathlib
import random
import sys
import tempfile

import live                                                             # also finds the modules of tests/fixtures
import interop
from tap import Tap

SPECS = ("1", "2", "3", "5", "8", "fsdp=3", "dp=2,cp=3", "dp_replicate=2,dp_shard=3", "dp=3,tp=2", "dp=2,tp=4", "tp=3,dp=2",
         "pp=2,dp=2,tp=2", "ep=2,dp=3,etp=2", "ddp=2", "sp=4", "a=2,b=2,c=2,d=2")
MODELS = ("3", "8", "dp_replicate=2,dp_shard=3", "dp=3,tp=2", "dp=2,tp=4", "dp=5,tp=2")
FIRST = ("tp", "ep", "etp", "sp")
WHOLE = (*FIRST, "dp_replicate", "replicate", "ddp", "pp")
ROWS = (1, 2, 3, 5, 7, 9, 13, 16, 17, 25)


def dims_of(spec):
    """[(name, size)] of a mesh; the name is None for a plain number."""
    if spec.isdigit():
        return [(None, int(spec))]
    return [(name, int(size)) for name, size in (part.split("=") for part in spec.split(","))]


def drawn(lot, torch):
    shape = [lot.choice((0, 1, 1, 2, 3, 5, 7, 9, 11, 13, 16)) for _ in range(lot.choice((0, 1, 1, 2, 2, 3)))]
    dtype = lot.choice((torch.float32, torch.float64, torch.int64, torch.int16, torch.uint8, torch.float16, torch.bool))
    return torch.arange(math.prod(shape)).remainder(127).to(dtype).reshape(shape)


def rule_of(lot, tensor):
    """{dimension of a mesh: dimension of the tensor, or None} and the words of the line."""
    names = lot.sample(("tp", "dp", "ep", "etp", "sp", "cp", "b", "pp"), lot.randrange(1, 5))
    places = {name: None if tensor.ndim == 0 or lot.random() < 0.25 else lot.randrange(tensor.ndim) for name in names}
    words = ["R" if d is None else f"S({d - lot.choice((0, tensor.ndim))})" for d in places.values()]
    return places, " ".join(f"{name}={word}" for name, word in zip(names, words))


def placed(dims, tensor, rule):
    """The dimension of the tensor that each dimension of the mesh splits, or None."""
    return [rule[name] if name in rule else 0 if tensor.ndim and name not in WHOLE else None for name, _ in dims]


def group(rank, world):
    """A context of one rank of a job without other processes."""
    import contextlib
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    @contextlib.contextmanager
    def of():
        dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
        try:
            yield
        finally:
            dist.destroy_process_group()
    return of()


def coordinates(dims, rank):
    found = []
    for _, size in reversed(dims):
        found.insert(0, rank % size)
        rank //= size
    return found


def splits(dims, rank, tensors, rules):
    """{name: (local tensor, offset)} of a rank."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    order = sorted(range(len(dims)), key=lambda i: dims[i][0] not in FIRST)
    at, sizes = coordinates(dims, rank), [dims[i][1] for i in order]
    alike = 0
    for i in order:
        alike = alike * dims[i][1] + at[i]
    found = {}
    with group(alike, math.prod(sizes)):
        mesh = init_device_mesh("cpu", sizes)
        for name, tensor in tensors.items():
            places = placed(dims, tensor, rules.get(name, {}))
            parts = [Replicate() if places[i] is None else Shard(places[i]) for i in order]
            local = distribute_tensor(tensor, mesh, parts, src_data_rank=None).to_local()
            found[name] = local, compute_local_shape_and_global_offset(tensor.shape, mesh, parts)[1]
    return found


def fsdp2(dims, rank, tensors, rules):
    """The same of a model, by fully_shard()."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard, distribute_tensor
    names = [name or "fsdp" for name, _ in dims]
    with group(rank, math.prod(size for _, size in dims)):
        mesh = init_device_mesh("cpu", [size for _, size in dims], mesh_dim_names=names)
        model = torch.nn.Module()
        for name, tensor in tensors.items():
            if "tp" in names:
                tensor = distribute_tensor(tensor, mesh["tp"], [Shard(rules[name]["tp"])], src_data_rank=None)
                if tensor.to_local().numel() == 0:              # fully_shard() changes the shape of such a part
                    continue
            model.register_parameter(name, torch.nn.Parameter(tensor))
        fully_shard(model, mesh=mesh["dp"] if "tp" in names else mesh)
        return {name: (parameter.to_local().detach(), None) for name, parameter in model.named_parameters()}


def attribute(path, name):
    return os.getxattr(path, f"user.ckptfs.{name}").decode()


def differs(top, dims, name, local, offset, places):
    """None, or what is wrong with a file."""
    import numpy as np
    path, text = top / f"{name}.npy", io.BytesIO()
    np.save(text, local.numpy())
    size = path.stat().st_size
    if path.read_bytes() != text.getvalue() or size != len(text.getvalue()):
        return f"{path}: other bytes than those of {tuple(local.shape)}"
    want = {"shape": list(local.shape), "placements": ["R" if d is None else f"S({d})" for d in places],
            "mesh": dict(dims) if dims[0][0] else [dims[0][1]]}
    if offset is not None:
        want["offset"] = list(offset)
    for key, value in want.items():
        if json.loads(attribute(path, key)) != value:
            return f"{path}: {key} {attribute(path, key)}, not {value}"
    return None


def compare(mnt, spec, tensors, rules, split):
    """The errors, and the number of local tensors that are uneven or empty."""
    dims, wrong, odd = dims_of(spec), [], 0
    for rank in range(math.prod(size for _, size in dims)):
        for name, (local, offset) in split(dims, rank, tensors, rules).items():
            places = placed(dims, tensors[name], rules.get(name, {}))
            why = differs(mnt / "sharded" / spec / f"rank-{rank}", dims, name, local, offset, places)
            wrong += [why] if why else []
            odd += local.numel() * math.prod(s for (_, s), d in zip(dims, places) if d is not None) != tensors[name].numel() \
                or local.numel() == 0
    return wrong, odd


def main():
    options = live.arguments(__doc__, cases=(180, 5000))
    import torch
    lot, tap = random.Random(live.seed(39)), Tap()
    each = max(1, options.cases // (len(SPECS) + len(MODELS)))
    tensors = {f"t{i}": drawn(lot, torch) for i in range(each)}
    weights = {f"w{i}": torch.arange(float(n * k)).reshape(n, k) for i, (n, k) in
               enumerate((lot.choice(ROWS), lot.choice(ROWS)) for _ in range(each))}
    weights.update({"vector": torch.arange(13.0)})
    rules, lines = {}, ["# placements of a test"]
    for name, tensor in tensors.items():
        if lot.random() < 0.5:
            rules[name], words = rule_of(lot, tensor)
            lines.append(f"{name} {words}")
    for name in weights:
        # PyTorch refuses uneven FSDP2 of another dimension than 0, but not tensor parallelism of one.
        rules[name] = {"tp": lot.choice((0, 0, 1)) if name != "vector" else 0}
        lines.append(f"{name} tp=S({rules[name]['tp']})")
    with tempfile.TemporaryDirectory() as home:
        torch.save({**tensors, **weights}, f"{home}/all.pt")
        pathlib.Path(home, "rules").write_text("\n".join(lines), encoding="utf-8")
        with interop.Mount(options.ckptfs, f"{home}/all.pt", "-o", f"placements={home}/rules") as mnt:
            mnt = pathlib.Path(os.fsdecode(mnt))
            odd = 0
            for specs, values, split, by in ((SPECS, tensors, splits, "distribute_tensor"), (MODELS, weights, fsdp2, "fully_shard")):
                for spec in specs:
                    wrong, more = compare(mnt, spec, values, rules, split)
                    odd += more
                    tap.check(not wrong, f"{by}, {spec}: {len(values)} tensors", len(wrong), *wrong[:8])
            print(f"# {odd} local tensors are uneven or empty")
            alone, _ = compare(mnt, "dp=3,tp=2", weights, {**rules, "vector": {"tp": None}}, splits)
            tap.check(len(alone) > 0, "canary: other placements")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
