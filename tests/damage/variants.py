# SPDX-License-Identifier: MIT
"""Kinds of damage of formats that PyTorch's own loader does not read: a metadata file of each
rank instead of `.metadata`, and items in a safetensors blob."""
import json
import os
import pickle
import struct

import source as s
from source import FIRST, SECOND, d
from want import FINE, Want, lost, refused, table

# --- a metadata of each rank -----------------------------------------------------

# The contents of each metadata file: `c` is a replica of one item; the rest is on one rank.
SAID = [
    {"a": [(0, 0), (2, 3)], "b": [(0, 0), (2, 3)], "c": [(0,), (3,)], "o": None},
    {"a": [(2, 0), (2, 3)], "c": [(0,), (3,)]},
]


def metadata_of(c, rank, change=lambda entries, rows: None):
    entries = {name: d.tensor(s.SHAPES[name], [tuple(box)]) if box else d.Bytes()
               for name, box in SAID[rank].items()}
    rows = {index: info for index, info in c.storage().items()
            if index.fqn in SAID[rank] and (SAID[rank][index.fqn] is None or getattr(
                index, "offset", None) == d.Size(SAID[rank][index.fqn][0]))}
    change(entries, rows)
    return pickle.dumps(d.checkpoint(entries, rows), 4)


def ranks(c, change=lambda path: None, **of_rank):
    """change(directory) once all is written."""
    def after(path):
        os.unlink(os.path.join(path, ".metadata"))
        for rank in range(2):
            with open(os.path.join(path, f"__{rank}.metadata"), "wb") as out:
                out.write(metadata_of(c, rank, **of_rank.get(f"rank{rank}", {})))
        change(path)
    c.after = after


def second(change):
    return lambda path: change(os.path.join(path, "__1.metadata"))


def replaced(make):
    def change(path):
        os.unlink(path)
        make(path)
    return second(change)


def bytes_of(change):
    def edit(path):
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as out:
            out.write(change(data))
    return second(edit)


def other(path, name):
    os.rename(os.path.join(path, "__1.metadata"), os.path.join(path, name))


