# SPDX-License-Identifier: MIT
"""One tensor of a checkpoint, or a part of it, which is read when its elements are needed."""
from __future__ import annotations

import ctypes
import mmap
import operator
import os
import sys
import threading
from collections import namedtuple

from . import _dtypes
from ._library import NONE, Box, decoded, u64

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy
    import torch as _torch

# Above this size memory comes from mmap(2), with pages of 2 MiB if the kernel has them: faults of small pages cost more
# than the copy.
_MAPPED = 1 << 20


def memory(size: int):
    """A zeroed buffer of at least one byte."""
    if size < _MAPPED:
        return bytearray(max(size, 1))
    mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            mapped.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            pass  # a kernel without them
    return mapped


def array_of(values):
    return (u64 * len(values))(*values)


# Facts of a whole tensor, or of the part of it that a rank has, which is the file `path`. alias_of: a number, or NONE.
Whole = namedtuple("Whole", "number name stem dtype shape itemsize chunks alias_of nbytes offset path")


def whole_of(number: int, info) -> Whole:
    return Whole(number, decoded(ctypes.string_at(info.fqn, info.fqn_len)), decoded(info.stem),
                 decoded(info.dtype), tuple(info.shape[:info.ndim]), info.itemsize, info.chunks, info.alias_of, info.nbytes,
                 (0,) * info.ndim, None)


