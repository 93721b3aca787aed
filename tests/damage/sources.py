# SPDX-License-Identifier: MIT
"""Kinds of damage of formats other than DCP: safetensors, files of torch.save in both containers, files of ranks,
FSDP1's flat parameters with a sidecar, and Megatron's common.pt. Tensors `a`, `b` and `c` are those of source.py.

Files written by PyTorch are in tests/damage/sources, by tests/fixtures/torch_files.py; this module makes the rest."""
import io
import json
import os
import pickle
import struct
import zipfile

import source as s
from want import FINE, Want, base, lost, refused, table

RANKS, SIDE = ("rank_0.pt", "rank_1.pt", "rank_2.pt"), "ckptfs-flat.json"
HERE = os.path.join(os.path.dirname(__file__), "sources")
EVIL = b"cposix\nsystem\n(S'touch \"$CANARY\"'\ntR."
NAMES = tuple(s.SHAPES)


class Files:
    """Files by name, which a kind changes before they are written."""
    names, text = NAMES, '{"step":7}\n'			# of the entry `o`; or None

    def __init__(self):
        self.files, self.after = self.made(), lambda path: None

    def write(self, path):
        os.makedirs(path)
        for name, content in self.files.items():
            os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
            with open(os.path.join(path, name), "wb") as out:
                out.write(content)
        self.after(path)


def cut(name, size):
    """Cuts the file to `size` bytes; or by -size bytes, if negative."""
    return lambda c: c.files.update({name: c.files[name][:size]})


def put(name, content):
    return lambda c: c.files.update({name: content(c) if callable(content) else content})


def gone(name):
    return lambda c: c.files.pop(name)


def edit(name, old, new):
    def change(c):
        assert old in c.files[name], old
        c.files[name] = c.files[name].replace(old, new)
    return change


def renamed(name, other):
    return lambda c: c.files.update({other: c.files.pop(name)})


def made(name, make):
    """Replaces the file once all files are written."""
    def change(c):
        def after(path):
            os.unlink(os.path.join(path, name))
            make(os.path.join(path, name))
        c.after = after
    return change


def several(*changes):
    def change(c):
        for one in changes:
            one(c)
    return change


def nothing(c):
    pass


def kinds(group, what, rows):
    for name, change, want in rows:
        table(group, [(f"{what}: {name}",)], lambda c, change=change: change(c), want)


def place(make):
    """Objects that replace a file: (name, change)."""
    return (("is a directory", made(make, os.mkdir)), ("is a fifo", made(make, os.mkfifo)),
            ("is a link out", made(make, lambda path: os.symlink("/etc/passwd", path))),
            ("is a link to nothing", made(make, lambda path: os.symlink("nothing", path))),
            ("is a link to itself", made(make, lambda path: os.symlink(os.path.basename(path), path))))


def without(*names, files=("EBADMSG",), **more):
    """The names are missing, and the damage report has one line of the file."""
    return Want(gone=names, files=files, **more)


# --- safetensors --------------------------------------------------------------------------------------------------------

FIRST, SECOND, INDEX = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"


def safetensors(names, header=None, size=None, behind=b""):
    at, rows = 0, {}
    for name in names:
        data = s.values(name)
        rows[name] = {"dtype": "F32", "shape": list(s.SHAPES[name]), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = (header(rows) if header else json.dumps(rows)).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text) if size is None else size) + text + b"".join(map(s.values, names)) + behind


@base("safetensors")
class Safetensors(Files):
    text = None

    def made(self):
        return {FIRST: safetensors("ab"), SECOND: safetensors("c"),
                INDEX: json.dumps({"metadata": {}, "weight_map": {"a": FIRST, "b": FIRST, "c": SECOND}}).encode()}


def second(**how):
    return put(SECOND, lambda c: safetensors("c", **how))


def row(**changes):
    """The one of `c`, changed."""
    return second(header=lambda rows: json.dumps({"c": rows["c"] | changes}))


