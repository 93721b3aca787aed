#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mounts files of torch.save, and compares every tensor and every other entry with the values in memory.

    nested.py CKPTFS [--cases N]

Random nested state dicts have keys of all types, views, tied tensors, conj and neg, and every dtype. They are saved in both
containers and all protocols: as one file, as several files, in pieces with and without an index, or with DCP. raw/ and full/
must have the saved tensors, objects/*.json Python's text of the value, and torch.load of objects/*.pt the value. If all keys
of the paths are strings, names equal those of PyTorch's flatten_state_dict. CKPTFS_SEED repeats a run. The result is TAP.
"""
import collections
import json
import os
import pathlib
import random
import sys
import tempfile

import hub
import live                                                             # also finds the modules of tests/fixtures
import interop
import oracle

# Dtypes without a storage class, which torch.load refuses in the legacy container.
NEW_DTYPES = "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64",
          "complex128")
KEYS = ("weight", "layers", "a.b", "a", "b", "0", "1", "q/k", "\u00e9\U0001f600", "", "~2", "x~2",
        "bn._extra_state")
ODD_KEYS = 0, 1, -3, 1 << 70, True, None, 1.5, float("inf"), (1, "x"), b"bytes"


def view(lot, tensor):
    """The same values, or some of them, in another memory layout."""
    import torch
    how = lot.randrange(9)
    if how == 0 and tensor.dim() > 1:
        return tensor.transpose(0, -1)
    if how == 1 and tensor.dim():
        return tensor[::2]
    if how == 2 and tensor.dim():
        return tensor[1:]
    if how == 3 and tensor.is_complex():
        return tensor.conj()
    # PyTorch itself changes the bits of NaNs of two bytes.
    if how == 4 and tensor.is_floating_point() and tensor.element_size() > 2:
        return torch._neg_view(tensor)
    if how == 5:
        return tensor.unsqueeze(0).expand(3, *tensor.shape)
    if how == 6 and tensor.is_floating_point():
        return torch.nn.Parameter(tensor, requires_grad=lot.random() < 0.5)
    if how == 7 and tensor.dim() == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor


class Drawn:
    """A random nested state dict, and its leaves by path."""

    def __init__(self, lot, dtypes, odd):
        self.lot, self.dtypes, self.odd, self.pool = lot, dtypes, odd, []

    def tensor(self):
        import torch
        import world
        lot = self.lot
        if self.pool and lot.random() < 0.3:
            return view(lot, lot.choice(self.pool))
        shape = [lot.choice((0, 1, 2, 3, 5, 8)) for _ in range(lot.randrange(5))]
        tensor = world.values(f"t{len(self.pool)}", shape, getattr(torch, lot.choice(self.dtypes)))
        self.pool.append(tensor)
        return view(lot, tensor)

    def plain(self):
        """A random value without tensors that is not a mapping."""
        import torch
        lot = self.lot
        return lot.choice((
            lambda: lot.randrange(-5, 1 << 40), lambda: 1 << 80, lambda: lot.random(), lambda: None, lambda: "text \u00e9",
            lambda: b"\0bytes", lambda: (1, 2.5, "x"), lambda: [1, [2, 3]], lambda: [], lambda: {"set", }, lambda: torch.float16,
            lambda: torch.Size([2, 3]), lambda: torch.device("cpu"), lambda: complex(1, -2), lambda: "long " * 2000))()

    def value(self):
        import torch
        if self.lot.random() < 0.7:
            return self.plain()
        return self.lot.choice((
            lambda: (self.tensor(), [self.tensor(), "mixed"]), lambda: {}, lambda: collections.OrderedDict(),
            lambda: torch.sparse_coo_tensor([[0, 1]], [3., 4.], (5,))))()

    def mapping(self, depth, least=0):
        lot = self.lot
        made = lot.choice((dict, dict, collections.OrderedDict, lambda: collections.defaultdict(int)))()
        for _ in range(lot.randrange(least, 6)):
            made[lot.choice(ODD_KEYS if self.odd and lot.random() < 0.3 else KEYS)] = self.node(depth - 1)
        return made

    def node(self, depth):
        lot = self.lot
        if depth <= 0 or lot.random() < 0.4:
            return self.tensor() if lot.random() < 0.6 else self.value()
        if lot.random() < 0.75:
            return self.mapping(depth)
        return [self.node(depth - 1) for _ in range(lot.randrange(4))]


# ---- names of entries, as ckptfs(5) defines them --------------------------------------------------------------------

def is_open(value):
    import torch
    return any(isinstance(entry, (torch.Tensor, dict)) and not is_sparse(entry) or type(entry) is list and is_open(entry)
               for entry in value)


def is_sparse(value):
    import torch
    return isinstance(value, torch.Tensor) and value.layout != torch.strided


def key_text(key):
    if type(key) in (str, int, bool, float, type(None)):
        return str(key)
    return oracle.json_text(key)[:-1]


def paths(value, path=()):
    """(path, value) for each entry; a part of a path has its type."""
    if isinstance(value, dict) and (value or not path):
        for key, inside in value.items():
            yield from paths(inside, (*path, (type(key), key_text(key))))
    elif type(value) is list and is_open(value):
        for number, inside in enumerate(value):
            yield from paths(inside, (*path, (None, str(number))))
    else:
        yield path, value


def entries(state, above=(), before=()):
    """key -> value; the entries of `before` keep their keys."""
    found = dict(before)
    for path, value in paths(state):
        key = ".".join(text for _, text in (*above, *path))
        number, name = 2, key
        while name in found:
            name, number = f"{key}~{number}", number + 1
        found[name] = value
    return found


def as_dcp(state):
    from torch.distributed.checkpoint._nested_dict import flatten_state_dict
    return flatten_state_dict(state)[0]


# ---- savers: each fills a directory, and returns the expected entries and the path to mount
# ------------------------------

def save(lot, state, path):
    import torch
    if lot.random() < 0.5:
        torch.save(state, path, pickle_protocol=lot.randrange(2, 6))
    else:
        torch.save(state, path, pickle_protocol=lot.randrange(1, 6), _use_new_zipfile_serialization=False)


def state_of(lot, odd=None):
    odd = lot.random() < 0.5 if odd is None else odd
    return Drawn(lot, DTYPES, odd).mapping(4, least=1)


def one(lot, home):
    state = state_of(lot)
    save(lot, state, home / "any name")
    return entries(state), home / "any name"


def new_dtypes(lot, home):
    import torch
    state = Drawn(lot, DTYPES + NEW_DTYPES, True).mapping(4, least=1)
    torch.save(state, home / "model.pt")
    return entries(state), home


def bare(lot, home):
    import torch
    value = lot.choice((torch.arange(7), 5, "text", [1, 2], (torch.ones(2),)))
    save(lot, value, home / "the.name.pt")
    return {"the.name": value}, home


def beside(lot, home):
    found = {}
    for name in sorted(lot.sample(("model.pt", "optimizer.pt", "scheduler.pth", "x.y.bin", "z.ckpt"), lot.randrange(2, 5))):
        state = state_of(lot)
        save(lot, state, home / name)
        found |= entries(state, [(str, name.rpartition(".")[0])])
    (home / "other.bin").write_bytes(b"not made by torch")
    return found, home


def cut(lot):
    """A flat state dict in pieces, as written by transformers."""
    state = {}
    for i in range(lot.randrange(1, 20)):
        drawn = Drawn(lot, DTYPES, False)
        state[f"n.{i}"] = drawn.tensor() if lot.random() < 0.8 else 5
    count = lot.randrange(1, 5)
    names = [f"pytorch_model-{i + 1:05}-of-{count:05}.bin" for i in range(count)]
    return state, names, {key: lot.choice(names) for key in state}


def pieces(lot, home):
    state, names, of = cut(lot)
    for name in names:
        save(lot, {key: value for key, value in state.items() if of[key] == name}, home / name)
    return job(lot, home, {key: state[key] for name in names for key in state if of[key] == name}), home


def job(lot, home, model):
    """The state of the job beside its model, as Trainer and accelerate name it."""
    for name in sorted(lot.sample(("optimizer.pt", "rng_state_0.pth", "rng_state_1.pth", "scheduler.bin"), 3)):
        state = state_of(lot)
        save(lot, state, home / name)
        model = entries(state, [(str, name.rpartition(".")[0])], model)
    return model


def indexed(lot, home):
    state, names, of = cut(lot)
    for name in names:
        save(lot, {key: value for key, value in state.items() if of[key] == name} | {"more": 1}, home / name)
    (home / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": of}))
    return job(lot, home, state), home


def trainer(lot, home):
    """A model of safetensors, with an index or without one, and the state of the job."""
    import torch
    from safetensors.torch import save_file
    keys = lot.sample(("weight", "optimizer", "optimizer.layers~2", "optimizer.a.b", "rng_state_0", "scheduler.0", "x"), 5)
    model = {key: torch.arange(lot.randrange(9), dtype=torch.int16) for key in keys}
    names = [f"model-{i + 1:05}-of-00002.safetensors" for i in range(2)]
    of = {key: names[i % 2] for i, key in enumerate(model)}
    for name in names:
        save_file({key: value for key, value in model.items() if of[key] == name}, home / name)
    (home / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": of}))
    return job(lot, home, model), home


def megatron(lot, home):
    """DCP with a planner without flattening, and common.pt for the values shared by all
    ranks."""
    import torch.distributed.checkpoint as dcp
    drawn, common, tensors = Drawn(lot, DTYPES, False), state_of(lot), {}
    for key in lot.sample(("weight", "common", "common.weight", "common.a.b", "common.layers~2", "a.b", "0"), 4):
        tensors[key] = drawn.tensor().detach().resolve_conj().resolve_neg().contiguous()
    tensors["rng_state/shard_0_1"] = [{"random": lot.random()}]
    dcp.save(dict(tensors), storage_writer=dcp.FileSystemWriter(home), no_dist=True,
             planner=dcp.DefaultSavePlanner(flatten_state_dict=False))
    save(lot, common, home / "common.pt")
    (home / "metadata.json").write_text(json.dumps({"sharded_backend": "torch_dist", "sharded_backend_version": 1}))
    return entries(common, [(str, "common")], tensors), home


SAVERS = one, new_dtypes, bare, beside, pieces, indexed, megatron, trainer
KINDS = {megatron: "dcp", trainer: "safetensors"}


# ---- comparing ------------------------------------------------------------------------------------------------------

def is_same(a, b):
    import torch
    if hasattr(a, "_local_tensor") and hasattr(b, "_local_tensor"):
        return a.placements == b.placements and is_same(a._local_tensor, b._local_tensor)
    if type(a) is not type(b) and not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)) \
            or is_sparse(a) != is_sparse(b):
        return False
    if isinstance(a, torch.Tensor):
        if is_sparse(a):
            return torch.equal(a.to_dense(), b.to_dense())
        return (a.dtype, a.shape) == (b.dtype, b.shape) and oracle.raw_bytes(a) == oracle.raw_bytes(b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(is_same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(is_same(a[key], b[key]) for key in a)
    return a == b or a != a and b != b


def object_problems(top, objects):
    """Compares the JSON and .pt files of each object."""
    import torch
    home, found = pathlib.Path(os.fsdecode(top), "objects"), []
    stems = {name: os.fsdecode(stem) for name, stem in objects["stems"].items()}
    listed = {name for name in os.listdir(home)}
    wanted = {f"{stems[name]}{suffix}" for name in objects["values"] for suffix in (".json", ".pt")}
    if listed != wanted:
        found.append(f"objects/: differing {sorted(listed ^ wanted)[:6]}")
    for name, value in objects["values"].items():
        if f"{stems[name]}.json" not in listed:
            continue
        text = (home / f"{stems[name]}.json").read_text()
        if text != oracle.json_text(value):
            found.append(f"{name!r}: {text[:200]!r}, expected {oracle.json_text(value)[:200]!r}")
        again = torch.load(home / f"{stems[name]}.pt", weights_only=False)
        if not is_same(value, again):
            found.append(f"{name!r}: torch.load gives {again!r}, expected {value!r}")
    return found


def is_tensor(value):
    import torch
    return isinstance(value, torch.Tensor) and not is_sparse(value)


def problems_of(ckptfs, lot, saver, home):
    found_there, source = saver(lot, home)
    stems = oracle.stems([oracle.key_bytes(name) for name in found_there])
    tensors = {name: value.detach().resolve_conj().resolve_neg() for name, value in found_there.items() if is_tensor(value)}
    objects = {"values": {name: value for name, value in found_there.items() if not is_tensor(value)},
               "stems": {name: stems[oracle.key_bytes(name)] for name in found_there}}
    table = {}
    for name, tensor in tensors.items():
        (only,) = hub.expected({"x": tensor}).values()
        table[objects["stems"][name]] = only
    with interop.Mount(ckptfs, source) as top:
        problems = interop.differences(top, table) + object_problems(top, objects)
        if problems:
            problems = pathlib.Path(os.fsdecode(top), ".ckptfs/damage").read_text().splitlines() + problems
        status = pathlib.Path(os.fsdecode(top), ".ckptfs/status").read_text().splitlines()
        if not status[2].startswith(f"kind: {KINDS.get(saver, 'torch')} ("):
            problems.append(status[2])
        if lot.random() < 0.2 and any(t.numel() for t in tensors.values()):
            problems += [f"canary missed: {what}" for what in interop.canary(top, table)]
    return problems, len(table), len(objects["values"])


def check_paths(lot):
    """The names expected by this file equal those of PyTorch, except for the differences in
    ckptfs(5)."""
    bad = []
    for _ in range(200):
        state = state_of(lot, odd=False)
        keys = [".".join(text for _, text in path) for path, _ in paths(state)]
        if len(keys) != len(set(keys)):                                     # PyTorch has no distinct names for them either
            continue
        theirs = as_dcp(state)
        ours = {key: value for key, value in entries(state).items() if not (isinstance(value, dict) and not value)}
        sparse = {key for key, value in theirs.items() if is_sparse(value)}
        if set(ours) != set(theirs) and not sparse:
            bad.append(f"{sorted(set(ours) ^ set(theirs))}")
    return bad


def main():
    options = live.arguments(__doc__, cases=(16, 60))
    seed = live.seed()
    tap, lot, sums = interop.Tap(), random.Random(seed), [0, 0]
    bad = check_paths(lot)
    tap.line(not bad, "paths are PyTorch's", bad[:5])
    for case in range(options.cases):
        saver = SAVERS[case % len(SAVERS)]
        with tempfile.TemporaryDirectory(prefix="nested-") as scratch:
            found, tensors, objects = problems_of(options.ckptfs, lot, saver, pathlib.Path(scratch))
        sums = [sums[0] + tensors, sums[1] + objects]
        tap.line(not found, f"{saver.__name__}: {tensors} tensors, {objects} others", found)
    print(f"# {sums[0]} tensors, {sums[1]} others")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
