#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Python package with PyTorch and NumPy, by every accessor.

    client.py PACKAGE LIBRARY

PACKAGE is the directory that has `ckptfs`. The bytes of every tensor of every fixture have the digests that PyTorch made;
DCP fixtures are compared with dcp.load, files of torch.save with torch.load; random slices with steps with the same slices
of the whole tensor. CKPTFS_CASES is the number of slices, CKPTFS_SEED repeats a run. The result is TAP.
"""
import gc
import hashlib
import os
import pathlib
import random
import shutil
import sys
import tempfile
import warnings

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
FIXTURES = HERE.parent / "fixtures"
from tap import Tap, cases, raises, seed                                # noqa: E402

os.environ["CKPTFS_LIBRARY"] = sys.argv[2]
sys.path.insert(0, sys.argv[1])
import numpy                                                            # noqa: E402
import torch                                                            # noqa: E402
import torch.distributed.checkpoint as dcp                              # noqa: E402
import ckptfs                                                           # noqa: E402

NO_TORCH = ("qint8", "quint8", "qint32", "quint4x2", "quint2x4", "bcomplex32", "unknown")
WQ = "model.layers.0.attention.wq.weight"
NORM = "norm.weight"


def raw_of(tensor):
    """The bytes of a contiguous torch.Tensor."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def digests_of(path):
    lines = (line.split("  ", 1) for line in path.read_text(errors="surrogateescape").split("\n") if line)
    return {name.replace("\\\\", "\\") if digest[0] == "\\" else name: digest.lstrip("\\") for digest, name in lines}


def by_torch(tensor, digest):
    if tensor.dtype in NO_TORCH or not hasattr(torch, tensor.dtype):
        return raises(TypeError, tensor.torch) is not None
    got = tensor.torch()
    same = (str(got.dtype), tuple(got.shape)) == ("torch." + tensor.dtype, tensor.shape)
    return same and hashlib.sha256(raw_of(got)).hexdigest() == digest and tensor.torch().data_ptr() == got.data_ptr()


def by_numpy(tensor, digest):
    try:
        got = tensor.numpy()
    except (TypeError, ImportError) as e:
        return ".torch()" in str(e)
    return (got.shape == tensor.shape and got.flags.writeable and str(got.dtype) == tensor.dtype
            and hashlib.sha256(got.tobytes()).hexdigest() == digest)


def by_dlpack(tensor):
    if tensor.dtype in NO_TORCH or tensor.dtype.startswith(("bits", "complex32", "float8", "float4")) or not tensor.size:
        return True
    got = torch.from_dlpack(tensor)
    return raw_of(got) == raw_of(tensor.torch()) and got.data_ptr() == tensor.torch().data_ptr()


def all_fixtures(t):
    wrong, n = [], 0
    for path in sorted(FIXTURES.glob("*.sha256")):
        try:
            ck = ckptfs.open(path.with_suffix(""))
        except ckptfs.Error:
            continue
        digests = digests_of(path)
        for name, tensor in ck.items():
            digest = digests.get(f"raw/{tensor.stem}")
            if digest is None:
                continue
            n += 1
            for good, how in ((by_torch(tensor, digest), "torch"), (by_numpy(tensor, digest), "numpy"),
                              (by_dlpack(tensor), "DLPack")):
                if not good:
                    wrong.append(f"{path.stem}: {name}: {how}")
    t.check(not wrong and n > 2000, f"{n} tensors by torch(), numpy() and DLPack", wrong[:9])


def slices(t):
    """Random slices of random tensors, also of slices."""
    lot, wrong, tensors = random.Random(seed(40)), [], []
    for name in ("sample", "dtypes", "shapes", "strides", "mesh3d", "hub_tied", "ranks_fsdp2_3", "items_4"):
        ck = ckptfs.open(FIXTURES / name)
        tensors += [tensor for tensor in ck.values() if tensor.dtype not in NO_TORCH and hasattr(torch, tensor.dtype)]
    # Bytes, since PyTorch indexes not all dtypes.
    wholes = {}
    for _ in range(cases("CKPTFS_CASES", 300, 20000)):
        tensor = lot.choice(tensors)
        if id(tensor) not in wholes:
            wholes[id(tensor)] = torch.frombuffer(bytearray(tensor._bytes()) or bytearray(1), dtype=torch.uint8)[
                :tensor.nbytes].reshape(*tensor.shape, tensor.itemsize)
        whole, part = wholes[id(tensor)], tensor
        for _ in range(lot.choice((1, 1, 2))):
            index = []
            for n in part.shape[:lot.randrange(part.ndim + 1)]:
                if n and lot.random() < 0.3:
                    index.append(lot.randrange(-n, n))
                else:
                    index.append(slice(*(lot.choice((None, lot.randrange(-n - 2, n + 3))) for _ in range(2)),
                                       lot.choice((None, 1, 2, 3, 7))))
            whole, part = whole[tuple(index)], part[tuple(index)]
        if tuple(whole.shape[:-1]) != part.shape or raw_of(whole) != raw_of(part.torch()):
            wrong.append(f"{part!r} {index}")
    t.check(not wrong, "random slices with steps", wrong[:9])


