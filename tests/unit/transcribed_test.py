#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A pickle of any protocol, rewritten as protocol 2, is read by Python as the same graph.

    transcribed_test.py TRANSCRIBER

Random graphs, with shared values and cycles, are pickled in each protocol by both picklers of CPython. Both unpicklers
read the rewritten pickles. The graphs are compared node by node: types, values, order, and shared objects.
"""
import _compat_pickle
import collections
import decimal
import enum
import io
import pathlib
import pickle
import pickletools
import random
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from tap import Tap, cases, seed  # noqa: E402

CASES = cases("CKPTFS_TRANSCRIBED", 150, 12000)
SEED = seed(20266)
tap = Tap()
ok = tap.result


# ---- classes for each way of pickling an object ---------------------------------------------------------------------

class Plain:
    """Pickled by its __dict__."""


class Slots:
    __slots__ = ("a", "b")


class Keywords:
    """Pickled by __new__ with keywords, which is an opcode of protocol 4."""

    def __new__(cls, *args, **kwargs):
        obj = object.__new__(cls)
        obj.made = args, kwargs
        return obj

    def __init__(self, *args, **kwargs):
        pass

    def __getnewargs_ex__(self):
        return self.made


class Listed(list):
    """Pickled as items and a state."""


class Keyed(dict):
    pass


class Outer:
    class Inner:
        class Innermost:
            pass


class Colour(enum.Enum):
    RED = 1


class Reduced:
    """Pickled as a call."""

    def __init__(self, *args):
        self.args = args

    def __reduce__(self):
        return Reduced, self.args


# ---- graphs ---------------------------------------------------------------------------------------------------------

def leaf(r):
    width = r.choice([7, 8, 15, 16, 31, 32, 39, 40, 63, 64, 70, 300, 2100])
    return r.choice([
        None, True, False, r.random(), float("inf"), -0.0, r.randrange(-1 << width, 1 << width),
        "".join(chr(r.choice([r.randrange(128), r.randrange(0x2000), 0x1f600, 0xd800])) for _ in range(r.randrange(9))),
        bytes(r.randrange(256) for _ in range(r.choice([0, 1, 3, 9]))), bytearray(r.randbytes(r.choice([0, 2, 700]))),
        complex(r.random(), -1.5), Plain, Outer.Inner, Outer.Inner.Innermost, len, dict, Colour.RED,
        decimal.Decimal(r.randrange(10 ** 9)), collections.OrderedDict, range(r.randrange(9)), slice(1, None),
    ])


def hashable(r):
    value = leaf(r)
    return value if value.__hash__ and not isinstance(value, (slice, Slots)) else "key"


def filled(r, obj, child):
    """An object with children in it."""
    for name in "ab"[:r.randrange(3)]:
        setattr(obj, name, child())
    return obj


class Graph:
    """A random graph. Values may be reused, even before they are complete, which makes cycles."""

    def __init__(self, r):
        self.r, self.open, self.left = r, [], r.choice([1, 5, 30, 200])

    def keep(self, value):
        self.open.append(value)
        return value

    def child(self):
        self.left -= 1
        if self.left < 0:
            return leaf(self.r)
        if self.open and self.r.random() < 0.25:
            return self.r.choice(self.open)
        return self.make()

    def children(self):
        return [self.child() for _ in range(self.r.choice([0, 1, 2, 3, 4, 7]))]

    def make(self):
        r = self.r
        kind = r.randrange(16)
        if kind < 3:
            return self.keep(leaf(r))
        if kind == 3:
            value = self.keep([])
            value.extend(self.children())
            return value
        if kind == 4:
            value = self.keep({})
            value.update((hashable(r), self.child()) for _ in range(r.randrange(5)))
            return value
        if kind == 5:
            return self.keep(tuple(self.children()))
        if kind == 6:
            return self.keep(r.choice([set, frozenset])(hashable(r) for _ in range(r.randrange(5))))
        if kind == 7:
            return filled(r, self.keep(Plain()), self.child)
        if kind == 8:
            return filled(r, self.keep(Slots()), self.child)
        if kind == 9:
            return self.keep(Keywords(*self.children(), **{name: self.child() for name in "xy"[:r.randrange(3)]}))
        if kind == 10:
            value = self.keep(Listed())
            value.extend(self.children())
            return filled(r, value, self.child)
        if kind == 11:
            value = self.keep(Keyed())
            value.update((hashable(r), self.child()) for _ in range(r.randrange(3)))
            return filled(r, value, self.child)
        if kind == 12:
            return self.keep(collections.OrderedDict((hashable(r), self.child()) for _ in range(r.randrange(4))))
        if kind == 13:
            value = self.keep(collections.defaultdict(r.choice([None, list])))
            value[hashable(r)] = self.child()
            return value
        if kind == 14:
            return filled(r, self.keep(Outer.Inner()), self.child)
        return self.keep(Reduced(*self.children()))


def long_ones():
    """Values that Python writes in several batches."""
    yield list(range(2001))
    yield {i: str(i) for i in range(2500)}
    yield set(range(1500))
    yield [("shared text", i) for i in range(700)]
    deep = None
    for _ in range(60):
        deep = [deep]
    yield deep


# ---- comparing ------------------------------------------------------------------------------------------------------

def parts(obj):
    """The type and own value of an object, and the list of its parts."""
    kind = type(obj)
    if kind in (list, tuple):
        return kind, list(obj)
    if kind in (dict, collections.OrderedDict):
        return kind, [part for pair in obj.items() for part in pair]
    if kind is collections.defaultdict:
        return (kind, obj.default_factory), [part for pair in obj.items() for part in pair]
    if kind in (set, frozenset):
        return (kind, obj), []
    if kind is Slots:
        return kind, [getattr(obj, name, "unset") for name in "ab"]
    if kind in (Keywords, Reduced, Plain, Outer.Inner):
        return kind, [part for pair in vars(obj).items() for part in pair]
    if kind in (Listed, Keyed):
        items = obj if kind is Listed else [part for pair in obj.items() for part in pair]
        return kind, [*items, len(items), *[part for pair in vars(obj).items() for part in pair]]
    if kind in (float, complex):
        return (kind, repr(obj)), []
    return (kind, obj), []


MUTABLE = list, dict, set, bytearray, Plain, Slots, Keywords, Outer.Inner, Reduced


def same(a, b):
    todo, twin, other = [(a, b)], {}, {}
    while todo:
        a, b = todo.pop()
        if id(a) in twin:
            if twin[id(a)] is not b:
                return False
            continue
        (what, inner), (what_b, inner_b) = parts(a), parts(b)
        if what != what_b or len(inner) != len(inner_b):
            return False
        if isinstance(a, MUTABLE):
            if id(b) in other:              # two of a have become one of b
                return False
            twin[id(a)], other[id(b)] = b, a
        elif inner:
            twin[id(a)] = b
        todo.extend(zip(inner, inner_b))
    return True


# ---- cases ----------------------------------------------------------------------------------------------------------

class Transcriber:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, data):
        self.process.stdin.write(struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()
        head, = struct.unpack("<I", self.process.stdout.read(4))
        out = self.process.stdout.read(head & 0x7fffffff)
        if head >> 31:
            raise ValueError(out.decode())
        return out

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


def dumped(graph, protocol, pickler):
    out = io.BytesIO()
    pickler(out, protocol).dump(graph)
    return out.getvalue()


def read_again(data, reader):
    stream = io.BytesIO(data)
    graph = reader(stream).load()
    assert stream.read() == b"", "bytes after the end"
    return graph


def wrong(transcribe, graph, what):
    """Returns a description of the first fault in any protocol, or None."""
    for protocol in range(6):
        for pickler in pickle.Pickler, pickle._Pickler:
            try:
                data = dumped(graph, protocol, pickler)
            except (RecursionError, pickle.PicklingError, TypeError, UnicodeEncodeError):
                continue                    # Python cannot pickle it
            try:
                before = read_again(data, pickle.Unpickler)
            except Exception:               # Python cannot read it
                continue
            try:
                out = transcribe(data)
            except ValueError as why:
                # ckptfs refuses partial(getattr(Keywords, "__new__"), ...) of protocols 2 and 3. It also refuses an
                # object in its own arguments, which Python fills twice.
                if (2 <= protocol < 4 and b"Keywords" in data and "getattr" in str(why) or
                        "a second state" in str(why)):
                    continue
                return f"{what}, protocol {protocol}: {why}"
            newest = max(op.proto for op, _, _ in pickletools.genops(out))
            if newest > 2:
                return f"{what}, protocol {protocol}: an opcode of protocol {newest}"
            for reader in pickle.Unpickler, pickle._Unpickler:
                if not same(before, read_again(out, reader)):
                    return f"{what}, protocol {protocol}, {pickler.__module__}: another graph\n{data!r}\n{out!r}"
            if len(out) > 3 * len(data) + 200:
                return f"{what}, protocol {protocol}: {len(data)} bytes became {len(out)}"
    return None


def canaries():
    shared = []
    ok(same([shared, shared], [shared, shared]), "canary: the same")
    ok(not same([shared, shared], [[], []]), "canary: two for one")
    ok(not same([[], []], [shared, shared]), "canary: one for two")
    ok(not same({"a": 1, "b": 2}, {"b": 2, "a": 1}), "canary: another order")
    ok(not same([1], [True]), "canary: another type")
    ok(not same(0.0, -0.0), "canary: another zero")


DANGEROUS = "dangerous", "subprocess", "sys", "pickle", "socket"
# Python reads `dbm` of protocol 2 as dbm.ndbm.
NAMELESS = "no name in protocol 2", "dbm"


def renamed(transcribe):
    """Each name that Python 3 has renamed is written with its new name."""
    rows = dict(_compat_pickle.NAME_MAPPING)
    rows |= {(old, "thing"): (new, "thing") for old, new in _compat_pickle.IMPORT_MAPPING.items()}
    rows |= {("a", "b"): ("a", "b"), ("zzz", "b"): ("zzz", "b"), ("UserDic", "b"): ("UserDic", "b")}
    bad = []
    for (module, name), new in sorted(rows.items()):
        want = ".".join(new)
        try:
            out = transcribe(f"\x80\x02c{module}\n{name}\n.".encode("latin-1"))
            got = [arg.replace(" ", ".") for code, arg, _ in pickletools.genops(out) if code.name == "GLOBAL"]
        except ValueError as why:
            got = [want if any(of[0] in str(why) and new[0] in of[1:] for of in (DANGEROUS, NAMELESS)) else str(why)]
        if got != [want]:
            bad.append(f"{module}.{name}: {got}, not {want}")
    ok(len(rows) > 100 and not bad, f"{len(rows)} names of Python 2", bad)


def main():
    transcribe = Transcriber(sys.argv[1])
    canaries()
    renamed(transcribe)
    for i, graph in enumerate(long_ones()):
        why = wrong(transcribe, graph, f"long {i}")
        ok(not why, why or f"long {i}")
    bad, seen = [], 0
    for i in range(CASES):
        graph = Graph(random.Random(SEED * 1_000_003 + i)).make()
        why = wrong(transcribe, graph, f"case {i}")
        seen += 1
        if why:
            bad.append(why)
            if len(bad) > 3:
                break
    for why in bad:
        print("#", why.replace("\n", "\n# "))
    ok(not bad and seen == CASES, f"{seen} random graphs, each in six protocols")
    ok(transcribe.end() == 0, "it ends well")
    return tap.finish()


sys.exit(main())
