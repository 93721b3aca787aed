# SPDX-License-Identifier: MIT
"""Memory of the caller that receives a tensor."""
from __future__ import annotations

import ctypes
import sys

from . import _dtypes


def _unfit(whole, why: str) -> TypeError:
    return TypeError(f"{whole.name}: the destination {why}; the tensor is {whole.dtype} {list(whole.shape)}, "
                     f"{whole.nbytes} bytes")


def address_of(place, whole):
    """(address, strides in bytes or None for C order, object that owns the memory) of a destination."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(place, torch.Tensor):
        return _of_torch(place, whole, torch)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(place, numpy.ndarray):
        return _of_array(place, whole)
    return _of_buffer(place, whole)


def _of_torch(place, whole, torch):
    if place.device.type != "cpu" or place.layout is not torch.strided or not _is_plain(place, torch):
        raise _unfit(whole, "is not a plain tensor on the CPU")
    if place.dtype is not getattr(torch, whole.dtype, None) or place.is_conj() or place.is_neg():
        raise _unfit(whole, f"is {place.dtype}")
    if tuple(place.shape) != whole.shape:
        raise _unfit(whole, f"has the shape {list(place.shape)}")
    strides = None if place.is_contiguous() else [step * whole.itemsize for step in place.stride()]
    _check_overlap(place.shape, strides, whole)
    end = (place.storage_offset() + 1 + sum((n - 1) * step for n, step in zip(place.shape, place.stride()))) * whole.itemsize
    if place.numel() and place.untyped_storage().nbytes() < end:
        raise _unfit(whole, f"has a storage of {place.untyped_storage().nbytes()} bytes")
    return place.data_ptr(), strides, place


def _is_plain(place, torch) -> bool:
    """Whether PyTorch itself reads the elements from memory: not those of a DTensor, a fake tensor, or inside vmap()."""
    functorch = getattr(torch._C, "_functorch", None)
    return (type(place).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
            and not (functorch and functorch.is_functorch_wrapped_tensor(place)))


def _of_array(place, whole):
    facts = place.__array_interface__
    address, readonly = facts["data"]
    if readonly:
        raise _unfit(whole, "is read-only")
    if place.dtype != _dtypes.numpy_type(whole.dtype):
        raise _unfit(whole, f"is {place.dtype}")
    if tuple(facts["shape"]) != whole.shape:
        raise _unfit(whole, f"has the shape {list(facts['shape'])}")
    strides = facts.get("strides")
    _check_overlap(whole.shape, strides, whole)
    return address, strides, place


def _of_buffer(place, whole):
    try:
        view = memoryview(place).cast("B")
    except TypeError:
        raise _unfit(whole, "is not a contiguous buffer") from None
    if view.readonly or view.nbytes != whole.nbytes:
        raise _unfit(whole, "is read-only" if view.readonly else f"has {view.nbytes} bytes")
    if whole.nbytes == 0:
        return 0, None, view
    first = ctypes.c_char.from_buffer(view)
    return ctypes.addressof(first), None, first


def _check_overlap(shape, strides, whole) -> None:
    """Refuses expanded destinations, in which elements share memory."""
    reach = 0
    for step, n in sorted((abs(step), n) for step, n in zip(strides or (), shape) if n > 1):
        if step <= reach:
            raise _unfit(whole, "has elements that share memory")
        reach += step * (n - 1)