NO_C = Want(gone={"c": "ENODATA"}, files=("EBADMSG",))
NOT_THERE = Want(gone={"c": "ENODATA"}, files=("ENODATA",))
kinds("safetensors", "safetensors", [("as they are", nothing, FINE), ("a file is missing", gone(SECOND), NOT_THERE)])
kinds("safetensors", "safetensors", [(f"a file {name}", change, NOT_THERE) for name, change in place(SECOND)])
kinds("safetensors", "safetensors: a file", [
    ("is empty", cut(SECOND, 0), NO_C),
    ("is cut in its length", cut(SECOND, 7), NO_C),
    ("is cut in its header", cut(SECOND, 30), NO_C),
    ("is cut by one byte", cut(SECOND, -1), lost(c="ENODATA")),
    ("has none of its data", cut(SECOND, -12), lost(c="ENODATA")),
    ("has bytes behind", second(behind=b"x"), NO_C),
    ("has a length of 0", second(size=0), NO_C),
    ("has a length beyond its end", second(size=1 << 40), NO_C),
    ("has a length of 2^64 - 1", second(size=(1 << 64) - 1), NO_C),
    ("has no JSON", second(header=lambda rows: "{no"), NO_C),
    ("has a list", second(header=lambda rows: "[]"), NO_C),
    ("has a NUL behind its JSON", second(header=lambda rows: json.dumps(rows) + "\0"), NO_C),
    ("has a key twice", second(header=lambda rows: json.dumps(rows)[:-1] + "," + json.dumps(rows)[1:]), NO_C),
    ("has half a surrogate", second(header=lambda rows: json.dumps(rows)[:-1] + r',"\ud800":{}}'), NO_C),
    ("has no UTF-8", second(header=lambda rows: json.dumps(rows)[:-1] + ',"\udcff":{}}'), NO_C),
    ("is nested 200 deep", second(header=lambda rows: json.dumps(rows)[:-1] + ',"x":' + "[" * 200 + "]" * 200 + "}"), NO_C),
    ("has an unknown dtype", row(dtype="F33"), NO_C),
    ("has a dtype of another size", row(dtype="F64"), NO_C),
    ("has another shape", row(shape=[4]), NO_C),
    ("has a negative size", row(shape=[-3]), NO_C),
    ("has a shape that overflows", row(shape=[1 << 62, 1 << 62]), NO_C),
    ("has offsets the wrong way", row(data_offsets=[12, 0]), NO_C),
    ("has offsets with a hole", row(data_offsets=[4, 16]), NO_C),
    ("has a fraction", row(data_offsets=[0, 12.0]), NO_C),
    ("has no offsets", second(header=lambda rows: '{"c":{"dtype":"F32","shape":[3]}}'), NO_C),
    ("has metadata that is no text", second(header=lambda rows: json.dumps(rows | {"__metadata__": {"x": 1}})), NO_C),
    ("has another name", second(header=lambda rows: json.dumps({"d": rows["c"]})), Want(gone={"c": "EBADMSG"}))])
kinds("safetensors", "safetensors: an index", [
    ("that is cut", cut(INDEX, -1), refused("model.safetensors.index.json")),
    ("without weight_map", put(INDEX, b"{}"), refused("weight_map")),
    ("with a key twice", edit(INDEX, b'"b"', b'"a"'), refused("model.safetensors.index.json")),
    ("with a name above", edit(INDEX, SECOND.encode(), b"../secret"), Want(gone={"c": "ENODATA"}, files=("ENODATA",))),
    ("with a number", edit(INDEX, json.dumps(SECOND).encode(), b"7"), refused("model.safetensors.index.json")),
    ("that is empty", put(INDEX, b""), refused("model.safetensors.index.json"))])
kinds("safetensors", "safetensors: without index", [
    ("as they are", gone(INDEX), FINE),
    ("a file is missing", several(gone(INDEX), gone(SECOND)), without("c", files=("ENODATA",))),
    ("a name in two files", several(gone(INDEX), put(SECOND, lambda c: safetensors("bc"))),
     Want({"b": [(None, None, "EIO")]})),
    ("one is refused", several(gone(INDEX), cut(SECOND, 3)), without("c")),
    ("all are refused", several(gone(INDEX), cut(SECOND, 3), cut(FIRST, 3)), refused("safetensors"))])


# --- files of torch.save ------------------------------------------------------------------------------------------------

class Module:
    def __reduce__(self):
        return s.d.module("torch._utils")._rebuild_tensor_v2, ()


