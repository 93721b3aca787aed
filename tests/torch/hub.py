#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mounts safetensors files of several libraries, and compares every tensor with its values in memory.

    hub.py CKPTFS [--cases N]

Random models are saved by the safetensors package: one file, or several with an index as transformers names them, or without
an index; tied tensors by save_model. PyTorch's HuggingFaceStorageWriter saves them in 1 to 4 processes, each with its shards:
random shapes, dtypes, meshes and placements. Each is mounted; raw/ and full/ must have the saved values. A hub cache is
mounted without an option. CKPTFS_SEED repeats a run. The result is TAP.
"""
import hashlib
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import live                                                             # also finds the modules of tests/fixtures
import interop
import oracle
import spawn

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64",
          "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn_x2")
SCATTERED = "float32", "float64", "float16", "int8", "uint8", "int32", "int64"             # that gloo has
NAMES = ("weight", "layers.0.bias", "a b", "\u00e9\U0001f600", "model.norm.weight", "q/k", "%41", ".hidden", "x" * 220)


def expected(tensors):
    """stem -> Expected, as compared by interop."""
    stems = oracle.stems([oracle.key_bytes(name) for name in tensors])
    table = {}
    for name, tensor in tensors.items():
        raw, dtype = oracle.raw_bytes(tensor), oracle.dtype_name(tensor.dtype)
        npy = oracle.npy_bytes(raw, dtype, tensor.shape)
        table[stems[oracle.key_bytes(name)]] = interop.Expected(
            dtype, tuple(tensor.shape), hashlib.sha256(raw).hexdigest(), hashlib.sha256(npy).hexdigest(), "")
    return table


def drawn(lot, count, least=0):
    """name -> tensor"""
    import torch
    import world
    tensors = {}
    for i in range(count):
        name = f"{lot.choice(NAMES)}.{i}" if len(tensors) < count - 2 else f"n{i}"
        shape = [lot.choice((least, 1, 2, 3, 5, 8)) for _ in range(lot.randrange(4))]
        dtype = lot.choice(DTYPES)
        if dtype == "float4_e2m1fn_x2" and not shape:
            shape = [2]                                         # the package counts half bytes, and a 0-d tensor has one
        tensors[name] = world.values(name, shape, getattr(torch, dtype))
    return tensors


# ---- savers: each fills a directory, and returns the expected tensors and the path to mount
# ---------------------------

def one_file(lot, home):
    from safetensors.torch import save_file
    tensors = drawn(lot, lot.randrange(12))
    save_file(tensors, home / "any name", metadata={"format": "pt"} if lot.random() < 0.5 else None)
    return tensors, home / "any name"


def files(lot, home):
    from safetensors.torch import save_file
    tensors = drawn(lot, lot.randrange(1, 20))
    count = lot.randrange(1, 5)
    for i in range(count):
        part = {name: t for k, (name, t) in enumerate(tensors.items()) if k % count == i}
        save_file(part, home / f"part-{i}.safetensors")
    return tensors, home


def indexed(lot, home):
    from safetensors.torch import save_file
    tensors = drawn(lot, lot.randrange(1, 20))
    count = lot.randrange(1, 5)
    names = [f"model-{i + 1:05}-of-{count:05}.safetensors" for i in range(count)]
    of = {name: lot.choice(names) for name in tensors}
    for file in names:
        part = {name: t for name, t in tensors.items() if of[name] == file}
        part[f"not in the index of {file}"] = tensors[next(iter(tensors))].clone()
        save_file(part, home / file)
    (home / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 0}, "weight_map": of}, ensure_ascii=lot.random() < 0.5))
    (home / "unrelated.safetensors").write_bytes(b"nothing")
    return tensors, home


def tied(lot, home):
    import torch
    from safetensors.torch import save_model
    model = torch.nn.Module()
    model.embed, model.out = torch.nn.Embedding(7, 5), torch.nn.Linear(5, 7, bias=False)
    model.out.weight = model.embed.weight
    save_model(model, home / "model.safetensors")
    return dict(model.state_dict()), home


def cached(lot, home):
    """A cache in the layout of huggingface_hub."""
    tensors, _ = indexed(lot, home)
    blobs, snapshot = home / "blobs", home / "snapshots/0123"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(home.iterdir())):
        if file.is_file():
            file.rename(blobs / f"{number:064x}")
            (snapshot / file.name).symlink_to(f"../../blobs/{number:064x}")
    return tensors, snapshot


def save_shards(rank, world_size, home, seed):
    import torch.distributed.checkpoint as dcp
    import world
    lot = random.Random(seed)
    tensors = drawn(lot, lot.randrange(1, 8))
    mesh = world.init_device_mesh("cpu", (world_size,))
    state = {}
    for name, tensor in tensors.items():
        dim = lot.randrange(tensor.dim()) if tensor.dim() else None
        state[name] = tensor
        if dim is not None and lot.random() < 0.8 and oracle.dtype_name(tensor.dtype) in SCATTERED:
            state[name] = world.distribute_tensor(tensor, mesh, [world.Shard(dim)])
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(str(home), save_distributed=True))


def sharded(lot, home):
    seed, size = lot.randrange(1 << 30), lot.randrange(1, 5)
    spawn.run(save_shards, size, home, seed)
    replay = random.Random(seed)
    return drawn(replay, replay.randrange(1, 8)), home


SAVERS = one_file, files, indexed, tied, cached, sharded


def problems_of(ckptfs, lot, saver, home):
    tensors, source = saver(lot, home)
    table = expected(tensors)
    with interop.Mount(ckptfs, source) as top:
        found = interop.differences(top, table)
        kind = pathlib.Path(os.fsdecode(top), ".ckptfs/status").read_text().splitlines()[2]
        if not kind.startswith("kind: safetensors ("):
            found.append(kind)
        if saver is indexed and lot.random() < 0.3:
            found += [f"canary missed: {what}" for what in interop.canary(top, table)] if any(
                t.numel() for t in tensors.values()) else []
    return found, len(table)


def save_joined(rank, world_size, home):
    import torch
    import torch.distributed.checkpoint as dcp
    state = {"scale": torch.tensor(2.5), "w": torch.ones(3)}
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(str(home), save_distributed=True, enable_consolidation=True))


def consolidated(tap, ckptfs, home):
    """PyTorch's consolidation writes 0 for tensors without dimensions: check reports it, and
    sharded/ has the value."""
    spawn.run(save_joined, 1, home)
    line = "tensors without dimensions that are 0: 1 (scale); PyTorch's consolidation writes 0 for all of them"
    said = [subprocess.run([ckptfs, "check", source], capture_output=True, text=True, check=False)
            for source in (home, home / "sharded")]
    read = subprocess.run([ckptfs, "cat", home / "sharded", "raw/scale"], capture_output=True, check=False).stdout
    good = line in said[0].stdout and said[0].returncode == 0 and line not in said[1].stdout
    tap.line(good and read == struct.pack("<f", 2.5), "consolidated: zeros are named", [one.stdout for one in said])


def main():
    options = live.arguments(__doc__, cases=(24, 60))
    try:
        import safetensors                                                          # noqa: F401
    except ImportError:
        interop.skip("safetensors is not installed")
    seed = live.seed()
    tap, lot, count = interop.Tap(), random.Random(seed), 0
    for case in range(options.cases):
        saver = SAVERS[case % len(SAVERS)]
        with tempfile.TemporaryDirectory(prefix="hub-") as scratch:
            found, tensors = problems_of(options.ckptfs, lot, saver, pathlib.Path(scratch))
        count += tensors
        tap.line(not found, f"{saver.__name__}: {tensors} tensors", found)
    with tempfile.TemporaryDirectory(prefix="hub-") as scratch:
        consolidated(tap, options.ckptfs, pathlib.Path(scratch))
    print(f"# {count} tensors")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
