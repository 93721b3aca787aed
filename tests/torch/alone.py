#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mounts DCP checkpoints that PyTorch's own loader cannot read. Compares every tensor, the part of each rank, and every
object, as JSON and as read by torch.load, with the values in memory.

    alone.py CKPTFS [--cases N]

Each case is saved by 1, 2, 3, 4 or 8 processes: without collectives, in safetensors serialization, or both. It has several
files for each rank or one for each item, with random shapes, dtypes, meshes and placements, replicas, and entries of a
single rank. In every third case the metadata or data file of one rank is then removed: entries of other ranks must be the
same, and reads of its own entries must fail. CKPTFS_SEED repeats a run. The result is TAP.
"""
import hashlib
import os
import pathlib
import pickle
import random
import sys
import tempfile

import live                                                             # also finds the modules of tests/fixtures
import interop
import nested
import oracle
import spawn

WORLDS = {1: [(1,)], 2: [(2,)], 3: [(3,)], 4: [(4,), (2, 2)], 8: [(8,), (4, 2), (2, 2, 2)]}
NO_SAFETENSORS = ("complex128", "complex32", "float4_e2m1fn_x2")
MODES = ("alone", "alone threads", "alone items", "blobs", "blobs threads", "blobs items", "blobs alone",
         "blobs alone threads")
EXTENTS = (0, 1, 1, 2, 3, 5, 7, 8, 12)


def fill(w, lot, extents, blobs):
    """Draws a random case, the same on all ranks."""
    import torch
    import recipes
    from world import Replicate, Shard, values
    mesh = w.mesh(*extents)
    for number in range(lot.randrange(1, 12)):
        dtype = lot.choice([name for name in recipes.DTYPES if name not in NO_SAFETENSORS])
        shape = [lot.choice(EXTENTS) for _ in range(lot.randrange(4))]
        if shape and lot.random() < 0.8:
            placements = [Shard(lot.randrange(len(shape))) if lot.random() < 0.75 else Replicate() for _ in extents]
            w.dtensor(f"t{number}.{dtype}", shape, placements, mesh, getattr(torch, dtype))
        else:
            w.plain(f"t{number}.{dtype}", shape, getattr(torch, dtype))
    w.state["nested"] = {"step": 7, "list": [{"lr": lot.random()}], "inner": {"w": values("inner", (3, 2))}}
    drawn = nested.Drawn(lot, ["float32"], False)
    w.state["objects"] = {f"o{i}": drawn.plain() for i in range(5)}
    for rank in range(w.size):
        if rank == w.rank:
            w.originals[f"of.{rank}"] = w.state[f"of.{rank}"] = values(f"of.{rank}", (2, rank + 1))
    if blobs:
        import variants
        variants.contiguous(w)


def mine(w):
    """key -> offsets and bytes of this rank's part of each distributed tensor."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    held = {}
    for key, tensor in w.state.items():
        if hasattr(tensor, "placements"):
            shape, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
            local = tensor.to_local()
            assert tuple(local.shape) == tuple(shape)
            dtype = oracle.dtype_name(local.dtype)
            held[key] = tuple(offset), tuple(shape), oracle.npy_bytes(oracle.raw_bytes(local), dtype, shape)
    return held


def save(rank, size, home, seed, mode, extents):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint._nested_dict import flatten_state_dict
    import torch
    import variants
    from world import World
    w = World(rank, size, "live")
    fill(w, random.Random(seed), extents, "blobs" in mode)
    options = {"thread_count": 3} if "threads" in mode else {"single_file_per_rank": "items" not in mode}
    if "blobs" in mode:
        options["serialization_format"] = variants.safetensors_format()
    dcp.save(w.state, storage_writer=dcp.FileSystemWriter(home, **options), use_collectives="alone" not in mode)
    flat = flatten_state_dict(w.state)[0]
    whole = {key: w.originals.get(key, value) for key, value in flat.items()}
    tensors = {key: (oracle.dtype_name(t.dtype), tuple(t.shape), oracle.raw_bytes(t)) for key, t in whole.items()
               if isinstance(t, torch.Tensor)}
    objects = {key: value for key, value in flat.items() if not isinstance(value, torch.Tensor)}
    pathlib.Path(f"{home}.rank{rank}").write_bytes(pickle.dumps((tensors, objects, mine(w))))