def against_torch(t):
    """DCP by dcp.load of the sample, and a file of torch.save."""
    ck = ckptfs.open(FIXTURES / "sample")
    want = {name: torch.zeros(tensor.shape, dtype=getattr(torch, tensor.dtype)) for name, tensor in ck.items()}
    keys = {name: ck.getxattr(f"raw/{ck[name].stem}", "user.ckptfs.fqn").decode() for name in ck}
    loaded = {keys[name]: value for name, value in want.items()}
    dcp.load(loaded, checkpoint_id=str(FIXTURES / "sample"))
    got = ck.state_dict()
    t.check(list(got) == list(want) and all(torch.equal(got[name], want[name]) for name in want), "dcp.load")
    with tempfile.TemporaryDirectory(prefix="ckptfs-client.") as work:
        model = torch.nn.Linear(3, 5)
        tied = {"a": model.weight, "b": model.weight, "c": model.bias[1:4]}
        torch.save(tied, f"{work}/model.pt")
        got = ckptfs.open(f"{work}/model.pt").state_dict()
        t.check(all(torch.equal(got[name], tied[name]) for name in tied) and got["a"] is got["b"], "torch.save, tied")


def destinations(t):
    ck = ckptfs.open(FIXTURES / "sample")
    want = ck.state_dict()
    places = {name: torch.zeros(*value.shape[:-1], value.shape[-1] + 3)[..., 1:-2].detach() if value.ndim else
              torch.zeros((), dtype=value.dtype) for name, value in want.items()}
    got = ck.state_dict(out=places)
    t.check(all(got[name] is places[name] and torch.equal(got[name], want[name]) for name in want), "strided tensors")
    turned = {WQ: torch.zeros(16, 16).t()}
    ck.state_dict(out=turned)
    arrays = {WQ: numpy.zeros((32, 16), numpy.float32)[::-2]}
    ck.state_dict(out=arrays)
    t.check(torch.equal(turned[WQ], want[WQ]) and numpy.array_equal(arrays[WQ], want[WQ].numpy()),
            "transposed, and with negative strides")
    model = torch.nn.Linear(16, 16, bias=False)
    part = {"weight": model.weight}
    ck.state_dict("model.layers.0.attention.wq", out=part)
    t.check(torch.equal(model.weight, want[WQ]), "parameters of a model")
    wrong = (torch.zeros(16, 17), torch.zeros(16, 16, dtype=torch.float64), torch.zeros(16, 16, device="meta"),
             torch.zeros(1, 16).expand(16, 16), torch.zeros(16, 16).to_sparse(), numpy.zeros((16, 16)),
             numpy.broadcast_to(numpy.zeros((1, 16), numpy.float32), (16, 16)), numpy.zeros((8, 32), numpy.float32))
    t.check([raises(TypeError, lambda place=place: ck.state_dict(out={WQ: place})) is not None for place in wrong]
            == [True] * len(wrong), "destinations that do not fit: TypeError")
    without_memory(t, ck)


