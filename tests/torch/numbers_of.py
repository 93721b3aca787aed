# SPDX-License-Identifier: MIT
"""The values of tensors of any dtype as NumPy's float64 and complex128, made by PyTorch from their bytes."""

INTS = ("int64", "int32", "int16", "int8", "uint8", "bool", "uint64", "uint32", "uint16")
SMALL = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2")
FLOATS = ("float64", "float32", "float16", "bfloat16")
COMPLEX = ("complex128", "complex64", "complex32")
ALL = (*FLOATS, *SMALL, *INTS, *COMPLEX)
FLOAT4 = (0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6)


def random_bytes(torch, generator, dtype, elements):
    """Bytes of a 1-d tensor: any bits for small types, numbers of many sizes for others, some of them special."""
    import numpy as np
    size = 1 if dtype == "float4_e2m1fn_x2" else getattr(torch, dtype).itemsize
    if not elements:
        return b""
    if dtype == "bool":
        return generator.integers(0, 2, elements, dtype=np.uint8).tobytes()
    if dtype in INTS or dtype in SMALL or generator.random() < 0.2 and dtype in ("float16", "bfloat16", "complex32"):
        return generator.integers(0, 256, elements * size, dtype=np.uint8).tobytes()
    parts = elements * (2 if dtype in COMPLEX else 1)
    values = generator.standard_normal(parts) * 10.0 ** generator.integers(-4, 4) + generator.integers(-3, 3)
    for special in (0.0, -0.0, np.nan, np.inf, -np.inf):
        if parts and generator.random() < 0.4:
            values[generator.integers(0, parts, generator.integers(0, 1 + parts // 4))] = special
    part = {"complex128": "float64", "complex64": "float32", "complex32": "float16"}.get(dtype, dtype)
    return torch.from_numpy(values).to(getattr(torch, part)).view(torch.uint8).numpy().tobytes()


def values(torch, dtype, data):
    """Values of the bytes of a tensor: float64, or complex128."""
    import numpy as np
    if dtype == "float4_e2m1fn_x2":
        raw = np.frombuffer(data, dtype=np.uint8)
        return np.array(FLOAT4)[np.stack([raw & 15, raw >> 4], axis=1)].reshape(-1)
    if dtype in INTS:
        return np.frombuffer(data, dtype="u1" if dtype == "bool" else dtype).astype(np.float64)
    tensor = torch.frombuffer(bytearray(data), dtype=getattr(torch, dtype)) if data else torch.zeros(0, dtype=torch.float64)
    if dtype == "complex32":
        tensor = tensor.view(torch.float16).to(torch.float64).view(torch.complex128)
    if dtype in SMALL:
        tensor = tensor.to(torch.float32)
    with np.errstate(all="ignore"):
        return tensor.to(torch.complex128 if dtype in COMPLEX else torch.float64).numpy()
