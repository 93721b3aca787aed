#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares f32/ of a mount with the float32 that PyTorch makes of each value.

    f32.py CKPTFS [--ranges N]

A file of torch.save has all bit patterns of each dtype whose values float32 has, and tensors that are empty, without
dimensions, strided and of other dtypes. Fixtures have sharded tensors, and values that are stored swapped or negated. Each
file must have the size of the first stat, the npy header of numpy.save, and PyTorch's values; every NaN is some NaN. Byte
ranges at random offsets, reads with O_DIRECT and by mmap, and `ckptfs cat` have the same bytes. Damage loses the converted
bytes of the lost ones alone. CKPTFS_SEED repeats a run. The result is TAP.
"""
import errno
import io
import mmap
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import live                                                             # also finds the modules of tests/fixtures
import interop
from tap import Tap

BYTES = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
WORDS = ("float16", "bfloat16")
SHOWN = (*BYTES, *WORDS, "float32")
FIXTURES = ("dtypes", "dtypes_sharded", "strides", "files_zip", "hub_shards", "ranks_fsdp2_4", "alone_1", "blobs_3", "items_4")


def sources(torch):
    patterns = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.uint8)
    made = {name: patterns.clone().view(getattr(torch, name)).reshape(256, 256) for name in WORDS}
    made.update({name: torch.arange(256, dtype=torch.uint8).view(getattr(torch, name)).repeat(300).reshape(3, 256, 100)
                 for name in BYTES})
    made["float32"] = torch.tensor([0.0, -0.0, 1e-45, 3.4e38, float("inf"), float("nan")])
    made["empty"] = torch.zeros(0, 7, dtype=torch.bfloat16)
    made["scalar"] = torch.tensor(1.5, dtype=torch.float16)
    made["odd"] = torch.arange(5, dtype=torch.int16).view(torch.bfloat16)
    made["transposed"] = made["bfloat16"].t()
    made["a/b%c"] = made["float16"][3:9, ::7]
    for other in ("float64", "int32", "bool", "complex64", "uint8"):
        made["other." + other] = torch.ones(3, dtype=getattr(torch, other))
    return made


def attribute(path, name):
    try:
        return os.getxattr(path, f"user.ckptfs.{name}").decode()
    except OSError:
        return None


def header(text, values):
    """The npy file of numpy.save up to the data."""
    import numpy as np
    whole = io.BytesIO()
    np.save(whole, values)
    return whole.getvalue()[:len(whole.getvalue()) - values.nbytes] == text[:len(text) - values.nbytes]


def differs(torch, mnt, stem):
    """None, or the fault of a file: its values are those of PyTorch for the bytes of raw/."""
    import json
    import numpy as np
    path = mnt / "f32" / f"{stem}.npy"
    size, text = path.stat().st_size, path.read_bytes()
    raw, dtype = (mnt / "raw" / stem).read_bytes(), attribute(mnt / "raw" / stem, "dtype")
    shape = json.loads(attribute(path, "shape"))
    if (attribute(path, "dtype"), attribute(path, "source_dtype")) != ("float32", dtype):
        return f"{path}: dtypes {attribute(path, 'dtype')}, {attribute(path, 'source_dtype')}"
    source = torch.frombuffer(bytearray(raw or b"\0\0\0\0"), dtype=torch.uint8)[:len(raw)].view(getattr(torch, dtype))
    want = source.to(torch.float32).numpy()
    got = np.frombuffer(text, dtype="<f4", offset=len(text) - want.nbytes)
    if size != len(text) or not header(text, want.reshape(shape)):
        return f"{path}: size {size}, {len(text)} bytes, or another header"
    same = (got.view("<u4") == want.view("<u4")) | (np.isnan(got) & np.isnan(want))
    return None if same.all() else f"{path}: {int((~same).sum())} values, the first is number {int(same.argmin())}"


def mounted(options, source, *more):
    return interop.Mount(options.ckptfs, str(source), *more)


def ranges(path, lot, count):
    """The number of reads at random offsets that differ from the whole file."""
    text, wrong = path.read_bytes(), 0
    with open(path, "rb", buffering=0) as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
        block = mmap.mmap(-1, 1 << 18)
        for _ in range(count):
            at = lot.randrange(len(text))
            n = min(lot.choice((1, 2, 3, 4, 5, 7, 4096, 70000, 200001)), len(text) - at)
            wrong += mapped[at:at + n] != text[at:at + n]
            got = os.preadv(direct, [memoryview(block)[:n]], at)
            wrong += bytes(block[:got]) != text[at:at + got] or got == 0
        os.close(direct)
    return wrong


def check_file(tap, torch, options, home, lot):
    made = sources(torch)
    torch.save(made, f"{home}/all.pt")
    with mounted(options, f"{home}/all.pt") as mnt:
        mnt = pathlib.Path(os.fsdecode(mnt))
        names = sorted(path.name for path in (mnt / "f32").iterdir())
        tap.check(names == sorted(n.replace("%", "%25").replace("/", "%2F") + ".npy" for n in made if not n.startswith("other.")),
                  "the dtypes whose values float32 has", *names)
        for name in (*SHOWN, "empty", "scalar", "odd", "transposed", "a%2Fb%25c"):
            why = differs(torch, mnt, name)
            tap.check(why is None, f"{name}: PyTorch's values", why)
        for name in ("bfloat16", "float16", "float8_e5m2", "transposed", "odd"):
            tap.check(ranges(mnt / "f32" / f"{name}.npy", lot, options.ranges) == 0, f"{name}: ranges, O_DIRECT, mmap")
        text = (mnt / "f32" / "transposed.npy").read_bytes()
        done = subprocess.run([options.ckptfs, "cat", f"{home}/all.pt", "f32/transposed.npy"], capture_output=True, check=False)
        tap.check(done.stdout == text and text != (mnt / "f32" / "bfloat16.npy").read_bytes(), "cat without a mount")
        listed = subprocess.run([options.ckptfs, "ls", f"{home}/all.pt", "f32"], capture_output=True, check=False, text=True)
        tap.check(sorted(listed.stdout.split()) == names, "ls without a mount")


def check_fixtures(tap, torch, options):
    home, looked = pathlib.Path(__file__).resolve().parent.parent / "fixtures", 0
    for name in FIXTURES:
        with mounted(options, home / name) as mnt:
            mnt = pathlib.Path(os.fsdecode(mnt))
            want = {path.name for path in (mnt / "raw").iterdir() if attribute(path, "dtype") in SHOWN}
            found = {path.stem for path in (mnt / "f32").iterdir()} if (mnt / "f32").exists() else set()
            wrong = [why for stem in sorted(found) if (why := differs(torch, mnt, stem))]
            looked += len(found)
            tap.check(want == found and not wrong, f"{name}: {len(found)} files", *wrong[:4], *sorted(want ^ found)[:4])
    tap.check(looked > 100, "canary: many files")


def read_at(path, at, n):
    """The bytes, or an errno."""
    with open(path, "rb", buffering=0) as file:
        try:
            return os.pread(file.fileno(), n, at)
        except OSError as error:
            return error.errno


def check_damage(tap, torch, options, home, lot):
    """One of two data files is cut: the same elements are lost as in raw/, with the same errno."""
    shutil.copytree(pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "dtypes_sharded", f"{home}/cut")
    os.truncate(f"{home}/cut/__1_0.distcp", os.stat(f"{home}/cut/__1_0.distcp").st_size // 2)
    lost, good, wrong = 0, 0, []
    with mounted(options, f"{home}/cut") as mnt:
        mnt = pathlib.Path(os.fsdecode(mnt))
        for raw in sorted((mnt / "raw").iterdir()):
            dtype, path = attribute(raw, "dtype"), mnt / "f32" / f"{raw.name}.npy"
            if dtype not in SHOWN:
                continue
            item = getattr(torch, dtype).itemsize
            n, begin = raw.stat().st_size // item, path.stat().st_size - raw.stat().st_size // item * 4
            for _ in range(20):
                first = lot.randrange(n)
                last = lot.randrange(first, n) + 1
                want, got = read_at(raw, first * item, (last - first) * item), read_at(path, begin + 4 * first, 4 * (last - first))
                if isinstance(want, bytes) and isinstance(got, bytes):
                    value = torch.frombuffer(bytearray(want), dtype=torch.uint8).view(getattr(torch, dtype)).float().numpy()
                    good, want, got = good + 1, value.astype("<f4").tobytes(), got
                lost += not isinstance(want, bytes)
                wrong += [] if want == got or (isinstance(want, bytes) and isinstance(got, bytes)) and b"\xff" in got else \
                    [f"{path.name} [{first}, {last})"]
            if attribute(path, "error") != attribute(raw, "error"):
                wrong.append(f"{path.name}: error")
    tap.check(not wrong, "damage: the elements of raw/ are lost, no others", *wrong[:8])
    tap.check(lost > 20 and good > 20, "canary: damage", lost, good)


def check_write(tap, torch, options, home):
    fixture = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "dtypes_sharded"
    shutil.copytree(fixture, f"{home}/dcp")
    with live.Daemon(options.ckptfs, f"{home}/dcp") as daemon:
        mnt = pathlib.Path(daemon.point)
        name = next(p.name for p in sorted((mnt / "raw").iterdir()) if attribute(p, "dtype") == "bfloat16")
        path = mnt / "f32" / f"{name}.npy"
        try:
            path.write_bytes(b"")
            refused = None
        except OSError as error:
            refused = error.errno
        tap.check(refused == errno.EROFS, "write: a file cannot be written", refused)
        before, inode = path.read_bytes(), path.stat().st_ino
        with open(path, "rb", buffering=0) as file:
            raw = (mnt / "raw" / name).read_bytes()
            (mnt / "raw" / name).write_bytes(bytes(len(raw)))
            tap.check(os.pread(file.fileno(), len(before), 0) == before, "write: an open file keeps its generation")
        after = path.read_bytes()
        tap.check(after[len(after) - 2 * len(raw):] == bytes(2 * len(raw)) and path.stat().st_ino != inode,
                  "write: after a commit it is another file")


def main():
    options = live.arguments(__doc__, ranges=(60, 2000))
    import torch
    lot, tap = random.Random(live.seed(50)), Tap()
    with tempfile.TemporaryDirectory() as home:
        check_file(tap, torch, options, home, lot)
        check_fixtures(tap, torch, options)
        check_damage(tap, torch, options, home, lot)
        check_write(tap, torch, options, home)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
