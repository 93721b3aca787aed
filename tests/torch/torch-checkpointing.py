#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mounts checkpoints of the package torch_checkpointing, and compares every tensor, the part of each rank, and every object
with the values in memory.

    torch-checkpointing.py CKPTFS [--cases N]

Each case is a job of 2 or 4 processes, in the long run also of 1, 3 and 8, that saves twice. Its items are torch files with
and without a resharder, in the directory itself and in one for each rank, and files of safetensors, JSON and raw bytes. They
have DTensors over meshes, slices of them and the same dimension twice, tensors with listed boxes (default_tensor_v1), plain
tensors of all or of some ranks, and other values. The first save is mounted as it is, and with its metadata rewritten in
version 1.0; the second one has no metadata.pkl, and is read as files of ranks. A metadata.pkl that names a class is refused.
The long run also has release 0.1.0, which is installed into a directory of its own. CKPTFS_SEED repeats a run. The result is
TAP.
"""
import collections
import copy
import json
import logging
import math
import os
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile

import hub
import live                                                             # also finds the modules of tests/fixtures
import interop
import nested
import oracle
import spawn
import torch_items

MESHES = {1: [(1,)], 2: [(2,), (1, 2)], 3: [(3,)], 4: [(4,), (2, 2)], 8: [(8,), (4, 2), (2, 2, 2)]}
DTYPES = "float32", "float32", "float64", "bfloat16", "float16", "int8", "uint8", "int16", "int32", "int64", "bool", \
    "complex64", "float8_e4m3fn"
EXTENTS = 0, 1, 2, 3, 4, 5, 7, 8, 12
CONFIG = {"lr": 1e-3, "many": 1 << 80, "less": -1 << 70, "list": [1, None, True, [], {}, [{"a": {"b": [0.5]}}]],
          "text": "\u00e9\U0001f600\n\"\\", "nan": math.nan, "inf": [math.inf, -math.inf], "": {"": 0}, "zero": -0.0,
          "ints": [0, -1, 1 << 31, -(1 << 31) - 1, (1 << 63) - 1, 1 << 63, -(1 << 63), 1 << 64, 10 ** 400],
          "floats": [5e-324, 1.7976931348623157e308, 1e22, 1e16, 123456789.125, 0.1, 1e-7], "escapes": "\0\x7f\u2028/\t",
          "$tuple": [1], "lone": ["\ud800x", "\udfff", "\udc00\ud800"], "deep": json.loads("[" * 100 + "]" * 100)}
EVIL = b"cposix\nsystem\n(S'touch %s'\ntR."


# ---- jobs -----------------------------------------------------------------------------------------------------------

def ceil_chunk(size, pieces, number):
    """Begin and end of a piece, as torch.chunk cuts."""
    step = -(-size // pieces)
    return min(number * step, size), min((number + 1) * step, size)


class Job:
    """The payload of one rank: whole tensors, its own parts of them, and the placements."""

    def __init__(self, rank, size, lot, release):
        import world
        self.rank, self.size, self.lot, self.world, self.release = rank, size, lot, world, release
        self.meshes = {extents: world.init_device_mesh("cpu", extents, mesh_dim_names=("pp", "dp", "tp")[-len(extents):])
                       for extents in MESHES[size]}
        self.whole, self.number = {}, 0

    def values(self, shape, dtype=None):
        import torch
        self.number += 1
        return self.world.values(f"t{self.number}", shape, getattr(torch, dtype or self.lot.choice(DTYPES)))

    def known(self, tensor, whole):
        self.whole[id(tensor)] = whole
        return tensor

    def dtensor(self):
        """Random placements; in the order of the mesh, as distribute_tensor cuts."""
        mesh = self.meshes[self.lot.choice(list(self.meshes))]
        shape = [self.lot.choice(EXTENTS) for _ in range(self.lot.randrange(1, 4))]
        placements = [self.world.Replicate() if self.lot.random() < 0.25 else self.world.Shard(self.lot.randrange(len(shape)))
                      for _ in range(mesh.ndim)]
        return self.distributed(self.values(shape), mesh, placements)

    def distributed(self, whole, mesh, placements):
        return self.known(self.world.distribute_tensor(whole.clone(), mesh, placements, src_data_rank=None), whole)

    def strided(self):
        """A dimension that the last dimension of the mesh cuts first, as tensor parallelism with FSDP2 does."""
        from torch.distributed.tensor.placement_types import _StridedShard
        mesh = next((mesh for mesh in self.meshes.values() if mesh.ndim == 2), None)
        if mesh is None or self.release == torch_items.OLD:
            return self.dtensor()
        outer, inner = mesh.shape
        whole = self.values((self.lot.choice((4, 8, 12, 7, 1)), 3))
        i, j = mesh.get_coordinate()
        begin, end = ceil_chunk(len(whole), inner, j)
        first, last = ceil_chunk(end - begin, outer, i)
        tensor = self.world.DTensor.from_local(
            whole[begin + first:begin + last].clone(), mesh, [_StridedShard(0, split_factor=inner), self.world.Shard(0)],
            run_check=False, shape=whole.shape, stride=whole.stride())
        return self.known(tensor, whole)

    def sliced(self):
        """A tensor over one dimension of a mesh: each slice of the mesh has the whole of it."""
        mesh = self.meshes[max(self.meshes, key=len)]
        if mesh.ndim == 1:
            return self.dtensor()
        return self.distributed(self.values((self.lot.choice(EXTENTS), 2)), mesh[mesh.mesh_dim_names[-1]],
                                [self.world.Shard(0)])

    def pieces(self):
        """A tensor with the attributes of CheckpointableTensor: two boxes, and elements of no box."""
        whole, rows = self.values((2 * self.size, 5), "float32"), self.rank + 2
        local = self.values((rows, 7), "float32")
        at = self.rank * 2
        local[0:2, 0:3] = whole[at:at + 2, 0:3]
        local[rows - 2:rows, 5:7] = whole[at:at + 2, 3:5]
        local.global_shape = tuple(whole.shape)
        local.global_offsets = ((at, 0), (at, 3))
        local.local_offsets = ((0, 0), (rows - 2, 5))
        local.local_sizes = ((2, 3), (2, 2))
        return self.known(local, whole)

    def tensor(self):
        draw = self.lot.choice((self.dtensor, self.dtensor, self.strided, self.sliced, self.plain))
        return draw()

    def plain(self):
        return self.values([self.lot.choice(EXTENTS) for _ in range(self.lot.randrange(3))])

    def value(self):
        """A value that is no tensor; some differ between ranks."""
        mine = self.lot.random() < 0.5
        value = self.lot.choice((7, "text \u00e9", (1, 2.5), b"\0bytes", None, [1, [2]], {}, 1 << 80))
        return {"of": self.rank} if mine else value

    def model(self):
        state = {"layers": [{"weight": self.tensor(), "bias": self.tensor()}, self.tensor(), self.plain()],
                 "norm": {"weight": self.plain(), 0: self.dtensor(), True: self.plain()}, "twice": self.strided(),
                 "slice": self.sliced(), "step": 7, "note": self.value(), "pair": (1, self.rank), "both": (self.plain(), [self.dtensor()]), "a.b": {"c": self.tensor()}}
        first, last = self.plain(), self.plain()
        if self.rank == 0:
            state["first"] = first
        if self.rank == self.size - 1:
            state["last"] = last
        return state

    def optimizer(self):
        return {"state": {i: {"step": self.plain(), "exp_avg": self.tensor()} for i in range(3)},
                "param_groups": [{"lr": 0.001, "betas": (0.9, 0.95), "params": [0, 1, 2]}]}

    def safe(self):
        """For a safetensors file: tensors only."""
        return {"w": self.dtensor(), "sub": [self.strided(), {"v": self.values((3,), "float32")}], "s": self.sliced()}

    def payload(self):
        items = {"model": self.model(), "opt": self.optimizer(), "safe": self.safe(), "bare": self.dtensor(),
                 "config": copy.deepcopy(CONFIG) | {"rank": self.rank}, "blob": b"\0\xff of rank %d" % self.rank,
                 "extra": {"w": self.dtensor(), "p": self.plain(), "seen": self.value()}, "count": 100,
                 "row": [self.dtensor(), {"x": self.plain()}], "two": (1, [self.rank]),
                 "unseen": {"text": "a file that metadata.pkl does not name"}}
        if self.release != torch_items.OLD:
            items["listed"] = {"x": self.pieces(), "y": [self.pieces()]}
        return items


def held(job, items):
    """item -> name -> (whole tensor, local tensor, placements and mesh, or boxes) or (value,)."""
    import torch
    found = {}
    for item, value in items.items():
        rows = {item: value} if item in ("config", "unseen") else nested.entries({item: value})
        found[item] = {}
        for name, entry in rows.items():
            if not isinstance(entry, torch.Tensor):
                found[item][name] = (entry,)
                continue
            is_dtensor = hasattr(entry, "placements")
            local = entry.to_local() if is_dtensor else entry
            found[item][name] = job.whole.get(id(entry), local), local.detach().clone(), placed(entry) if is_dtensor else \
                {"at": (entry.global_offsets, entry.local_offsets, entry.local_sizes)} if item == "listed" else {}
    return found


def placed(tensor):
    """The attributes of a DTensor."""
    words = ["R" if p.is_replicate() else f"SS({p.dim},{p.split_factor})" if "Strided" in type(p).__name__ else f"S({p.dim})"
             for p in tensor.placements]
    mesh = tensor.device_mesh
    return {"placements": words, "mesh": dict(zip(mesh.mesh_dim_names, mesh.shape, strict=True))}


def save(rank, size, home, seed, release, where):
    import torch
    import torch.distributed as dist
    if where:
        sys.path.insert(0, where)
    logging.disable(logging.WARNING)
    import torch_checkpointing
    job = Job(rank, size, random.Random(seed), release)
    items = job.payload()
    with torch_items.manager(torch_checkpointing, items) as saver:
        for step in (1, 2):
            saver.save(f"{home}/step-{step}", items)
            dist.barrier()
    torch.save(held(job, items), f"{home}/held-{rank}.pt")


# ---- expected tree --------------------------------------------------------------------------------------------------

SECOND = "model", "bare", "listed", "extra", "count", "row", "two"      # torch files in the directory itself


def sorted_keys(value):
    """The value as a JSON file has it, in which the package sorts keys."""
    return json.loads(json.dumps(value, sort_keys=True))


class Expected:
    """What a mount of one of the two saves must show."""

    def __init__(self, ranks, items, is_first):
        self.names, self.whole, self.values, self.placed, self.local, self.first = {}, {}, {}, {}, [], is_first
        for rank, of in enumerate(ranks):
            self.local.append({})
            for item in of:
                if item in items:
                    for name, entry in of[item].items():
                        self.add(rank, item, name, entry)
        keys = [oracle.key_bytes(name) for name in self.names]
        stems = oracle.stems(keys)
        self.stems = {name: os.fsdecode(stems[oracle.key_bytes(name)]) for name in self.names}

    def add(self, rank, item, name, entry):
        self.names.setdefault(name)
        self.local[rank][name] = entry
        if len(entry) == 1:
            value = sorted_keys(entry[0]) if item == "config" else entry[0]
            self.local[rank][name] = (value,)
            self.values.setdefault(name, value)
        elif item == "listed" and not self.first:
            return                                                      # other local shapes: no whole tensor
        else:
            self.whole.setdefault(name, entry[0])
            if item not in ("safe", "listed"):
                self.placed.setdefault(name, entry[2])

    def table(self):
        found = {}
        for name, tensor in self.whole.items():
            (found[os.fsencode(self.stems[name])],) = hub.expected({"x": tensor}).values()
        return found

    def objects(self):
        return {"values": self.values, "stems": {name: os.fsencode(stem) for name, stem in self.stems.items()}}


# ---- comparing ------------------------------------------------------------------------------------------------------

def attribute(path, name):
    try:
        return os.getxattr(path, f"user.ckptfs.{name}").decode()
    except OSError:
        return None


def content(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        return str(error).encode()


def attribute_problems(top, expected):
    found = []
    for name, attributes in expected.placed.items():
        path = top / "full" / f"{expected.stems[name]}.npy"
        wanted = {"kind": "dtensor" if attributes else "tensor"}
        wanted |= {key: json.dumps(attributes[key], separators=(",", ":")) if attributes else None
                   for key in ("placements", "mesh")}
        seen = {key: attribute(path, key) for key in wanted}
        if seen != wanted:
            found.append(f"{name}: attributes {seen}, expected {wanted}")
    return found


def local_files(expected, name, entry):
    """The files of an entry in the directory of a rank: name -> content."""
    stem = expected.stems[name]
    if len(entry) == 1:
        return {f"{stem}.json": oracle.json_text(entry[0]).encode()}
    boxes = {"": entry[1]}
    if expected.first and "at" in entry[2]:
        boxes = {"%@" + ",".join(map(str, at)): entry[1][tuple(slice(o, o + n) for o, n in zip(inside, sizes))]
                 for at, inside, sizes in zip(*entry[2]["at"])}
    return {f"{stem}{box}.npy": oracle.npy_bytes(oracle.raw_bytes(local), oracle.dtype_name(local.dtype), tuple(local.shape))
            for box, local in boxes.items()}


def local_problems(top, expected):
    found = []
    for rank, entries in enumerate(expected.local):
        home, wanted = top / "local" / f"rank-{rank}", {}
        for name, entry in entries.items():
            wanted |= local_files(expected, name, entry)
        listed = sorted(os.listdir(home))
        if listed != sorted(wanted):
            found.append(f"{home} lists other names: {sorted(set(listed) ^ set(wanted))[:8]}")
        found += [f"{home}/{name}: other bytes: {content(home / name)[:120]}" for name in set(listed) & set(wanted)
                  if content(home / name) != wanted[name]]
    return found


def hf_problems(top, expected):
    from safetensors.torch import load_file
    wanted = {name.removeprefix("model."): tensor for name, tensor in expected.whole.items() if name.startswith("model.")}
    found = load_file(top / "hf/model.safetensors")
    if set(found) != set(wanted):
        return [f"hf/ has other names: {sorted(set(found) ^ set(wanted))[:6]}"]
    return [f"hf/: {name} differs" for name, tensor in wanted.items() if not nested.is_same(tensor, found[name])]


def report(top, name):
    return (top / ".ckptfs" / name).read_text()


def report_problems(top, kind, size):
    status, damage, found = report(top, "status"), report(top, "damage"), []
    if f"\nkind: {kind} (" not in status:
        found.append(f"status: {status.splitlines()[:4]}")
    if [line for line in damage.splitlines() if line.startswith(("E", "lost"))]:
        found.append("damage is not empty")
    if kind == "torch_checkpointing" and size > 1 and "a plain tensor that only some ranks have: model.first\n" not in status:
        found.append(f"status has no note of plain tensors: {status}")
    if kind == "torch_checkpointing" and "unseen_0.json" not in status:
        found.append(f"status does not name a file that is not shown: {status}")
    return found


def tree_problems(ckptfs, source, expected, kind, with_canary=False):
    with interop.Mount(ckptfs, source) as top:
        table, objects, place = expected.table(), expected.objects(), pathlib.Path(os.fsdecode(top))
        found = interop.differences(top, table) + nested.object_problems(top, objects)
        found += local_problems(place, expected) + attribute_problems(place, expected) + hf_problems(place, expected)
        found += report_problems(place, kind, len(expected.local))
        found += report(place, "damage").splitlines() if found else []
        if with_canary and not found:
            found = [f"canary missed: {what}" for what in interop.canary(top, table)]
    return found


# ---- metadata.pkl ---------------------------------------------------------------------------------------------------

class Runs:
    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return os.system, (f"touch {self.canary}",)


def version_1(metadata):
    """The contents of metadata.pkl as version 1.0 has them."""
    paths, layouts = {}, {rank: {} for rank in range(metadata["world_size"])}
    for item, of in metadata["metadata"].items():
        for path, groups in of["nested_path_to_metadata"].items():
            paths[json.dumps([item, *json.loads(path)], separators=(",", ":"))] = groups
        for rank, layout in of["rank_to_layout_info"].items():
            layouts[rank][item] = layout
    return {"version": "1.0", "world_size": metadata["world_size"], "metadata": paths,
            "rank_to_layout_info_mappings": layouts}


def refused(ckptfs, source, point, *texts):
    done = subprocess.run([ckptfs, "mount", source, point], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        subprocess.run([ckptfs, "umount", point], check=True)
    good = done.returncode == 2 and all(text in done.stderr for text in texts)
    return [] if good else [f"exit {done.returncode}: {done.stderr}"]


def refusals(tap, ckptfs, step, scratch):
    """metadata.pkl with classes, of another version, of another program, and of no program."""
    metadata, point, canary = step / "metadata.pkl", scratch / "point", scratch / "canary"
    content = pickle.loads(metadata.read_bytes())
    point.mkdir()
    found = []
    for more in ({"more": Runs(canary)}, {"version": Runs(canary)}, {"metadata": collections.OrderedDict()},
                 {"world_size": complex(1, 2)}):
        metadata.write_bytes(pickle.dumps(content | more))
        found += refused(ckptfs, step, point, "metadata.pkl: ")
    metadata.write_bytes(EVIL % str(canary).encode())
    found += refused(ckptfs, step, point, "metadata.pkl: ", "posix.system")
    found += ["it ran"] if canary.exists() else []
    tap.line(not found, "metadata.pkl that names a class or function is refused, and nothing runs", found)
    found = []
    for other in (content | {"version": "3.0"}, content | {"world_size": 0}, content | {"metadata": []}):
        metadata.write_bytes(pickle.dumps(other))
        found += refused(ckptfs, step, point, "metadata.pkl: ")
    for other in (b"", b"text", pickle.dumps(content)[:-1]):
        metadata.write_bytes(other)
        found += refused(ckptfs, step, point, "metadata.pkl: ")
    tap.line(not found, "metadata.pkl that cannot be read is refused", found)
    found = []
    for other in ({"version": "2.0", "metadata": {}}, [1], "text", {"classes": ["a"]}):
        metadata.write_bytes(pickle.dumps(other))
        with interop.Mount(ckptfs, step) as top:
            if "\nkind: ranks (" not in report(pathlib.Path(os.fsdecode(top)), "status"):
                found.append(f"{other}: another kind")
    tap.line(not found, "metadata.pkl of another program: files of ranks", found)


# ---- the run --------------------------------------------------------------------------------------------------------

def case(tap, ckptfs, lot, size, release, where, number):
    import torch
    with tempfile.TemporaryDirectory(prefix="torch-checkpointing-") as scratch:
        home, scratch = pathlib.Path(scratch, "run"), pathlib.Path(scratch)
        home.mkdir()
        spawn.run(save, size, str(home), lot.randrange(1 << 30), release, where)
        ranks = [torch.load(home / f"held-{rank}.pt", weights_only=False) for rank in range(size)]
        first, second = home / "step-1", home / "step-2"
        expected, kind = Expected(ranks, set(ranks[0]) - {"unseen"}, True), "torch_checkpointing"
        found = tree_problems(ckptfs, first, expected, kind, number == 0)
        tap.line(not found, f"{release}, {size} ranks: {len(expected.whole)} tensors, {len(expected.values)} others", found)
        content = pickle.loads((first / "metadata.pkl").read_bytes())
        (first / "metadata.pkl").write_bytes(pickle.dumps(version_1(content)))
        found = tree_problems(ckptfs, first, expected, kind)
        tap.line(not found, f"{release}, {size} ranks: metadata.pkl of version 1.0", found)
        found = ["it has metadata.pkl"] if (second / "metadata.pkl").exists() else []
        if size > 1:
            found += tree_problems(ckptfs, second, Expected(ranks, SECOND, False), "ranks")
        tap.line(not found, f"{release}, {size} ranks: the second save", found)
        if number == 0:
            (first / "metadata.pkl").write_bytes(pickle.dumps(content))
            refusals(tap, ckptfs, first, scratch)
        return len(expected.whole)


def releases_in(scratch):
    """The releases: (name, directory of it or None)."""
    if torch_items.installed() != torch_items.NEW:
        interop.skip(f"torch_checkpointing {torch_items.NEW} is not installed")
    return [(torch_items.NEW, None)] + ([(torch_items.OLD, torch_items.install_old(scratch))] if live.is_long() else [])


def main():
    options = live.arguments(__doc__, cases=(2, 20))
    seed = live.seed()
    logging.disable(logging.WARNING)                                    # of meshes without a process group
    tap, lot, count = interop.Tap(), random.Random(seed), 0
    with tempfile.TemporaryDirectory(prefix="torch-checkpointing-old-") as scratch:
        releases = releases_in(scratch)
        for number in range(options.cases):
            size = (4, 2, 4, 2, 1, 3, 8)[number % 7]
            count += case(tap, options.ckptfs, lot, size, *releases[number // 2 % len(releases)], number)
    print(f"# {count} tensors")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
