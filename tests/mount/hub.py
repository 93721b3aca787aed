#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Handmade safetensors checkpoints.

    hub.py save HOME            fills HOME with checkpoints under descriptive names
    hub.py compare MNT          compares all tensors in a mount of one of them
"""
import json
import pathlib
import struct
import sys

import numpy

KINDS = {"F32": "<f4", "I64": "<i8", "U8": "|u1", "F16": "<f2", "BOOL": "|b1"}


def tensor(name, dtype, shape):
    seed = sum(name.encode())
    return (numpy.arange(numpy.prod(shape, dtype=int)) + seed).astype(KINDS[dtype]).reshape(shape)


def write(path, entries, metadata=None):
    """entries: (name, dtype, array)"""
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, dtype, array in entries:
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for _, _, a in entries))


MODEL = [("embed.weight", "F32", (7, 5)), ("layers.0.w", "F16", (3, 1, 4)), ("layers.0.step", "I64", ()),
         ("layers.1.mask", "BOOL", (9,)), ("none", "F32", (0, 3)), ("bytes", "U8", (1001,))]


def model():
    return [(name, dtype, tensor(name, dtype, shape)) for name, dtype, shape in MODEL]


def save(home):
    write(home / "one/weights", model(), {"format": "pt"})
    write(home / "tied/model.safetensors", model(), {"format": "pt", "head.weight": "embed.weight"})
    write(home / "tied/beside.safetensors", [("beside", "U8", tensor("beside", "U8", (3,)))])
    for i, entry in enumerate(model()):
        write(home / f"several/part-{i}.safetensors", [entry])
    files = {name: f"model-{i % 2 + 1:05}-of-00002.safetensors" for i, (name, _, _) in enumerate(MODEL)}
    for file in sorted(set(files.values())):
        write(home / "index" / file, [e for e in model() if files[e[0]] == file] + [
            (f"unnamed {file}", "U8", tensor("x", "U8", (2,)))])
    (home / "index/model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 1}, "weight_map": {**files, "lost": "model-00001-of-00002.safetensors"}}))
    (home / "index/config.json").write_text("{}")
    for rank in range(3):
        parts, offsets = [], {}
        for name, dtype, array in model():
            if array.ndim == 0 or name == "none":
                cut, offset = array, [0] * array.ndim                   # each rank has all of it
            else:
                step = -(-array.shape[0] // 3)
                cut, offset = array[rank * step:(rank + 1) * step], [min(rank * step, array.shape[0])] + [0] * (
                    array.ndim - 1)
            parts.append((name, dtype, cut.copy()))
            offsets[name] = {"saved_offsets": offset}
        write(home / f"shards/shard-{rank + 1:05}-model-00001-of-00001.safetensors", parts,
              {"DCP_SHARDING_INFO": json.dumps(offsets), "DCP_VERSION": "1.0", "format": "pt"})
    cache = home / "cache"
    (cache / "snapshots/main").mkdir(parents=True)
    for number, file in enumerate(sorted((home / "index").iterdir())):
        (cache / "blobs").mkdir(exist_ok=True)
        (cache / f"blobs/{number:040x}").write_bytes(file.read_bytes())
        (cache / "snapshots/main" / file.name).symlink_to(f"../../blobs/{number:040x}")


def compare(mnt):
    wrong = 0
    for name, _, array in model():
        raw = (mnt / "raw" / name).read_bytes()
        loaded = numpy.load(mnt / "full" / f"{name}.npy")
        if raw != array.tobytes() or loaded.dtype != array.dtype or loaded.shape != array.shape or \
                loaded.tobytes() != array.tobytes():
            print(f"{name}: other bytes")
            wrong += 1
    return wrong


if __name__ == "__main__":
    if sys.argv[1] == "save":
        save(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(min(compare(pathlib.Path(sys.argv[2])), 9))
