# SPDX-License-Identifier: MIT
"""Runs fio and fsx on tensors of mounts with -o patch, without files/: one checkpoint is sharded by rows, one by
columns. With --control the file is one of ext4, of the same size.
"""
import os
import pathlib
import sys

from image import Trouble, output
from programs import FIO, FIO_BLOCKS, FSX, chosen, first, spoil, tried

BIG = pathlib.Path(__file__).resolve().parent.parent / "mount/big.py"
SIZE = 4 << 20
FORMS = {"rows": [1, 4, SIZE // 4], "columns": ["--columns", 1, 4, SIZE // 4, 2048]}
FILES = ["--allow_file_create=0", "--overwrite=1", "--fallocate=none", "--verify_state_save=0", f"--size={SIZE}"]
FSX_TENSORS = {f"{form}-{way}": (form, way) for form in FORMS for way in FSX if way != "mapped"}


class Wrong(Exception):
    """A failure of a way; the text is for people."""


class Tensor:
    """A tensor of SIZE bytes in a checkpoint of its own."""

    def __init__(self, place, form):
        self.place = place
        self.source = place.bases[0] / form
        self.path = self.source / "file" if place.control else place.mnt / "raw/t0"
        if place.control:
            self.source.mkdir()
            self.path.write_bytes(os.urandom(SIZE))
        else:
            options, numbers = (FORMS[form][:1], FORMS[form][1:]) if form == "columns" else ([], FORMS[form])
            output(sys.executable, BIG, *options, self.source, *numbers)

    def mount(self):
        self.place.area = self.source
        if not self.place.control:
            output(self.place.program, "mount", self.source, self.place.mnt, "-o", f"{self.place.options},patch")

    def unmount(self):
        if os.path.ismount(self.place.mnt):
            output(self.place.program, "umount", self.place.mnt)

    def again(self):
        """The same checkpoint in a new mount must have the same bytes."""
        expected = self.path.read_bytes()
        self.unmount()
        self.mount()
        if self.path.read_bytes() != expected:
            raise Wrong("other bytes after a new mount")

    def check(self):
        if not self.place.control:
            output(self.place.program, "check", "--full", self.source)


def fio_command(place, tensor, way):
    engine, direct, kind = FIO[way]
    return ["fio", f"--name={way}", f"--filename={tensor.path}", f"--ioengine={engine}", f"--direct={direct}",
            f"--rw={kind}", *FIO_BLOCKS, f"--randseed={place.seed + list(FIO).index(way)}", *FILES]


def fio_fails(place, name, command):
    """None, or the reason."""
    status, text = tried(place, name, command)
    return first(text, "verify:", "error", "fio:") if status else None


def fio(place, tensor, way):
    """Writes and verifies blocks, and verifies them again in a new mount. Others see them after the commit only."""
    command = fio_command(place, tensor, way)
    name = f"{tensor.source.name}-{way}"
    with open(tensor.path, "rb") as older:
        before = older.read()
        if reason := fio_fails(place, name, command):
            if "func=mmap" in reason and not place.control:
                return "not run", f"no shared mapping for writing: {reason[reason.index('func=mmap'):]}"
            return "not ok", reason
        older.seek(0)
        after = tensor.path.read_bytes()
        if not place.control and (older.read() != before or after == before):
            raise Wrong("an open file changed, or no new bytes were committed")
    tensor.again()
    if reason := fio_fails(place, f"{name}-again", [*command, "--verify_only=1"]):
        raise Wrong(f"in a new mount: {reason}")
    return "ok", ""


def canary(place, tensor):
    """fio must find one wrong byte."""
    way = "psync-buffered-write"
    command = fio_command(place, tensor, way)
    if reason := fio_fails(place, "canary-write", command):
        raise Wrong(reason)
    spoil(tensor.path, SIZE // 2)
    if not fio_fails(place, "canary", [*command, "--verify_only=1"]):
        raise Wrong("a wrong byte was not found")


def fsx(place, tensor, way):
    """Random reads and writes in one file of constant size; each close, one in 1,000 operations, commits."""
    command = [place.built / "ltp/fsx", "-L", *FSX[way].split(), "-R", "-W", "-q", "-c", 1000, "-S", place.seed, "-N",
               place.operations, "-P", place.logs, tensor.path]
    status, text = tried(place, f"{tensor.source.name}-{way}", command)
    if status:
        return "not ok", first(text, "bad", "error", "mismatch", ": ")
    tensor.again()
    return "ok", ""


def count(outcome, way, function, *arguments):
    """Calls a function and counts its result: (kind, line), or None for ok."""
    try:
        kind, line = function(*arguments) or ("ok", "")
    except (Wrong, Trouble, OSError) as e:
        kind, line = "not ok", e
    if kind == "not ok":
        outcome.failed(way, line)
    elif kind == "not run":
        outcome.not_run(way, line)
    else:
        outcome.add(kind)


def run(place, outcome):
    ways = {"fio-tensors": FIO, "fsx-tensors": FSX_TENSORS}[place.name]
    wanted = chosen(place, outcome, ways)
    for form in FORMS:
        tensor = Tensor(place, form)
        tensor.mount()
        for way in wanted:
            if place.name == "fio-tensors":
                count(outcome, f"{form}-{way}", fio, place, tensor, way)
            elif FSX_TENSORS[way][0] == form:
                count(outcome, way, fsx, place, tensor, FSX_TENSORS[way][1])
        if place.name == "fio-tensors":
            count(outcome, f"{form}-canary", canary, place, tensor)
        tensor.unmount()
        count(outcome, f"{form}-check", tensor.check)
