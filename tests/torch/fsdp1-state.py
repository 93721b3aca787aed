#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mounts the optimizer state of FSDP1's flat parameters, saved by each rank, with a sidecar, as state of the parameters.

    fsdp1-state.py CKPTFS [--cases N]

The models and optimizers of sidecar.py are trained in 1 and 3 processes, in the long run also in 2 and 4. Each rank saves state_dict() of the optimizer in one
file with the model or in another file; the sidecar is in the checkpoint or named by -o sidecar=. raw/ and full/ must have the
state of every parameter as gathered by FSDP.optim_state_dict(), and no entry under a number. objects/ has the non-tensor
state of each parameter. local/ equals that of a mount without the sidecar. A lost rank loses the elements that it alone had.
A sidecar of another optimizer has no effect. CKPTFS_SEED repeats a run. The result is TAP.
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

FORMS = "together", "apart", "listed"
DAMAGE = None, "lost", None, "shorter"                               # in this order; None: none
WORLDS = (1, 2, 3, 4) if live.is_long() else (1, 3)


def drawn(lot, number):
    """Draws a case without empty parameters, whose state FSDP refuses."""
    while True:
        case = sidecar.drawn(lot, number)
        shapes = [shape for _, bag in sidecar.modules_of(case["plan"]) for shape in bag["params"].values()]
        if not any(0 in shape for shape in shapes):
            return case | {"form": FORMS[number % len(FORMS)]}


def gathered(model, optimizer):
    """The full state of every parameter."""
    from torch.distributed.fsdp import (FullOptimStateDictConfig, FullStateDictConfig, FullyShardedDataParallel as FSDP,
                                        StateDictType)
    # With offloading from CPU to CPU all states share one buffer, and show the last state.
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=False),
                              FullOptimStateDictConfig(offload_to_cpu=False, rank0_only=False)):
        return FSDP.optim_state_dict(model, optimizer)["state"]


def local_states(model, optimizer, world):
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, StateDictType
    state = {}
    if world > 1:                                                       # else there is no LOCAL_STATE_DICT
        with FSDP.state_dict_type(model, StateDictType.LOCAL_STATE_DICT):
            state = model.state_dict()
    of_optimizer = optimizer.state_dict()
    for has in of_optimizer["state"].values():
        has["table"], has["note"] = torch.arange(6.0).reshape(2, 3), "text"
    return state, of_optimizer


def save(rank, world, home, seed, count):
    import warnings
    import ckptfs_sidecar
    import torch
    warnings.simplefilter("ignore")
    lot = random.Random(f"{seed} {world}")
    for number in range(count):
        case = drawn(lot, number)
        model = sidecar.wrap(sidecar.made(case), case)
        optimizer = sidecar.optimizer_of(model.parameters(), case)
        sidecar.train(model, optimizer)
        here = home / f"case-{number}"
        of_ranks, full, by_name = sidecar.local_of(model, case, world), sidecar.full_of(model), gathered(model, optimizer)
        if rank == 0:
            here.mkdir()
            side = ckptfs_sidecar.describe(model, optimizers=[optimizer])
            flats = {unit["flat_param"]: sidecar.flat_of(unit, of_ranks) for unit in side["units"]} if world > 1 else {}
            torch.save((case, full | flats if world > 1 else {}, by_name), home / f"truth-{number}.pt")
            (here / "ckptfs-flat.json").write_text(json.dumps(side))
        torch.distributed.barrier()
        of_model, of_optimizer = local_states(model, optimizer, world)
        if case["form"] == "apart":
            torch.save(of_model, here / f"model_{rank}.pt")
            torch.save(of_optimizer, here / f"optim_{rank}.pt")
        else:
            listed = [of_optimizer] if case["form"] == "listed" else of_optimizer
            torch.save({"model": of_model, "optim": listed, "epoch": 3}, here / f"local_{rank}.pt")


def expected(case, of_model, by_name, world):
    """The names of tensors, and the JSON text of other entries."""
    import torch
    above, tensors, others = ("optim.0" if case["form"] == "listed" else "optim"), {}, {}
    if case["form"] == "apart" and world == 1:                          # two files with other names are not files of ranks
        above = "optim_0"
    tensors |= {f"model.{name}": value for name, value in of_model.items()}
    for fqn, state in by_name.items():
        tensors |= {f"{above}.state.{fqn}.{name}": value for name, value in state.items()}
        tensors[f"{above}.state.{fqn}.table"] = torch.arange(6.0).reshape(2, 3)
        others[f"{above}.state.{fqn}.note"] = "text"
    return tensors, others


