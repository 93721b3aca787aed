#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares a rank's part of a DTensor or ShardedTensor, as core/format/ranks reads it from the pickle, with PyTorch.

    ranks-boxes.py RANKED [--cases N]

RANKED is the program of tests/lib/ranked.c. Each case is one tensor of a random shape and dtype, on a random mesh with random
placements. Every rank of the mesh saves its part by torch.save, in this one process, over PyTorch's fake process group.
PyTorch's placements split the local tensors: by distribute_tensor() if the placements have their plain meaning, otherwise by
torch.chunk in the order of FSDP2 and shard_order. Compared with memory are rank, world, shape, every element of every box,
the box of compute_local_shape_and_global_offset() if all splits are plain, and the whole tensor assembled from all ranks.
CKPTFS_SEED repeats a run. The result is TAP.
"""
import argparse
import itertools
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from tap import Tap, cases as number_of, seed  # noqa: E402

warnings.simplefilter("ignore")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
try:
    import torch
    import torch.distributed as dist
    from torch.distributed._shard.sharded_tensor import Shard as LocalShard, ShardedTensor, ShardedTensorMetadata
    from torch.distributed._shard.sharded_tensor.metadata import TensorProperties
    from torch.distributed._shard.metadata import ShardMetadata
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry, TensorMeta
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    from torch.distributed.tensor.placement_types import _StridedShard
    from torch.testing._internal.distributed.fake_pg import FakeStore
except ImportError as error:
    print(f"1..0 # SKIP no PyTorch of this release: {error}")
    sys.exit(0)

DTYPES = (torch.float32, torch.float64, torch.int64, torch.int32, torch.int16, torch.uint8, torch.float16, torch.bfloat16)
MESHES = ((1,), (2,), (3,), (4,), (8,), (2, 2), (3, 2), (2, 3), (4, 2), (1, 3), (2, 1), (2, 2, 2), (2, 3, 2), (3, 2, 2))
TENSORS_PER_MESH = 12


def whole(lot, ndim=None):
    ndim = lot.choice((0, 1, 1, 2, 2, 2, 3, 4)) if ndim is None else ndim
    shape = [lot.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16)) for _ in range(ndim)]
    if ndim > 2:
        shape = [min(n, 5) for n in shape]
    dtype = lot.choice(DTYPES)
    n = math.prod(shape)
    return torch.arange(n, dtype=torch.int64).remainder(251).to(dtype).view(shape)


def placements_of(lot, ndim, sizes):
    """Placements, and the order of their splits; None if the placements have their plain
    meaning."""
    kind = lot.choice(("plain", "plain", "plain", "over", "over", "order", "order", "strided", "partial"))
    if ndim == 0:
        return tuple(lot.choice((Replicate(), Replicate(), Partial())) for _ in sizes), None, None
    placements = [lot.choice((Replicate(), Shard(lot.randrange(ndim)), Shard(lot.randrange(ndim)))) for _ in sizes]
    if kind == "partial":
        placements[lot.randrange(len(sizes))] = Partial()
    if kind == "strided":
        placements = [_StridedShard(p.dim, split_factor=lot.choice((2, 3, 4, 5))) if type(p) is Shard and lot.random() < 0.6
                      else p for p in placements]
        return tuple(placements), "stands", None
    if kind in ("over", "order"):
        order = [m for m, p in enumerate(placements) if type(p) is Shard]
        lot.shuffle(order)
        entries = tuple(ShardOrderEntry(tensor_dim=d, mesh_dims=tuple(m for m in order if placements[m].dim == d))
                        for d in sorted({placements[m].dim for m in order}))
        if kind == "order":
            return tuple(placements), order, entries
        for entry in entries:
            for i, m in enumerate(entry.mesh_dims):
                factor = math.prod(sizes[k] for k in entry.mesh_dims[:i] if k > m)
                if factor > 1:
                    placements[m] = _StridedShard(entry.tensor_dim, split_factor=factor)
        # Equal factors may mean several orders, which PyTorch does not distinguish either.
        meant = {}
        for m in reversed(range(len(placements))):
            if isinstance(placements[m], Shard | _StridedShard):
                at, product, line = 0, 1, meant.setdefault(placements[m].dim, [])
                while product != getattr(placements[m], "split_factor", 1):
                    product *= sizes[line[at]]
                    at += 1
                line.insert(at, m)
        return tuple(placements), [m for line in meant.values() for m in line], None
    return tuple(placements), None, None


def decodes(placements, sizes):
    """True if the factors define an order, according to PyTorch."""
    class Sizes:
        @staticmethod
        def size(i):
            return sizes[i]
    try:
        return DTensorSpec._maybe_convert_StridedShard_to_shard_order(placements, Sizes) is not None
    except (ValueError, AssertionError):
        return False


def local_of(tensor, placements, order, sizes, coordinate):
    if order is None or order == "stands":
        for m, p in enumerate(placements):
            if isinstance(p, Shard | _StridedShard):
                parts, _ = p._split_tensor(tensor, sizes[m], with_padding=False, contiguous=True)
                tensor = parts[coordinate[m]]
        return tensor
    for m in order:
        dim = placements[m].dim
        parts = torch.chunk(tensor, sizes[m], dim=dim)
        tensor = parts[coordinate[m]] if coordinate[m] < len(parts) else tensor.narrow(dim, 0, 0)
    return tensor


def padded(local):
    """A view of a longer buffer, as in FSDP2."""
    if local.ndim == 0:
        return local.clone()
    longer = torch.zeros((local.shape[0] + 2, *local.shape[1:]), dtype=local.dtype)
    longer[:local.shape[0]] = local
    return longer[:local.shape[0]]


class Mesh:
    """Tensors on one mesh, or on slices of it."""

    def __init__(self, lot):
        self.sizes = lot.choice(MESHES)
        self.world = math.prod(self.sizes)
        self.names = ("dp", "tp", "pp")[:len(self.sizes)]
        self.ranks = list(range(self.world))
        self.slice = None
        if len(self.sizes) > 1 and lot.random() < 0.4:
            dims = sorted(lot.sample(range(len(self.sizes)), lot.randrange(1, len(self.sizes))))
            self.slice = tuple(dims)
        self.dims = self.slice or tuple(range(len(self.sizes)))
        sizes = [self.sizes[d] for d in self.dims]
        self.flat = len(sizes) > 1 and self.slice and lot.random() < 0.4
        if self.flat:
            sizes = [math.prod(sizes)]
        self.shape = sizes
        self.dim_names = ["flat"] if self.flat else [self.names[d] for d in self.dims]
        self.cases = []
        while len(self.cases) < TENSORS_PER_MESH:
            tensor = whole(lot)
            placements, order, entries = placements_of(lot, tensor.ndim, sizes)
            if order == "stands" and decodes(placements, sizes):
                order = None if not any(isinstance(p, _StridedShard) for p in placements) else "decode"
            if order == "decode":
                continue            # covered by another case
            self.cases.append((tensor, placements, order, entries))

    def coordinate(self, rank):
        whole_one = []
        for size in reversed(self.sizes):
            whole_one.insert(0, rank % size)
            rank //= size
        mine = 0
        for d in self.dims:
            mine = mine * self.sizes[d] + whole_one[d]
        return [mine] if self.flat else [whole_one[d] for d in self.dims]

    def save(self, rank, path):
        """The parts of a rank, and the boxes that PyTorch can compute."""
        dist.init_process_group("fake", rank=rank, world_size=self.world, store=FakeStore())
        try:
            mesh = init_device_mesh("cpu", self.sizes, mesh_dim_names=self.names)
            if self.slice:
                mesh = mesh[tuple(self.names[d] for d in self.slice)]
            if self.flat:
                mesh = mesh._flatten("flat")
            sizes = self.shape
            dict_of, boxes = {}, []
            for i, (tensor, placements, order, entries) in enumerate(self.cases):
                local = local_of(tensor, placements, order, sizes, self.coordinate(rank))
                spec = DTensorSpec(mesh, placements, TensorMeta(tensor.shape, tensor.stride(), tensor.dtype), entries)
                if order is None and not any(isinstance(p, Partial) for p in placements):
                    made = distribute_tensor(tensor, mesh, placements, src_data_rank=None)
                    assert torch.equal(made.to_local(), local)
                    spec = made._spec
                    boxes.append(compute_local_shape_and_global_offset(tensor.shape, mesh, placements))
                else:
                    boxes.append(None)
                # torch.save fails if the local tensor begins inside its storage.
                dict_of[f"t{i}"] = DTensor(padded(local) if i % 2 else local.clone(), spec, requires_grad=False)
            torch.save(dict_of, path)
            return [v.to_local() for v in dict_of.values()], boxes
        finally:
            dist.destroy_process_group()


def put(into, counted, local, piece, ndim):
    """Copies the elements of a local tensor to the positions of its boxes."""
    flat = piece["boxes"]
    if len(flat) != piece["nboxes"] * 3 * ndim:
        return "boxes of another length"
    taken = 0
    for i in range(piece["nboxes"]):
        at, size, of = (flat[(3 * i + k) * ndim:(3 * i + k + 1) * ndim] for k in range(3))
        there = tuple(slice(a, a + n) for a, n in zip(at, size))
        here = tuple(slice(a, a + n) for a, n in zip(of, size))
        if math.prod(size) and any(a < 0 or a + n > m for a, n, m in zip(at, size, into.shape)):
            return f"a box outside of the tensor: {at} {size}"
        if math.prod(size):
            into[there] = local[here]
            counted[there] += 1
        taken += math.prod(size)
    return None if taken == local.numel() else f"{taken} elements of {local.numel()} in boxes"


def compare_dtensor(mesh, rank, number, said, local, box, state):
    tensor, placements, order, _ = mesh.cases[number]
    if said is None or "why" in said:
        return f"refused: {said}"
    sizes = mesh.shape
    want = {"kind": "dtensor", "dtype": str(tensor.dtype)[6:], "shape": list(tensor.shape), "rank": rank,
            "ranks": math.prod(sizes), "world": mesh.world, "outside": 0,
            "partial": int(any(isinstance(p, Partial) for p in placements))}
    for key, value in want.items():
        if said[key] != value:
            return f"{key}: {said[key]}, not {value}"
    words = {Replicate: lambda p: "R", Partial: lambda p: "P", Shard: lambda p: f"S({p.dim})",
             _StridedShard: lambda p: f"SS({p.dim},{p.split_factor})"}
    sharding = ",".join(f"{name}={size}:{words[type(p)](p)}" for name, size, p in zip(mesh.dim_names, sizes, placements))
    if said["sharding"] != sharding:
        return f"sharding: {said['sharding']}, not {sharding}"
    piece, = said["pieces"]
    if piece["size"] != list(local.shape) or (piece["check"] and local.dtype != torch.uint8):
        return f"size: {piece['size']}, not {list(local.shape)}"
    if box and (piece["nboxes"] != 1 or piece["boxes"][:tensor.ndim] != list(box[1])
                or piece["boxes"][tensor.ndim:2 * tensor.ndim] != list(box[0])):
        return f"box: {piece['boxes']}, not {box}"
    mine = torch.zeros_like(tensor)
    counted = torch.zeros(tensor.shape, dtype=torch.int32)
    why = put(mine, counted, local, piece, tensor.ndim)
    if why:
        return why
    if int(counted.max() if counted.numel() else 0) > 1:
        return "boxes overlap"
    if not torch.equal(mine * (counted > 0).to(mine.dtype), tensor * (counted > 0).to(tensor.dtype)):
        return f"elements at another place: {piece['boxes']}"
    state[number] = state.get(number, 0) + (counted > 0).to(torch.int32)
    return None


def run_dtensors(lot, ranked, folder, cases):
    """Returns the number of cases, the number of values, and the errors."""
    done, values, wrong, meshes = 0, 0, [], []
    while done < cases:
        mesh = Mesh(lot)
        saved = [mesh.save(rank, folder / f"{len(meshes)}_{rank}.pt") for rank in mesh.ranks]
        meshes.append((mesh, saved))
        done += len(mesh.cases)
        if len(meshes) == 40 or done >= cases:
            values += look(ranked, folder, meshes, wrong)
            meshes = []
    return done, values, wrong


def answers(ranked, paths):
    out = subprocess.run([ranked], input="".join(f"{p}\n" for p in paths), capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def look(ranked, folder, meshes, wrong):
    paths = [folder / f"{i}_{rank}.pt" for i, (mesh, _) in enumerate(meshes) for rank in mesh.ranks]
    said, values = iter(answers(ranked, paths)), 0
    for i, (mesh, saved) in enumerate(meshes):
        state = {}
        for rank in mesh.ranks:
            file = next(said)
            if file.get("rank") != rank or file.get("world") != mesh.world:
                wrong.append(f"rank {file.get('rank')} of {file.get('world')}, not {rank} of {mesh.world}")
                continue
            for number, (local, box) in enumerate(zip(*saved[rank])):
                why = compare_dtensor(mesh, rank, number, file["entries"][f"t{number}"], local, box, state)
                values += 1
                if why:
                    wrong.append(f"{mesh.sizes} {mesh.slice} {tuple(mesh.cases[number][0].shape)} "
                                 f"{mesh.cases[number][1:]} rank {rank}: {why}")
        for number, counted in state.items():
            if mesh.cases[number][0].numel() and not bool((counted > 0).all()):
                wrong.append(f"{mesh.sizes} {mesh.cases[number][1:]}: elements that no rank has")
    for path in paths:
        path.unlink()
    return values


# ---- ShardedTensor --------------------------------------------------------------------------------------------------

def cut(lot, n, parts):
    """Splits n elements into random ranges, some of them empty."""
    at = sorted(lot.randrange(n + 1) for _ in range(parts - 1))
    return list(zip([0, *at], [*at, n]))


def sharded_case(lot, world):
    """A tensor, its boxes, and the ranks of each box."""
    tensor = whole(lot, lot.choice((1, 1, 2, 2, 3)))
    grid = [cut(lot, n, lot.choice((1, 2, 3))) for n in tensor.shape]
    boxes = [([a for a, _ in box], [b - a for a, b in box]) for box in itertools.product(*grid)]
    boxes = [box for box in boxes if math.prod(box[1])] or [([0] * tensor.ndim, list(tensor.shape))]
    return tensor, [(at, size, lot.randrange(world)) for at, size in boxes]


def sharded(tensor, boxes, rank):
    metas = [ShardMetadata(list(at), list(size), f"rank:{owner}/cpu") for at, size, owner in boxes]
    properties = TensorProperties(dtype=tensor.dtype)
    mine = [LocalShard(tensor[tuple(slice(a, a + n) for a, n in zip(m.shard_offsets, m.shard_sizes))].clone(), m)
            for m, (_, _, owner) in zip(metas, boxes) if owner == rank]
    return ShardedTensor._init_from_local_shards_and_global_metadata(
        mine, sharded_tensor_metadata=ShardedTensorMetadata(metas, tensor.size(), properties), init_rrefs=False)


def nested(tensor, world, rank):
    """FSDP1 over tensor parallelism, as in its extensions: columns are split first, then the
    rows of each rank."""
    tp = rank % 2
    columns = torch.chunk(tensor, 2, dim=1)
    n = -(-tensor.shape[0] // (world // 2))
    rows = [[n * r, min(n, max(0, tensor.shape[0] - n * r))] for r in range(world // 2)]
    outer = [ShardMetadata([0, sum(c.shape[1] for c in columns[:i])], list(c.shape), f"rank:{i}/cpu") for i, c in enumerate(columns)]
    inner = [ShardMetadata([at, 0], [size, columns[tp].shape[1]], f"rank:{2 * r + tp}/cpu") for r, (at, size) in enumerate(rows)]
    local = columns[tp][slice(*(lambda at, size: (at, at + size))(*rows[rank // 2]))].clone()
    properties = TensorProperties(dtype=tensor.dtype)
    inside = ShardedTensor._init_from_local_shards_and_global_metadata(
        [LocalShard(local, inner[rank // 2])], init_rrefs=False,
        sharded_tensor_metadata=ShardedTensorMetadata(inner, columns[tp].size(), properties))
    outside = ShardedTensor._init_from_local_shards_and_global_metadata(
        [LocalShard(local, ShardMetadata([0, 0], list(local.shape), f"rank:{rank}/cpu"))], init_rrefs=False,
        sharded_tensor_metadata=ShardedTensorMetadata([ShardMetadata([0, 0], list(local.shape), f"rank:{rank}/cpu")],
                                                      local.size(), properties))
    outside._metadata = ShardedTensorMetadata(outer, tensor.size(), properties)
    outside._local_shards = [LocalShard.__new__(LocalShard)]
    outside._local_shards[0].tensor, outside._local_shards[0].metadata = inside, outer[tp]
    return outside, local


def run_nested(lot, ranked, folder):
    """Returns the errors of nested tensors."""
    wrong = []
    for rows, columns in ((8, 4), (7, 5), (2, 3), (5, 2)):
        tensor = torch.arange(float(rows * columns)).view(rows, columns)
        locals_of = []
        for rank in range(4):
            dist.init_process_group("fake", rank=rank, world_size=4, store=FakeStore())
            try:
                value, local = nested(tensor, 4, rank)
                torch.save({"t": value}, folder / f"n_{rank}.pt")
                locals_of.append(local)
            finally:
                dist.destroy_process_group()
        mine, counted = torch.zeros_like(tensor), torch.zeros(tensor.shape, dtype=torch.int32)
        for rank, said in enumerate(answers(ranked, [folder / f"n_{rank}.pt" for rank in range(4)])):
            one = (said.get("entries") or {}).get("t") or {}
            pieces = one.get("pieces") or []
            if one.get("rank") != rank or one.get("shape") != list(tensor.shape) or len(pieces) != 1:
                wrong.append(f"rank {rank}: {said}")
            for piece in pieces[:1]:
                why = put(mine, counted, locals_of[rank], piece, 2)
                wrong += [why] if why else []
        if not torch.equal(mine, tensor):
            wrong.append(f"{rows} x {columns}: put together it is another tensor")
    return wrong


def run_clipped(ranked, folder):
    """Before 2.1 FSDP1 saved the padding of a rank: its shard is longer than the rest of the
    tensor, or past its end."""
    wrong = []
    for at, size, want in ((4, 2, [[4, 1, 0]]), (6, 2, []), (3, 2, [[3, 2, 0]]), (5, 0, [[5, 0, 0]])):
        dist.init_process_group("fake", rank=0, world_size=1, store=FakeStore())
        try:
            value = sharded(torch.arange(5.), [([0], [5], 0)], 0)
            value._local_shards[0].metadata.shard_offsets = [at]
            value._local_shards[0].metadata.shard_sizes = [size]
            value._local_shards[0].tensor = torch.arange(float(size))
            torch.save({"t": value}, folder / "c.pt")
        finally:
            dist.destroy_process_group()
        pieces = answers(ranked, [folder / "c.pt"])[0]["entries"]["t"].get("pieces")
        if pieces is None or [p["boxes"] for p in pieces] != want or any(p["check"] or p["size"] != [size] for p in pieces):
            wrong.append(f"[{at}, {at + size}) of 5: {pieces}, not {want}")
    return wrong


def run_sharded(lot, ranked, folder, cases):
    done, values, wrong = 0, 0, []
    while done < cases:
        world = lot.choice((1, 2, 3, 4))
        tensors = [sharded_case(lot, world) for _ in range(TENSORS_PER_MESH)]
        saved = []
        for rank in range(world):
            dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
            try:
                mine = {f"t{i}": sharded(*case, rank) for i, case in enumerate(tensors)}
                torch.save(mine, folder / f"st_{rank}.pt")
                saved.append([[s.tensor for s in v.local_shards()] for v in mine.values()])
            finally:
                dist.destroy_process_group()
        said = answers(ranked, [folder / f"st_{rank}.pt" for rank in range(world)])
        for i, (tensor, boxes) in enumerate(tensors):
            mine = torch.zeros_like(tensor)
            counted = torch.zeros(tensor.shape, dtype=torch.int32)
            for rank in range(world):
                values += 1
                one = said[rank].get("entries", {}).get(f"t{i}") or {"why": said[rank]}
                why = one.get("why")
                if not why and (one["kind"], one["rank"], one["world"], one["shape"], len(one["pieces"])) != \
                        ("sharded_tensor", rank, world, list(tensor.shape), len(saved[rank][i])):
                    why = "another kind, rank, world, shape or number of shards"
                for piece, local in zip(one.get("pieces", ()), saved[rank][i]):
                    why = why or put(mine, counted, local, piece, tensor.ndim)
                if why:
                    wrong.append(f"{boxes} rank {rank}: {why}")
            if not torch.equal(mine, tensor) or not bool((counted == 1).all()):
                wrong.append(f"{boxes}: put together it is another tensor")
        done += len(tensors)
    return done, values, wrong


# ---- canaries -------------------------------------------------------------------------------------------------------

def canary(ranked, folder):
    """Canary: a local tensor of another rank has another shape or position, which must be
    detected."""
    lot = random.Random(7)
    mesh = Mesh(lot)
    mesh.sizes, mesh.names, mesh.world, mesh.ranks, mesh.slice, mesh.dims = (3,), ("dp",), 3, [0, 1, 2], None, (0,)
    mesh.flat, mesh.shape, mesh.dim_names = False, [3], ["dp"]
    mesh.cases = [(torch.arange(7.), (Shard(0),), None, None)]
    saved = [mesh.save(rank, folder / f"0_{rank}.pt") for rank in mesh.ranks]
    other = [saved[1], saved[0], saved[2]]
    wrong = []
    look(ranked, folder, [(mesh, other)], wrong)
    return len(wrong) >= 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ranked")
    parser.add_argument("--cases", type=int, default=number_of("CKPTFS_CASES", 250, 20000))
    args = parser.parse_args()
    lot, tap = random.Random(seed()), Tap()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for what, run, cases in (("DTensors", run_dtensors, args.cases), ("ShardedTensors", run_sharded, args.cases // 5)):
            done, values, wrong = run(lot, args.ranked, folder, cases)
            for line in wrong[:5]:
                print(f"# {line}")
            tap.check(not wrong, f"{done} {what}, {values} values of ranks, {len(wrong)} wrong")
        wrong = run_nested(lot, args.ranked, folder)
        tap.check(not wrong, "ShardedTensors of ShardedTensors", *wrong[:5])
        wrong = run_clipped(args.ranked, folder)
        tap.check(not wrong, "shards behind the end", *wrong)
        tap.check(canary(args.ranked, folder), "canary: local tensors of other ranks are seen")
    sys.exit(tap.finish())


if __name__ == "__main__":
    main()
