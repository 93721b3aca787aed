# SPDX-License-Identifier: MIT
"""Writes checkpoints that no torch writes, without torch.

    python3 tests/mount/hostile.py KIND DIRECTORY
"""
import io
import os
import pickle
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
CONTENT = b"the content of a file outside"


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


KINDS = {
    "empty-boxes": empty_boxes,
}

if __name__ == "__main__":
    KINDS[sys.argv[1]](sys.argv[2])
