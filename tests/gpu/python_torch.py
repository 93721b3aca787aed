# SPDX-License-Identifier: MIT
"""Compares from_dlpack() of PyTorch on a mount's tensors with PyTorch's own load.

    python_torch.py MODULE CHECKPOINT MOUNT

The build of PyTorch may not support GPUs. For this test only, memory and device of each
capsule are therefore replaced by those of the host.
"""
import ctypes
import json
import os
import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(sys.argv[1])]
import ckptfs_gpu  # noqa: E402
import python_reader  # noqa: E402

MEMORY = python_reader.Memory()
NAMES = b"dltensor", b"dltensor_versioned"


class Shown:
    """A tensor of a GPU as one of the host."""

    def __init__(self, tensor):
        self.tensor, self.kept = tensor, []

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **more):
        if more.pop("dl_device", None) not in (None, (1, 0)):
            raise BufferError
        capsule = self.tensor.__dlpack__(**more)
        name, = (name for name in NAMES if python_reader.API.PyCapsule_IsValid(capsule, name))
        at = python_reader.API.PyCapsule_GetPointer(capsule, name)
        # The deleter finds its mark in the first field, which is `data` in the old form.
        if name == NAMES[0]:
            raise AssertionError("this release asks for the new form")
        data = ctypes.c_uint64.from_address(at + 32)
        size = self.tensor_bytes()
        self.kept.append(ctypes.create_string_buffer(MEMORY.read(data.value, size), max(size, 1)))
        data.value = ctypes.addressof(self.kept[-1])
        ctypes.c_int32.from_address(at + 40).value = 1
        return capsule

    def tensor_bytes(self):
        taken = python_reader.Taken(self.tensor.__dlpack__())
        taken.end()
        return taken.size()


def same(a, b):
    """True if both tensors are equal bit for bit."""
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(
        a.contiguous().reshape(-1).view(torch.uint8), b.contiguous().reshape(-1).view(torch.uint8))


def rows(checkpoint):
    with open(checkpoint + ".tensors.tsv") as file:
        for line in file:
            stem, dtype, shape, _, _, key = line.rstrip("\n").split("\t")
            shape = tuple(json.loads(shape))
            if "quint" not in dtype and "qint" not in dtype and len(shape) <= 16:
                yield stem, getattr(torch, dtype), shape, key


def take(path):
    """Checks a tensor, and that all memory is released."""
    tensor = ckptfs_gpu.open(path)
    shown = Shown(tensor)
    got = torch.from_dlpack(shown)
    copy = got.clone()
    del got
    tensor.close()
    return tensor, copy


def keeps_exceptions(path):
    """A tensor is released while an exception propagates."""
    tensor = ckptfs_gpu.open(path)
    shown = Shown(tensor)
    try:
        torch.from_dlpack(shown).view(987654321)
    except RuntimeError as error:
        tensor.close()
        return "987654321" in str(error)
    return False


def main():
    checkpoint, mount = sys.argv[2:4]
    warnings.simplefilter("ignore")
    n, wrong = 0, []
    for stem, dtype, shape, key in rows(checkpoint):
        want = {key: torch.zeros(shape, dtype=torch.uint8).to(dtype) if dtype.itemsize > 1
                else torch.zeros(shape, dtype=torch.uint8).view(dtype)}
        dcp.load(want, checkpoint_id=checkpoint, no_dist=True)
        tensor, got = take(f"{mount}/raw/{stem}")
        if got.dtype != dtype:
            got = got.view(getattr(torch, tensor.dtype))
        n += 1
        if not same(got, want[key]):
            wrong.append(stem)
    if not keeps_exceptions(f"{mount}/raw/{stem}"):
        wrong.append("an exception is lost")
    print(*wrong, f"{n - len(wrong)} tensors are equal to what PyTorch {torch.__version__} loads",
          sep="\n")
    return 1 if wrong or not n else 0


if __name__ == "__main__":
    sys.exit(main())
