#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What ranks save of DTensors, as torch.save wrote it before 1.6, without torch: rank r has row r of each.

    rank-files.py RANKS COUNT DIR
    rank-files.py --whole BYTES DIR         two ranks that both have all of `w`, zeros in holes of their files
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


def whole(length, out):
    for rank in range(2):
        storage = Storage(FLOATS, "0", length // 4)
        head = written([0x1950a86a20f9469cfc6c, 1001, {"protocol_version": 1001, "little_endian": True},
                        {"w": tensor(storage, 0, (length // 4,), (1,))}, ["0"]]) + struct.pack("<q", length // 4)
        with open(out / f"model_rank_{rank}.pt", "wb") as file:
            file.write(head)
            file.truncate(len(head) + length)


def main():
    if sys.argv[1] == "--whole":
        return whole(int(sys.argv[2]), pathlib.Path(sys.argv[3]))
    ranks, count, out = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    for rank in range(ranks):
        head = written([0x1950a86a20f9469cfc6c, 1001, {"protocol_version": 1001, "little_endian": True},
                        state(rank, ranks, count), ["0", "1"]])
        (out / f"model_rank_{rank}.pt").write_bytes(
            head + struct.pack("<q", 4 * count) + struct.pack("<f", rank) * (4 * count) +
            struct.pack("<q", ranks) + struct.pack(f"<{ranks}q", *range(ranks)))


if __name__ == "__main__":
    main()
