# SPDX-License-Identifier: MIT
"""The tensors of one rank: a directory of local/ or sharded/."""
from __future__ import annotations

import errno

from ._dtypes import itemsize
from ._library import NONE, Error, decoded, encoded
from ._tensor import Whole
from ._tensors import Tensors, counted


class Parts(Tensors):
    """A read-only mapping of names to the parts of tensors that one rank has. Names are read when it is made, all other
    facts at each access."""

    def __init__(self, ck, directory: str):
        self._ck = ck
        self.path = directory
        self._files = []
        self._numbers: dict[str, int] = {}
        handle = ck._handle()
        for file in handle.names(encoded(directory)):
            stem, dot, suffix = file.rpartition(b".")
            if suffix == b"npy":
                path = encoded(directory) + b"/" + file
                name = decoded(handle.attribute(path, b"user.ckptfs.fqn"))
                at = stem.rfind(b"%@")
                self._numbers[name + decoded(stem[at + 1:]) if at >= 0 else name] = len(self._files)
                self._files.append(path)
        self._list = list(self._numbers)

    def _names(self) -> dict[str, int]:
        return self._numbers

    def _number(self, name: str) -> int:
        return self._numbers[name]

    def _whole_at(self, number: int) -> Whole:
        import json
        handle, path = self._ck._handle(), self._files[number]
        dtype, shape, chunks = (decoded(handle.attribute(path, b"user.ckptfs." + fact))
                                for fact in (b"dtype", b"shape", b"chunks"))
        try:
            offset = handle.attribute(path, b"user.ckptfs.offset")
        except Error as e:
            if e.errno != errno.ENODATA:
                raise
            offset = b"[]"  # a dtype without whole bytes, which no read returns
        shape, size = tuple(json.loads(shape)), itemsize(dtype)
        nbytes = size
        for n in shape:
            nbytes *= n
        stem = decoded(path.rpartition(b"/")[2].rpartition(b".")[0])
        return Whole(number, self._list[number], stem, dtype, shape, size, int(chunks), NONE, nbytes, tuple(json.loads(offset)), path)

    def _order(self, number: int):
        return number

    def _title(self) -> str:
        return f"{self.path} of {self._ck.kind} {self._ck.source}: {counted(len(self), 'tensor')}"
