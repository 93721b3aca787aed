#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mounts directories with files that each rank of a job wrote by torch.save, and compares them with the values in memory.

    ranks.py CKPTFS [--cases N]

Jobs of 1 to 4 processes draw tensors, split them over meshes of one and two dimensions (HSDP among them) or keep them whole,
and save nested state dicts. Each rank writes its own file, under the usual names of scripts, in both containers. full/ and
raw/ must have the original tensors, and local/rank-<r>/ the parts of that rank. objects/*.json and torch.load of objects/*.pt
have the values of the lowest rank; other ranks have different values, some with tensors. In some cases the file of a rank is
lost, truncated, or exists twice: then only entries of that rank alone are errors. CKPTFS_SEED repeats a run. The result is TAP.
"""
import os
import pathlib
import random
import sys
import tempfile

import hub
import live                                                             # also finds the modules of tests/fixtures
import interop
import nested
import oracle
import spawn

NAMES = ("rank_{r}.pt", "model_world_size_{w}_rank_{r}.pt", "local_state_{r}.pth", "checkpoint.{r}.bin", "tp_rank_0{r}_model.pt",
         "{r}.ckpt")


def plan(lot, world):
    """The plan of a job, the same in all ranks: tensors by name with their placements, and a
    nested state dict of them."""
    tensors = hub.drawn(lot, lot.randrange(1, 8))
    tensors = {name: t for name, t in tensors.items() if oracle.dtype_name(t.dtype) != "float4_e2m1fn_x2"}
    sizes = (2, world // 2) if world == 4 and lot.random() < 0.6 else (world,)
    cuts = {}
    for name, tensor in tensors.items():
        dims = list(range(tensor.dim()))
        scattered = oracle.dtype_name(tensor.dtype) in hub.SCATTERED
        cuts[name] = [lot.choice([None, *dims]) for _ in sizes] if scattered and lot.random() < 0.8 else None
    return tensors, sizes, cuts, lot.choice(NAMES), lot.random() < 0.3


def save(rank, world_size, home, seed):
    import torch
    import world
    lot = random.Random(seed)
    tensors, sizes, cuts, name, legacy = plan(lot, world_size)
    mesh = world.init_device_mesh("cpu", sizes)
    model = {}
    for key, tensor in tensors.items():
        model[key] = tensor
        if cuts[key]:
            model[key] = world.distribute_tensor(
                tensor, mesh, [world.Replicate() if dim is None else world.Shard(dim) for dim in cuts[key]])
    drawn = nested.Drawn(random.Random(f"{seed} {rank}"), nested.DTYPES, False)
    mine = {"rank": rank, 0: ("x", rank), **{f"o{i}": drawn.value() for i in range(4)}}
    state = {"model": model, "step": 7, "mine": mine}
    torch.save(state, home / name.format(r=rank, w=world_size), _use_new_zipfile_serialization=not legacy)
    local = {key: (t.to_local() if cuts[key] else t) for key, t in model.items()}
    torch.save(local, home.parent / f"local-{rank}.pt")
    torch.save({"step": 7, "mine": mine}, home.parent / f"objects-{rank}.pt")


def lost_by(home, tensors, cuts, files, sizes):
    """Names with elements in no remaining file. files: the ranks with remaining files."""
    import torch
    names = set()
    for name, tensor in tensors.items():
        if not cuts[name]:
            continue
        have = torch.zeros(tensor.shape, dtype=torch.bool)
        for rank in files:
            coordinate = [rank // sizes[1], rank % sizes[1]] if len(sizes) == 2 else [rank]
            part, gone = have, False
            for dim, at, size in zip(cuts[name], coordinate, sizes):
                if dim is None:
                    continue
                chunks = part.chunk(size, dim) if part.shape[dim] else ()
                gone = gone or at >= len(chunks)
                part = part if gone else chunks[at]
            if not gone:
                part.fill_(True)
        if not bool(have.all()):
            names.add(name)
    return names


def damage(lot, home, name, world_size):
    """Damages a file. Returns the intact ranks and the kind of damage."""
    ranks = set(range(world_size))
    victim = lot.randrange(world_size)
    path = home / name.format(r=victim, w=world_size)
    how = lot.choice(("lost", "cut", "twice")) if world_size > 2 else "nothing"
    if how == "lost":
        path.unlink()
    elif how == "cut" and path.read_bytes()[:2] == b"PK":
        left = lot.randrange(1, path.stat().st_size)
        os.truncate(path, left)
        if left < 4:                                           # no valid torch file
            how = "lost"
    elif how == "twice":
        other = home / name.format(r=world_size + 5, w=world_size)
        other.write_bytes(path.read_bytes())
        return ranks, how
    else:
        return ranks, "nothing"
    return ranks - {victim}, how


def local_problems(top, world_size, home, cuts, ranks):
    import numpy
    import torch
    found = []
    for rank in ranks:
        held = torch.load(home.parent / f"local-{rank}.pt", weights_only=False)
        stems = oracle.stems([oracle.key_bytes(f"model.{key}") for key in held])
        for key, tensor in held.items():
            path = os.path.join(top, b"local", b"rank-%d" % rank, stems[oracle.key_bytes(f"model.{key}")] + b".npy")
            if not os.path.exists(path):
                found += [f"rank {rank}: no {key}"] if world_size > 1 else []           # a single file has no directory of ranks
                continue
            array = numpy.load(path)
            if array.tobytes() != oracle.raw_bytes(tensor) or array.shape != tuple(tensor.shape):
                found.append(f"rank {rank}: {key} is other")
    return found


def object_problems(top, home, tensors, lowest):
    """objects/ has the values of the lowest rank, as JSON and as read by torch.load."""
    import torch
    values = nested.entries(torch.load(home.parent / f"objects-{lowest}.pt", weights_only=False))
    if not tensors:
        values["model"] = {}                                            # an empty dict is an entry
    names = {name: oracle.key_bytes(name) for name in [f"model.{key}" for key in tensors] + list(values)}
    stems = oracle.stems(list(names.values()))
    return nested.object_problems(top, {"values": values, "stems": {name: stems[raw] for name, raw in names.items()}})


def problems_of(ckptfs, lot, world_size, home):
    seed = lot.randrange(1 << 30)
    spawn.run(save, world_size, home, seed)
    tensors, sizes, cuts, name, _ = plan(random.Random(seed), world_size)
    ranks, how = damage(lot, home, name, world_size)
    table = hub.expected({f"model.{key}": tensor for key, tensor in tensors.items()})
    stems = oracle.stems([oracle.key_bytes(f"model.{key}") for key in tensors])
    for key in lost_by(home, tensors, cuts, ranks, sizes):
        stem = stems[oracle.key_bytes(f"model.{key}")]
        table[stem] = table[stem]._replace(error="ENODATA")
    with interop.Mount(ckptfs, home) as top:
        problems = interop.differences(top, table) + local_problems(top, world_size, home, cuts, ranks)
        control = pathlib.Path(os.fsdecode(top), ".ckptfs")
        problems += object_problems(top, home, tensors, min(ranks))
        if world_size > 1 and not object_problems(top, home, tensors, max(ranks)):
            problems.append("canary missed: what another rank has would do")
        if (control / "status").read_text().splitlines()[2].split(" (")[0] != ("kind: ranks" if world_size > 1 else "kind: torch"):
            problems.append((control / "status").read_text().splitlines()[2])
        said = (control / "damage").read_text()
        # Only a mesh shows that there was one more rank.
        silent = how == "lost" and not any(cuts.values()) and max(ranks) == len(ranks) - 1
        if (how == "nothing" or silent) != (not [line for line in said.splitlines() if line.startswith("E")]):
            problems.append(f"{how}: damage says {said!r}")
        if problems:
            problems += said.splitlines()
    return problems, len(table), how


def main():
    options = live.arguments(__doc__, cases=(12, 24))
    seed = live.seed()
    tap, lot, count = interop.Tap(), random.Random(seed), 0
    for case in range(options.cases):
        world_size = (1, 2, 3, 4, 4, 3)[case % 6]
        with tempfile.TemporaryDirectory(prefix="ranks-") as scratch:
            home = pathlib.Path(scratch, "here")
            home.mkdir()
            found, tensors, how = problems_of(options.ckptfs, lot, world_size, home)
        count += tensors
        tap.line(not found, f"{world_size} ranks, {how}: {tensors} tensors", found)
    print(f"# {count} tensors")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
