# SPDX-License-Identifier: MIT
"""An open checkpoint: a mapping of names to tensors, and one of names to other entries."""
from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator, Mapping

from . import _destination
from ._library import NONE, Box, Error, Handle, decoded, encoded, last_error, library
from ._tensor import Tensor, Whole, memory, whole_of

_ROWS, _HTML_ROWS = 20, 500  # most rows of a repr


class Checkpoint(Mapping):
    """A read-only mapping of fully qualified names to tensors; see ckptfs.open().

    objects: a mapping of names to entries that are no tensors, as decoded JSON in the form of
    ckptfs(5). kind: "dcp", "safetensors", "torch", "ranks" or "torch_checkpointing". threads: most
    threads of a read; 0: as many as there are processors; at most 16.
    """

    def __init__(self, source, options: str = ""):
        self.source = os.fsdecode(source)
        self.options = options
        self.threads = 0
        self._open: Handle | None = Handle(os.fsencode(self.source), encoded(options))
        self.kind: str = library().ckptfs_kind(self._open).decode()
        self._numbers: dict[str, int] | None = None
        if self.kind == "run":
            self._refuse_run()

    def _refuse_run(self) -> None:
        steps = ", ".join(decoded(name) for name in self._handle().names(b"") if name != b".ckptfs")
        self.close()
        raise Error(errno.EISDIR, f"{self.source}: a run directory; give one of its steps: {steps}")

    def __reduce__(self):
        return type(self), (self.source, self.options)

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

    def __getitem__(self, name: str) -> Tensor:
        """The tensor of a name; nothing is read. A new object each time, with memory of its own."""
        return Tensor(self, self._whole_at(self._number(name)))

    def __contains__(self, name) -> bool:
        try:
            self._number(name)
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def _check(self, number: int) -> None:
        if library().ckptfs_check_tensor(self._handle(), number):
            raise last_error()

    def state_dict(self, prefix: str = "", out=None) -> dict:
        """Reads tensors by several threads.

        prefix: only names that begin with it and a dot, and without both; "" is all names. Without
        `out`: a dict of name to torch.Tensor on the CPU; aliases are one tensor. out: a mapping of
        names (without the prefix) to writable destinations of the same dtype and size: tensors of
        PyTorch on the CPU, arrays of NumPy, or contiguous buffers, such as bytearray. Only its
        names are read; returns dict(out).

        Raises KeyError if the checkpoint lacks a name of `out`; TypeError if a destination does not
        fit, or PyTorch lacks a dtype; ImportError without PyTorch, unless `out` needs none; ckptfs.Error if some elements
        cannot be read. All other tensors are then complete in `out`.
        """
        start = prefix if not prefix or prefix.endswith(".") else prefix + "."
        if out is not None:
            wanted = {name: self._whole_at(self._number(start + name)) for name in out}
            places = {name: _destination.address_of(out[name], whole) for name, whole in wanted.items()}
            self._read([(whole, *places[name]) for name, whole in wanted.items()])
            return dict(out)
        wanted = {name[len(start):]: self._whole_at(number) for name, number in self._names().items()
                  if name.startswith(start)}
        return self._read_new(wanted)

    def _read_new(self, wanted: dict) -> dict:
        made = {}
        for whole in wanted.values():
            number = min(whole.number, whole.alias_of)
            if number not in made:
                tensor = Tensor(self, whole)
                tensor._memory = memory(whole.nbytes)
                made[number] = tensor, tensor.torch()  # the type is checked before anything is read
        firsts = [(tensor, ctypes.c_char.from_buffer(tensor._memory)) for tensor, _ in made.values()]
        self._read([(tensor._whole, ctypes.addressof(first), None, first) for tensor, first in firsts])
        return {name: made[min(whole.number, whole.alias_of)][1] for name, whole in wanted.items()}

    def _read(self, places) -> None:
        """Reads whole tensors. places: (tensor, address, strides or None, owner of the memory)."""
        boxes, seen = (Box * len(places))(), set()
        n = 0
        for whole, address, strides, _ in sorted(places, key=lambda place: place[0].number):
            key = address, min(whole.number, whole.alias_of)
            if whole.nbytes == 0 and whole.itemsize or key in seen:
                continue
            seen.add(key)
            boxes[n].tensor, boxes[n].to = whole.number, address
            if strides:
                boxes[n].ndim = len(strides)
                boxes[n].strides = (ctypes.c_int64 * len(strides))(*strides)
            n += 1
        self._handle().read_boxes((Box * n).from_buffer(boxes) if n else (Box * 0)(), self.threads)

    # --- other entries, and paths ---------------------------------------------------------

    @property
    def objects(self) -> Mapping:
        """Entries that are no tensors: name to value, decoded from objects/<stem>.json at each access."""
        return Objects(self)

    def listdir(self, path: str = "") -> list[str]:
        """Names in a directory of the tree, as in a mount: "", "full", "sharded/8/rank-0"."""
        return [decoded(name) for name in self._handle().names(encoded(path))]

    def getxattr(self, path: str, name: str) -> bytes:
        """An extended attribute of a file of the tree, such as "user.ckptfs.shape"."""
        return self._handle().attribute(encoded(path), encoded(name))

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Bytes of a file of the tree, such as "raw/model.w"; fewer than `size` at its end."""
        handle, file = self._handle(), encoded(path)
        return handle.read(file, offset, max(0, handle.size(file) - offset) if size is None else size)

    # --- text -----------------------------------------------------------------------------

    def _rows(self, most: int):
        for number in range(min(len(self), most)):
            whole = self._whole_at(number)
            yield whole.name, whole.dtype, str(list(whole.shape)), _amount(whole.nbytes), str(whole.chunks)

    def _title(self) -> str:
        handle, at = self._handle(), library().ckptfs_tensor_at
        total = sum(info.nbytes for info in (at(handle, i)[0] for i in range(len(self))) if info.alias_of == NONE)
        return f"{self.kind} {self.source}: {len(self)} tensors, {_amount(total)}, {len(self.objects)} other entries"

    def __repr__(self) -> str:
        if self._open is None:
            return f"<ckptfs.Checkpoint {self.source!r}, closed>"
        rows = [("name", "dtype", "shape", "bytes", "shards"), *self._rows(_ROWS)]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        more = [f"... {len(self) - _ROWS} more"] if len(self) > _ROWS else []
        return "\n".join([self._title(), *lines, *more]).encode(errors="backslashreplace").decode()

    def _repr_html_(self) -> str:
        from html import escape
        if self._open is None:
            return f"<p>{escape(repr(self))}</p>"

        def row(cells, kind="td"):
            return "<tr>" + "".join(f"<{kind} style='text-align:left'>{escape(cell)}</{kind}>"
                                    for cell in cells) + "</tr>"

        more = f"<p>{len(self) - _HTML_ROWS} more</p>" if len(self) > _HTML_ROWS else ""
        table = (f"<p>{escape(self._title())}</p><table><thead>"
                 f"{row(('name', 'dtype', 'shape', 'bytes', 'shards'), 'th')}</thead><tbody>"
                 f"{''.join(row(cells) for cells in self._rows(_HTML_ROWS))}</tbody></table>{more}")
        return table.encode(errors="backslashreplace").decode()


def _amount(size: int) -> str:
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{size} B" if unit == "B" else f"{value:.2f} {unit}"


class Objects(Mapping):
    """Entries that are no tensors, by name. A value is decoded at each access."""

    def __init__(self, ck: Checkpoint):
        self._ck = ck

    def __len__(self) -> int:
        return library().ckptfs_objects(self._ck._handle())

    def _stems(self) -> dict[str, bytes]:
        handle, at = self._ck._handle(), library().ckptfs_object_at
        infos = (at(handle, i)[0] for i in range(len(self)))
        return {decoded(ctypes.string_at(info.fqn, info.fqn_len)): info.stem for info in infos}

    def __iter__(self) -> Iterator[str]:
        return iter(self._stems())

    def __getitem__(self, name: str):
        """Raises KeyError, or ckptfs.Error if the entry is malformed or missing."""
        import json
        path = b"objects/" + self._stems()[name] + b".json"
        handle = self._ck._handle()
        return json.loads(handle.read(path, 0, handle.size(path)))

    def __repr__(self) -> str:
        return f"<ckptfs objects: {', '.join(self._stems()) or 'none'}>"