class Tensor:
    """A tensor of a checkpoint, or a part of it. Nothing is read until .numpy(), .torch() or DLPack.

    tensor[index] is a lazy part: ints, slices with positive steps and one Ellipsis; anything else
    raises TypeError. Two parts never share memory. All arrays made from one object share the
    memory that the object has read.
    """

    __slots__ = ("_ck", "_whole", "_offsets", "_counts", "_steps", "_kept", "_memory", "_lock", "_pid")

    def __init__(self, ck, whole: Whole):
        n = len(whole.shape)
        self._set(ck, whole, (0,) * n, whole.shape, (1,) * n, tuple(range(n)))

    def _set(self, ck, whole, offsets, counts, steps, kept) -> Tensor:
        self._ck, self._whole = ck, whole
        # Of each dimension of the whole tensor: element offset + i * step, count of them.
        self._offsets, self._counts, self._steps = offsets, counts, steps
        self._kept = kept  # dimensions that no int has removed
        self._memory, self._lock, self._pid = None, threading.Lock(), os.getpid()
        return self

    # --- facts --------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Fully qualified name."""
        return self._whole.name

    @property
    def stem(self) -> str:
        """Its files in the tree are raw/STEM and full/STEM.npy."""
        return self._whole.stem

    @property
    def dtype(self) -> str:
        """Name of the dtype in torch, such as "bfloat16"."""
        return self._whole.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements in each dimension, the slowest first."""
        return tuple(self._counts[d] for d in self._kept)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._kept)

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for count in self._counts:
            n *= count
        return n

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._whole.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements of this part."""
        return self.size * self.itemsize

    @property
    def offset(self) -> tuple[int, ...]:
        """Where the part of a rank begins in the whole tensor, see Checkpoint.local()."""
        return self._whole.offset

    @property
    def chunks(self) -> int:
        """Number of stored boxes of the whole tensor."""
        return self._whole.chunks

    @property
    def alias_of(self) -> str | None:
        """Name of the first tensor with the same storage, shape and dtype; None if this is no alias."""
        return None if self._whole.alias_of == NONE else self._ck._whole_at(self._whole.alias_of).name

    def check(self) -> None:
        """Reads the headers of the stored boxes of the tensor, not only of this index. Raises ckptfs.Error for the first
        fault."""
        self._ck._check(self._whole)

    def __len__(self) -> int:
        if not self._kept:
            raise TypeError("a tensor of 0 dimensions has no len()")
        return self._counts[self._kept[0]]

    def __bool__(self) -> bool:
        raise TypeError("a lazy tensor has no truth value; use .numpy() or .torch()")

    def __repr__(self) -> str:
        return f"<ckptfs.Tensor {self.name!r} {self.dtype} {list(self.shape)}>"

    # --- parts --------------------------------------------------------------------------

    def __getitem__(self, index) -> Tensor:
        offsets, counts, steps = list(self._offsets), list(self._counts), list(self._steps)
        kept = []
        for d, part in zip(self._kept, self._full(index)):
            if isinstance(part, slice):
                start, stop, step = self._slice(part, counts[d])
                kept.append(d)
                count = len(range(start, stop, step))
            else:
                start, step, count = self._position(part, counts[d], d), 1, 1
            # An empty part may begin behind the last element.
            offsets[d] = min(offsets[d] + start * steps[d], self._whole.shape[d])
            steps[d] = steps[d] * step if count > 1 else 1
            counts[d] = count
        return Tensor.__new__(Tensor)._set(self._ck, self._whole, tuple(offsets), tuple(counts), tuple(steps),
                                           tuple(kept))

    def _full(self, index):
        """One int or slice for each dimension."""
        parts = index if isinstance(index, tuple) else (index,)
        dots = [i for i, part in enumerate(parts) if part is Ellipsis]
        if len(dots) > 1:
            raise TypeError("an index may have one Ellipsis")
        rest = self.ndim - (len(parts) - len(dots))
        if rest < 0:
            raise IndexError(f"{self.name}: {len(parts) - len(dots)} indexes for {self.ndim} dimensions")
        at = dots[0] if dots else len(parts)
        return parts[:at] + (slice(None),) * rest + parts[at + len(dots):]

    def _slice(self, part, count):
        if part.step is not None and (isinstance(part.step, bool) or operator.index(part.step) <= 0):
            raise TypeError("steps of slices must be positive")
        if isinstance(part.start, bool) or isinstance(part.stop, bool):
            raise TypeError("an index must be an int, a slice or Ellipsis")
        return part.indices(count)

    def _position(self, part, count, d) -> int:
        if isinstance(part, bool) or not hasattr(part, "__index__") or getattr(part, "shape", ()) != ():
            raise TypeError("an index must be an int, a slice or Ellipsis")
        at = operator.index(part)
        if not -count <= at < count:
            raise IndexError(f"{self.name}: index {at} is out of bounds for dimension {d} with size {count}")
        return at + count if at < 0 else at

    # --- elements -----------------------------------------------------------------------

    def _fill(self, box, address: int) -> None:
        """Sets a box of the library to this part, and its destination."""
        box.tensor, box.path, box.to, box.ndim = self._whole.number, self._whole.path, address, len(self._counts)
        if self._counts:
            box.offsets, box.sizes = array_of(self._offsets), array_of(self._counts)
            box.steps = array_of(self._steps)

    def _bytes(self):
        """The memory of the elements in C order, read by the first call."""
        if self._pid != os.getpid():
            # Another thread may have held the lock at the fork(), and no thread of this process will release it.
            self._lock, self._pid = threading.Lock(), os.getpid()
        with self._lock:
            if self._memory is None:
                room = memory(self.nbytes)
                first = ctypes.c_char.from_buffer(room)
                boxes = (Box * 1)()
                self._fill(boxes[0], ctypes.addressof(first))
                self._ck._handle().read_boxes(boxes, self._ck.threads)
                self._memory = room
            return self._memory

    def numpy(self) -> numpy.ndarray:
        """The elements as a numpy.ndarray that may be written; no file changes.

        Convert bfloat16 and 8-bit floats to float32 before statistics: NumPy sums them in their
        own precision, and does not sort an array that has a NaN.

        Raises TypeError for a dtype without a type in NumPy or ml_dtypes, ImportError if the
        library is missing, ckptfs.Error if some elements cannot be read.
        """
        dtype = _dtypes.numpy_type(self.dtype)
        import numpy
        return numpy.frombuffer(self._bytes(), dtype, self.size).reshape(self.shape)

    def torch(self) -> _torch.Tensor:
        """The elements as a torch.Tensor on the CPU that may be written; no file changes.

        Raises TypeError if this PyTorch lacks the dtype, ImportError without PyTorch, ckptfs.Error
        if some elements cannot be read.
        """
        dtype, torch = _dtypes.torch_type(self.dtype), _dtypes.torch_module()
        data = self._bytes()
        if self.size == 0:
            return torch.empty(self.shape, dtype=dtype, device="cpu")
        return torch.frombuffer(data, dtype=torch.uint8, count=self.nbytes).view(dtype).reshape(self.shape)

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"{self.name}: {dtype} needs a copy of {self.dtype}")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU

    def __dlpack__(self, **options):
        """For torch.from_dlpack(), numpy.from_dlpack() and others; by PyTorch if it is loaded, else by NumPy."""
        array = self.torch() if "torch" in sys.modules else self.numpy()
        try:
            return array.__dlpack__(**{name: value for name, value in options.items() if value is not None})
        except TypeError:
            # An older library without these options; it never copies.
            if options.get("copy") or options.get("stream"):
                raise
            return array.__dlpack__()