def expected(tensors, lost=()):
    stems, table = oracle.stems([oracle.key_bytes(key) for key in tensors]), {}
    for key, (dtype, shape, raw) in tensors.items():
        npy = oracle.npy_bytes(raw, dtype, shape)
        table[stems[oracle.key_bytes(key)]] = interop.Expected(
            dtype, shape, hashlib.sha256(raw).hexdigest(), hashlib.sha256(npy).hexdigest(),
            "ENODATA" if key in lost else "")
    return table


def local_problems(top, ranks, alone):
    """The parts that each rank saved, without replicas of a lower rank. With collectives any
    rank may save a replica."""
    found, seen = [], set()
    for rank, (_, _, held) in enumerate(ranks):
        for key, (offset, shape, npy) in held.items():
            path = pathlib.Path(os.fsdecode(top), "local", f"rank-{rank}", key + ".npy")
            if (key, offset, shape) not in seen and alone and not path.exists():
                found.append(f"{path}: is not there")
            if path.exists() and path.read_bytes() != npy:
                found.append(f"{path}: other bytes")
            seen.add((key, offset, shape))
    return found


def object_problems(top, tensors, objects):
    names = {name: oracle.key_bytes(name) for name in [*tensors, *objects]}
    stems = oracle.stems(list(names.values()))
    return nested.object_problems(top, {"values": objects, "stems": {name: stems[raw] for name, raw in names.items()}})


def damaged(lot, home, ranks, mode):
    """Removes one rank. Returns the intact tensors and those with holes."""
    lost = lot.randrange(len(ranks))
    held = [part[2] for part in ranks]
    names = [home / f"__{lost}.metadata"] if lot.random() < 0.5 else list(home.glob(f"__{lost}_*"))
    with_names = names[0].suffix != ".metadata"
    for name in names:
        name.unlink()
    others = [part for rank, part in enumerate(ranks) if rank != lost]
    tensors, holes = {}, set()
    for part in ranks if with_names else others:
        tensors.update(part[0])
    for key, (_, shape, _) in tensors.items():
        elements = all(shape)
        if key in held[lost] and elements:
            offset, size, _ = held[lost][key]
            if all(size) and not any(held[rank][key][:2] == (offset, size) for rank in range(len(ranks)) if rank != lost):
                holes.add(key)
        elif elements and not any(key in part[0] for part in others):
            holes.add(key)
    return tensors, holes


def problems_of(ckptfs, lot, mode, size, scratch):
    home, seed, extents = scratch / "live", lot.randrange(1 << 30), lot.choice(WORLDS[size])
    spawn.run(save, size, str(home), seed, mode, extents)
    ranks = [pickle.loads(pathlib.Path(f"{home}.rank{rank}").read_bytes()) for rank in range(size)]
    tensors, objects = {}, {}
    for part in ranks:
        tensors.update(part[0])
        objects = {**part[1], **objects}
    table = expected(tensors)
    with interop.Mount(ckptfs, home) as top:
        found = interop.differences(top, table) + local_problems(top, ranks, "alone" in mode) + object_problems(top, tensors, objects)
        if lot.random() < 0.1:
            found += [f"canary missed: {what}" for what in interop.canary(top, table)]
    if size > 1 and "alone" in mode and lot.random() < 0.5:
        with_holes, holes = damaged(lot, home, ranks, mode)
        with interop.Mount(ckptfs, home) as top:
            found += [f"a rank is lost: {what}" for what in interop.differences(top, expected(with_holes, holes))]
    return found, len(table)


def main():
    options = live.arguments(__doc__, cases=(8, 40))
    try:
        import safetensors                                                          # noqa: F401
        from torch.distributed.checkpoint.filesystem import SerializationFormat     # noqa: F401
    except ImportError:
        interop.skip("this PyTorch writes no safetensors")
    seed = live.seed()
    tap, lot, count = interop.Tap(), random.Random(seed), 0
    for case in range(options.cases):
        mode, size = MODES[case % len(MODES)], list(WORLDS)[case // len(MODES) % len(WORLDS)]
        with tempfile.TemporaryDirectory(prefix="alone-") as scratch:
            found, tensors = problems_of(options.ckptfs, lot, mode, size, pathlib.Path(scratch))
        count += tensors
        tap.line(not found, f"{mode}, {size} ranks: {tensors} tensors", found)
    print(f"# {count} tensors")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
