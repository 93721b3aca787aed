# SPDX-License-Identifier: MIT
"""Writes checkpoints that no torch writes, without torch.

    python3 tests/mount/hostile.py KIND DIRECTORY
"""
import io
import os
import pickle
import socket
import stat
import struct
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "unit"))
import dcp_cases as d  # noqa: E402

d.module("torch._utils")
d.module("torch.utils")


def _rebuild_tensor_v2(*_):
    pass


_rebuild_tensor_v2.__module__ = "torch._utils"
d.module("torch._utils")._rebuild_tensor_v2 = _rebuild_tensor_v2
FLOAT_STORAGE = d.Named("FloatStorage")


class Storage:
    def __init__(self, numel):
        self.numel = numel


class Tensor:
    def __init__(self, shape):
        self.shape = shape
        self.numel = 1
        for size in shape:
            self.numel *= size

    def __reduce__(self):
        stride, step = [], 1
        for size in reversed(self.shape):
            stride.insert(0, step)
            step *= size
        return _rebuild_tensor_v2, (Storage(self.numel), 0, tuple(self.shape),
                                    tuple(stride), False, None)


class ItemPickler(pickle.Pickler):
    def persistent_id(self, obj):
        if isinstance(obj, Storage):
            return "storage", FLOAT_STORAGE, "0", "cpu", obj.numel
        return None


def item(shape):
    """A torch.save archive of 0.0, 1.0, 2.0, ... of that shape."""
    tensor, out, pkl = Tensor(shape), io.BytesIO(), io.BytesIO()
    ItemPickler(pkl, 2).dump(tensor)
    data = struct.pack(f"<{tensor.numel}f", *range(tensor.numel))
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in (("data.pkl", pkl.getvalue()),
                              ("byteorder", b"little"), ("data/0", data),
                              ("version", b"3\n")):
            archive.writestr("archive/" + name, content)
    return out.getvalue()


def write(path, tensors, rows, files):
    os.makedirs(path)
    with open(path + "/.metadata", "wb") as out:
        out.write(pickle.dumps(d.checkpoint(tensors, rows), 4))
    for name, content in files.items():
        with open(f"{path}/{name}", "wb") as out:
            out.write(content)


def empty_boxes(path):
    """Boxes without elements for which storage_data has no row, behind one
    that has: torch drops all but one of several at the same offset."""
    content = item((2, 3))
    boxes = [((0, 0), (2, 3)), ((2, 0), (0, 3)), ((2, 0), (0, 3))]
    write(path, {"w": d.tensor((2, 3), boxes)},
          {d.index("w", (0, 0)): d.info("f", 0, len(content))},
          {"f": content})


SHARD_NAMES = {
    "good": "f",
    "up": "../outside",
    "up_and_down": "../paths/f",
    "inner_up": "sub/../f",
    "absolute": None,  # filled in
    "proc": "/proc/self/environ",
    "empty": "",
    "nul": "f\0",
    "long": "f/" * 2100 + "f",
    "missing": "missing",
    "directory": "sub",
    "dot": ".",
    "link": "link",
    "link_out": "link_out",
    "link_dir": "link_dir/f",
    "fifo": "fifo",
    "socket": "socket",
    "device": "device",
    "device_zero": "zero",
    "other_device": "other/f",
}


