# SPDX-License-Identifier: MIT
"""An open checkpoint: a mapping of names to tensors, and one of names to other entries."""
from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator, Mapping

from ._library import NONE, Error, Handle, decoded, encoded, last_error, library
from ._parts import Parts
from ._tensor import Whole, whole_of
from ._tensors import Tensors, amount, counted


class Checkpoint(Tensors):
    """A read-only mapping of fully qualified names to tensors; see ckptfs.open().

    objects: a mapping of names to entries that are no tensors, as decoded JSON in the form of
    ckptfs(5). kind: "dcp", "safetensors", "torch", "ranks" or "torch_checkpointing". threads: most
    threads of a read; 0: as many as there are processors; at most 16.
    """

    def __init__(self, source, options: str = ""):
        self.source = os.path.join(os.getcwd(), os.fsdecode(source))
        self.options = options
        self.threads = 0
        self._open: Handle | None = Handle(os.fsencode(self.source), encoded(options))
        self.kind: str = library().ckptfs_kind(self._open).decode()
        self._numbers: dict[str, int] | None = None
        self._stems: dict[str, bytes] | None = None
        if self.kind == "run":
            self._refuse_run()

    def _refuse_run(self) -> None:
        steps = ", ".join(decoded(name) for name in self._handle().names(b"") if name not in (b"latest", b".ckptfs"))
        self.close()
        raise Error(errno.EISDIR, f"{self.source}: a run directory; give one of its steps: {steps}")

    def __reduce__(self):
        return type(self), (self.source, self.options)

    @property
    def _ck(self) -> Checkpoint:
        return self

    def _handle(self) -> Handle:
        handle = self._open
        if handle is None:
            raise ValueError("the checkpoint is closed")
        return handle

    def close(self) -> None:
        """Closes the checkpoint when its last read has ended. Arrays that were read stay valid."""
        self._open = None

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    # --- tensors ------------------------------------------------------------------------

    def __len__(self) -> int:
        return library().ckptfs_tensors(self._handle())

    def _whole_at(self, number: int) -> Whole:
        return whole_of(number, library().ckptfs_tensor_at(self._handle(), number)[0])

    def _order(self, number: int):
        info = library().ckptfs_tensor_at(self._handle(), number)[0]
        return info.file, info.position, number

    def _names(self) -> dict[str, int]:
        """Numbers by name, in the order of the checkpoint; made by the first use."""
        if self._numbers is None:
            handle, at = self._handle(), library().ckptfs_tensor_at
            infos = (at(handle, i)[0] for i in range(len(self)))
            self._numbers = {decoded(ctypes.string_at(info.fqn, info.fqn_len)): i for i, info in enumerate(infos)}
        return self._numbers

    def _number(self, name: str) -> int:
        if not isinstance(name, str):
            raise KeyError(name)
        if self._numbers is not None or "\0" in name:
            return self._names()[name]
        handle = self._handle()
        info = library().ckptfs_tensor(handle, encoded(name))
        if not info:
            raise KeyError(name)
        return library().ckptfs_tensor_number(handle, info)

    def _check(self, whole: Whole) -> None:
        if whole.path is None:
            if library().ckptfs_check_tensor(self._handle(), whole.number):
                raise last_error()
            return
        try:
            fault = decoded(self._handle().attribute(whole.path, b"user.ckptfs.error"))
        except Error as e:
            if e.errno != errno.ENODATA:
                raise
        else:
            raise Error(errno.EIO, f"{whole.name}: {fault.splitlines()[0]}", whole.name)

    def _warn_of_damage(self) -> None:
        """Warns of damage of the source itself, such as a missing file: names that only it has are in no mapping."""
        import re
        import warnings
        report = self.read(".ckptfs/damage").decode(errors="backslashreplace")
        lines = [line for line in report.splitlines() if re.match("E[A-Z]+: ", line)]
        if lines:
            warnings.warn(f"{self.source}: {'; '.join(lines[:9])}; tensors may be left out, see ckptfs check", stacklevel=4)

    # --- other entries, and paths ---------------------------------------------------------

    @property
    def objects(self) -> Mapping:
        """Entries that are no tensors: name to value, decoded from objects/<stem>.json at each access."""
        return Objects(self)

    def _object_stems(self) -> dict[str, bytes]:
        """Stems of other entries by name; made by the first use."""
        handle, at = self._handle(), library().ckptfs_object_at
        if self._stems is None:
            infos = (at(handle, i)[0] for i in range(library().ckptfs_objects(handle)))
            self._stems = {decoded(ctypes.string_at(info.fqn, info.fqn_len)): info.stem for info in infos}
        return self._stems

    def local(self, rank) -> Parts:
        """The boxes that a rank saved: a mapping of names to lazy tensors, whose `offset` is the place in the whole tensor.

        rank: a number, or the name of a directory in local/. A tensor with several boxes has the
        names "NAME@o0,o1", one for each offset. Raises ckptfs.Error (ENOENT) for an unknown rank.
        """
        return Parts(self, f"local/{rank if isinstance(rank, str) else f'rank-{rank:d}'}")

    def sharded(self, spec, rank: int) -> Parts:
        """The local tensors of a rank under FSDP, in any layout; otherwise as local().

        spec: a number of ranks, or a mesh, such as "dp=2,tp=4", see ckptfs(5).
        """
        return Parts(self, f"sharded/{spec}/rank-{rank:d}")

    def listdir(self, path: str = "") -> list[str]:
        """Names in a directory of the tree, as in a mount: "", "full", "sharded/8/rank-0"."""
        return [decoded(name) for name in self._handle().names(encoded(path))]

    def getxattr(self, path: str, name: str) -> bytes:
        """An extended attribute of a file of the tree, such as "user.ckptfs.shape"."""
        return self._handle().attribute(encoded(path), encoded(name))

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Bytes of a file of the tree, such as "raw/model.w"; fewer than `size` at its end, None: all of them."""
        if offset < 0 or size is not None and size < 0:
            raise ValueError("offset and size must not be negative")
        handle, file = self._handle(), encoded(path)
        left = max(0, handle.size(file) - offset)
        return handle.read(file, min(offset, 2**63), left if size is None else min(size, left))

    def _title(self) -> str:
        handle, at = self._handle(), library().ckptfs_tensor_at
        total = sum(info.nbytes for info in (at(handle, i)[0] for i in range(len(self))) if info.alias_of == NONE)
        tensors, others = counted(len(self), "tensor"), counted(len(self.objects), "other entry", "other entries")
        return f"{self.kind} {self.source}: {tensors}, {amount(total)}, {others}"


class Objects(Mapping):
    """Entries that are no tensors, by name. A value is decoded at each access."""

    def __init__(self, ck: Checkpoint):
        self._ck = ck

    def __len__(self) -> int:
        return library().ckptfs_objects(self._ck._handle())

    def __iter__(self) -> Iterator[str]:
        return iter(self._ck._object_stems())

    def __getitem__(self, name: str):
        """Raises KeyError, or ckptfs.Error if the entry is malformed or missing."""
        import json
        path = b"objects/" + self._ck._object_stems()[name] + b".json"
        handle = self._ck._handle()
        return json.loads(handle.read(path, 0, handle.size(path)))

    def __repr__(self) -> str:
        return f"<ckptfs objects: {', '.join(self._ck._object_stems()) or 'none'}>"
