# SPDX-License-Identifier: MIT
"""Names of torch's dtypes, and the types of other libraries for them."""
from __future__ import annotations

_NUMPY = {
    "float64": "f8", "float32": "f4", "float16": "f2", "int64": "i8", "int32": "i4", "int16": "i2", "int8": "i1",
    "uint64": "u8", "uint32": "u4", "uint16": "u2", "uint8": "u1", "bool": "?", "complex128": "c16", "complex64": "c8",
}
_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")


def itemsize(dtype: str) -> int:
    """Bytes of an element."""
    if dtype in _NUMPY and dtype != "bool":
        return int(_NUMPY[dtype][1:])
    return {"bfloat16": 2, "bits16": 2, "complex32": 4, "bcomplex32": 4, "qint32": 4}.get(dtype, 1)


def numpy_type(dtype: str):
    """The numpy.dtype of a dtype. Raises TypeError if there is none, and ImportError if a library is missing."""
    if dtype not in _NUMPY and dtype not in _ML_DTYPES:
        raise TypeError(f"NumPy has no type for {dtype}; use .torch()")
    try:
        import numpy
    except ImportError:
        raise ImportError("numpy is not installed; .numpy() needs it", name="numpy") from None
    if dtype in _NUMPY:
        return numpy.dtype(_NUMPY[dtype])
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError(f"ml_dtypes is not installed; .numpy() needs it for {dtype}; .torch() does not",
                          name="ml_dtypes") from None
    if not hasattr(ml_dtypes, dtype):
        raise TypeError(f"this version of ml_dtypes has no {dtype}; use .torch()")
    return numpy.dtype(getattr(ml_dtypes, dtype))


def torch_module():
    try:
        import torch
    except ImportError:
        raise ImportError("torch is not installed; .torch() and state_dict() need it", name="torch") from None
    return torch


def torch_type(dtype: str):
    """The torch.dtype of a dtype. Raises TypeError if this PyTorch cannot hold its bytes, and ImportError."""
    found = getattr(torch_module(), dtype, None)
    if found is None or dtype.startswith(("qint", "quint")):
        raise TypeError(f"this PyTorch cannot make a tensor of {dtype} from its bytes; read raw/ by Checkpoint.read()")
    return found
