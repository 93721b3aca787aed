#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares sharded/<spec>/ of a mount with a second implementation of its rules, which reads full/.

    sharded.py MNT SPEC [--rule NAME=DIM:PLACE]... [--canary]

Each rank must have the files of full/ except flat parameters, in the same order. Each file must have its size at the first
stat, the bytes of numpy.save of the elements that the rank holds, and the attributes of its part. --rule: PLACE is R or a
dimension, for the tensor NAME alone. --canary compares with other placements, and must fail.
"""
import argparse
import ast
import json
import math
import os
import sys

FIRST = ("tp", "ep", "etp", "sp")
WHOLE = (*FIRST, "dp_replicate", "replicate", "ddp", "pp")


def mesh_of(spec):
    if spec.isdigit():
        return [("", int(spec))]
    return [(name, int(size)) for name, size in (part.split("=") for part in spec.split(","))]


def read(path):
    """Header as a dict, and the elements, of an npy file."""
    with open(path, "rb") as f:
        data = f.read()
    end = 10 + int.from_bytes(data[8:10], "little")
    return ast.literal_eval(data[10:end].decode()), data[end:]


def npy(descr, shape, data):
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {tuple(shape)!r}, }}"
    text += " " * (21 - len(str(shape[0])) if shape else 0)             # numpy's room for a growing first dimension
    text += " " * (64 - (10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


def box_of(mesh, places, rank, shape):
    """Offsets and sizes, from lists of indexes."""
    at = []
    for _, size in reversed(mesh):
        at.insert(0, rank % size)
        rank //= size
    offsets, sizes = [], []
    for d, n in enumerate(shape):
        held = list(range(n))
        for i in sorted(range(len(mesh)), key=lambda i: mesh[i][0] not in FIRST):
            if places[i] == d:
                step = -(-len(held) // mesh[i][1]) or 1
                held = held[at[i] * step:(at[i] + 1) * step]
        offsets.append(held[0] if held else n)
        sizes.append(len(held))
    return offsets, sizes


def cut(data, shape, offsets, sizes, width):
    """The elements of a box."""
    if not shape:
        return data
    if 0 in sizes:
        return b""
    step = math.prod(shape[1:]) * width
    rows = (data[i * step:(i + 1) * step] for i in range(offsets[0], offsets[0] + sizes[0]))
    return b"".join(cut(row, shape[1:], offsets[1:], sizes[1:], width) for row in rows)


def attribute(path, name):
    return os.getxattr(path, f"user.ckptfs.{name}").decode()


def check(path, mesh, places, rank, header, data):
    """None, or what is wrong."""
    shape = header["shape"]
    offsets, sizes = box_of(mesh, places, rank, shape)
    size = os.stat(path).st_size
    width = len(data) // math.prod(shape) if math.prod(shape) else 0
    want = npy(header["descr"], sizes, cut(data, shape, offsets, sizes, width))
    with open(path, "rb") as f:
        got = f.read()
    if got != want:
        return f"{path}: other bytes: {got[:128]!r}"
    if size != len(want):
        return f"{path}: size {size} at the first stat, not {len(want)}"
    for name, value in {"shape": sizes, "offset": offsets, "mesh": dict(mesh) if mesh[0][0] else [mesh[0][1]],
                        "placements": ["R" if d is None else f"S({d})" for d in places]}.items():
        if json.loads(attribute(path, name)) != value:
            return f"{path}: {name} {attribute(path, name)}, not {value}"
    if attribute(path, "kind") != "tensor" or ("0" == attribute(path, "chunks")) != (0 in sizes):
        return f"{path}: kind {attribute(path, 'kind')}, chunks {attribute(path, 'chunks')}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mnt")
    parser.add_argument("spec")
    parser.add_argument("--rule", action="append", default=[])
    parser.add_argument("--canary", action="store_true")
    o = parser.parse_args()
    mesh, rules, wrong, files = mesh_of(o.spec), {}, [], 0
    for rule in o.rule:
        name, place = rule.rsplit("=", 1)
        dim, place = place.split(":")
        rules.setdefault(name, {})[dim] = None if place == "R" else int(place)
    full = [name for name in os.listdir(f"{o.mnt}/full") if name != "_flat_param.npy" and not name.endswith("._flat_param.npy")]
    for rank in range(math.prod(size for _, size in mesh)):
        top = f"{o.mnt}/sharded/{o.spec}/rank-{rank}"
        if os.listdir(top) != full:
            wrong.append(f"{top}: other names than full/: {os.listdir(top)}")
    for name in full:
        try:
            header, data = read(f"{o.mnt}/full/{name}")
        except OSError:
            continue
        rule, ndim = rules.get(name[:-4], {}), len(header["shape"])
        places = [rule[dim] if dim in rule else 0 if ndim and (dim not in WHOLE or o.canary) else None for dim, _ in mesh]
        for rank in range(math.prod(size for _, size in mesh)):
            why = check(f"{o.mnt}/sharded/{o.spec}/rank-{rank}/{name}", mesh, places, rank, header, data)
            wrong += [why] if why else []
            files += 1
    print(*wrong[:8], sep="\n")
    print(f"{files} files")
    return 1 if wrong or not full else 0


if __name__ == "__main__":
    sys.exit(main())
