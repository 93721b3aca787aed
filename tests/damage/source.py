# SPDX-License-Identifier: MIT
"""Writes a small checkpoint, without torch, with a fault in any place.

Tensor `a` (4,3) has two boxes, one in each shard; `b` (2,3) and the entry `o`
are in the first shard, `c` (3,) is in the second:

    __0_0.distcp  a[0:2]  b  o
    __1_0.distcp  a[2:4]  c
"""
import io
import os
import pickle
import struct
import sys
import zipfile
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "unit"))
import dcp_cases as d  # noqa: E402

for name in ("torch._utils", "torch.utils"):
    d.module(name)


def _rebuild_tensor_v2(*_):
    pass


_rebuild_tensor_v2.__module__ = "torch._utils"
d.module("torch._utils")._rebuild_tensor_v2 = _rebuild_tensor_v2
STORAGES = {4: d.Named("FloatStorage"), 8: d.Named("DoubleStorage")}
FIRST, SECOND = "__0_0.distcp", "__1_0.distcp"
SHAPES = {"a": (4, 3), "b": (2, 3), "c": (3,)}


def product(numbers):
    out = 1
    for number in numbers:
        out *= number
    return out


def values(name):
    """The bytes that raw/<name> must have."""
    first = 100 * (ord(name) - ord("a"))
    count = product(SHAPES[name])
    return struct.pack(f"<{count}f", *range(first, first + count))


class Storage:
    def __init__(self, numel, key="0", itemsize=4):
        self.id = ("storage", STORAGES[itemsize], key, "cpu", numel)


class Tensor:
    """A tensor in data.pkl; every argument can be wrong."""

    def __init__(self, shape, **lies):
        stride, step = [], 1
        for size in reversed(shape):
            stride.insert(0, step)
            step *= size
        self.args = [
            Storage(lies.get("numel", product(shape)), lies.get("key", "0"),
                    lies.get("itemsize", 4)),
            lies.get("offset", 0), tuple(shape),
            tuple(lies.get("stride", stride)), False, lies.get("hooks")]

    def __reduce__(self):
        return _rebuild_tensor_v2, tuple(self.args)


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        return obj.id if isinstance(obj, Storage) else None


def dumps(obj, protocol=2):
    out = io.BytesIO()
    Pickler(out, protocol).dump(obj)
    return out.getvalue()


def records(pkl, data, byteorder=b"little"):
    """The records of torch.save's archive, as a list that can be changed."""
    return [("data.pkl", pkl), ("byteorder", byteorder), ("data/0", data),
            ("version", b"3\n")]


def archive(rows, prefix="archive/", deflate=False):
    out = io.BytesIO()
    how = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w", how) as z:
        for name, content in rows:
            info = zipfile.ZipInfo(prefix + name)
            info.compress_type = how
            z.writestr(info, content)
    return out.getvalue()


def item(shape, data, **lies):
    return archive(records(dumps(Tensor(shape, **lies)), data))


class Checkpoint:
    text = '{"step":7}\n'		# of the entry `o`

    def __init__(self):
        a = values("a")
        self.items = {  # (name, offset): file and bytes
            ("a", (0, 0)): [FIRST, item((2, 3), a[:24])],
            ("b", (0, 0)): [FIRST, item((2, 3), values("b"))],
            ("o", None): [FIRST, archive(records(
                pickle.dumps({"step": 7}, 2), b"")[:2])],
            ("a", (2, 0)): [SECOND, item((2, 3), a[24:])],
            ("c", (0,)): [SECOND, item((3,), values("c"))],
        }
        self.entries = {
            "a": d.tensor((4, 3), [((0, 0), (2, 3)), ((2, 0), (2, 3))]),
            "b": d.tensor((2, 3), [((0, 0), (2, 3))]),
            "c": d.tensor((3,), [((0,), (3,))]),
            "o": d.Bytes(),
        }
        self.protocol = 4
        self.more = {}		# fields of Metadata
        self.rows = lambda rows: rows
        self.bytes = lambda data: data		# of .metadata
        self.after = lambda path: None		# once all is written

    def replace(self, name, content, offset=(0, 0)):
        self.items[name, offset][1] = content

    def storage(self):
        at, rows = {}, {}
        for (name, offset), (path, content) in self.items.items():
            pos = at.get(path, 0)
            rows[d.index(name, offset)] = d.info(path, pos, len(content))
            at[path] = pos + len(content)
        return rows

    def row(self, name, box=(0, 0), **fields):
        """Changes a row of storage_data."""
        before = self.rows

        def change(rows):
            rows = before(rows)
            for index, info in rows.items():
                if index.fqn == name and getattr(index, "offset",
                                                 None) == box:
                    info.__dict__.update(fields)
            return rows
        self.rows = change

    def write(self, path):
        os.makedirs(path)
        files = {}
        for file, content in self.items.values():
            files[file] = files.get(file, b"") + content
        for file, content in files.items():
            with open(os.path.join(path, file), "wb") as out:
                out.write(content)
        metadata = d.checkpoint(self.entries, self.rows(self.storage()),
                                **self.more)
        with open(os.path.join(path, ".metadata"), "wb") as out:
            out.write(self.bytes(pickle.dumps(metadata, self.protocol)))
        self.after(path)