def state(**lies):
    out = {name: s.Tensor(shape, **({"key": name} | lies.get(name, {}))) for name, shape in s.SHAPES.items()}
    return out | {"o": (7,)} | lies.get("more", {})


def zipped(pkl=None, data=None, more=(), deflate=False, prefix="archive/", order=b"little", **lies):
    rows = [("data.pkl", s.dumps(state(**lies)) if pkl is None else pkl), ("byteorder", order)]
    rows += [(f"data/{name}", s.values(name)) for name in NAMES if (data or {}).get(name, b"") is not None]
    rows = [(name, (data or {}).get(name[-1], content) if name.startswith("data/") else content) for name, content in rows]
    return s.archive([*rows, ("version", b"3\n"), *more], prefix, deflate)


def legacy(lengths=None, magic=0x1950A86A20F9469CFC6C, protocol=1001, system=None, pkl=None, keys=None, view=None, **lies):
    class Pickler(pickle.Pickler):
        def persistent_id(self, obj):
            return (*obj.id, view) if isinstance(obj, s.Storage) else None
    out = io.BytesIO()
    pickle.dump(magic, out, 2)
    pickle.dump(protocol, out, 2)
    pickle.dump(system or {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}},
                out, 2)
    if pkl is None:
        Pickler(out, 2).dump(state(**lies))
    else:
        out.write(pkl)
    pickle.dump(list(NAMES) if keys is None else keys, out, 2)
    for name in NAMES:
        data = s.values(name)
        out.write(struct.pack("<q", (lengths or {}).get(name, len(data) // 4)) + data)
    return out.getvalue()


@base("torch")
class Torch(Files):
    text = '{"$tuple":[7]}\n'

    def made(self):
        return {"model.pt": zipped()}


def torch(**how):
    return put("model.pt", lambda c: zipped(**how))


def old(**how):
    return put("model.pt", lambda c: legacy(**how))


def flipped(name, at):
    def change(c):
        data = bytearray(c.files[name])
        data[at(bytes(data)) if callable(at) else at] ^= 1
        c.files[name] = bytes(data)
    return change


def data_of(name):
    """Where its bytes are in a file."""
    return lambda data: data.index(s.values(name))


BAD_C = lost(c="EBADMSG")
kinds("torch", "zip", [
    ("as it is", nothing, FINE),
    ("protocol 5", torch(pkl=s.dumps(state(), 5)), FINE),
    ("a bit of data", flipped("model.pt", data_of("c")), Want(full=("c",), unsure=("c",))),
    ("a storage is short", torch(data={"c": s.values("c")[:8]}), BAD_C),
    ("a storage is long", torch(data={"c": s.values("c") + b"1234"}), BAD_C),
    ("a storage is missing", torch(data={"c": None}), BAD_C),
    ("a shape beyond its storage", torch(c={"numel": 2}), BAD_C),
    ("an offset beyond its storage", torch(c={"offset": 1}), BAD_C),
    ("a stride beyond its storage", torch(c={"stride": (2,)}), BAD_C),
    ("a negative stride", torch(c={"stride": (-1,)}), Want(gone={"c": "EBADMSG"})),
    ("a negative offset", torch(c={"offset": -1}), Want(gone={"c": "EBADMSG"})),
    ("a stride that overflows", torch(c={"stride": (1 << 62,)}), BAD_C),
    ("a key of a storage that leads out", torch(c={"key": "../../x"}), BAD_C),
    ("records are compressed", torch(deflate=True), refused("is compressed; load the file with torch")),
    ("an order of bytes that is none", torch(order=b"middle"), refused("model.pt")),
    ("a record twice", torch(more=[("data/c", s.values("c"))]), refused("model.pt")),
    ("cut in the middle", cut("model.pt", 300), refused("model.pt")),
    ("cut by one byte", cut("model.pt", -1), refused("model.pt")),
    ("bytes behind", put("model.pt", lambda c: zipped() + b"x" * 70000), refused("model.pt")),
    ("no pickle", torch(pkl=b"text"), refused("model.pt")),
    ("a pickle that is cut", torch(pkl=s.dumps(state())[:-1]), refused("model.pt")),
    ("a global that runs", torch(pkl=EVIL), refused("system")),
    ("a global that runs, in an entry", torch(pkl=s.dumps(state())[:-2] + b"X\1\0\0\0x" + EVIL[:-1] + b"su."),
     refused("system")),
    ("of no bytes", put("model.pt", b""), refused("no checkpoint known here")),
    ("of zeros", put("model.pt", bytes(4096)), refused("")),
    ("TorchScript", torch(more=[("constants.pkl", b"N.")]), refused("TorchScript")),
    ("one level of a dict is the dict itself", torch(pkl=b"\x80\x02}q\0X\1\0\0\0ah\0s."), refused("model.pt")),
    ("two keys are one", torch(
        pkl=s.dumps({"a": s.Tensor((4, 3), key="a"), "b": s.Tensor((2, 3), key="b"), "c": s.Tensor((3,), key="c"),
                     "o": (7,), 5: 1, "5": 2})), FINE)])
kinds("torch", "legacy", [
    ("as it is", old(), FINE),
    ("a storage of another length", old(lengths={"c": 2}), BAD_C),
    ("a storage of a negative length", old(lengths={"b": -1}), lost(b="EBADMSG", c="EBADMSG")),
    ("a storage of 2^62", old(lengths={"b": 1 << 62}), lost(b="EBADMSG", c="EBADMSG")),
    ("a key is missing", old(keys=["a", "b"]), BAD_C),
    ("a key of nothing", old(keys=[*NAMES, "z"]), refused("nothing refers to it")),
    ("keys that are no list", old(keys=7), refused("model.pt")),
    ("views of storages", old(view=("v", 0, 3)), refused("model.pt")),
    ("another protocol", old(protocol=1000), refused("model.pt")),
    ("big-endian", old(system={"protocol_version": 1001, "little_endian": False, "type_sizes": {}}), Want(unsure=NAMES)),
    ("another magic number", old(magic=5), refused("")),
    ("cut in its last storage", several(old(), cut("model.pt", -1)), lost(c="ENODATA")),
    ("cut before its storages", several(old(), cut("model.pt", -(84 + 24))), lost(**dict.fromkeys(NAMES, "ENODATA"))),
    ("cut in its pickle", several(old(), cut("model.pt", 120)), refused("model.pt")),
    ("a global that runs", old(pkl=EVIL), refused("system"))])


@base("torch-several")
class Several(Files):
    """`a` and `b` in one file, `c` and `o` in another one, with an index."""
    text = '{"$tuple":[7]}\n'
    index = "pytorch_model.bin.index.json"

    def made(self):
        one, two = "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"
        return {one: self.part("ab"), two: self.part("co"), self.index: json.dumps(
            {"metadata": {}, "weight_map": {"a": one, "b": one, "c": two, "o": two}}).encode()}

    @staticmethod
    def part(names):
        return zipped(pkl=s.dumps({name: value for name, value in state().items() if name in names}))


TWO = "pytorch_model-00002-of-00002.bin"
NO_CO = Want(gone={"c": "ENODATA", "o": "ENODATA"}, files=("EBADMSG",))
kinds("torch-several", "pieces", [
    ("as they are", nothing, FINE),
    ("one is missing", gone(TWO), Want(gone={"c": "ENODATA", "o": "ENODATA"}, files=("ENODATA",))),
    ("one is cut", cut(TWO, 100), NO_CO),
    ("one is dangerous", put(TWO, lambda c: zipped(pkl=EVIL)), refused("system")),
    ("an index that is cut", cut(Several.index, -3), refused(Several.index)),
    ("an index of a name that is nowhere", edit(Several.index, b'"c"', b'"d"'),
     Want(gone=("c",), lines={"d": "EBADMSG"})),
    ("no index, and one is cut", several(gone(Several.index), cut(TWO, 100)),
     Want(gone=("c", "o"), files=("EBADMSG",)))])


# --- files of ranks -----------------------------------------------------------------------------------------------------

def stored(directory, name):
    with open(os.path.join(HERE, directory, name), "rb") as file:
        return file.read()


def repacked(data, change):
    """An archive whose records change() gets as a dict."""
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        rows = {info.filename: z.read(info) for info in z.infolist()}
    change(rows)
    return s.archive(list(rows.items()), "")


def pickled(name, old, new):
    """Bytes of its pickle are other ones, which may be longer."""
    def change(c):
        def rows(rows):
            (key,) = (key for key in rows if key.endswith("/data.pkl"))
            assert old in rows[key], old
            rows[key] = rows[key].replace(old, new)
        c.files[name] = repacked(c.files[name], rows)
    return change


@base("ranks")
class Ranks(Files):
    text = '[7,"x"]\n'

    def made(self):
        return {name: stored("ranks", name) for name in RANKS}


HALF = [(24, 48, "ENODATA")]
# A line of the rank that has no file, or of its file.
LOST = Want({"a": HALF}, gone=("c",), files=("ENODATA",))
NO_1 = Want({"a": HALF}, gone=("c",), files=("EBADMSG",))
kinds("ranks", "a rank", [
    ("as it is", nothing, FINE),
    ("a bit of its tensor", flipped("rank_1.pt", data_of("c")), Want(full=("c",), unsure=("c",))),
    ("is missing", gone("rank_1.pt"), LOST),
    ("without elements is missing", gone("rank_2.pt"), Want(files=("ENODATA",))),
    ("all but one are missing", several(gone("rank_1.pt"), gone("rank_2.pt")), Want({"a": HALF}, gone=("c",))),
    ("of another number", renamed("rank_1.pt", "rank_7.pt"), FINE),
    ("twice", lambda c: c.files.update({"rank_7.pt": c.files["rank_1.pt"]}), Want(files=("EIO",))),
    ("is empty", cut("rank_1.pt", 0), LOST),
    ("is text", put("rank_1.pt", b"text"), LOST),
    ("is cut in the middle", cut("rank_1.pt", 1500), NO_1),
    ("is cut by one byte", cut("rank_1.pt", -1), NO_1),
    ("is no archive", put("rank_1.pt", b"PK\3\4 and nothing else"), NO_1),
    ("is dangerous", put("rank_1.pt", lambda c: zipped(pkl=EVIL)), NO_1),
    ("has another dtype", pickled("rank_1.pt", b"FloatStorage", b"IntStorage"),
     Want({"a": [(24, 48, "EIO")]}, gone=("b",), files_of={"b": (None,)})),
    ("is the first one", lambda c: c.files.update({"rank_1.pt": c.files["rank_0.pt"]}),
     Want({"a": HALF}, gone=("c",), files=("EIO", "ENODATA")))])
kinds("ranks", "a rank", [(name, change, LOST) for name, change in place("rank_1.pt")])


# --- flat parameters ----------------------------------------------------------------------------------------------------

@base("flat")
class Flat(Files):
    text = '[7,"x"]\n'

    def made(self):
        return {name: stored("flat", name) for name in (*RANKS, SIDE)}


NONE = Want(gone=NAMES, files=("EBADMSG",))


def side(**changes):
    return put(SIDE, lambda c: json.dumps(json.loads(c.files[SIDE]) | changes).encode())


def unit(**changes):
    def content(c):
        whole = json.loads(c.files[SIDE])
        whole["units"][0].update(changes)
        return json.dumps(whole).encode()
    return put(SIDE, content)


def params(**changes):
    """Of `c`."""
    def content(c):
        whole = json.loads(c.files[SIDE])
        whole["units"][0]["params"][2].update(changes)
        return json.dumps(whole).encode()
    return put(SIDE, content)


kinds("flat", "sidecar", [
    ("as it is", nothing, FINE),
    ("is missing", gone(SIDE), Want(gone=NAMES)),
    ("is empty", put(SIDE, b""), NONE),
    ("is cut", cut(SIDE, -2), NONE),
    ("is a list", put(SIDE, b"[]"), NONE),
    ("has a key twice", edit(SIDE, b'"version": 1', b'"version": 1, "version": 1'), NONE),
    ("has bytes behind", put(SIDE, lambda c: c.files[SIDE] + b"x"), NONE),
    ("of another format", side(format="x"), NONE),
    ("of another version", side(version=2), NONE),
    ("of another number of elements", unit(numel=22), Want(gone=NAMES, lines={"_flat_param": "EBADMSG"})),
    ("of another flat parameter", unit(flat_param="x"), Want(gone=NAMES)),
    ("a parameter beyond the end", params(offset=19), NONE),
    ("a parameter over another one", params(offset=17), NONE),
    ("a parameter of a negative size", params(shape=[-3]), NONE),
    ("a parameter that overflows", params(shape=[1 << 40, 1 << 40]), NONE),
    ("a parameter of 100 dimensions", params(shape=[1] * 100), NONE),
    ("two parameters of one name", params(fqn="b"), NONE),
    ("unknown fields", side(more={"x": [1, {}]}), FINE),
    ("optimizers that are no array", side(optimizers={}), NONE),
    ("an optimizer that is no array", side(optimizers=["_flat_param"]), NONE),
    ("an optimizer of a number", side(optimizers=[[1]]), NONE),
    ("an optimizer of nothing that is there", side(optimizers=[["_flat_param", "x"], []]), FINE),
    # A link that is not followed cannot be read, which is no damage: it is as one that is missing.
    *((name, change, Want(gone=NAMES) if "link" in name else NONE) for name, change in place(SIDE)),
    ("the first rank is missing", gone("rank_0.pt"), Want(
        {"a": [(0, 28, "ENODATA")]}, files=("ENODATA",), lines={"_flat_param": "ENODATA"})),
    ("the last rank is missing", gone("rank_2.pt"), Want(
        {"b": [(8, 24, "ENODATA")], "c": [(0, 12, "ENODATA")]}, files=("ENODATA",), lines={"_flat_param": "ENODATA"})),
    ("the second rank is cut", cut("rank_1.pt", -1), Want(
        {"a": [(28, 48, "ENODATA")], "b": [(0, 8, "ENODATA")]}, files=("EBADMSG",), lines={"_flat_param": "ENODATA"})),
    ("a bit of a parameter", flipped("rank_2.pt", data_of("c")),
     Want(full=("b", "c", "_flat_param"), unsure=("c",)))])


# --- Megatron -----------------------------------------------------------------------------------------------------------

COMMON, CONFIG = "common.pt", "metadata.json"


@base("megatron")
class Megatron(s.Checkpoint):
    """DCP, of which nothing is lost."""

    def __init__(self):
        super().__init__()
        self.files = {COMMON: zipped(), CONFIG: b'{"sharded_backend":"torch_dist"}'}

    def write(self, path):
        change, self.after = self.after, lambda path: None
        super().write(path)
        for name, content in self.files.items():
            with open(os.path.join(path, name), "wb") as out:
                out.write(content)
        change(path)


BAD, NONE_OF_IT = Want(files=("EBADMSG",)), Want(files=("ENODATA",))
common = lambda **how: put(COMMON, lambda c: zipped(**how))                         # noqa: E731
kinds("megatron", "common.pt", [
    ("as it is", nothing, FINE),
    ("legacy", put(COMMON, lambda c: legacy()), FINE),
    ("is missing", gone(COMMON), FINE),
    ("is empty", cut(COMMON, 0), BAD),
    ("is cut by one byte", cut(COMMON, -1), BAD),
    ("is text", put(COMMON, b"text"), BAD),
    ("is dangerous", common(pkl=EVIL), BAD),
    ("has a short storage", common(data={"c": b"1234"}), Want(lines={"common.c": "EBADMSG"})),
    ("has a bit of data flipped", flipped(COMMON, data_of("c")), Want(full=("common.c",))),
    *((name, change, NONE_OF_IT) for name, change in place(COMMON))])
kinds("megatron", "metadata.json", [
    (name, change, FINE) for name, change in (
        ("is missing", gone(CONFIG)), ("is empty", cut(CONFIG, 0)), ("is cut", cut(CONFIG, -1)),
        ("of another backend", put(CONFIG, b'{"sharded_backend":"zarr"}')), ("is a list", put(CONFIG, b"[]")),
        ("is nested 1000 deep", put(CONFIG, b"[" * 1000)), ("is of 2 MiB", put(CONFIG, b" " * (2 << 20) + b"{}")),
        *place(CONFIG))])


# --- run directories ----------------------------------------------------------------------------------------------------

@base("run")
class Run(Files):
    """`step-1` is a checkpoint of DCP; `step-2` is what a kind makes of it."""

    def made(self):
        return {}

    def write(self, path):
        s.Checkpoint().write(os.path.join(path, "step-1"))
        super().write(os.path.join(path, "step-2"))

    def verify(self, run, path, mnt, want):
        """Problems of a mount."""
        got = run("check", path)
        if got.returncode != 2 or "step-1" not in got.stderr or len(got.stderr.splitlines()) != 1:
            yield f"check: exit {got.returncode}, {got.stderr!r}"
        got = run("mount", path, mnt)
        if got.returncode:
            yield f"mount: exit {got.returncode}, {got.stderr!r}"
            return
        try:
            yield from self.listed(mnt, want)
        finally:
            if run("umount", mnt).returncode:
                yield "umount"

    @staticmethod
    def listed(mnt, want):
        shown = "step-2" not in want.gone
        wanted = {"step-1", "latest", ".ckptfs"} | ({"step-2"} if shown else set())
        if set(os.listdir(mnt)) != wanted or os.readlink(mnt + "/latest") != ("step-2" if shown else "step-1"):
            yield f"lists {sorted(os.listdir(mnt))}, latest is {os.readlink(mnt + '/latest')}"
            return
        for step in ("step-1", "step-2") if shown else ("step-1",):
            for name in NAMES:
                with open(f"{mnt}/{step}/raw/{name}", "rb") as file:
                    if file.read() != s.values(name):
                        yield f"{step}: {name} has other bytes"
        with open(mnt + "/.ckptfs/status") as status:
            if ("\n  step-2: " in status.read()) == shown:
                yield "status says otherwise"


def step(files):
    """It has these, and then what a change makes of them."""
    return lambda c: c.files.update(files)


NOT_SHOWN = Want(gone=("step-2",))


def dcp(change=nothing):
    def apply(c):
        def after(path):
            os.rmdir(path)
            s.Checkpoint().write(path)
            change(path)
        c.after = after
    return apply


def at(name, change):
    def apply(path):
        path = os.path.join(path, name)
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as out:
            out.write(change(data))
    return apply


kinds("run", "a step of DCP", [
    ("as it is", dcp(), FINE),
    ("without .metadata", dcp(lambda path: os.unlink(path + "/.metadata")), NOT_SHOWN),
    ("that is being saved", dcp(lambda path: os.rename(path + "/.metadata", path + "/.metadata.tmp")), NOT_SHOWN),
    (".metadata is empty", dcp(at(".metadata", lambda data: b"")), NOT_SHOWN),
    (".metadata is cut", dcp(at(".metadata", lambda data: data[:-1])), NOT_SHOWN),
    (".metadata begins otherwise", dcp(at(".metadata", lambda data: b"x" + data[1:])), NOT_SHOWN),
    (".metadata is a directory", dcp(lambda path: (os.unlink(path + "/.metadata"), os.mkdir(path + "/.metadata"))),
     NOT_SHOWN)])
kinds("run", "a step of safetensors", [
    ("as it is", step(Safetensors().files), FINE),
    ("a file is missing", several(step(Safetensors().files), gone(SECOND)), NOT_SHOWN),
    ("a file is cut by one byte", several(step(Safetensors().files), cut(SECOND, -1)), NOT_SHOWN),
    ("a header is refused", several(step(Safetensors().files), row(dtype="F33")), NOT_SHOWN),
    ("an index is cut", several(step(Safetensors().files), cut(INDEX, -1)), NOT_SHOWN)])
kinds("run", "a step of torch.save", [
    ("as it is", step(Torch().files), FINE),
    ("cut by one byte", several(step(Torch().files), cut("model.pt", -1)), NOT_SHOWN),
    ("of no bytes", several(step(Torch().files), cut("model.pt", 0)), NOT_SHOWN)])
kinds("run", "a step of ranks", [
    ("as it is", step(Ranks().files), FINE),
    ("a rank is missing", several(step(Ranks().files), gone("rank_1.pt")), NOT_SHOWN),
    ("the last rank is missing", several(step(Ranks().files), gone("rank_2.pt")), NOT_SHOWN),
    ("a rank is cut by one byte", several(step(Ranks().files), cut("rank_1.pt", -1)), NOT_SHOWN)])
