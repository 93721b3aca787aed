#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mounts FSDP1's LOCAL_STATE_DICT, saved by each rank, with its sidecar: the tree has the parameters of the model.

    fsdp1.py CKPTFS [--cases N]

The models of sidecar.py run in 2 and 3 processes, in the long run in 4, too. full/ and raw/ must always have the flat parameters. With the sidecar they
also have every parameter under each of its names, as it was before FSDP wrapped it. Without a sidecar, or with a malformed
one or one of another model, they have the flat parameters only. local/rank-<r>/ is the state of that rank, with and without
a sidecar: its part of the flat parameters, and with use_orig_params its pieces of the others. A lost rank loses the elements
that it alone had. CKPTFS_SEED repeats a run. The result is TAP.
"""
import json
import os
import pathlib
import random
import sys

import hub
import live                                                             # also finds the modules of tests/fixtures
import interop
import oracle
import sidecar

DAMAGE = None, "lost", "malformed", None, "other", "none", None, "lost"           # in this order; None: none


def save(rank, world, home, seed, count):
    import warnings
    import ckptfs_sidecar
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, StateDictType
    warnings.simplefilter("ignore")
    lot = random.Random(f"{seed} {world}")
    for number in range(count):
        case = sidecar.drawn(lot, number)
        plain = sidecar.made(case)
        truth = {name: value.detach().clone() for name, value in plain.state_dict().items()}
        model = sidecar.wrap(plain, case)
        of_ranks = sidecar.shards_of(model, case, world)
        here = home / f"case-{number}"
        if rank == 0:
            here.mkdir()
            side = ckptfs_sidecar.describe(model)
            flats = {unit["flat_param"]: sidecar.flat_of(unit, of_ranks) for unit in side["units"]}
            torch.save((truth, flats), home / f"truth-{number}.pt")
            ckptfs_sidecar.write(model, str(here / "ckptfs-flat.json"))
        torch.distributed.barrier()
        with FSDP.state_dict_type(model, StateDictType.LOCAL_STATE_DICT):
            state = model.state_dict()
            torch.save(state, here / f"local_{rank}.pt")
            torch.save({name: local_of(value) for name, value in state.items()}, home / f"held-{number}-{rank}.pt")


def local_of(value):
    """The part of an entry on a rank, or None."""
    import torch
    if not isinstance(value, torch.distributed._shard.sharded_tensor.ShardedTensor):
        return value.detach()
    shards = value.local_shards()
    held = shards[0].tensor.detach() if shards else None
    if held is None:
        return None
    begin = min(shards[0].metadata.shard_offsets[0], value.size(0))         # elements past the end are padding
    return held[:value.size(0) - begin].clone()


def local_problems(top, here, world):
    """True if local/ lists the parts of each existing rank, with their bytes."""
    import torch
    found = []
    for rank in range(world):
        if not (here / f"local_{rank}.pt").exists():
            continue
        held = torch.load(here.parent / f"held-{here.name[5:]}-{rank}.pt", weights_only=False)
        held = {name: t for name, t in held.items() if t is not None}
        stems = oracle.stems([oracle.key_bytes(name) for name in held])
        where = os.path.join(top, b"local", b"rank-%d" % rank)
        for name, tensor in held.items():
            path = os.path.join(where, stems[oracle.key_bytes(name)] + b".npy")
            wanted = oracle.npy_bytes(oracle.raw_bytes(tensor), oracle.dtype_name(tensor.dtype), tensor.shape)
            if not os.path.exists(path):
                if tensor.numel():
                    found.append(f"rank {rank}: no {name}")
            elif pathlib.Path(os.fsdecode(path)).read_bytes() != wanted:
                found.append(f"rank {rank}: {name} is other")
        more = set(os.listdir(where)) - {stem + b".npy" for stem in stems.values()}
        if more:
            found.append(f"rank {rank}: more than it had: {sorted(more)}")
    return found


def change(lot, how, here, world):
    """Damages the checkpoint so."""
    path = here / "ckptfs-flat.json"
    if how == "none":
        path.unlink()
    elif how == "malformed":
        path.write_text(path.read_text().rstrip()[:-1])
    elif how == "other":
        side = json.loads(path.read_text())
        for unit in side["units"]:
            unit["numel"] += 1
        path.write_text(json.dumps(side))
    elif how == "lost":
        (here / f"local_{lot.randrange(world)}.pt").unlink()


def problems_of(ckptfs, lot, how, here, world):
    import torch
    truth, flats = torch.load(here.parent / f"truth-{here.name[5:]}.pt", weights_only=False)
    change(lot, how, here, world)
    table = hub.expected(flats | truth if how in (None, "lost") else flats)
    stems = {oracle.stems([oracle.key_bytes(name)])[oracle.key_bytes(name)] for name in flats}
    with interop.Mount(ckptfs, here) as top:
        control = pathlib.Path(os.fsdecode(top), ".ckptfs")
        if how == "lost":
            found = sane(top, table)
        elif how is None:
            found = interop.differences(top, table)
            if any(t.numel() for t in flats.values()) and lot.random() < 0.3:
                found += [f"canary missed: {what}" for what in interop.canary(top, table)]
        else:
            names = set(os.listdir(os.path.join(top, b"raw")))
            found = [] if stems <= names else [f"{how}: {sorted(stems - names)} are missing"]
            found += [f"{how}: {problem}" for problem in sane(top, {stem: table[stem] for stem in stems}) if stems <= names]
            said = (control / "damage").read_text()
            if how != "none" and not any(line.startswith("E") or ": E" in line for line in said.splitlines()):
                found.append(f"{how}: damage says {said!r}")
        found += local_problems(top, here, world)
        if found:
            found += (control / "damage").read_text().splitlines()
    return found, len(table), how or "whole"


def sane(top, table):
    """Each tensor has its bytes, or cannot be read."""
    found = []
    for stem, expected in table.items():
        try:
            found += interop.compare_bytes(os.path.join(top, b"raw", stem), expected.raw) and [
                f"{stem!r}: {problem}" for problem in interop.compare_bytes(os.path.join(top, b"raw", stem), expected.raw)
                if problem not in ("No data available",)]
        except OSError as error:
            found.append(f"{stem!r}: {error}")
    return found


def main():
    options = live.arguments(__doc__, cases=(len(DAMAGE), 24))
    seed = live.seed()
    tap, lot, count = interop.Tap(), random.Random(seed), 0
    for number, (world, here) in enumerate(live.by_world(save, live.WORLDS, options.cases, seed)):
        found, tensors, how = problems_of(options.ckptfs, lot, DAMAGE[number % len(DAMAGE)], here, world)
        count += tensors
        tap.line(not found, f"{world} ranks, {how}: {tensors} tensors", found)
    print(f"# {count} tensors")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
