#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Live interop: saves checkpoints with the installed PyTorch, mounts them, and compares every
tensor.

    interop.py CKPTFS [--torch RELEASE] [--cases N] [--only NAME]...     CKPTFS: path of the built program
    interop.py --reader=dcp                                              compare dcp.load instead of a mount

It has two parts: the matrix of tests/fixtures, saved again (a part of it outside of the long run), and at least N random
tensors: shape, dtype, mesh and placements (cases.py). CKPTFS_SEED repeats a run. For each tensor the hashes of raw/<stem>
and full/<stem>.npy are compared with those computed by Python. numpy reads and maps the npy file, and tensors with an
expected error must fail. The result is TAP. --torch makes a virtual environment with that release if the running Python has
another one.
"""
import argparse
import errno
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections import namedtuple

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / part) for part in ("fixtures", "lib")]
import make                                                                                 # noqa: E402
import oracle                                                                               # noqa: E402
from tap import cases as number_of, is_long, seed as drawn_seed                             # noqa: E402

# The reduced matrix: FSDP, an optimizer, nested state, compressed items, replicas. The random tensors have chunks.
FEW = "plain", "fsdp2", "optimizer", "nested", "zstd", "hsdp"
Expected = namedtuple("Expected", "dtype shape raw npy error")      # raw and npy: SHA-256 of the two files


# ---- expected tensors -----------------------------------------------------------------------------------------------

def read_sums(path):
    """The lines of a .sha256 file, unescaped: path -> digest."""
    sums = {}
    for line in path.read_bytes().splitlines():
        escaped = line.startswith(b"\\")
        digest, _, name = line.lstrip(b"\\").partition(b"  ")
        if escaped:
            name = re.sub(rb"\\(.)", lambda m: {b"n": b"\n", b"r": b"\r"}.get(m[1], m[1]), name)
        sums[name] = digest.decode()
    return sums


def read_expected(out):
    """Expectations of one checkpoint from the files beside it: stem -> Expected."""
    errors, table = out.with_name(out.name + ".errors.tsv"), {}
    wrong = dict(line.split(b"\t") for line in errors.read_bytes().splitlines()) if errors.exists() else {}
    sums = read_sums(out.with_name(out.name + ".sha256"))
    for line in out.with_name(out.name + ".tensors.tsv").read_bytes().split(b"\n")[:-1]:
        stem, dtype, shape = line.split(b"\t")[:3]
        table[stem] = Expected(dtype.decode(), tuple(json.loads(shape)), sums.get(b"raw/" + stem),
                               sums.get(b"full/" + stem + b".npy"), wrong.get(stem, b"").decode())
    return table


# ---- readers --------------------------------------------------------------------------------------------------------

class Mount:
    """The checkpoint, mounted by the program under test with additional arguments."""

    def __init__(self, program, source, *arguments):
        self.command, self.program = [program, "mount", *arguments, str(source)], program

    def __enter__(self):
        self.point = tempfile.mkdtemp(prefix="mnt-")
        for _ in range(600):                            # the daemon of an earlier mount may still lock the checkpoint
            done = subprocess.run([*self.command, self.point], timeout=60, stderr=subprocess.PIPE, text=True)
            if "already" not in done.stderr:
                break
            time.sleep(0.1)
        sys.stderr.write(done.stderr)
        done.check_returncode()
        return os.fsencode(self.point)

    def __exit__(self, *_):
        """Repeats umount: on a busy machine the daemon may not reply for a few seconds, which
        umount reports."""
        for left in range(12, -1, -1):
            done = subprocess.run([self.program, "umount", self.point], timeout=60)
            if done.returncode == 0:
                break
            if left == 0:
                done.check_returncode()
        os.rmdir(self.point)


class DcpLoad:
    """A plain directory filled by dcp.load, to test this script without a mount. Errors are
    missing files."""

    def __init__(self, source):
        self.source = source

    def __enter__(self):
        import torch
        from torch.distributed.checkpoint import FileSystemReader
        from torch.distributed.checkpoint.api import CheckpointException
        import world
        self.directory = tempfile.TemporaryDirectory(prefix="dcp-")
        top = os.fsencode(self.directory.name)
        for view in (b"raw", b"full"):
            os.mkdir(os.path.join(top, view))
        entries = FileSystemReader(self.source).read_metadata().state_dict_metadata
        stems = oracle.stems([oracle.key_bytes(key) for key in entries])
        tensors = {key: torch.empty(entry.size, dtype=entry.properties.dtype) for key, entry in entries.items()
                   if hasattr(entry, "chunks") and not oracle.dtype_name(entry.properties.dtype).startswith("q")}
        try:
            world.load(self.source, tensors)
            one_by_one = False
        except (Exception, CheckpointException):
            one_by_one = True
        for key, entry in entries.items():
            if not hasattr(entry, "chunks"):
                continue
            stem, content, npy = stems[oracle.key_bytes(key)], None, None
            try:
                if one_by_one:
                    world.load(self.source, {key: tensors[key]})
                content = oracle.raw_bytes(tensors[key])
                npy = oracle.npy_bytes(content, oracle.dtype_name(entry.properties.dtype), entry.size)
            except (Exception, CheckpointException):
                pass
            for path, data in ((b"raw/" + stem, content), (b"full/" + stem + b".npy", npy)):
                if data is None:
                    os.symlink(path.rpartition(b"/")[2], os.path.join(top, path))          # ELOOP when read
                else:
                    pathlib.Path(os.fsdecode(os.path.join(top, path))).write_bytes(data)
        return top

    def __exit__(self, *_):
        self.directory.cleanup()


# ---- the comparison -------------------------------------------------------------------------------------------------

def compare_bytes(path, digest):
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        return [f"{error.strerror}"]
    found = hashlib.sha256(content).hexdigest()
    return [] if found == digest else [f"{len(content)} bytes, expected other content"]


def compare_numpy(path, expected):
    """numpy reads the file and maps it."""
    import numpy
    problems = []
    for mode in (None, "r"):
        try:
            array = numpy.load(path, mmap_mode=mode)
        except (OSError, ValueError) as error:
            problems.append(f"numpy.load(mmap_mode={mode}): {error}")
            continue
        if array.shape != expected.shape or array.dtype != numpy.dtype(oracle.NUMPY_DTYPE[expected.dtype]):
            problems.append(f"numpy.load: {array.dtype} {array.shape}, expected {expected.dtype} {expected.shape}")
        if hashlib.sha256(array.tobytes()).hexdigest() != expected.raw:
            problems.append(f"numpy.load(mmap_mode={mode}): other content")
    return problems


def compare_error(path, name, any_errno):
    try:
        with open(path, "rb") as file:
            length = len(file.read())
    except OSError as error:
        found = errno.errorcode.get(error.errno)
        return [] if found == name or any_errno else [f"{found}, expected {name}"]
    return [f"{length} bytes read, expected {name}"]


def differences(top, table, any_errno=False):
    """Differences between the tree at `top` and the expected one, as a list of lines."""
    problems = []
    for view, suffix in ((b"raw", b""), (b"full", b".npy")):
        listed, wanted = sorted(os.listdir(os.path.join(top, view))), sorted(stem + suffix for stem in table)
        if listed != wanted:
            problems.append(f"{view.decode()}/ lists {len(listed)} names, expected {len(wanted)}; differing: "
                            f"{sorted(set(listed) ^ set(wanted))[:5]}")
    for stem, expected in table.items():
        raw, full = os.path.join(top, b"raw", stem), os.path.join(top, b"full", stem + b".npy")
        if expected.error:
            found = compare_error(raw, expected.error, any_errno) + compare_error(full, expected.error, any_errno)
        else:
            found = compare_bytes(raw, expected.raw) + compare_bytes(full, expected.npy) + compare_numpy(full, expected)
        problems += [f"{stem.decode('utf-8', 'backslashreplace')}: {problem}" for problem in found]
    return problems


def canary(top, table):
    """Wrong expectations that the comparison failed to notice."""
    stem, right = next((s, e) for s, e in table.items() if not e.error and e.raw != hashlib.sha256(b"").hexdigest())
    other = "0" * 64
    wrong = {
        "raw content": right._replace(raw=other), "npy content": right._replace(npy=other),
        "shape": right._replace(shape=right.shape + (1,)), "error": right._replace(error="EIO"),
        "dtype": right._replace(dtype="int64" if right.dtype != "int64" else "int32"),
    }
    missed = [what for what, expected in wrong.items() if not differences(top, {**table, stem: expected})]
    if not differences(top, {**table, b"no such tensor": right}):
        missed.append("missing tensor")
    if not differences(top, {name: e for name, e in table.items() if name != stem}):
        missed.append("additional tensor")
    return missed


# ---- the run --------------------------------------------------------------------------------------------------------

class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def line(self, good, text, notes=()):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {text}")
        for note in list(notes)[:20] if not good else ():
            print(f"# {ascii(note)[1:-1]}")
        sys.stdout.flush()

    def finish(self):
        print(f"1..{self.count}")
        return 1 if self.failed else 0


def check(tap, name, entry, directory, reader, options):
    """Save one checkpoint, read it back, compare. Returns the number of tensors compared."""
    table = {}
    try:
        make.make(name, entry, directory)
        source = directory / name
        table = read_expected(source)
        with reader(source) as top:
            problems = differences(top, table, any_errno=options.reader == "dcp")
            if name == "plain" or options.only:
                missed = canary(top, table) if table else []
                tap.line(not missed, "canary caught", missed)
    except Exception as error:
        problems = [f"{error}"] + traceback.format_exc().splitlines()[-3:]
    tap.line(not problems, f"{name}: {len(table)} tensors, {max(entry.world, 1)} processes", problems)
    return len(table)


def unreadable_by_dcp(name):
    """dcp.load makes no quantized tensors, so the reader of --reader=dcp cannot show them."""
    return name == "dtypes"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ckptfs", nargs="?", help="the built program")
    parser.add_argument("--reader", choices=("mount", "dcp"), default="mount")
    parser.add_argument("--torch", metavar="RELEASE", help="PyTorch release to install if another or none is there")
    parser.add_argument("--cases", type=int, default=number_of("CKPTFS_CASES", 60, 500), help="random tensors at least")
    parser.add_argument("--only", action="append", metavar="NAME")
    options = parser.parse_args()
    if options.reader == "mount" and not options.ckptfs:
        parser.error("the path of ckptfs is missing")
    if options.ckptfs:
        options.ckptfs = str(pathlib.Path(options.ckptfs).resolve())
    return options


def skip(reason):
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)


def main():
    options = arguments()
    release = make.installed()
    if options.torch and release != options.torch:
        make.restart_with(options.torch)
    if not release:
        skip("torch, numpy, xxhash or zstandard is not installed")
    if options.reader == "mount" and not os.path.exists("/dev/fuse"):
        skip("no /dev/fuse")
    make.quiet()
    import torch
    import cases
    import recipes
    import world
    torch.set_num_threads(1)                                            # no pool of threads before the forks
    print(f"# torch {torch.__version__}", flush=True)
    seed = drawn_seed()
    matrix = [(name, entry) for name, entry in recipes.of_release(release if world.RELEASE < (2, 13) else recipes.NEWEST)
              if is_long() or options.only or name in FEW]
    randoms = list(cases.random_checkpoints(seed, options.cases))
    reader = DcpLoad if options.reader == "dcp" else lambda source: Mount(options.ckptfs, source)
    tap, count = Tap(), 0
    with tempfile.TemporaryDirectory(prefix="interop-") as scratch:
        directory = pathlib.Path(scratch, "out")
        directory.mkdir()
        world.CHECKPOINTS = f"{scratch}/ckpt"
        for name, entry in matrix + randoms:
            if options.only and name not in options.only or options.reader == "dcp" and unreadable_by_dcp(name):
                continue
            tensors = check(tap, name, entry, directory, reader, options)
            count += tensors if name.startswith("random-") else 0
    if not options.only:
        tap.line(count >= options.cases, f"{count} random tensors, {options.cases} wanted")
    sys.exit(tap.finish())


if __name__ == "__main__":
    main()
