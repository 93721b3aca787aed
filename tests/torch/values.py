#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""DTensors and ShardedTensors as releases of PyTorch pickle them, read by core/format/ranks.

    values.py RANKED          compares tests/torch/values/ with the results of its releases
    values.py --make          writes RELEASE-RANK.pt and RELEASE-RANK.json there, with the PyTorch of this python

RANKED is the program of tests/lib/ranked.c. The expected values come from PyTorch: get_rank(), the shape, and the box of
compute_local_shape_and_global_offset(). Meshes are 2 x 2 x 2 on 8 ranks, whole and slices of them. TAP.
"""
import importlib
import json
import os
import pathlib
import subprocess
import sys
import warnings

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from tap import Tap  # noqa: E402

VALUES = HERE / "values"
SIZES, NAMES = (2, 2, 2), ("r", "dp", "tp")


def meshes(old):
    """Name to mesh; 2.1 has no slices."""
    import torch
    if old:
        from torch.distributed._tensor.device_mesh import DeviceMesh
        return {"all": DeviceMesh("cpu", torch.arange(8).view(SIZES)),
                "mixed": DeviceMesh("cpu", torch.tensor([[3, 1, 4, 0], [5, 2, 6, 7]], dtype=torch.int32))}
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    mesh = init_device_mesh("cpu", SIZES, mesh_dim_names=NAMES)
    mixed = DeviceMesh("cpu", torch.tensor([[3, 1, 4, 0], [5, 2, 6, 7]]), mesh_dim_names=("x", "y"))
    try:
        two = mesh["r", "tp"]
    except (KeyError, RuntimeError):
        two = None
    return {"all": mesh, "dp": mesh["dp"], "tp": mesh["tp"], "r": mesh["r"], "mixed": mixed, "two": two}


def dtensors(old):
    import torch
    if old:
        from torch.distributed._tensor import DTensor, Replicate, Shard
        from torch.distributed._tensor._utils import compute_local_offset, compute_local_shape
        from torch.distributed._tensor.placement_types import _Partial as Partial
        strided = None

        def compute_local_shape_and_global_offset(*what):
            return compute_local_shape(*what), compute_local_offset(*what)
    else:
        try:
            import torch.distributed.tensor as tensor
            tensor.DTensor
        except AttributeError:
            import torch.distributed._tensor as tensor  # before 2.5
        DTensor, Replicate, Shard = tensor.DTensor, tensor.Replicate, tensor.Shard
        placement_types = importlib.import_module(tensor.__name__ + ".placement_types")
        utils = importlib.import_module(tensor.__name__ + "._utils")
        Partial, strided = placement_types.Partial, getattr(placement_types, "_StridedShard", None)
        compute_local_shape_and_global_offset = utils.compute_local_shape_and_global_offset
    at = meshes(old)
    cases = {"rows": ("all", (7, 3), [Replicate(), Replicate(), Shard(0)]), "cross": ("all", (8, 6), [Shard(1), Replicate(), Shard(0)]),
             "empty": ("mixed", (2, 3), [Replicate(), Shard(0)]), "mixed": ("mixed", (8, 4), [Shard(1), Shard(0)]),
             "sum": ("all", (4, 2), [Partial(), Shard(0), Replicate()]), "slice_dp": ("dp", (5, 2), [Shard(0)]),
             "slice_tp": ("tp", (3,), [Shard(0)]), "slice_r": ("r", (2, 2), [Shard(1)]), "two": ("two", (6, 2), [Shard(0), Shard(1)])}
    if strided:
        cases["fsdp_tp"] = ("all", (8, 2), [Replicate(), strided(0, split_factor=2), Shard(0)])
    for key, (mesh, shape, placements) in cases.items():
        mesh = at.get(mesh)
        if mesh is None or (old and key == "empty"):  # refused by that release
            continue
        size, offset = compute_local_shape_and_global_offset(torch.Size(shape), mesh, placements)
        stride = torch.empty(shape).stride()
        if old:
            value = DTensor(torch.zeros(size), mesh, placements, shape=torch.Size(shape), dtype=torch.float32,
                            requires_grad=False, stride=stride)
        else:
            value = DTensor.from_local(torch.zeros(size), mesh, placements, run_check=False, shape=torch.Size(shape), stride=stride)
        yield key, value, {"kind": "dtensor", "shape": list(shape), "size": list(size), "offset": list(offset),
                           "partial": int(key == "sum")}


def sharded(rank):
    import torch
    from torch.distributed._shard.metadata import ShardMetadata
    from torch.distributed._shard.sharded_tensor import Shard, ShardedTensor, ShardedTensorMetadata
    from torch.distributed._shard.sharded_tensor.metadata import TensorProperties
    metas = [ShardMetadata([r, 0], [1, 4], f"rank:{r}/cpu") for r in range(8)]
    mine = [Shard(torch.zeros(1, 4), metas[rank])]
    value = ShardedTensor._init_from_local_shards_and_global_metadata(
        mine, sharded_tensor_metadata=ShardedTensorMetadata(metas, torch.Size((8, 4)), TensorProperties(dtype=torch.float32)),
        init_rrefs=False)
    return value, {"kind": "sharded_tensor", "shape": [8, 4], "size": [1, 4], "offset": [rank, 0], "partial": 0}


def make():
    warnings.simplefilter("ignore")
    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"
    import torch
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    release = torch.__version__.split("+")[0]
    for rank in (1, 6):
        dist.init_process_group("fake", rank=rank, world_size=8, store=FakeStore())
        values, said = {}, {}
        for key, value, want in dtensors(release.startswith("2.1.")):
            values[key], said[key] = value, want
        values["sharded"], said["sharded"] = sharded(rank)
        torch.save(values, VALUES / f"{release}-{rank}.pt")
        (VALUES / f"{release}-{rank}.json").write_text(json.dumps({"rank": dist.get_rank(), "world": 8, "entries": said}) + "\n")
        dist.destroy_process_group()


def wrong(want, said):
    """Yields differences to the expected values."""
    if (said.get("rank"), said.get("world")) != (want["rank"], want["world"]):
        yield f"rank {said.get('rank')} of {said.get('world')}: {said.get('why')}"
    for key, entry in want["entries"].items():
        one = (said.get("entries") or {}).get(key) or {}
        pieces = one.get("pieces") or [{}]
        box = {"size": pieces[0].get("size"), "offset": (pieces[0].get("boxes") or [])[:len(entry["shape"])]}
        found = {"kind": one.get("kind"), "shape": one.get("shape"), "partial": one.get("partial"), **box}
        if found != entry or len(pieces) != 1 or pieces[0].get("check") != 0 or one.get("rank") != want["rank"]:
            yield f"{key}: {json.dumps(one)}, not {json.dumps(entry)}"


def main():
    if sys.argv[1] == "--make":
        return make()
    tap = Tap()
    paths = sorted(VALUES.glob("*.pt"))
    out = subprocess.run([sys.argv[1]], input="".join(f"{p}\n" for p in paths), capture_output=True, text=True, check=True).stdout
    for path, line in zip(paths, out.splitlines(), strict=True):
        want, said = json.loads(path.with_suffix(".json").read_text()), json.loads(line)
        notes = list(wrong(want, said))
        tap.check(not notes, f"{path.stem}: {len(want['entries'])} values", *notes)
        want["rank"] ^= 1
        tap.check(len(list(wrong(want, said))) > len(want["entries"]), f"{path.stem}: canary, another rank is seen")
    return sys.exit(tap.finish())


if __name__ == "__main__":
    main()
