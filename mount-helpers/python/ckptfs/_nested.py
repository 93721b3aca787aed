# SPDX-License-Identifier: MIT
"""torch.load for any checkpoint."""
from __future__ import annotations

import ctypes
import errno
import io
import json
import mmap
import os
import warnings

import torch

from . import _destination
from ._checkpoint import Checkpoint
from ._library import Error, Handle, encoded

_FILE = "torch/checkpoint.pt"


def load(source: str | os.PathLike | Checkpoint, options: str = "") -> object:
    """The whole checkpoint as one nested state dict on the CPU, as torch.load(weights_only=True) of one file.

    source: a directory or file of any kind that ckptfs.open() takes, or an open Checkpoint. options: as of
    ckptfs.open(); "root=NAME" gives the part below NAME, "only=GLOB" and "exclude=GLOB" select names.
    Returns dicts, lists, tensors and other values as in torch/checkpoint.pt, see ckptfs(5). Parameters,
    DTensors and subclasses are plain tensors, contiguous, without gradient; aliases share one storage.
    Tensors are read by as many threads as there are processors.

    A UserWarning names entries that are left out: values that weights_only refuses or that contain
    tensors, flat parameters, quantized tensors; another one has files that are missing or damaged. Raises ckptfs.Error if there is no checkpoint, or for the
    first tensor that cannot be read; "exclude=NAME" loads the rest.
    """
    ck = source if isinstance(source, Checkpoint) else Checkpoint(source, options)
    if ck is source and options:
        raise TypeError("an open checkpoint has its own options")
    if "torch" not in ck.listdir():
        if len(ck) or len(ck.objects):
            raise Error(errno.ENOENT, f"{ck.source}: no entry can be loaded; ckptfs status SRC lists the reasons")
        return {}
    _check_left_out(ck)
    ck._warn_of_damage()
    return _load_by_threads(ck) if hasattr(torch.serialization, "skip_data") else _load_plainly(ck)


def _check_left_out(ck: Checkpoint) -> None:
    try:
        names = json.loads(ck.getxattr(_FILE, "user.ckptfs.left_out"))
    except Error as e:
        if e.errno != errno.ENODATA:
            raise
        return
    for name in names:
        if name in ck and not ck[name].dtype.startswith(("qint", "quint")):
            ck[name].check()
    if names:
        warnings.warn(f"{ck.source}: left out: {', '.join(names)}", stacklevel=3)


def _load_plainly(ck: Checkpoint, gap=(0, 0)):
    file = io.BufferedReader(_File(ck._handle(), encoded(_FILE), gap), 1 << 20)
    return torch.load(file, map_location="cpu", weights_only=True)


def _load_by_threads(ck: Checkpoint):
    """PyTorch makes the values and the memory of the tensors, and the library reads the elements."""
    parts = [part for part in ck._handle().parts(encoded(_FILE)) if part[2]]
    with torch.serialization.skip_data():
        value = _load_plainly(ck, (parts[0][1], parts[-1][1] + parts[-1][2]) if parts else (0, 0))
    tensors = [tensor for tensor in _firsts(value) if tensor.numel()]
    wholes = [ck._whole_at(number) for number, _, _ in parts]
    if [(str(t.dtype), tuple(t.shape)) for t in tensors] != [("torch." + w.dtype, w.shape) for w in wholes]:
        return _load_plainly(ck)
    try:
        places = [(whole, *_destination.address_of(tensor, whole)) for whole, tensor in zip(wholes, tensors)]
    except TypeError:  # fake tensors
        return _load_plainly(ck)
    for tensor in tensors:
        _advise(tensor)
    ck._read(places)
    return value


def _firsts(value):
    """The first tensor of each storage, in the order of the pickle."""
    seen, left = set(), [value]
    while left:
        value = left.pop()
        if isinstance(value, torch.Tensor):
            address = value.untyped_storage().data_ptr()
            if address not in seen:
                seen.add(address)
                yield value
        elif isinstance(value, (dict, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            left += reversed(value.values() if isinstance(value, dict) else value)


def _advise(tensor) -> None:
    """Asks for pages of 2 MiB: faults of small pages cost more than the copy."""
    huge = 2 << 20
    begin = -(-tensor.data_ptr() // huge) * huge
    size = (tensor.data_ptr() + tensor.nbytes - begin) // huge * huge
    if size > 0 and hasattr(mmap, "MADV_HUGEPAGE"):
        ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size), mmap.MADV_HUGEPAGE)


class _File(io.RawIOBase):
    """A file of the tree. Bytes of `gap`, which are not used, are not read."""

    def __init__(self, handle: Handle, path: bytes, gap: tuple[int, int]):
        super().__init__()
        self._handle, self._path, self._at, self._size = handle, path, 0, handle.size(path)
        self._begin, self._end = gap

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, room) -> int:
        view = memoryview(room).cast("B")
        got = min(view.nbytes, max(0, self._size - self._at))
        if self._begin <= self._at < self._end:
            got = min(got, self._end - self._at)
            view[:got] = bytes(got)
        elif got:
            got = min(got, self._begin - self._at) if self._at < self._begin else got
            got = self._handle.read_into(self._path, self._at, view[:got])
        self._at += got
        return got