class Wrapped(torch.Tensor):
    """A tensor of another one, as those of quantized models."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        got = function(*(arg.inner if isinstance(arg, cls) else arg for arg in args), **(kwargs or {}))
        return cls(got) if isinstance(got, torch.Tensor) else got


def without_memory(t, ck):
    """Destinations whose address is not that of their elements: writing to it would end the process."""
    cut = torch.zeros(16, 16)
    cut.untyped_storage().resize_(512)
    fake = torch._subclasses.fake_tensor.FakeTensorMode().from_tensor(torch.zeros(16, 16))
    inner = torch.zeros(16, 16)
    wrong = cut, fake, Wrapped(inner)
    t.check([raises(TypeError, lambda place=place: ck.state_dict(out={WQ: place})) is not None for place in wrong]
            == [True] * len(wrong), "destinations without memory: TypeError")
    scalar = numpy.float32(1)
    step = next(name for name in ck if ck[name].shape == ())
    t.check(raises(TypeError, lambda: ck.state_dict(out={step: scalar})), "a NumPy scalar is read-only")
    by_reader = {WQ: Wrapped(inner)}
    doubled = {WQ: torch.zeros(16, 16, dtype=torch.float64)}
    reader = ckptfs.torch.StorageReader(ck)
    dcp.load(by_reader, storage_reader=reader, no_dist=True)
    torch.set_default_device("meta")
    try:
        dcp.load(doubled, storage_reader=reader, no_dist=True)
    finally:
        torch.set_default_device(None)
    want = ck[WQ].torch()
    t.check(torch.equal(inner, want) and torch.equal(doubled[WQ], want.double()),
            "the reader copies to wrappers, and needs memory of the CPU also if that is not the default device")
    with torch._subclasses.fake_tensor.FakeTensorMode():
        got = ckptfs.torch.load(FIXTURES / "sample")
    t.check(type(got["model"][NORM]).__name__ == "FakeTensor", "load() of fake tensors")


def memory(t):
    ck = ckptfs.open(FIXTURES / "sample")
    a, b = ck[WQ], ck[WQ]
    a.torch()[0, 0] = 9
    t.check(a.numpy()[0, 0] == 9 and b.numpy()[0, 0] != 9 and a[0].numpy()[0] != 9, "one object, one memory")
    array = ck[WQ].numpy()
    tensor = torch.from_dlpack(ck[WQ])
    ck.close()
    del ck, a, b
    gc.collect()
    junk = [bytearray(1024) for _ in range(1000)]
    t.check(numpy.array_equal(array, tensor.numpy()) and len(junk) == 1000, "arrays outlive the checkpoint")
    ck = ckptfs.open(FIXTURES / "sample")
    t.check(numpy.array_equal(numpy.from_dlpack(ck[WQ]), array) and numpy.array_equal(numpy.asarray(ck[WQ]), array)
            and numpy.asarray(ck[WQ], numpy.float64).dtype == numpy.float64
            and raises(ValueError, ck[WQ].__array__, numpy.float64, False), "numpy.from_dlpack, numpy.asarray")


def against_mount(t, path):
    """Random slices with steps, and the same of numpy.load of full/."""
    lot, ck, wrong = random.Random(seed(41)), ckptfs.open(FIXTURES / "sample"), []
    names = [name for name in ck if ck[name].ndim]
    files = {name: numpy.load(f"{path}/full/{ck[name].stem}.npy", mmap_mode="r") for name in names}
    for _ in range(cases("CKPTFS_CASES", 300, 20000)):
        name = lot.choice(names)
        index = tuple(slice(lot.randrange(n + 1), lot.randrange(n + 1), lot.choice((1, 2, 5))) for n in ck[name].shape)
        if not numpy.array_equal(ck[name][index].numpy(), files[name][index]):
            wrong.append(f"{name} {index}")
    t.check(not wrong, "random slices with steps, as of the mount", wrong[:9])


def missing_file(t):
    """A file that an index names is missing: its tensors have no shape, so they are in no mapping."""
    with tempfile.TemporaryDirectory(prefix="ckptfs-client.") as work:
        path = shutil.copytree(FIXTURES / "hub_index", pathlib.Path(work) / "part")
        (path / "model-00003-of-00003.safetensors").unlink()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            got = ckptfs.open(path).state_dict(), ckptfs.torch.load(path)
        t.check([len(part) for part in got] == [6, 6] and ["is missing; model-00003" in str(w.message) for w in seen]
                == [True] * 2 and all(w.filename == __file__ for w in seen), "a missing file: a warning", seen)


def mounted(t):
    """ckptfs.mount() with the program of the build."""
    os.environ["PATH"] = f"{pathlib.Path(sys.argv[2]).parent.parent}/mount-helpers:{os.environ['PATH']}"
    with ckptfs.mount(FIXTURES / "sample", "views=raw") as path:
        got = pathlib.Path(path, "raw", WQ).read_bytes()
        t.check(sorted(os.listdir(path)) == [".ckptfs", "raw"] and got == raw_of(ckptfs.open(FIXTURES / "sample")[WQ].torch()),
                "mount()")
    t.check(not os.path.exists(path), "it is unmounted and removed")
    with ckptfs.mount(FIXTURES / "sample") as path:
        against_mount(t, path)
    e = raises(ckptfs.Error, ckptfs.mount(FIXTURES / "none").__enter__)
    t.check("none" in str(e), "mount() of no checkpoint", e)


def large(t):
    """Above the size from which memory is mapped, and read by several threads."""
    with tempfile.TemporaryDirectory(prefix="ckptfs-client.") as work:
        want = {"w": torch.arange(3 << 20, dtype=torch.int32).reshape(3, 1024, 1024), "h": torch.ones(5, 7).bfloat16()}
        torch.save(want, f"{work}/large.pt")
        ck = ckptfs.open(f"{work}/large.pt")
        got = ck.state_dict()
        t.check(all(torch.equal(got[name], want[name]) for name in want), "12 MiB")
        w = ck["w"]
        t.check(torch.equal(w[1:, ::3, 5:900:2].torch(), want["w"][1:, ::3, 5:900:2])
                and torch.equal(w[..., 7].torch(), want["w"][..., 7]) and torch.equal(w[2, 1:1000].torch(), want["w"][2, 1:1000]),
                "slices of 12 MiB")


def main():
    t = Tap()
    for test in (all_fixtures, slices, against_torch, destinations, memory, large, missing_file, mounted):
        test(t)
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
