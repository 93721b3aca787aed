#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A rewritten `.metadata`, read by Python, differs from the old one only in the locations.

    rewrite_test.py WRITER FIXTURES

Each fixture gets new locations for some boxes, twice. It is rewritten as PyTorch pickled it, and pickled again in
every protocol. Both unpicklers of CPython, the one in C and the strict one in Python, read the old and the new file.
Their classes are stubs that keep all arguments. The two graphs are compared node by node: classes, arguments, states,
order, and shared objects. Without CKPTFS_ALL each third fixture is rewritten, in one of three ways, and fewer of them are
pickled in every protocol.
"""
import copyreg
import io
import json
import pathlib
import pickle
import subprocess
import sys
import tempfile
import types
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from tap import Tap, is_long  # noqa: E402

WRITER, FIXTURES = sys.argv[1], pathlib.Path(sys.argv[2])
tap = Tap()
ok = tap.result


# ---- stub classes ---------------------------------------------------------------------------------------------------

class Meta(type):
    """A stub class. Its objects record whether they were created by a call or only by __new__."""

    def __call__(cls, *args):
        obj = cls.__new__(cls, *args)
        obj.called = True
        return obj


class Stub:
    called, args, state, items = False, (), None, ()        # for objects of copyreg._reconstructor

    def __new__(cls, *args):
        obj = object.__new__(cls)
        obj.called, obj.args, obj.state, obj.items = False, args, None, []
        return obj

    def __setstate__(self, state):
        self.state = state

    def __setitem__(self, key, value):
        self.items.append((key, value))

    def append(self, value):
        self.items.append(value)

    def __reduce_ex__(self, protocol):
        state = self.state
        if self.called:
            return type(self), self.args, state
        if protocol < 2:
            return copyreg._reconstructor, (type(self), object, None), state
        return copyreg.__newobj__, (type(self), *self.args), state


stubs = {}


def stand_in(module, name):
    """The stub class of this name."""
    if name in ("_reconstructor", "object"):
        return copyreg._reconstructor if name == "_reconstructor" else object
    if (module, name) not in stubs:
        stubs[module, name] = Meta(name, (Stub,), {"__module__": module, "__qualname__": name})
    return stubs[module, name]


class Importable:
    """Makes the stub classes importable by name while they are pickled."""

    def __enter__(self):
        self.were = []
        for (module, name), stand in stubs.items():
            owner = sys.modules.setdefault(module, types.ModuleType(module))
            self.were.append((owner, name, getattr(owner, name, None)))
            setattr(owner, name, stand)

    def __exit__(self, *_):
        for owner, name, was in self.were:
            if was is not None:
                setattr(owner, name, was)


class CReader(pickle.Unpickler):
    def find_class(self, module, name):
        return stand_in(module, name)


class PythonReader(pickle._Unpickler):
    def find_class(self, module, name):
        return stand_in(module, name)


READERS = CReader, PythonReader


def load(reader, data):
    stream = io.BytesIO(data)
    obj = reader(stream).load()
    assert stream.read() == b"", "bytes after the end"
    return obj


# ---- comparing ------------------------------------------------------------------------------------------------------

def children(obj):
    """The type and own value of an object, and the list of its parts."""
    if isinstance(obj, Stub):
        return (type(obj), obj.called), [obj.args, obj.state, obj.items]
    if isinstance(obj, dict):
        return dict, [part for pair in obj.items() for part in pair]
    if isinstance(obj, (list, tuple)):
        return type(obj), list(obj)
    if isinstance(obj, (set, frozenset)):
        return (type(obj), frozenset(map(repr, obj))), []
    return (type(obj), obj), []


def same(old, new, places):
    """True if the graphs are equal except for `places`: id of an old _StorageInfo -> changed fields of its state."""
    todo, twin = [(old, new)], {}
    while todo:
        a, b = todo.pop()
        if id(a) in twin:
            if twin[id(a)] is not b:
                return False
            continue
        (what, parts), (other, others) = children(a), children(b)
        if id(a) in places:
            want = dict(a.state)
            want.update(places[id(a)])
            if list(want.items()) != list(b.state.items()) or what != other:
                return False
            continue
        if what != other or len(parts) != len(others):
            return False
        if parts and not isinstance(a, tuple):
            twin[id(a)] = b
        todo.extend(zip(parts, others))
    return True


def plain(obj):
    """The ints of a torch.Size or tuple."""
    while isinstance(obj, Stub):
        obj, = obj.args
    return tuple(obj)


def places_of(graph, lines):
    """id of each _StorageInfo that the lines of the writer name -> its new fields."""
    rows = {}
    for index, info in graph.state["storage_data"].items():
        offset = index.state.get("offset")
        if offset is not None:
            rows[index.state["fqn"], plain(offset)] = info
    places = {}
    for line in lines:
        fqn, offset, path, fpos, length = line.split("\t")
        fqn = urllib.parse.unquote_to_bytes(fqn).decode("utf-8", "surrogatepass")
        info = rows[fqn, tuple(json.loads(offset))]
        new = {"relative_path": path, "offset": int(fpos), "length": int(length)}
        if info.state.get("transform_descriptors") is not None:
            new["transform_descriptors"] = None
        places[id(info)] = new
    return places


# ---- cases ----------------------------------------------------------------------------------------------------------

def rewrite(data, nth, generation):
    """The rewritten bytes, and a line for each change."""
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        (home / "in").mkdir()
        (home / "in/.metadata").write_bytes(data)
        out = subprocess.run([WRITER, "metadata", home / "in", str(nth), str(generation), home / "out"],
                             capture_output=True, check=False)
        if out.returncode:
            raise RuntimeError(out.stderr.decode())
        return (home / "out").read_bytes(), out.stdout.decode().splitlines()


NTHS = 1, 3, 1 << 30


def check(name, data, nths=NTHS):
    for nth in nths:
        new, lines = rewrite(data, nth, 1)
        for reader in READERS:
            old = load(reader, data)
            ok(same(old, load(reader, new), places_of(old, lines)), f"{name}: every {nth}, {reader.__name__}")
        again, lines = rewrite(new, nth, 2)
        old = load(PythonReader, data)
        ok(same(old, load(PythonReader, again), places_of(old, lines)) and len(again) == len(new),
           f"{name}: every {nth}, again")


def pickled(data, protocol, pickler, change=lambda graph: None):
    graph, out = load(CReader, data), io.BytesIO()
    change(graph)
    with Importable():
        pickler(out, protocol).dump(graph)
    return out.getvalue()


def lengthen(graph):
    graph.state["storage_meta"].state["save_id"] = "x" * (17 << 20)


def canaries(data):
    """Changes that the comparison must detect."""
    new, lines = rewrite(data, 2, 1)
    old = load(CReader, data)
    places = places_of(old, lines)
    ok(len(lines) > 1, "canary: there are changes")
    ok(same(old, load(CReader, new), places), "canary: all is well before")
    ok(not same(old, load(CReader, data), places), "canary: nothing was changed")
    ok(not same(old, load(CReader, new), dict(list(places.items())[1:])), "canary: a change that was not requested")
    for what in "properties", "save_id", "__1_0", "MetadataIndex":
        damaged = new.replace(what.encode(), what.encode()[:-1] + b"X", 1)
        try:
            seen = damaged != new and not same(old, load(CReader, damaged), places)
        except Exception:
            seen = True
        ok(seen, f"canary: another {what}")
    at = new.index(b"\x95") + 1
    length = int.from_bytes(new[at:at + 8], "little")
    ok(length != int.from_bytes(data[at:at + 8], "little"), "canary: the frame grew")
    caught = 0
    for less in range(1, 9):        # a frame that ends between two opcodes is not detected
        try:
            load(PythonReader, new[:at] + (length - less).to_bytes(8, "little") + new[at + 8:])
        except pickle.UnpicklingError:
            caught += 1
    ok(caught > 0, "canary: a frame that is too short")


def main():
    names = sorted(p.parent.name for p in FIXTURES.glob("*/.metadata") if not p.parent.name.startswith("should-fail"))
    few = [name for name in names if name != "many"][::3]               # below it has many frames
    for i, name in enumerate(names if is_long() else few):
        check(name, (FIXTURES / name / ".metadata").read_bytes(), NTHS if is_long() else [NTHS[i % 3]])
    ok(len(names) > 40, "there are fixtures")
    several = "dtensor-", "nested", "zstd"
    for name in [n for n in names if n.startswith(several)] if is_long() else ["dtensor-2.15.0", "nested"]:
        data = (FIXTURES / name / ".metadata").read_bytes()
        for protocol in range(6):
            for pickler in pickle.Pickler, pickle._Pickler:
                check(f"{name}, protocol {protocol} of {pickler.__module__}", pickled(data, protocol, pickler),
                      nths=[2])
    check("many frames, protocol 5", pickled((FIXTURES / "many/.metadata").read_bytes(), 5, pickle._Pickler),
          NTHS if is_long() else NTHS[1:2])
    # above 16 MiB, ckptfs does not parse its output again
    check("large", pickled((FIXTURES / "dtensor/.metadata").read_bytes(), 4, pickle.Pickler, lengthen),
          NTHS if is_long() else NTHS[1:2])
    canaries((FIXTURES / "dtensor/.metadata").read_bytes())
    return tap.finish()


sys.exit(main())
