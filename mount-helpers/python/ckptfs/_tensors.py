# SPDX-License-Identifier: MIT
"""A mapping of names to lazy tensors: a checkpoint, or the tensors of one rank of it."""
from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping

from . import _destination
from ._library import Box, Error
from ._tensor import Tensor, memory

_ROWS, _HTML_ROWS = 20, 500  # most rows of a repr
_BATCH = 1 << 30  # bytes that are read together; Ctrl-C is handled between two batches


class Tensors(Mapping):
    """A read-only mapping of names to tensors."""

    # Of a subclass: _ck, the Checkpoint; _names(), numbers by name; _number(name); _whole_at(number); _title();
    # _order(number): tensors sorted by it are read front to back.

    # Identity: Mapping would compare lazy tensors, which are new objects at each access, and forbid hash().
    __eq__, __hash__ = object.__eq__, object.__hash__

    def __len__(self) -> int:
        return len(self._names())

    def __getitem__(self, name: str) -> Tensor:
        """The tensor of a name; nothing is read. A new object each time, with memory of its own."""
        return Tensor(self._ck, self._whole_at(self._number(name)))

    def __contains__(self, name) -> bool:
        try:
            self._number(name)
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def state_dict(self, prefix: str = "", out=None) -> dict:
        """Reads tensors by several threads.

        prefix: only names that begin with it and a dot, and without both; "" is all names. Without
        `out`: a dict of name to torch.Tensor on the CPU; aliases are one tensor. out: a mapping of
        names (without the prefix) to writable destinations of the same dtype and size: tensors of
        PyTorch on the CPU, arrays of NumPy, or contiguous buffers, such as bytearray. Only its
        names are read; returns dict(out).

        Raises KeyError if the checkpoint lacks a name of `out`; TypeError if a destination does not
        fit, or PyTorch lacks a dtype; ImportError without PyTorch, unless `out` needs none; ckptfs.Error if some elements
        cannot be read. All other tensors are then complete in `out`. Without `out`, a UserWarning has damage
        of the source itself, such as a missing file, whose tensors are left out.
        """
        start = prefix if not prefix or prefix.endswith(".") else prefix + "."
        if out is not None:
            wanted = {name: self._whole_at(self._number(start + name)) for name in out}
            places = {name: _destination.address_of(out[name], whole) for name, whole in wanted.items()}
            self._read([(whole, *places[name]) for name, whole in wanted.items()])
            return dict(out)
        wanted = {name[len(start):]: self._whole_at(number) for name, number in self._names().items()
                  if name.startswith(start)}
        made = self._read_new(wanted)
        self._ck._warn_of_damage()
        return made

    def _read_new(self, wanted: dict) -> dict:
        made = {}
        for whole in wanted.values():
            number = min(whole.number, whole.alias_of)
            if number not in made:
                tensor = Tensor(self._ck, whole)
                tensor._memory = memory(whole.nbytes)
                made[number] = tensor, tensor.torch()  # the type is checked before anything is read
        firsts = [(tensor, ctypes.c_char.from_buffer(tensor._memory)) for tensor, _ in made.values()]
        self._read([(tensor._whole, ctypes.addressof(first), None, first) for tensor, first in firsts])
        return {name: made[min(whole.number, whole.alias_of)][1] for name, whole in wanted.items()}

    def _read(self, places) -> None:
        """Reads whole tensors. places: (tensor, address, strides or None, owner of the memory)."""
        handle, seen, first = self._ck._handle(), set(), None
        batch, size = [], 0
        places = sorted(places, key=lambda place: self._order(place[0].number))
        for i, (whole, address, strides, _) in enumerate(places, 1):
            key = address, min(whole.number, whole.alias_of)
            if (whole.nbytes or not whole.itemsize) and key not in seen:
                seen.add(key)
                batch.append((whole, address, strides))
                size += whole.nbytes
            if batch and (size >= _BATCH or i == len(places)):
                try:
                    handle.read_boxes(_boxes(batch), self._ck.threads)
                except Error as e:
                    first = first or e
                batch, size = [], 0
        if first:
            raise first

    # --- text -----------------------------------------------------------------------------

    def _rows(self, most: int):
        for number in range(min(len(self), most)):
            whole = self._whole_at(number)
            yield _printable(whole.name), whole.dtype, str(list(whole.shape)), amount(whole.nbytes), str(whole.chunks)

    def __repr__(self) -> str:
        if self._ck._open is None:
            return f"<ckptfs: {self._ck.source!r} is closed>"
        rows = [("name", "dtype", "shape", "bytes", "shards"), *self._rows(_ROWS)]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        more = [f"... {len(self) - _ROWS} more"] if len(self) > _ROWS else []
        return "\n".join(map(_printable, [self._title(), *lines, *more]))

    def _repr_html_(self) -> str:
        from html import escape
        if self._ck._open is None:
            return f"<p>{escape(repr(self))}</p>"

        def row(cells, kind="td"):
            return "<tr>" + "".join(f"<{kind} style='text-align:left'>{escape(cell)}</{kind}>"
                                    for cell in cells) + "</tr>"

        more = f"<p>{len(self) - _HTML_ROWS} more</p>" if len(self) > _HTML_ROWS else ""
        return (f"<p>{escape(_printable(self._title()))}</p><table><thead>"
                f"{row(('name', 'dtype', 'shape', 'bytes', 'shards'), 'th')}</thead><tbody>"
                f"{''.join(row(cells) for cells in self._rows(_HTML_ROWS))}</tbody></table>{more}")


def _boxes(batch):
    boxes = (Box * len(batch))()
    for box, (whole, address, strides) in zip(boxes, batch):
        box.tensor, box.path, box.to = whole.number, whole.path, address
        if strides:
            box.ndim, box.strides = len(strides), (ctypes.c_int64 * len(strides))(*strides)
    return boxes


def _printable(text: str) -> str:
    """Text in which control characters and lone surrogates are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def amount(size: int) -> str:
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{size} B" if unit == "B" else f"{value:.2f} {unit}"


def counted(n: int, noun: str, plural: str = "") -> str:
    return f"{n} {noun if n == 1 else plural or noun + 's'}"