def paths(path):
    """One tensor in each file that may not be opened; each name leads to a
    whole item, so that opening it would show."""
    content = item((2, 3))
    names = dict(SHARD_NAMES, absolute=os.path.abspath(path) + "/f")
    write(path, {k: d.tensor((2, 3), [((0, 0), (2, 3))]) for k in names},
          {d.index(k, (0, 0)): d.info(v, 0, len(content))
           for k, v in names.items()}, {"f": content})
    for name in ("sub", "real", "other"):
        os.mkdir(f"{path}/{name}")
    for name in ("../outside", "real/f"):
        with open(f"{path}/{name}", "wb") as out:
            out.write(content)
    os.symlink("f", path + "/link")
    os.symlink("../outside", path + "/link_out")
    os.symlink("real", path + "/link_dir")
    os.mkfifo(path + "/fifo")
    with socket.socket(socket.AF_UNIX) as s:
        here = os.getcwd()
        os.chdir(path)
        s.bind("socket")
        os.chdir(here)
    os.mknod(path + "/device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod(path + "/zero", 0o600 | stat.S_IFCHR, os.makedev(1, 5))


ESCAPES = "\x1b[31mred\x9b\x85\n\r\t\x07\0\x7f"


def escapes(path):
    """Control characters wherever a checkpoint can have text."""
    tensors = {key: d.tensor((2, 3), [((0, 0), (2, 3))], dtype)
               for key, dtype in (
                   (ESCAPES, d.FLOAT32), ("dtype", d.Named("f" + ESCAPES)),
                   ("path", d.FLOAT32), ("transform", d.FLOAT32))}
    tensors["object" + ESCAPES] = d.Bytes()
    rows = {d.index("path", (0, 0)): d.info("f" + ESCAPES, 0, 10),
            d.index(ESCAPES, (0, 0)): d.info("f", 0, 10),
            d.index("dtype", (0, 0)): d.info("f", 0, 10),
            d.index("transform", (0, 0)):
                d.info("f", 10, 10, transform_descriptors=[ESCAPES])}
    write(path, tensors, rows, {"f": b"\x1b[31m" * 10})
    other = d.checkpoint(tensors, rows, make=d.Metadata,
                         vendor=d.Named("unknown" + ESCAPES))
    with open(path + "/.metadata", "wb") as out:
        out.write(pickle.dumps(other, 4))


def unknown(path):
    """A good tensor, and an unknown class."""
    tensors = {"w": d.tensor((2, 3), [((0, 0), (2, 3))])}
    content = item((2, 3))
    rows = {d.index("w", (0, 0)): d.info("f", 0, len(content))}
    write(path, tensors, rows, {"f": content})
    other = d.checkpoint(tensors, rows, make=d.Metadata,
                         vendor=d.Named("unknown"))
    with open(path + "/.metadata", "wb") as out:
        out.write(pickle.dumps(other, 4))


def reserved(path):
    """Keys named as what the tree has of its own, or as a way out of it."""
    keys = [".ckptfs", ".metadata", ".", "..", "../../etc/passwd", "/", "",
            "full", "raw", "a", "a.b", "a/b", "A", "e\u0301", "\u00e9",
            "%2E", "%_", "%~x", "w.npy", "k" * 300, "k" * 300 + "l"]
    content = item((2, 3))
    write(path, {k: d.tensor((2, 3), [((0, 0), (2, 3))]) for k in keys},
          {d.index(k, (0, 0)): d.info("f", i * len(content), len(content))
           for i, k in enumerate(keys)}, {"f": content * len(keys)})


def wide(path):
    """One shape of 100,000 numbers among a thousand of two."""
    tensors = {f"w{i}": d.tensor((2, 3), []) for i in range(1000)}
    tensors["wide"] = d.tensor((1,) * 100000, [])
    write(path, tensors, {}, {})


class Touch:
    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return os.system, ("touch " + self.canary,)


def dangerous(path):
    """A .metadata that would make the file `canary` beside the directory."""
    write(path, {}, {}, {})
    with open(path + "/.metadata", "wb") as out:
        pickle.dump(d.good(vendor=Touch(path + "-canary")), out, 4)


def dangerous_item(path):
    """An item that would; and a good one."""
    out, good = io.BytesIO(), item((2, 3))
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl",
                         pickle.dumps(Touch(path + "-canary"), 2))
        archive.writestr("archive/data/0", b"\0" * 24)
    bad = out.getvalue()
    write(path, {k: d.tensor((2, 3), [((0, 0), (2, 3))]) for k in "bg"},
          {d.index("b", (0, 0)): d.info("f", 0, len(bad)),
           d.index("g", (0, 0)): d.info("f", len(bad), len(good))},
          {"f": bad + good})


KINDS = {
    "dangerous": dangerous,
    "dangerous-item": dangerous_item,
    "escapes": escapes,
    "paths": paths,
    "reserved": reserved,
    "unknown": unknown,
    "wide": wide,
    "empty-boxes": empty_boxes,
}

if __name__ == "__main__":
    KINDS[sys.argv[1]](sys.argv[2])
