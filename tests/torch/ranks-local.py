#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares local/ of directories with one file for each rank with the memory of each process.

    ranks-local.py CKPTFS [--cases N]

Jobs of 2, 3, 4 and 8 processes save state dicts of DTensors over meshes of one to three dimensions (HSDP among them) and of
plain tensors. There are replicas that some ranks changed, with other strides, shapes or dtypes, summands (Partial), entries
of some ranks only, entries that are tensors on some ranks only, and non-tensor values. local/rank-<r>/ must list exactly the
entries of that rank, with bytes, shape and dtype. full/, objects/ and `replicas_differ` are derived from all of them. Plain
tensors whose sample differs cannot be opened in full/; `check` and `check --full` find the same. In some cases the file of a rank is lost. CKPTFS_SEED repeats a run. The result is TAP.
"""
import copy
import errno
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import live                                                             # also finds the modules of tests/fixtures
import interop
import oracle
import spawn

MESHES = {2: [(2,), (1, 2), (2, 1)], 3: [(3,), (3, 1)], 4: [(4,), (2, 2)], 8: [(8,), (2, 4), (4, 2), (2, 2, 2)]}
DTYPES = "float32", "float64", "int32", "int64", "int8", "uint8"                           # that gloo scatters
KINDS = "dtensor", "dtensor", "dtensor", "plain", "view", "ragged", "dtypes", "some", "partial", "kinds", "value", "value"
DIFFER = "user.ckptfs.replicas_differ"


# ---- jobs -----------------------------------------------------------------------------------------------------------

def plan(lot, world_size):
    """The mesh, and the kind and parameters of each entry: the same in all processes."""
    sizes = lot.choice(MESHES[world_size])
    entries = {}
    for i in range(lot.randrange(6, 12)):
        shape = [lot.choice((0, 1, 2, 3, 5, 7, 8)) for _ in range(lot.randrange(4))]
        entries[f"layers.{i}"] = {
            "kind": lot.choice(KINDS), "shape": shape, "dtype": lot.choice(DTYPES),
            "cuts": [lot.choice([None, *range(len(shape))]) for _ in sizes],
            "drift": {r for r in range(world_size) if lot.random() < lot.choice((0, 0.3))},
            "ranks": {r for r in range(world_size) if lot.random() < 0.6} or {0},
        }
    return sizes, entries


def values_of(entry, seed):
    import torch
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 100, entry["shape"], generator=generator).to(getattr(torch, entry["dtype"]))


def cut(entry, tensor, mesh):
    """Returns a DTensor and the position of its local tensor."""
    import world
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    placements = [world.Replicate() if dim is None else world.Shard(dim) for dim in entry["cuts"]]
    shown = world.distribute_tensor(tensor, mesh, placements)
    _, offset = compute_local_shape_and_global_offset(tensor.shape, mesh, placements)
    return shown, tuple(offset)


def placed(tensor):
    """The attributes of a DTensor."""
    words = [f"S({p.dim})" if p.is_shard() else "P" if p.is_partial() else "R" for p in tensor.placements]
    sizes, names = list(tensor.device_mesh.shape), tensor.device_mesh.mesh_dim_names
    return {"placements": words, "mesh": dict(zip(names, sizes, strict=True)) if names else sizes}


def entry_made(entry, rank, mesh, seed):
    """The value for the state dict and its description: (value, held), or None."""
    import torch
    from torch.distributed.tensor import DTensor, Partial
    kind, drifts = entry["kind"], rank in entry["drift"]
    if kind in ("some", "value") and rank not in entry["ranks"] and seed % 2:
        return None
    if kind == "value" or (kind == "kinds" and rank not in entry["ranks"]):
        value = ("x", rank if drifts else 7, {"a": [rank if drifts else 1, 2.5, None]})
        return value, {"value": value}
    tensor = values_of(entry, seed)
    if kind == "ragged":
        tensor = torch.arange(len(entry["ranks"]) * (rank in entry["ranks"]) + 1)
    if kind == "dtypes" and drifts:
        tensor = tensor.to(torch.float16)
    if kind == "dtensor":
        shown, offset = cut(entry, tensor, mesh)
        if drifts:
            shown.to_local().add_(1)
        return shown, {"local": shown.to_local(), "offset": offset, **placed(shown)}
    if kind == "partial":
        summand = DTensor.from_local(tensor + rank, mesh, [Partial()] * mesh.ndim)
        return summand, {"local": tensor + rank, "partial": True, **placed(summand)}
    if drifts and kind in ("plain", "view", "some"):
        tensor = tensor + 1
    if kind == "view" and rank in entry["ranks"] and tensor.dim():
        tensor = tensor.transpose(0, -1).contiguous().transpose(0, -1)
    return tensor, {"local": tensor, "offset": (0,) * tensor.dim()}


def save(rank, world_size, home, seed):
    import torch
    import world
    lot = random.Random(seed)
    sizes, entries = plan(lot, world_size)
    mesh = world.init_device_mesh("cpu", sizes, mesh_dim_names=("pp", "dp", "tp")[:len(sizes)] if seed % 2 else None)
    made = {key: entry_made(entry, rank, mesh, seed + i) for i, (key, entry) in enumerate(entries.items())}
    made = {key: pair for key, pair in made.items() if pair}
    torch.save({key: value for key, (value, _) in made.items()}, home / f"model_rank_{rank}.pt",
               _use_new_zipfile_serialization=seed % 3 != 0)
    torch.save({key: held for key, (_, held) in made.items()}, home.parent / f"held-{rank}.pt")


# ---- expected tree --------------------------------------------------------------------------------------------------

def as_json(value):
    if isinstance(value, tuple):
        return {"$tuple": [as_json(item) for item in value]}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    return {key: as_json(item) for key, item in value.items()} if isinstance(value, dict) else value


def same_bytes(a, b):
    return oracle.raw_bytes(a) == oracle.raw_bytes(b)


def like(held):
    """The properties that must be equal on all ranks for a whole tensor."""
    local = held["local"]
    return oracle.dtype_name(local.dtype), tuple(local.shape)


def is_whole(entry, of):
    """`of`: by rank."""
    if any("value" in held or "partial" in held for held in of.values()):
        return False
    return entry["kind"] == "dtensor" or len({like(held) for held in of.values()}) == 1


def differing(of, rank):
    """The ranks of a whole tensor whose bytes differ from the box of `rank`."""
    mine = of[rank]
    return [r for r, held in sorted(of.items())
            if r != rank and held["offset"] == mine["offset"] and held["local"].shape == mine["local"].shape and
            not same_bytes(held["local"], mine["local"])]


def differing_all(of):
    """The same for full/: each box comes from its lowest rank."""
    first = {}
    for rank, held in sorted(of.items()):
        first.setdefault((held["offset"], held["local"].shape), rank)
    return sorted({r for rank in first.values() for r in differing(of, rank)})


# ---- comparing ------------------------------------------------------------------------------------------------------

def attribute(path, name):
    try:
        return os.getxattr(path, name)
    except OSError:
        return None


def differ_problems(path, ranks):
    found = attribute(path, DIFFER)
    wanted = json.dumps(ranks, separators=(",", ":")).encode() if ranks else None
    known = DIFFER in os.listxattr(path)
    if found != wanted or known != bool(ranks):
        return [f"{path}: replicas_differ is {found}, expected {wanted}; listed: {known}"]
    return []


def tensor_problems(path, tensor):
    import numpy
    array = numpy.load(path)
    if array.tobytes() != oracle.raw_bytes(tensor) or array.shape != tuple(tensor.shape):
        return [f"{path}: other bytes, or shape {array.shape}, expected {tuple(tensor.shape)}"]
    dtype = attribute(path, "user.ckptfs.dtype")
    return [] if dtype == oracle.dtype_name(tensor.dtype).encode() else [f"{path}: dtype {dtype}"]


def placed_problems(path, held):
    wanted = [json.dumps(held[name], separators=(",", ":")).encode() if name in held else None for name in ("placements", "mesh")]
    found = [attribute(path, f"user.ckptfs.{name}") for name in ("placements", "mesh")]
    return [] if found == wanted else [f"{path}: placements and mesh are {found}, expected {wanted}"]


def value_problems(path, value):
    found = json.loads(path.read_text())
    return [] if found == as_json(value) else [f"{path}: {found}, expected {as_json(value)}"]


def pickled_problems(path, value):
    import torch
    found = torch.load(path, weights_only=True)
    return [] if found == value else [f"{path}: {found!r}, expected {value!r}"]


def local_problems(top, entries, held):
    found = []
    for rank, of in held.items():
        where = top / "local" / f"rank-{rank}"
        wanted = sorted(key + (".json" if "value" in of[key] else ".npy") for key in of)
        listed = sorted(os.listdir(where))
        if listed != wanted:
            found.append(f"{where} lists {listed}, expected {wanted}")
            continue
        for key, one in of.items():
            if "value" in one:
                found += value_problems(where / f"{key}.json", one["value"])
                continue
            found += tensor_problems(where / f"{key}.npy", one["local"]) + placed_problems(where / f"{key}.npy", one)
            all_of = {r: held[r][key] for r in held if key in held[r]}
            whole = is_whole(entries[key], all_of)
            found += differ_problems(where / f"{key}.npy", differing(all_of, rank) if whole else [])
    return found


def is_split(entry, of):
    """Plain tensors of one shape that are not equal. All are small, so the sample is all of them."""
    return is_whole(entry, of) and entry["kind"] != "dtensor" and bool(differing_all(of))


def open_errors(*paths):
    errors = []
    for path in paths:
        try:
            os.close(os.open(path, os.O_RDONLY))
            errors.append(0)
        except OSError as error:
            errors.append(error.errno)
    return errors


def split_problems(top, key, of):
    path, raw = top / "full" / f"{key}.npy", top / "raw" / key
    found = open_errors(path, raw)
    if found != [errno.EIO] * 2:
        return [f"{path}: open gives {found}: ranks hold different values"]
    fault = attribute(path, "user.ckptfs.error") or b""
    named = [f"local/rank-{rank}/{key}.npy" for rank in sorted(of)]
    if sum(name in fault.decode() for name in named) != 2:
        return [f"{path}: error is {fault}, expected two of {named}"]
    return differ_problems(path, differing_all(of))


def whole_problems(top, entry, key, of):
    path = top / "full" / f"{key}.npy"
    first = of[min(of)]
    if is_split(entry, of):
        return split_problems(top, key, of)
    return placed_problems(path, first) + differ_problems(path, differing_all(of)) + (
        tensor_problems(path, first["local"]) if like(first)[1] == json.loads(attribute(path, "user.ckptfs.shape")) else [])


def object_problems(top, key, of):
    lowest = min(of)
    value = of[lowest]["value"]
    others = [r for r in sorted(of) if as_json(of[r]["value"]) != as_json(value)]
    base = top / "objects"
    return value_problems(base / f"{key}.json", value) + pickled_problems(base / f"{key}.pt", value) + \
        differ_problems(base / f"{key}.json", others)


def entry_problems(top, entry, key, of):
    """Returns problems, and whether `check --full` must find an error."""
    path = top / "full" / f"{key}.npy"
    values = ["value" in held for held in of.values()]
    if all(values):
        return object_problems(top, key, of), False
    if is_whole(entry, of):
        return whole_problems(top, entry, key, of), bool(differing_all(of))
    if any(values) or any("partial" in held for held in of.values()):
        errors = open_errors(path)
        return [] if errors == [errno.EIO] else [f"{path}: open gives {errors}"], False
    return [f"{path} is there"] if path.exists() else [], True


def problems_at(top, entries, held, findings):
    found = local_problems(top, entries, held)
    wanted, brief = set(), set()
    for key, entry in entries.items():
        of = {rank: held[rank][key] for rank in held if key in held[rank]}
        if not of:
            continue
        more, is_found = entry_problems(top, entry, key, of)
        found += more
        wanted |= {key} if is_found else set()
        brief |= {key} if is_found and (is_split(entry, of) or not is_whole(entry, of)) else set()
    if findings != (brief, wanted):
        found.append(f"check, and with --full, find {findings}, expected {brief}, {wanted}")
    return found


def found_by_check(ckptfs, home):
    """Returns the names that `check` reports with different values of ranks, without and with --full."""
    found = []
    for option in ((), ("--full",)):
        run = subprocess.run([ckptfs, "check", *option, "--json", home], capture_output=True, check=False)
        found.append({f["fqn"] for f in json.loads(run.stdout)["findings"]
                      if f["errno"] is None or "different values" in f["what"]})
    return tuple(found)


# ---- canaries -------------------------------------------------------------------------------------------------------

def wrongs(held):
    """Copies of the descriptions, each with one error."""
    ranks = sorted(held)
    for rank in ranks:
        for key, one in held[rank].items():
            wrong = copy.deepcopy(held)
            if "value" in one:
                wrong[rank][key]["value"] = "other"
            elif one["local"].numel():
                local = wrong[rank][key]["local"]                       # of any strides
                last = tuple(size - 1 for size in local.shape)
                local[last] = 0 if local[last] != 0 else 1
            else:
                del wrong[rank][key]
            yield f"{key} of rank {rank}", wrong


def is_noticed(top, entries, wrong, findings):
    try:
        return bool(problems_at(top, entries, wrong, findings))
    except FileNotFoundError:                                           # the tensor is whole only without the error
        return True


def canary(top, entries, held, findings):
    return [what for what, wrong in wrongs(held) if not is_noticed(top, entries, wrong, findings)]


def case(ckptfs, lot, world_size, home, with_canary):
    import torch
    seed = lot.randrange(1 << 30)
    spawn.run(save, world_size, home, seed)
    _, entries = plan(random.Random(seed), world_size)
    ranks = set(range(world_size))
    if world_size > 2 and lot.random() < 0.3:
        ranks -= {lot.randrange(world_size)}
        (home / f"model_rank_{(set(range(world_size)) - ranks).pop()}.pt").unlink()
    held = {rank: torch.load(home.parent / f"held-{rank}.pt", weights_only=False) for rank in sorted(ranks)}
    findings = found_by_check(ckptfs, home)
    with interop.Mount(ckptfs, home) as top:
        top = pathlib.Path(os.fsdecode(top))
        found = problems_at(top, entries, held, findings)
        missed = canary(top, entries, held, findings) if with_canary and not found else []
    return [*found, *(f"missed: {what}" for what in missed)], sum(map(len, held.values())), len(ranks)


def main():
    options = live.arguments(__doc__, cases=(2, 5))
    seed = live.seed()
    tap, lot, count = interop.Tap(), random.Random(seed), 0
    for number in range(options.cases):
        world_size = (4, 2, 8, 3, 4)[number % 5]
        with tempfile.TemporaryDirectory(prefix="ranks-local-") as scratch:
            home = pathlib.Path(scratch, "here")
            home.mkdir()
            found, entries, ranks = case(options.ckptfs, lot, world_size, home, number == 0)
        count += entries
        tap.line(not found, f"{world_size} ranks, {ranks} left: {entries} entries of them", found)
    print(f"# {count} entries")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
