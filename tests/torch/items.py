#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Items that ckptfs writes, loaded by the PyTorch that is installed.

    items.py WRITER

Every dtype that this release can save, in several shapes, each at one place of a file, in the long run at several: torch.load with
weights_only=True gives the elements, also mapped; zipfile finds every CRC right; data.pkl is byte for byte what
torch.save writes, and the elements lie at a multiple of 64 of the file.
"""
import io
import pathlib
import subprocess
import sys
import tempfile
import warnings
import zipfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from tap import Tap, is_long  # noqa: E402

try:
    import torch
except ImportError:
    print("1..0 # SKIP no torch")
    sys.exit(0)

warnings.simplefilter("ignore")
WRITER = sys.argv[1]
SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 0, 3), (1, 1, 4, 1), (2, 3, 2, 2, 2), (300, 3)] if is_long() else [
    (), (2, 0, 3), (3, 5), (300, 3)]
PLACES = 0, 64, 1, 4097
RELEASE = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
tap = Tap()
ok = tap.result


def dtypes():
    """Those that torch.save takes, by name."""
    for name in sorted({str(d) for d in vars(torch).values() if isinstance(d, torch.dtype)}):
        dtype = getattr(torch, name.split(".")[1])
        try:
            torch.save(tensor_of(dtype, (2,)), io.BytesIO())
        except Exception:
            continue
        yield name.split(".")[1], dtype


def tensor_of(dtype, shape):
    """A contiguous tensor whose bytes count up; of bool, 0 and 1."""
    size = torch.empty((), dtype=dtype).element_size()
    n = size
    for dim in shape:
        n *= dim
    top = 2 if dtype == torch.bool else 251
    flat = (torch.arange(n) % top).to(torch.uint8)
    storage = flat.untyped_storage()
    tensor = torch.empty(0, dtype=dtype)
    return tensor.set_(storage, 0, shape, torch.empty(shape).stride())


def bytes_of(tensor):
    """Bytes of a contiguous tensor."""
    n = tensor.numel() * tensor.element_size()
    return bytes(tensor.untyped_storage())[:n]


def check(name, tensor, fpos):
    what, shape = f"{name} {list(tensor.shape)} at {fpos}", [str(n) for n in tensor.shape]
    out = subprocess.run([WRITER, "item", name, str(fpos), *shape], input=bytes_of(tensor), capture_output=True,
                         check=False)
    if out.returncode:
        return ok(False, f"{what}: {out.stderr.decode().strip()}")
    item, real = out.stdout, io.BytesIO()
    torch.save(tensor, real)
    loaded = torch.load(io.BytesIO(item), weights_only=True)
    ok(loaded.dtype == tensor.dtype and loaded.shape == tensor.shape and loaded.stride() == tensor.stride() and
       bytes_of(loaded) == bytes_of(tensor), f"{what}: loads")
    archive, wanted = zipfile.ZipFile(io.BytesIO(item)), zipfile.ZipFile(real)
    ok(archive.testzip() is None, f"{what}: CRCs")
    ok(archive.read("archive/data.pkl") == wanted.read("archive/data.pkl"), f"{what}: data.pkl")
    info = archive.getinfo("archive/data/0")
    header = item[info.header_offset:info.header_offset + 30]
    data = info.header_offset + 30 + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    ok((fpos + data) % 64 == 0, f"{what}: alignment")
    if (2, 1) <= RELEASE < (2, 7) and fpos == 0:
        theirs = real.getvalue()
        same = sum(a != b for a, b in zip(item, theirs)) <= 48      # the digits of the id, its CRC twice
        ok(len(item) == len(theirs) and same, f"{what}: all bytes but the id")
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        file.write(item)
        file.flush()
        loaded = torch.load(file.name, weights_only=True, mmap=True)
        ok(bytes_of(loaded) == bytes_of(tensor), f"{what}: mapped")
    return None


def main():
    names = 0
    print(f"# torch {torch.__version__}")
    for name, dtype in dtypes():
        names += 1
        for i, shape in enumerate(SHAPES):
            for place in PLACES if is_long() else PLACES[(i + names) % len(PLACES):][:1]:
                check(name, tensor_of(dtype, shape), place)
    ok(names >= 12, "the dtypes of every release are there")
    wrong = subprocess.run([WRITER, "item", "float32", "0", "3"], input=b"12345678", capture_output=True, check=False)
    ok(wrong.returncode != 0, "canary: bytes that are missing")
    return tap.finish()


sys.exit(main())
