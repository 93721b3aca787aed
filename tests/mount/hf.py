#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares hf/ of a mount with the names, headers and bytes derived from the other
directories.

    hf.py MNT [--root NAME] [--shard BYTES]     prints the lines that differ
    hf.py MNT --canary                          changes the expected value of one byte

This is a second implementation of the rules, based on raw/ and the reports.
"""
import argparse
import errno
import json
import math
import os
import random
import struct
import sys

DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
          "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL", "complex64": "C64", "uint64": "U64", "uint32": "U32",
          "uint16": "U16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ",
          "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0", "float4_e2m1fn_x2": "F4"}
WIDTH = {"F64": 8, "I64": 8, "C64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
ROOTS = (["app", "model"], ["model"], ["pytorch_model"], ["pytorch_model_fsdp"], ["state_dict"], ["model_state_dict"], ["module"])
TRAINERS = """optim optimizer optimizers optimizer_state_dict optimizer_states lr_scheduler lr_schedulers scheduler rng
rng_state extra train_state dataloader loops callbacks common""".split()


def attribute(path, name):
    return os.getxattr(path, f"user.ckptfs.{name}").decode()


def opens(path):
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError as e:
        if e.errno != errno.EIO:
            raise
        return False
    return True


class Source:
    def __init__(self, mnt):
        self.mnt = mnt
        with open(f"{mnt}/.ckptfs/tensors.jsonl", "rb") as f:
            rows = [json.loads(line) for line in f]
        rows = {row["stem"]: row for row in rows}
        self.tensors = [rows[name] for name in os.listdir(f"{mnt}/raw")]
        with open(f"{mnt}/.ckptfs/state_dict.json", "rb") as f:
            self.nested = json.load(f)
        with open(f"{mnt}/.ckptfs/status", encoding="utf-8") as f:
            self.kind = next(line.split()[1] for line in f if line.startswith("kind: "))
            f.seek(0)
            self.index = self.kind == "torch" and "an index" in f.read()

    def path(self, row):
        return f"{self.mnt}/raw/{row['stem']}"

    def below(self, parts):
        """Names of all entries below a path. If two paths have the same key, as in torch files, the
        report lists no paths."""
        at = self.nested
        if self.kind != "dcp" and all(key == value for key, value in at.items()):
            return {name for name in at if name.startswith(".".join(parts) + ".")}
        for part in parts:
            if not isinstance(at, dict) or part not in at:
                return set()
            at = at[part]
        return set(leaves(at)) if isinstance(at, (dict, list)) else set()


def leaves(at):
    if isinstance(at, str):
        yield at
    for value in at.values() if isinstance(at, dict) else at if isinstance(at, list) else ():
        yield from leaves(value)


def is_flat(row):
    return row["kind"] == "flat_param" or str(row["fqn"]).split(".")[-1] == "_flat_param"


def chosen(source, root):
    """The tensors, and the common prefix of their names."""
    tensors = [row for row in source.tensors if not is_flat(row)]
    if root:
        return [row for row in tensors if row["fqn"].startswith(root + ".")], root
    if root == "" or source.kind == "safetensors" or source.index:
        return tensors, ""
    for parts in ROOTS:
        below = source.below(parts)
        found = [row for row in tensors if isinstance(row["fqn"], str) and row["fqn"] in below]
        if found:
            return found, ".".join(parts)
    return [row for row in tensors if str(row["fqn"]).split(".")[0] not in TRAINERS], ""


def named(tensors, prefix):
    names = []
    for row in tensors:
        name = row["fqn"]
        if isinstance(name, str) and prefix and name.startswith(prefix + "."):
            name = name[len(prefix) + 1:]
        names.append(name)
    if names and all(isinstance(name, str) and name.startswith("module.") for name in names):
        names = [name[len("module."):] for name in names]
    return list(zip(names, tensors))


def is_good(source, name, row):
    dtype = DTYPES.get(row["dtype"])
    return (dtype and not (dtype == "F4" and not row["shape"]) and isinstance(name, str) and name != "__metadata__" and
            opens(source.path(row)))


def header(entries):
    at, text = 0, '{"__metadata__":{"format":"pt"}'
    for name, row in entries:
        dtype, shape = DTYPES[row["dtype"]], list(row["shape"])
        if dtype == "F4":
            shape[-1] *= 2
        end = at + row["bytes"]
        what = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        text += "," + json.dumps(name, ensure_ascii=False) + ":" + json.dumps(what, separators=(",", ":"))
        at = end
    raw = (text + "}").encode()
    raw += b" " * (-(8 + len(raw)) % 64)
    return struct.pack("<Q", len(raw)) + raw


def files(entries, most):
    """Distributes entries to files of limited size: {name: entries}."""
    groups, has = [[]], 0
    for entry in entries:
        size = entry[1]["bytes"]
        if most and groups[-1] and has + size > most:
            groups.append([])
            has = 0
        groups[-1].append(entry)
        has += size
    if len(groups) == 1:
        return {"model.safetensors": groups[0]}
    return {f"model-{i + 1:05}-of-{len(groups):05}.safetensors": group for i, group in enumerate(groups)}


def read(path):
    """All bytes of a file, or the errno."""
    try:
        with open(path, "rb", buffering=0) as f:
            return f.read()
    except OSError as e:
        return e.errno


def another(whole):
    """A reader like `whole` that changes the first byte."""
    return lambda path: bytes([whole(path)[0] ^ 1]) + whole(path)[1:]


def compare(source, name, entries):
    """One file."""
    path = f"{source.mnt}/hf/{name}"
    entries = sorted(entries, key=lambda entry: -WIDTH.get(DTYPES[entry[1]["dtype"]], 1))
    want = header(entries)
    size = len(want) + sum(row["bytes"] for _, row in entries)
    if os.stat(path).st_size != size:
        yield f"{name}: {os.stat(path).st_size} bytes, expected {size}"
    fd = os.open(path, os.O_RDONLY)
    try:
        if os.pread(fd, len(want), 0) != want:
            yield f"{name}: header: {os.pread(fd, len(want), 0)[:3000]!r}, expected {want[:3000]!r}"
        yield from compare_data(source, fd, len(want), entries)
    finally:
        os.close(fd)
    if (attribute(path, "kind"), attribute(path, "tensors")) != ("hf", str(len(entries))):
        yield f"{name}: attributes"


def compare_data(source, fd, at, entries):
    whole = b""
    for name, row in entries:
        want = read(source.path(row))
        if isinstance(want, bytes):
            got = os.pread(fd, len(want), at + len(whole))
            if got != want:
                yield f"{name}: other bytes"
            whole += want
        else:
            whole += bytes(row["bytes"])
            if row["bytes"] and not fails(fd, row["bytes"], at + len(whole) - row["bytes"], want):
                yield f"{name}: is lost, and is read"
    if not any(isinstance(read(source.path(row)), int) for _, row in entries):
        yield from compare_ranges(fd, at, whole)


def fails(fd, size, at, err):
    """True if some byte of a range cannot be read. A read may end before such a byte."""
    end = at + size
    try:
        while at < end and (found := os.pread(fd, end - at, at)):
            at += len(found)
    except OSError as e:
        return e.errno == err
    return False


def compare_ranges(fd, at, data):
    whole, dice = os.pread(fd, at, 0) + data, random.Random(at)
    for _ in range(60):
        begin = dice.randrange(len(whole) + 1)
        size = dice.choice((1, 7, 64, 4096, len(whole)))
        if os.pread(fd, size, begin) != whole[begin:begin + size]:
            yield f"bytes {begin} to {begin + size}"


def index(groups):
    total = sum(row["bytes"] for group in groups.values() for _, row in group)
    weights = {name: file for file, group in groups.items() for name, _ in group}
    weights = dict(sorted(weights.items(), key=lambda item: item[0].encode()))
    values = sum(math.prod(row["shape"]) * (2 if row["dtype"].startswith("float4") else 1)
                 for group in groups.values() for _, row in group)
    return json.dumps({"metadata": {"total_parameters": values, "total_size": total}, "weight_map": weights}, indent=2,
                      ensure_ascii=False) + "\n"


def differ(mnt, root, shard):
    source = Source(mnt)
    entries = named(*chosen(source, root))
    left = [row["fqn"] for name, row in entries if not is_good(source, name, row)]
    entries = [(name, row) for name, row in entries if is_good(source, name, row)]
    if not entries:
        if os.path.exists(f"{mnt}/hf"):
            yield "hf/ is there"
        return
    groups = files(entries, shard)
    want = set(groups) | ({"model.safetensors.index.json"} if len(groups) > 1 else set())
    found = {name for name in os.listdir(f"{mnt}/hf") if "safetensors" in name}
    if found != want:
        yield f"files: {sorted(found)}, expected {sorted(want)}"
        return
    for name, group in groups.items():
        yield from compare(source, name, group)
        if json.loads(attribute(f"{mnt}/hf/{name}", "left_out")) != left:
            yield f"{name}: left_out: {attribute(f'{mnt}/hf/{name}', 'left_out')}, expected {left}"
    if len(groups) > 1:
        with open(f"{mnt}/hf/model.safetensors.index.json", encoding="utf-8") as f:
            if f.read() != index(groups):
                yield "the index"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mnt")
    parser.add_argument("--root")
    parser.add_argument("--shard", type=int, default=0)
    parser.add_argument("--canary", action="store_true")
    args = parser.parse_args()
    if args.canary:
        global read
        read = another(read)
    lines = list(differ(args.mnt, args.root, args.shard))
    for line in lines[:20]:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
