#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes dcp_cases.h: `.metadata` pickles that no torch writes.

Stand-in classes carry the module and field names of
torch.distributed.checkpoint, so no torch is needed. Each case says what must
come out: an error whose text holds some words, or lines of the catalog dump.

    python3 tests/unit/dcp_cases.py > tests/unit/dcp_cases.h
"""
import collections
import copyreg
import functools
import pathlib
import pickle
import sys
import types

MODULES = {}


def module(name):
    if name not in MODULES:
        MODULES[name] = sys.modules[name] = types.ModuleType(name)
    return MODULES[name]


def stand_in(module_name, name):
    cls = type(name, (), {"__module__": module_name})
    setattr(module(module_name), name, cls)

    def make(**fields):
        obj = cls()
        obj.__dict__.update(fields)
        return obj

    return make


for parent in ("torch", "torch.distributed", "torch.distributed._shard",
               "torch.distributed._shard.checkpoint",
               "torch.distributed.checkpoint", "vendor"):
    module(parent)


class Size(tuple):
    def __reduce__(self):
        return Size, (tuple(self),)


Size.__module__ = "torch"
module("torch").Size = Size


class Named:
    """Pickles as a bare global torch.<name>."""

    def __init__(self, name):
        self.name = name
        setattr(module("torch"), name, self)

    def __reduce__(self):
        return self.name


Named.__module__ = "torch"
FLOAT32, FLOAT99, QUINT4 = Named("float32"), Named("float99"), Named("quint4x2")
META = "torch.distributed.checkpoint.metadata"
Metadata = stand_in(META, "Metadata")
Tensor = stand_in(META, "TensorStorageMetadata")
Bytes = stand_in(META, "BytesStorageMetadata")
Chunk = stand_in(META, "ChunkStorageMetadata")
Index = stand_in(META, "MetadataIndex")
Info = stand_in("torch.distributed.checkpoint.filesystem", "_StorageInfo")
Novel = stand_in("vendor.plugin", "Novel")
OLD = "torch.distributed._shard.checkpoint.metadata"
OldMetadata = stand_in(OLD, "Metadata")


class TensorProperties:
    def __init__(self, dtype, *more):
        self.state = (dtype, None, False, None, False, *more)

    def __getstate__(self):
        return self.state


TensorProperties.__module__ = META
module(META).TensorProperties = TensorProperties


class System:
    def __reduce__(self):
        import os
        return os.system, ("touch /tmp/ckptfs-canary",)


def tensor(size, boxes, dtype=FLOAT32, dims=Size, more=()):
    return Tensor(properties=TensorProperties(dtype, *more), size=dims(size),
                  chunks=[Chunk(offsets=dims(o), sizes=dims(s))
                          for o, s in boxes])


def index(fqn, offset=None, dims=Size):
    return Index(fqn=fqn, index=0, **({} if offset is None
                                      else {"offset": dims(offset)}))


def info(path="f", offset=0, length=10, **more):
    return Info(relative_path=path, offset=offset, length=length, **more)


ROWS = [((0, 0), (2, 3)), ((2, 0), (2, 3))]


def checkpoint(entries, storage, make=Metadata, **more):
    return make(state_dict_metadata=entries, planner_data=None,
                storage_data=storage, **more)


def good(dims=Size, **more):
    return checkpoint(
        {"w": tensor((4, 3), ROWS, dims=dims)},
        {index("w", (0, 0), dims): info(), index("w", (2, 0), dims):
         info(offset=10)}, **more)


CASES = []


def case(name, obj, want, error=False, protocol=4):
    data = obj if isinstance(obj, bytes) else pickle.dumps(obj, protocol)
    CASES.append((name, data, error, want))


LINE = "tensor w dtype=float32 shape=[4,3] bytes=48 chunks=2 kind=tensor"
for p in range(6):
    case(f"protocol {p}", good(), LINE, protocol=p)
case("tuples in place of torch.Size", good(tuple), LINE)
case("lists in place of torch.Size", checkpoint(
    {"w": tensor((4, 3), ROWS, dims=list)},
    {index("w", (0, 0)): info(), index("w", (2, 0)): info(offset=10)}), LINE)
case("six properties", checkpoint(
    {"w": tensor((4, 3), ROWS, more=((3, 1),))},
    {index("w", (0, 0)): info(), index("w", (2, 0)): info(offset=10)}), LINE)
case("unknown fields are no error", good(vendor={"a": [Novel(x=1)]}),
     "global vendor.plugin.Novel")
case("module of 1.13", checkpoint({}, {}, OldMetadata), "catalog kind=")
case("rows out of order", checkpoint(
    {"w": tensor((4, 3), ROWS)},
    {index("w", (2, 0)): info(offset=10), index("w", (0, 0)): info()}),
    " chunk off=[2,0] size=[2,3] file=0 pos=10 length=10")
case("a row nobody asks for", checkpoint(
    {"w": tensor((4, 3), ROWS)},
    {index("x", (0,)): info(), index("w", (0, 0)): info(),
     index("w", (2, 0)): info(offset=10)}), LINE)
case("no row for a box", checkpoint(
    {"w": tensor((4, 3), ROWS)}, {index("w", (0, 0)): info()}),
    " chunk off=[2,0] size=[2,3] file=none pos=0 length=0 err=ENODATA")
case("a 0-d tensor has an offset", checkpoint(
    {"s": tensor((), [((), ())])}, {index("s", ()): info()}),
    " chunk off=[] size=[] file=0 pos=0 length=10")
case("a 0-d tensor without offset has no item", checkpoint(
    {"s": tensor((), [((), ())])}, {index("s"): info()}),
    " chunk off=[] size=[] file=none pos=0 length=0 err=ENODATA")
case("an entry of unknown class is listed", checkpoint(
    {"n": Novel(x=1)}, {index("n"): info()}), "object n ")
case("boxes that overlap", checkpoint(
    {"w": tensor((4, 3), [((0, 0), (3, 3)), ((2, 0), (2, 3))])},
    {index("w", (0, 0)): info(), index("w", (2, 0)): info(offset=10)}),
    "err=EIO \"boxes overlap")
case("a box outside", checkpoint(
    {"w": tensor((4, 3), [((0, 0), (2, 3)), ((3, 0), (2, 3))])}, {}),
    "err=EIO \"a box is not inside the tensor")
case("a negative offset", checkpoint(
    {"w": tensor((4, 3), [((-1, 0), (2, 3))])}, {}),
    "err=EIO \"a box is not inside the tensor")
case("a huge box", checkpoint(
    {"w": tensor((4, 3), [((0, 0), (2**63 - 1, 2**63 - 1))])}, {}), "err=EIO")
case("a hole", checkpoint(
    {"w": tensor((5, 3), ROWS)},
    {index("w", (0, 0)): info(), index("w", (2, 0)): info(offset=10)}),
    "holes")
case("a negative dimension", checkpoint(
    {"w": tensor((-4, 3), [])}, {}), "err=EIO")
case("dimensions whose product overflows", checkpoint(
    {"w": tensor((2**32, 2**32), [])}, {}), "err=EIO")
case("a dimension of 64 bits", checkpoint(
    {"w": tensor((2**63 - 1, 2), [])}, {}), "err=EIO")
case("a dimension of 70 bits", checkpoint(
    {"w": tensor((2**70, 2), [])}, {}), "err=EBADMSG")
case("zero times a huge dimension", checkpoint(
    {"w": tensor((0, 2**63 - 1), [])}, {}), "bytes=0 chunks=0")
case("65 dimensions", checkpoint(
    {"w": tensor((1,) * 65, [((0,) * 65, (1,) * 65)])}, {}), "err=EBADMSG")
case("a box of other dimensions", checkpoint(
    {"w": tensor((4, 3), [((0,), (4,))])}, {}),
    "\"a box has other dimensions than the tensor")
case("an offset of other dimensions than sizes", checkpoint(
    {"w": tensor((4, 3), [((0, 0), (4,))])}, {}), "err=EIO")
case("a dtype of the future", checkpoint(
    {"w": tensor((4, 3), ROWS, dtype=FLOAT99)}, {}),
    "\"unknown dtype float99")
case("a dtype without whole bytes", checkpoint(
    {"w": tensor((4, 3), ROWS, dtype=QUINT4)}, {}), "err=EBADMSG")
case("no properties", checkpoint(
    {"w": Tensor(size=Size((4,)), chunks=[])}, {}), "err=EBADMSG")
case("no size", checkpoint({"w": Tensor(chunks=[])}, {}), "err=EBADMSG")
case("no chunks", checkpoint(
    {"w": Tensor(size=Size((4,)))}, {}), "err=EBADMSG")
case("an item at a negative place", checkpoint(
    {"w": tensor((2, 3), ROWS[:1])},
    {index("w", (0, 0)): info(offset=-1)}), "err=ENODATA")
case("an item of negative length", checkpoint(
    {"w": tensor((2, 3), ROWS[:1])},
    {index("w", (0, 0)): info(length=-1)}), "err=ENODATA")
case("two boxes of one item", checkpoint(
    {"w": tensor((4, 3), ROWS)},
    {index("w", (0, 0)): info(), index("w", (2, 0)): info(offset=5)}),
    "file=0 pos=5 length=10 err=EIO")
case("stream transforms", checkpoint(
    {"w": tensor((2, 3), ROWS[:1])},
    {index("w", (0, 0)): info(transform_descriptors=["a/1", "b"])}),
    "transform=a/1,b")


def twice(marker, data):
    """`marker` stands for a second copy of a key of the same length."""
    return data.replace(marker[0], marker[1])


case("two entries of one name", twice(
    (b"w2", b"w1"), pickle.dumps(checkpoint({"w1": Bytes(), "w2": Bytes()},
                                            {}), 4)),
    "two entries of name w1", error=True)
case("two items of one key in order", twice(
    (b"w2", b"w1"), pickle.dumps(checkpoint(
        {"w1": Bytes()}, {index("w1"): info(), index("w2"): info()}), 2)),
    "two items of w1", error=True)
case("two items of one unused key", twice(
    (b"w2", b"w1"), pickle.dumps(checkpoint(
        {}, {index("w1"): info(), index("w2"): info()}), 2)),
    "two items of w1", error=True)
case("no Metadata", {"a": 1}, "holds no Metadata", error=True)
case("a class named Metadata of another module",
     stand_in("vendor", "Metadata")(state_dict_metadata={}, storage_data={}),
     "global vendor.Metadata")
case("a class named Metadata with other fields",
     stand_in("vendor", "Metadata")(state_dict_metadata={}),
     "holds no Metadata", error=True)
case("no state_dict_metadata", Metadata(storage_data={}),
     "no state_dict_metadata", error=True)
case("no storage_data", Metadata(state_dict_metadata={}), "no storage_data",
     error=True)
case("storage_data that is a list", Metadata(
    state_dict_metadata={}, storage_data=[]),
    "storage_data is not a dict, but list", error=True)
case("storage_data of other things", checkpoint({}, {1: 2}),
     "the key of entry 0 is not a MetadataIndex, but int", error=True)
case("a key that is no string", checkpoint({1: Bytes()}, {}),
     "a key that is no string, but int", error=True)
case("a key of a class that is no string", checkpoint({Novel(x=1): Bytes()}, {}),
     "a key that is no string, but vendor.plugin.Novel", error=True)
case("an index without fqn", checkpoint({}, {Index(index=0): info()}),
     "without fqn", error=True)
case("a path that is no string", checkpoint(
    {"w": tensor((4, 3), ROWS)},
    {index("w", (0, 0)): info(), index("w", (2, 0)): info(path=1)}),
    " chunk off=[2,0] size=[2,3] file=none pos=0 length=0 err=ENODATA")
case("bytes after the end", pickle.dumps(good(), 4) + b"x",
     "bytes after its end", error=True)
case("a dangerous global in a field nobody reads", good(vendor=System()),
     "dangerous global posix.system", error=True)
case("a persistent id", pickle.dumps(good(), 2)[:-1] + b"Q.",
     "persistent id", error=True)

# Boxes that are not stored one behind the other: two tensors share theirs.
first, second = (Chunk(offsets=Size(o), sizes=Size(s)) for o, s in ROWS)
case("boxes in another order for a second tensor", checkpoint(
    {"v": Tensor(properties=TensorProperties(FLOAT32), size=Size((4, 3)),
                 chunks=[first, second]),
     "w": Tensor(properties=TensorProperties(FLOAT32), size=Size((4, 3)),
                 chunks=[second, first])},
    {index("w", (0, 0)): info(), index("w", (2, 0)): info(offset=10)}), LINE)
case("a box without sizes", checkpoint(
    {"w": Tensor(properties=TensorProperties(FLOAT32), size=Size((2,)),
                 chunks=[Chunk(offsets=Size((0,)))])}, {}), "err=EIO")
case("a box without offsets", checkpoint(
    {"w": Tensor(properties=TensorProperties(FLOAT32), size=Size((2,)),
                 chunks=[Chunk(sizes=Size((2,)))])}, {}), "err=EIO")
case("a box of words", checkpoint(
    {"w": Tensor(properties=TensorProperties(FLOAT32), size=Size((2,)),
                 chunks=[Chunk(offsets=["a"], sizes=Size((2,)))])}, {}),
     "err=EIO")
case("a box that is none", checkpoint(
    {"w": Tensor(properties=TensorProperties(FLOAT32), size=Size((2,)),
                 chunks=[Novel(offsets=Size((0,)), sizes=Size((2,))), 5])},
    {}), "err=EIO")
case("boxes in a dict", checkpoint(
    {"w": Tensor(properties=TensorProperties(FLOAT32), size=Size((2,)),
                 chunks={})}, {}), "it has no list of boxes")
case("a size of words", checkpoint(
    {"w": Tensor(properties=TensorProperties(FLOAT32), size=["a"],
                 chunks=[])}, {}), "its size is no list of numbers")
case("a size that is a number", checkpoint(
    {"w": Tensor(properties=TensorProperties(FLOAT32), size=3,
                 chunks=[])}, {}), "its size is no list of numbers")
case("properties that are others", checkpoint(
    {"w": Tensor(properties=Novel(dtype=FLOAT32), size=Size((2,)),
                 chunks=[])}, {}), "err=EBADMSG")


def properties(state):
    made = TensorProperties(FLOAT32)
    made.state = state
    return made


def with_properties(state):
    return checkpoint(
        {"w": Tensor(properties=properties(state), size=Size((4, 3)),
                     chunks=[Chunk(offsets=Size(o), sizes=Size(s))
                             for o, s in ROWS])},
        {index("w", (0, 0)): info(), index("w", (2, 0)): info(offset=10)})


case("properties in a dict", with_properties({"dtype": FLOAT32}),
     LINE)
case("properties without dtype", with_properties(
    {"layout": None}), "err=EBADMSG")
case("a dtype that is a word", with_properties(
    {"dtype": "float32"}), "err=EBADMSG")
for name in ("MEM_FORMAT_ENCODING", "_MEM_FORMAT_ENCODING"):
    enum = Named("")
    enum.name = f"distributed.checkpoint.metadata.{name}.TORCH_CONTIGUOUS"
    setattr(module(META), name, types.SimpleNamespace(TORCH_CONTIGUOUS=enum))
    module("torch").distributed = types.SimpleNamespace(
        checkpoint=types.SimpleNamespace(metadata=module(META)))
    case(f"a member of {name} in place of its number", checkpoint(
        {"w": tensor((4, 3), ROWS, more=(enum,))},
        {index("w", (0, 0)): info(), index("w", (2, 0)): info(offset=10)}),
        LINE)
case("an index whose fqn is a number", checkpoint({}, {index(1): info()}),
     "without fqn", error=True)
case("an index whose offset is None", checkpoint(
    {"n": Bytes()}, {Index(fqn="n", index=0, offset=None): info()}),
     "object n")
case("an index whose offset is a word", checkpoint(
    {"w": tensor((4, 3), ROWS)},
    {Index(fqn="w", index=0, offset=["a"]): info()}), "malformed offset",
     error=True)
case("an index whose offset is a number", checkpoint(
    {"w": tensor((4, 3), ROWS)},
    {Index(fqn="w", index=0, offset=5): info()}), "malformed offset",
     error=True)
for field, value in (("relative_path", None), ("offset", None),
                     ("length", None), ("offset", "1"), ("length", True)):
    row = {"relative_path": "f", "offset": 0, "length": 10}
    if value is None:
        del row[field]
    else:
        row[field] = value
    case(f"{field} that is {value}", checkpoint(
        {"w": tensor((4, 3), ROWS)},
        {index("w", (0, 0)): info(), index("w", (2, 0)): Info(**row)}),
        " chunk off=[2,0] size=[2,3] file=none pos=0 length=0 err=ENODATA")
case("an index to something else", checkpoint(
    {"w": tensor((4, 3), ROWS)},
    {index("w", (0, 0)): info(), index("w", (2, 0)): 5}),
    " chunk off=[2,0] size=[2,3] file=none pos=0 length=0 err=ENODATA")
case("Metadata without anything", Metadata(), "holds no Metadata", error=True)
case("transforms that are no words", checkpoint(
    {"w": tensor((4, 3), ROWS)},
    {index("w", (0, 0)): info(transform_descriptors=[1, "b"]),
     index("w", (2, 0)): info(offset=10)}), "transform=?,b")
case("properties that are numbers", with_properties((1, 2)), "err=EBADMSG")
case("properties that are nothing", with_properties(()), "err=EBADMSG")
case("an item of unknown class beyond its file", checkpoint(
    {"n": Novel(x=1)}, {index("n"): info(offset=5000)}), "object n")


# --- forms that Python takes for the same, in each protocol

BOX_AT = " chunk off=[2,0] size=[2,3] file=0 pos=10 length=10"

class Word(str):
    pass


Word.__module__ = "vendor.plugin"
module("vendor.plugin").Word = Word
BOX = " chunk off=[2,0] size=[2,3] file=0 pos=10 length=10"


@functools.cache
def foreign(name, make):
    """The same object of a class of the same name in another module."""
    other = stand_in("vendor.format", name)
    return lambda **fields: other(**make(**fields).__dict__)


class Slots:
    """An object with __slots__: its state is (None, {...})."""
    __slots__ = ("relative_path", "offset", "length")

    def __init__(self, **fields):
        for name, value in fields.items():
            setattr(self, name, value)

    def __reduce_ex__(self, protocol):
        return (copyreg.__newobj__, (Slots,), (None, {name: getattr(self, name) for name in self.__slots__}))


Slots.__module__ = "vendor.plugin"
module("vendor.plugin").Slots = Slots


def formed(index=Index, info=Info, word=str, path=str, number=int, dims=Size, dict_of=dict,
           make=Metadata, box=Chunk, whole=Tensor):
    def rows():
        for i, (offset, _) in enumerate(ROWS):
            yield (index(fqn=word("w"), index=0, offset=dims(map(number, offset))),
                   info(relative_path=path("f"), offset=number(10 * i), length=number(10)))
    boxes = [box(offsets=dims(map(number, o)), sizes=dims(map(number, s))) for o, s in ROWS]
    w = whole(properties=TensorProperties(FLOAT32), size=dims(map(number, (4, 3))), chunks=boxes)
    return make(state_dict_metadata=dict_of({word("w"): w}), planner_data=dict_of({word("w"): (word("w"),)}),
                storage_data=dict_of(dict(rows())))


class Called:
    """Pickles as a call: callable, arguments, and perhaps state, list and dict items."""

    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts


W = {"w": tensor((4, 3), ROWS)}
GOOD = {index("w", (0, 0)): info(), index("w", (2, 0)): info(offset=10)}
LOST = " chunk off=[2,0] size=[2,3] file=none pos=0 length=0 err=ENODATA"
for what, storage in (("an OrderedDict", Called(collections.OrderedDict, (list(GOOD.items()),))),
                      ("a defaultdict", Called(collections.defaultdict, (dict, GOOD)))):
    case(f"{what} whose items are arguments", checkpoint(W, storage), "storage_data is not a dict, but", error=True)
case("two items of one key, the second malformed", twice((b"w2", b"w1"), pickle.dumps(checkpoint(
    {"w1": Bytes()}, {index("w1"): info(), index("w2"): info(path=None)}), 2)), "two items of w1", error=True)
for what, record in (("an index", Novel(fqn="w", index=0, offset="abc")), ("a broken index", Novel(fqn=None, index=3))):
    case(f"{what} in place of a record", checkpoint(
        W, {index("w", (0, 0)): info(), index("w", (2, 0)): record}), LOST)
    case(f"{what} in a field that is not read", good(vendor=record), LINE)
for value in ("abc", {"zstd": 1}, 5):
    case(f"transforms that are {value!r}", checkpoint(
        W, {index("w", (0, 0)): info(), index("w", (2, 0)): info(offset=10, transform_descriptors=value)}), LOST)
case("a Metadata that has all fields of others", stand_in("vendor", "Everything")(
    state_dict_metadata=W, storage_data=GOOD, planner_data=None, offsets=Size((1,)), sizes=Size((1,)), size=Size((1,)),
    properties=None, chunks=[], fqn=None, index=3, relative_path="f", offset=0, length=1), BOX_AT)
for parts, want in ((("f", ""), BOX_AT), (("f", "."), BOX_AT), ((".", "f"), BOX_AT), (("x", "/f"), LOST),
                    (("f", 1), LOST)):
    case(f"a path of {parts!r}", checkpoint(W, {
        index("w", (0, 0)): info(), index("w", (2, 0)): info(
            offset=10, path=Called(pathlib.PurePosixPath, parts))}), want)


def add_forms():
    """Only for the header: tests that import this file need no NumPy."""
    import numpy
    forms = {
        "foreign Metadata": {"make": foreign("Metadata", Metadata)},
        "foreign records": {"info": foreign("_StorageInfo", Info)},
        "foreign indexes": {"index": foreign("MetadataIndex", Index)},
        "foreign boxes": {"box": foreign("ChunkStorageMetadata", Chunk)},
        "foreign tensors": {"whole": foreign("TensorStorageMetadata", Tensor)},
        "records with slots": {"info": Slots},
        "OrderedDict": {"dict_of": collections.OrderedDict},
        "defaultdict": {"dict_of": lambda d: collections.defaultdict(dict, d)},
        "NumPy integers of 64 bits": {"number": numpy.int64, "dims": tuple},
        "NumPy integers of 8 bits": {"number": numpy.int8, "dims": tuple},
        "NumPy integers, unsigned": {"number": numpy.uint16, "dims": tuple},
        "NumPy integers, big-endian": {"number": numpy.dtype(">i4").type, "dims": tuple},
        "NumPy integers in torch.Size": {"number": numpy.int64},
        "paths": {"path": pathlib.PurePosixPath},
        "subclasses of str": {"word": Word, "path": Word},
        "NumPy strings": {"word": numpy.str_, "path": numpy.str_},
        "all at once": {"info": foreign("_StorageInfo", Info), "number": numpy.int32, "dims": tuple, "word": Word,
                        "path": pathlib.PurePosixPath, "dict_of": collections.OrderedDict,
                        "make": foreign("Metadata", Metadata)},
    }
    for form, how in forms.items():
        for p in range(2 if how.get("info") is Slots else 0, 6):     # 0 and 1 refuse __slots__
            case(f"{form}, protocol {p}", formed(**how), BOX, protocol=p)
    string, utf32 = numpy._core.multiarray.scalar, numpy.dtype("<U3")
    other = "\xe9\u20ac\U0001f600"
    case("a NumPy string that is not ASCII", checkpoint({other: tensor((4, 3), ROWS)}, {
        index(numpy.str_(other), o): info(offset=10 * i) for i, (o, _) in enumerate(ROWS)}), BOX_AT)
    for what, parts, want in (
            ("big-endian", (numpy.dtype(">U2"), "f\0".encode("utf-32-be")), BOX_AT),
            ("empty", (numpy.dtype("<U2"), bytes(8)), BOX_AT),
            ("of another length", (utf32, "f".encode("utf-32-le")), LOST),
            ("of half a character", (numpy.dtype("<U1"), b"f\0\0"), LOST),
            ("of bytes", (numpy.dtype("S1"), b"f"), LOST),
            ("beyond U+10FFFF", (numpy.dtype("<U1"), b"\0\0\x11\0"), LOST)):
        case(f"a NumPy string, {what}", checkpoint(W, {index("w", (0, 0)): info(), index("w", (2, 0)): info(
            offset=10, path=Called(string, parts))}), want)
    for number in (numpy.float64(10), numpy.bool_(True), numpy.uint64(2**63)):
        case(f"an offset that is {number!r}", checkpoint(
            {"w": tensor((4, 3), ROWS)},
            {index("w", (0, 0)): info(), index("w", (2, 0)): info(offset=number)}),
            " chunk off=[2,0] size=[2,3] file=none pos=0 length=0 err=ENODATA")


# --- objects that are plain but for one thing

def add_nearly_plain():
    offset, name = Size((2, 0)), "a" + "b" * 300
    case("an offset that is that of the box", checkpoint(
        {"w": Tensor(properties=TensorProperties(FLOAT32), size=Size((4, 3)), chunks=[
            Chunk(offsets=Size((0, 0)), sizes=Size((2, 3))), Chunk(offsets=offset, sizes=Size((2, 3)))])},
        {index("w", (0, 0)): info(), Index(fqn="w", index=0, offset=offset): info(offset=10)}), BOX)
    case("offsets and sizes that are one", checkpoint(
        {"w": Tensor(properties=TensorProperties(FLOAT32), size=Size((4, 4)), chunks=[
            Chunk(offsets=(both := Size((2, 2))), sizes=both)])}, {index("w", (2, 2)): info()}),
        " chunk off=[2,2] size=[2,2] file=0 pos=0 length=10")
    case("a name that the keys have first, and a long path", checkpoint(
        {name: tensor((2,), [((0,), (2,))])}, {index(name, (0,)): info(path=name)}),
        " chunk off=[0] size=[2] file=0 pos=0 length=10")
    case("a path that comes again", checkpoint(
        {"w": tensor((4, 3), ROWS)},
        {index("w", (0, 0)): info(path="a path"), index("w", (2, 0)): info(path="a path", offset=10)}), BOX)
    for number in 2**31, -2**31, 2**40, 2**63 - 1:
        case(f"a place of {number}", checkpoint(
            {"w": tensor((4, 3), ROWS)}, {index("w", (0, 0)): info(), index("w", (2, 0)): info(offset=number)}),
            f" pos={number % 2**64} length=10 err=ENODATA")
    case("a place of 70 bits", checkpoint(
        {"w": tensor((4, 3), ROWS)}, {index("w", (0, 0)): info(), index("w", (2, 0)): info(offset=2**70)}),
        " chunk off=[2,0] size=[2,3] file=none pos=0 length=0 err=ENODATA")
    for dims in range(1, 9):
        at, size = (0,) * (dims - 1) + (1,), (1,) * dims
        case(f"{dims} dimensions", checkpoint(
            {"w": tensor((1,) * (dims - 1) + (2,), [((0,) * dims, size), (at, size)])},
            {index("w", (0,) * dims): info(), index("w", at): info(offset=10)}),
            f" chunk off=[{','.join(map(str, at))}] size=[{','.join(map(str, size))}] file=0 pos=10 length=10")
    row = info(offset=10)
    case("a record of two boxes", checkpoint(
        {"w": tensor((4, 3), ROWS)}, {index("w", (0, 0)): row, index("w", (2, 0)): row}), BOX)
    box = Chunk(offsets=Size((2, 0)), sizes=Size((2, 3)))
    case("a box of two tensors", checkpoint(
        {name: Tensor(properties=TensorProperties(FLOAT32), size=Size((4, 3)), chunks=[box]) for name in "vw"},
        {index("w", (2, 0)): info(offset=10)}), BOX)
    case("a record with nine fields", checkpoint(
        {"w": tensor((4, 3), ROWS)},
        {index("w", (0, 0)): info(), index("w", (2, 0)): info(offset=10, **{f"more{i}": i for i in range(6)})}), BOX)
    add_spliced()


def add_spliced():
    """In place of the last record of good(), whose class is in slot 63, its fields' names in 66, 57 and 68, its path
    in 67, and the next slot is 74."""
    record, data = b"h?)\x81\x94}\x94(hBhCh9K\nhDK\nub", pickle.dumps(good(), 4)
    assert data.count(record) == 1 and data[2] == 0x95
    data = data[:2] + data[11:]                                        # without the FRAME, which has a length
    for name, other, want, error in (
            ("a field that is set twice", b"h?)\x81\x94}\x94(hBhCh9K\x05h9K\nhDK\nub", BOX, False),
            ("a value without a key", b"h?)\x81\x94}\x94(hBhCh9K\nhDub", "a key without a value", True),
            ("a record that is its own length", b"h?)\x81\x94}\x94(hBhCh9K\nhDhJub",
             " chunk off=[2,0] size=[2,3] file=none pos=0 length=0 err=ENODATA", False),
            ("a slot that is set afterwards", b"h?)\x81\x94}\x94(h9hLhB\x8c\1f\x94hDK\nub", "was never set", True),
            ("a slot that is not set", b"h?)\x81\x94}\x94(hBhCh9hLhDK\nub", "was never set", True),
            ("getattr as the class", b"\x8c\x08builtins\x94\x8c\x07getattr\x94\x93\x940hL)\x81\x94}\x94(hBhCh9K\nhDK\nub",
             "dangerous use of builtins.getattr", True),
            ("getattr in a field", b"\x8c\x08builtins\x94\x8c\x07getattr\x94\x93\x94h?\x8c\1x\x94\x86\x94R0"
             b"h?)\x81\x94}\x94(hBhCh9K\nhDK\n\x8c\1m\x94hLub", "dangerous use of builtins.getattr", True),
            ("PUTs in place of MEMOIZE", b"h?)\x81qJ}r\x4b\0\0\0(hBhCh9K\nhDK\nub", BOX, False),
            ("a PUT of a slot further on", b"h?)\x81q\x60}q\x61(hBhCh9K\nhDK\nub", BOX, False),
            ("a record without opcodes behind it", b"h?)\x81\x94}\x94(hBhCh9K\nhDK\nu.", "STOP", True)):
        case(name, data.replace(record, other), want, error=error)


def c_string(data):
    rows = [data[i:i + 48] for i in range(0, len(data), 48)] or [b""]
    return "\n\t  ".join(
        '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in row) + '"'
        for row in rows)


def main():
    add_forms()
    add_nearly_plain()
    print("/* SPDX-License-Identifier: MIT */\n/* Made by dcp_cases.py: see there. */\n/* clang-format off */\n"
          "#include <stddef.h>\n\nstatic const struct {\n\tconst char *name, *bytes;\n"
          "\tsize_t len;\n\tint is_error;\n\tconst char *want;\n} dcp_cases[] = {")
    for name, data, error, want in CASES:
        escaped = want.replace('"', '\\"')
        print(f'\t{{ "{name}",\n\t  {c_string(data)},\n'
              f'\t  {len(data)}, {int(error)}, "{escaped}" }},')
    print("};")


if __name__ == "__main__":
    main()
