#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What ranks save of DTensors, as torch.save wrote it before 1.6, without torch: rank r has row r of each.

    rank-files.py RANKS COUNT DIR
    rank-files.py --whole BYTES DIR         two ranks that both have all of `w`, zeros in holes of their files
    rank-files.py --plain DIR               three ranks that have plain tensors, zeros but for PLAIN
"""
import io
import pathlib
import pickle
import struct
import sys
import types


def stands_for(module, name, base=object):
    """A class that a pickle names so."""
    made = type(name, (base,), {"__module__": module})
    setattr(sys.modules.setdefault(module, types.ModuleType(module)), name, made)
    return made


class Called:
    """What a pickle builds by a call."""
    def __init__(self, callable_, *args):
        self.how = callable_, args

    def __reduce__(self):
        return self.how


class Storage:
    def __init__(self, kind, key, numel):
        self.id = "storage", kind, key, "cpu", numel, None


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        return obj.id if isinstance(obj, Storage) else None


FROM_TYPE = stands_for("torch._tensor", "_rebuild_from_type_v2")
WRAPPER = stands_for("torch._utils", "_rebuild_wrapper_subclass")
TENSOR = stands_for("torch._utils", "_rebuild_tensor_v2")
FLOATS, LONGS = stands_for("torch", "FloatStorage"), stands_for("torch", "LongStorage")
FLOAT = stands_for("torch", "float32")
DTENSOR = stands_for("torch.distributed.tensor", "DTensor")
SPEC = stands_for("torch.distributed.tensor._dtensor_spec", "DTensorSpec")
SHARD = stands_for("torch.distributed.tensor.placement_types", "Shard")
MESH = stands_for("torch.distributed.device_mesh", "DeviceMesh")


def tensor(storage, offset, size, stride):
    return Called(TENSOR, storage, offset, size, stride, False, {})


def made(class_, **attributes):
    result = class_()
    result.__dict__.update(attributes)
    return result


def state(rank, ranks, count):
    floats = Storage(FLOATS, "0", 4 * count)
    mesh = made(MESH, mesh=tensor(Storage(LONGS, "1", ranks), 0, (ranks,), (1,)), mesh_dim_names=("dp",),
                _flatten_mesh_list=tuple(range(ranks)), _coordinate_on_dim=[rank])
    return {f"layers.{number}.weight": Called(
        FROM_TYPE, WRAPPER, DTENSOR, (DTENSOR, FLOAT, (ranks, 4), (4, 1), 0, "strided", "cpu", False),
        {"_local_tensor": tensor(floats, 4 * number, (1, 4), (4, 1)),
         "_spec": made(SPEC, mesh=mesh, placements=(made(SHARD, dim=0),), tensor_meta=None)}) for number in range(count)}


def written(parts):
    out = io.BytesIO()
    for part in parts:
        Pickler(out, 2).dump(part)
    return out.getvalue()


def head_of(state, *keys):
    return written([0x1950a86a20f9469cfc6c, 1001, {"protocol_version": 1001, "little_endian": True}, state, list(keys)])


def whole(length, out):
    for rank in range(2):
        storage = Storage(FLOATS, "0", length // 4)
        head = head_of({"w": tensor(storage, 0, (length // 4,), (1,))}, "0") + struct.pack("<q", length // 4)
        with open(out / f"model_rank_{rank}.pt", "wb") as file:
            file.write(head)
            file.truncate(len(head) + length)


# Name: bytes, of which 66 blocks of 4 KiB are the sample, here each 8 KiB; {rank: the byte that is 1}.
LARGE, SAMPLE = 65 * 8192 + 4096, 66 * 4096
PLAIN = {
    "equal": (LARGE, {}), "all.small": (12, {1: 5}), "all.sample": (SAMPLE, {1: 5000}), "first": (LARGE, {1: 0, 2: 1}),
    "last": (LARGE, {2: LARGE - 1}), "block": (LARGE, {2: 33 * 8192 + 4095}), "between": (LARGE, {1: 33 * 8192 + 4096}),
    "beyond": (SAMPLE + 4, {2: 17 * 4096}), "none": (0, {}),
}


def plain(out):
    for rank in range(3):
        storages = {name: Storage(FLOATS, str(i), length // 4) for i, (name, (length, _)) in enumerate(PLAIN.items())}
        state = {name: tensor(storage, 0, (PLAIN[name][0] // 4,), (1,)) for name, storage in storages.items()}
        data = head_of(state, *map(str, range(len(PLAIN))))
        for length, ones in PLAIN.values():
            elements = bytearray(length)
            if rank in ones:
                elements[ones[rank]] = 1
            data += struct.pack("<q", length // 4) + elements
        (out / f"model_rank_{rank}.pt").write_bytes(data)


def main():
    if sys.argv[1] == "--whole":
        return whole(int(sys.argv[2]), pathlib.Path(sys.argv[3]))
    if sys.argv[1] == "--plain":
        return plain(pathlib.Path(sys.argv[2]))
    ranks, count, out = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    for rank in range(ranks):
        head = head_of(state(rank, ranks, count), "0", "1")
        (out / f"model_rank_{rank}.pt").write_bytes(
            head + struct.pack("<q", 4 * count) + struct.pack("<f", rank) * (4 * count) +
            struct.pack("<q", ranks) + struct.pack(f"<{ranks}q", *range(ranks)))


if __name__ == "__main__":
    main()