HALF = [(24, 48, "ENODATA")]
LOST = Want({"a": HALF}, files=("EBADMSG",))
for name, change, want in (
        ("as they are", lambda path: None, FINE),
        ("another number", lambda path: other(path, "__7.metadata"), FINE),
        ("one is missing", second(os.unlink), Want({"a": HALF})),
        ("one of another name", lambda path: other(path, "__01.metadata"), Want({"a": HALF})),
        ("one is being written", lambda path: other(path, "__1.metadata.tmp"), Want({"a": HALF})),
        ("one is empty", bytes_of(lambda data: b""), LOST),
        ("one is cut in the middle", bytes_of(lambda data: data[:len(data) // 2]), LOST),
        ("one is cut by one byte", bytes_of(lambda data: data[:-1]), LOST),
        ("one has bytes behind", bytes_of(lambda data: data + b"x"), LOST),
        ("one is a dict", bytes_of(lambda data: pickle.dumps({})), LOST),
        ("one is text", bytes_of(lambda data: b"text"), LOST),
        ("one is dangerous", bytes_of(lambda data: b"cposix\nsystem\n(S'true'\ntR."),
         Want({"a": HALF}, files=("EBADMSG",))),
        ("one is a directory", replaced(os.mkdir), LOST),
        ("one is a fifo", replaced(os.mkfifo), LOST),
        ("one is a link", replaced(lambda path: os.symlink("__0.metadata", path)),
         Want({"a": HALF}, files=("ELOOP",))),
        ("one is a link out", replaced(lambda path: os.symlink("/etc/passwd", path)),
         Want({"a": HALF}, files=("ELOOP",))),
        ("a .metadata.tmp beside", lambda path: open(
            os.path.join(path, ".metadata.tmp"), "w").close(), FINE)):
    table("variants", [("ranks: " + name,)],
          lambda c, change=change: ranks(c, change), want)

table("variants", [("ranks: no file is good",)], lambda c: ranks(
    c, lambda path: [open(os.path.join(path, f"__{r}.metadata"), "w").close() for r in range(2)]),
      refused("no other one is any better"))


def says(name, box=None, shape=None, dtype=None, row=None):
    """Changes a tensor in the metadata of the second rank."""
    def change(entries, rows):
        entries[name] = d.tensor(shape or s.SHAPES[name], [box] if box else [SAID[1][name]],
                                 **({"dtype": dtype} if dtype else {}))
        for index in [i for i in rows if i.fqn == name]:
            info = rows.pop(index)
            info.__dict__.update(row or {})
            rows[d.index(name, (box or SAID[1][name])[0])] = info
    return {"rank1": {"change": change}}


for name, how, want in (
        ("another size", says("c", shape=(4,)), Want({"c": [(None, None, "EIO")]})),
        ("another dtype", says("c", dtype=d.Named("int32")), Want({"c": [(None, None, "EIO")]})),
        ("more dimensions", says("c", box=((0, 0), (3, 1)), shape=(3, 1)), Want({"c": [(None, None, "EIO")]})),
        ("boxes that overlap", says("a", box=((1, 0), (2, 3))), Want({"a": [(None, None, "EIO")]})),
        ("a box outside", says("a", box=((3, 0), (2, 3))), Want({"a": [(None, None, "EIO")]})),
        ("a replica that is nowhere", says("c", row={"relative_path": "__1_9.distcp"}),
         Want(files_of={"c": ("ENODATA",)}))):
    table("variants", [("ranks disagree: " + name,)],
          lambda c, how=how: ranks(c, **how), want)


# --- blobs -----------------------------------------------------------------------

def blob(name="c", dtype="F32", shape=(3,), offsets=(0,), end=12, header=None, behind=b""):
    note = json.dumps({name: {"saved_offsets": list(offsets)}})
    text = json.dumps({"__metadata__": {"DCP_SHARDING_INFO": note},
                       name: {"dtype": dtype, "shape": list(shape), "data_offsets": [0, end]}})
    text = (header or text).encode()
    return struct.pack("<Q", len(text)) + text + s.values("c") + behind


def blobbed(c, row=None, cut=0, **how):
    c.items["c", (0,)] = [SECOND, blob(**how)]
    c.row("c", (0,), length=12, **{})
    if row:
        c.row("c", (0,), **row)
    if cut:
        c.after = lambda path: os.truncate(
            os.path.join(path, SECOND), os.path.getsize(os.path.join(path, SECOND)) - cut)


for name, how, want in (
        ("as it is", {}, FINE),
        ("no sharding information", dict(header='{"c":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}'), FINE),
        ("of length 0", dict(row={"length": 0}), FINE),
        ("of another length", dict(row={"length": 100}), FINE),
        ("of a length beyond its file", dict(row={"length": 10**6}), lost(c="ENODATA")),
        ("another dtype", dict(dtype="I32"), lost(c="EIO")),
        ("another shape", dict(shape=(3, 1), offsets=(0, 0)), lost(c="EIO")),
        ("a longer shape", dict(shape=(1, 3), offsets=(0, 0)), lost(c="EIO")),
        ("another place", dict(offsets=(1,)), lost(c="EIO")),
        ("sharding information is no JSON", dict(
            header='{"__metadata__":{"DCP_SHARDING_INFO":"{"},"c":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}'),
         lost(c="EIO")),
        ("another key", dict(name="d"), lost(c="EBADMSG")),
        ("an unknown dtype", dict(dtype="F33"), lost(c="EBADMSG")),
        ("an end that is wrong", dict(end=8), lost(c="EBADMSG")),
        ("bytes behind", dict(behind=b"x"), lost(c="EBADMSG")),
        ("no JSON", dict(header="{no"), lost(c="EBADMSG")),
        ("a key twice", dict(header='{"c":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},'
                                    '"c":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}'), lost(c="EBADMSG")),
        ("cut by one byte", dict(cut=1), lost(c="ENODATA")),
        ("cut in its header", dict(cut=30), lost(c="EBADMSG")),
        ("one byte before its place", dict(row={"offset": 3}), lost(c="EBADMSG"))):
    table("variants", [("blob: " + name,)], lambda c, how=how: blobbed(c, **how), want)
