#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""FSDP1's LOCAL_STATE_DICT, saved by DCP, with the sidecar beside it, mounted: the parameters of the model.

    fsdp1-dcp.py CKPTFS [--cases N]

The flat parameters of the models of sidecar.py in 2 to 4 processes, by dcp.save as it is, without collectives, in
safetensors items and compressed: full/ and raw/ must be the flat parameters, always, and with the sidecar also every parameter under each of its names, as it was before FSDP wrapped it. local/ is as without a
sidecar, and so is all of it with -o write. A lost file costs the elements that it had. CKPTFS_SEED repeats a run. The result
is TAP.
"""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import fsdp1
import hub
import live                                                             # finds the modules of tests/fixtures, too
import interop
import sidecar

HOWS = "plain", "alone", "blobs", "compressed"


def writer_of(how, path):
    import torch.distributed.checkpoint as dcp
    if how == "blobs":
        from torch.distributed.checkpoint.filesystem import SerializationFormat
        return dcp.FileSystemWriter(path, serialization_format=SerializationFormat.SAFETENSORS)
    if how == "compressed":
        from torch.distributed.checkpoint._extension import ZStandard
        return dcp.FileSystemWriter(path, _extensions=[ZStandard()])
    return dcp.FileSystemWriter(path)


def flat_state(model, side):
    """Pieces of use_orig_params are no state that DCP can save: ranks have different ones of one name."""
    from torch.distributed._shard.sharded_tensor import ShardedTensor
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, StateDictType
    pieces = {it["fqn"] for unit in side["units"] for it in unit["params"] + unit["shared"]}
    with FSDP.state_dict_type(model, StateDictType.LOCAL_STATE_DICT):
        return {name: value for name, value in model.state_dict().items()
                if isinstance(value, ShardedTensor) or name not in pieces}


def save(rank, world, home, seed, count):
    import warnings
    import ckptfs_sidecar
    import torch
    import torch.distributed.checkpoint as dcp
    warnings.simplefilter("ignore")
    lot = random.Random(f"{seed} {world}")
    for number in range(count):
        case = sidecar.drawn(lot, number)
        how = HOWS[number % len(HOWS)]
        plain = sidecar.made(case)
        truth = {name: value.detach().clone() for name, value in plain.state_dict().items()}
        model = sidecar.wrap(plain, case)
        of_ranks = sidecar.shards_of(model, case, world)
        side, here = ckptfs_sidecar.describe(model), home / f"case-{number}"
        state = flat_state(model, side)
        if rank == 0:
            here.mkdir()
            flats = {unit["flat_param"]: sidecar.flat_of(unit, of_ranks) for unit in side["units"]}
            others = {name: truth[name] for name in state if name in truth}
            torch.save((truth, flats | others, how), home / f"truth-{number}.pt")
        torch.distributed.barrier()
        dcp.save(state, storage_writer=writer_of(how, str(here)), use_collectives=how != "alone")
        torch.distributed.barrier()
        if rank == 0:
            ckptfs_sidecar.write(model, str(here / "ckptfs-flat.json"))


def copy_of(ckptfs, here, to, *arguments):
    with interop.Mount(ckptfs, here, *arguments) as top:
        shutil.copytree(os.path.join(os.fsdecode(top), "local"), to)


def apart(ckptfs, here, flats, scratch, write):
    """Compares local/ with and without the sidecar. A mount for writing ignores an existing
    sidecar."""
    side = here / "ckptfs-flat.json"
    copy_of(ckptfs, here, scratch / "with")
    found = []
    if write:
        with interop.Mount(ckptfs, here, "-o", "write") as top:
            found += interop.differences(top, flats)
            said = pathlib.Path(os.fsdecode(top), ".ckptfs", "status").read_text()
            if "is not read with -o write" not in said:
                found.append(f"with -o write: {said!r}")
    kept = side.read_bytes()
    side.unlink()
    copy_of(ckptfs, here, scratch / "without")
    with interop.Mount(ckptfs, here) as top:
        found += interop.differences(top, flats)
    side.write_bytes(kept)
    done = subprocess.run(["diff", "-r", scratch / "with", scratch / "without"], capture_output=True, text=True)
    return found + done.stdout.splitlines()


def check(ckptfs, here):
    done = subprocess.run([ckptfs, "check", "--full", here], capture_output=True, text=True)
    return [] if done.returncode == 0 else done.stdout.splitlines() + done.stderr.splitlines()


def problems_of(ckptfs, lot, here):
    import torch
    truth, flats, how = torch.load(here.parent / f"truth-{here.name[5:]}.pt", weights_only=False)
    table, of_flats = hub.expected(flats | truth), hub.expected(flats)
    with interop.Mount(ckptfs, here) as top:
        found = interop.differences(top, table)
        if any(t.numel() for t in flats.values()) and lot.random() < 0.3:
            found += [f"canary missed: {what}" for what in interop.canary(top, table)]
    found += check(ckptfs, here)
    with tempfile.TemporaryDirectory() as scratch:
        found += apart(ckptfs, here, of_flats, pathlib.Path(scratch), how in ("plain", "compressed"))
    lost = sorted(here.glob("*.distcp"))
    lot.choice(lost).unlink()
    with interop.Mount(ckptfs, here) as top:
        found += [f"lost: {problem}" for problem in fsdp1.sane(top, table)]
        found += [f"lost: no {stem!r}" for stem in table if not os.path.exists(os.path.join(top, b"raw", stem))]
    return found, len(table), how


def main():
    options = live.arguments(__doc__, cases=(4, 24))
    seed = live.seed()
    tap, lot, count = interop.Tap(), random.Random(seed), 0
    for world, here in live.by_world(save, live.WORLDS, options.cases, seed):
        found, tensors, how = problems_of(options.ckptfs, lot, here)
        count += tensors
        tap.line(not found, f"{world} ranks, {how}: {tensors} tensors", found)
    print(f"# {count} tensors")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