def other_problems(top, others):
    """objects/ has these entries, and no entry under a number."""
    found = []
    stems = oracle.stems([oracle.key_bytes(name) for name in others])
    for name, value in others.items():
        path = os.path.join(top, b"objects", stems[oracle.key_bytes(name)] + b".json")
        try:
            said = json.loads(pathlib.Path(os.fsdecode(path)).read_bytes())
        except OSError as error:
            said = error
        if said != value:
            found.append(f"{name}: {said!r}, expected {value!r}")
    listed = [name for name in os.listdir(os.path.join(top, b"objects")) if name.endswith(b".note.json")]
    if len(listed) != len(others):
        found.append(f"{len(listed)} notes, expected {len(others)}")
    return found


def tree_of(top, *names):
    """Path -> bytes, or an errno."""
    out = {}
    for name in names:
        for path in sorted(pathlib.Path(os.fsdecode(top), name).rglob("*")):
            if path.is_file():
                try:
                    out[str(path.relative_to(os.fsdecode(top)))] = path.read_bytes()
                except OSError as error:
                    out[str(path.relative_to(os.fsdecode(top)))] = error.errno
    return out


def compare_trees(what, one, other):
    differing = sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))
    return [f"{what}: {len(differing)} differ: {differing[:4]}"] if differing else []


def sane(top, table):
    """Each tensor has its bytes, or some of them were on a lost rank. State of the lost rank
    alone is missing."""
    found = []
    for stem, wanted in table.items():
        for problem in interop.compare_bytes(os.path.join(top, b"raw", stem), wanted.raw):
            gone = problem == "No such file or directory" and b".state." in stem
            if problem != "No data available" and not gone:
                found.append(f"{stem!r}: {problem}")
    return found


def shortened(side):
    """Of another optimizer."""
    side = json.loads(side)
    side["optimizers"][0] = side["optimizers"][0][:-1]
    return json.dumps(side)


def change(lot, how, here, world):
    """Damages the checkpoint so. Returns the kind of damage, or None: what one rank has is not lost."""
    if how == "shorter":
        (here / "ckptfs-flat.json").write_text(shortened((here / "ckptfs-flat.json").read_text()))
    elif how == "lost" and world > 2:
        lost = lot.randrange(world)
        for path in here.glob(f"*_{lost}.pt"):
            path.unlink()
    else:
        how = None
    return how


def problems_of(ckptfs, lot, how, here, world):
    import torch
    case, of_model, by_name = torch.load(here.parent / f"truth-{here.name[5:]}.pt", weights_only=False)
    how = change(lot, how, here, world)
    tensors, others = expected(case, of_model, by_name, world)
    table, side, options = hub.expected(tensors), here / "ckptfs-flat.json", ()
    beside = here.parent / "beside.json"
    text = side.read_text()
    side.unlink()
    with interop.Mount(ckptfs, here) as top:
        without = tree_of(top, "local")
        plain = tree_of(top, "raw", "objects") if how == "shorter" else {}
    if lot.random() < 0.5:
        beside.write_text(text)
        options = "-o", f"sidecar={beside}"
    else:
        side.write_text(text)
    with interop.Mount(ckptfs, here, *options) as top:
        if how == "lost":
            found = sane(top, table)
        elif how == "shorter":
            found = compare_trees("objects/", {path: data for path, data in plain.items() if path[0] == "o"},
                                  tree_of(top, "objects"))
            found += [f"no {path}" for path in plain if path[0] == "r" and not os.path.exists(os.path.join(os.fsdecode(top), path))]
        else:
            found = interop.differences(top, table) + other_problems(top, others)
            found += [f"canary missed: {what}" for what in interop.canary(top, table)] if lot.random() < 0.3 else []
        found += compare_trees("local/", without, tree_of(top, "local"))
        said = pathlib.Path(os.fsdecode(top), ".ckptfs", "damage").read_text()
        if how == "shorter" and "its optimizer has state of number" not in said:
            found.append("no line of damage")
        if found:
            found += [str(case), *said.splitlines()]
    return found, len(table), f"{case['form']}, {how or 'whole'}"


def main():
    options = live.arguments(__doc__, cases=(10, 24))
    seed = live.seed()
    tap, lot, count = interop.Tap(), random.Random(seed), 0
    for number, (world, here) in enumerate(live.by_world(save, WORLDS, options.cases, seed)):
        found, tensors, how = problems_of(options.ckptfs, lot, DAMAGE[number % len(DAMAGE)], here, world)
        count += tensors
        tap.line(not found, f"{world} ranks, {how}: {tensors} tensors", found)
    print(f"# {count} tensors")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
