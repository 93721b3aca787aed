#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""dcp.load must load the bytes that were copied into a mount. Random checkpoints are saved by PyTorch and mounted for
writing, and most of their tensors are replaced, one file each, in separate commits or in a single one.

    write.py CKPTFS [--cases N] [--only NAME]...

At least N tensors are replaced, of random shape, dtype, mesh and placements (cases.py); CKPTFS_SEED repeats a run. Then
dcp.load of the whole directory, while it is mounted and after it was unmounted, must return the new bytes of these and the
old bytes of all other tensors; so must a fresh mount. A tensor whose item differs from its box cannot be read before, and
can be read afterwards. The result is TAP.
"""
import errno
import hashlib
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fixtures"))
import interop                                                                              # noqa: E402
import live                                                                                 # noqa: E402
import make                                                                                 # noqa: E402
import oracle                                                                               # noqa: E402

REFUSED = (errno.EIO, errno.EBADMSG, errno.EOPNOTSUPP)


class Mount(interop.Mount):
    """A mount for writing. together: one commit has all tensors."""

    def __init__(self, program, source, together):
        super().__init__(program, source, "-o", "write,commit=manual" if together else "write")
        self.together = together

    def commit(self):
        if self.together:
            subprocess.run([self.program, "commit", self.point], check=True, timeout=60, stdout=subprocess.DEVNULL)


def other_bytes(rng, expected, length):
    return bytes(rng.choices((0, 1), k=length)) if expected.dtype == "bool" else rng.randbytes(length)


def put(path, content, block):
    """Writes like cp: truncates, then writes from front to back."""
    with open(path, "wb", buffering=0) as file:
        for begin in range(0, len(content), block):
            file.write(content[begin:begin + block])


def replace(top, stem, expected, rng):
    """Replaces a tensor. Returns the new Expected, and whether it was written."""
    raw = os.path.join(top, b"raw", stem)
    content = other_bytes(rng, expected, os.stat(raw).st_size)
    npy = oracle.npy_bytes(content, expected.dtype, expected.shape)
    by_raw = rng.random() < 0.3 and content
    try:
        put(raw if by_raw else os.path.join(top, b"full", stem + b".npy"), content if by_raw else npy,
            rng.choice((1 << 20, 1000, 4096)))
    except OSError as error:
        if error.errno in REFUSED and expected.dtype.startswith("q"):
            return expected, False
        raise
    return expected._replace(error="", raw=hashlib.sha256(content).hexdigest(), npy=hashlib.sha256(npy).hexdigest()), True


def check(tap, name, entry, directory, options, seed):
    """Save, replace, compare. Returns the number of tensors replaced."""
    count, problems, mount = 0, [], None
    rng = random.Random(f"{seed} {name}")
    try:
        make.make(name, entry, directory)
        source = directory / name
        table = interop.read_expected(source)
        before = {path: path.read_bytes() for path in source.iterdir() if path.suffix == ".distcp"}
        mount = Mount(options.ckptfs, source, together=rng.random() < 0.5)
        with mount as top:
            for stem, expected in list(table.items()):
                if rng.random() < 0.8:
                    table[stem], written = replace(top, stem, expected, rng)
                    count += written
            mount.commit()
            problems += interop.differences(top, table)
            with interop.DcpLoad(source) as loaded:
                problems += interop.differences(loaded, table, any_errno=True)
                if name == "random-2":
                    missed = interop.canary(loaded, table)
                    tap.line(not missed, "canary caught", missed)
        with interop.Mount(options.ckptfs, source) as top:
            problems += interop.differences(top, table)
        with interop.DcpLoad(source) as loaded:
            problems += interop.differences(loaded, table, any_errno=True)
        problems += [f"{path.name}: changed" for path, content in before.items() if path.read_bytes() != content]
    except Exception as error:
        problems = [f"{error}"] + traceback.format_exc().splitlines()[-3:]
    how = "at once" if mount and mount.together else "one by one"
    tap.line(not problems, f"{name}: {count} tensors replaced {how}, {max(entry.world, 1)} processes", problems)
    return count


def main():
    options = live.arguments(__doc__, cases=(60, 700), only=[])
    import cases
    import world
    seed = live.seed()
    tap, count = interop.Tap(), 0
    with tempfile.TemporaryDirectory(prefix="write-") as scratch:
        directory = pathlib.Path(scratch, "out")
        directory.mkdir()
        world.CHECKPOINTS = f"{scratch}/ckpt"
        for name, entry in cases.random_checkpoints(seed, options.cases * 3 // 2):
            if not options.only or name in options.only:
                count += check(tap, name, entry, directory, options, seed)
    if not options.only:
        tap.line(count >= options.cases, f"{count} tensors replaced, {options.cases} wanted")
    sys.exit(tap.finish())


if __name__ == "__main__":
    main()
