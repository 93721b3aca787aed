# SPDX-License-Identifier: MIT
"""Kinds of damage: each changes a Checkpoint and returns the expected result."""
import os
import pickle
import socket
import struct
import zlib

import source as s
from source import FIRST, SECOND, d
from want import FINE, Want, kind, lost, refused, table

# --- files ---------------------------------------------------------------------

def shard(change):
    """change(path of the second shard) once it is written."""
    def apply(c):
        c.after = lambda path: change(os.path.join(path, SECOND))
    return apply


def instead(make):
    def change(path):
        os.unlink(path)
        make(path)
    return shard(change)


def truncated(by):
    return shard(lambda path: os.truncate(path, os.path.getsize(path) - by))


def filled(byte):
    def change(path):
        size = os.path.getsize(path)
        with open(path, "wb") as out:
            out.write(byte * size)
    return shard(change)


def listen(path):
    here = os.getcwd()
    os.chdir(os.path.dirname(path))	# names of sockets are short
    with socket.socket(socket.AF_UNIX) as s_:
        s_.bind(os.path.basename(path))
    os.chdir(here)


def moved(where, link):
    """The shard is in another directory, with a symbolic link to it."""
    def change(path):
        os.rename(path, os.path.join(os.path.dirname(path), where))
        os.symlink(link, path)
    return shard(change)


GONE = dict(a=(24, 48, "ENODATA"), c="ENODATA")
for name, apply in (
        ("shard missing", shard(os.unlink)),
        ("shard empty", shard(lambda path: os.truncate(path, 0))),
        ("shard cut in its first item", shard(lambda p: os.truncate(p, 99))),
        ("shard is a directory", instead(os.mkdir)),
        ("shard is a fifo", instead(os.mkfifo)),
        ("shard is a socket", instead(listen)),
        ("shard is a link in the directory", moved("real", "real")),
        ("shard is a link out of it", moved("../outside", "../outside")),
        ("shard is a link to nothing",
         instead(lambda path: os.symlink("nothing", path))),
        ("shard is a link to itself",
         instead(lambda path: os.symlink(SECOND, path))),
        ("shard is a link to a device",
         instead(lambda path: os.symlink("/dev/zero", path)))):
    table("files", [(name,)], apply, lost(**GONE))
table("files", [("shard short by one byte",)], truncated(1),
      lost(c="ENODATA"))
BAD = dict(a=(24, 48, "EBADMSG"), c="EBADMSG")
for name, byte in (("shard of zeros", b"\0"), ("shard of ones", b"\xff"),
                   ("shard of text", b"x")):
    table("files", [(name,)], filled(byte), lost(**BAD))


@kind("files", "shard longer than its items")
def shard_longer(c):
    def change(path):
        with open(path, "ab") as out:
            out.write(b"more")
    shard(change)(c)
    return FINE


@kind("files", "shards swapped")
def shards_swapped(c):
    def change(path):
        first = os.path.join(os.path.dirname(path), FIRST)
        os.rename(path, path + "x")
        os.rename(first, path)
        os.rename(path + "x", first)
    shard(change)(c)
    # Both begin with a (2,3) item of the same length, so they cannot be
    # distinguished. The rest of the first shard is too short.
    return Want({"b": [(0, 24, "ENODATA")], "c": [(0, 12, "EBADMSG")]},
                objects={"o": "ENODATA"}, unsure=("a",))


table("files", [("path with ..", "../x"), ("path with .. inside", "s/../x"),
                ("path that is absolute", "/etc/passwd"),
                ("path that is empty", ""), ("path with NUL", "a\0b"),
                ("path too long", "x/" * 2100), ("path is the directory", "."),
                ("path below a file", FIRST + "/x"),
                ("path of a name too long", "x" * 300)],
      lambda c, path: c.row("c", (0,), relative_path=path),
      lost(c="ENODATA"))


@kind("files", "path through a link")
def path_through_a_link(c):
    def change(path):
        here = os.path.dirname(path)
        os.mkdir(here + "/real")
        os.rename(path, here + "/real/" + SECOND)
        os.symlink("real", here + "/link")
    for name, offset in (("a", (2, 0)), ("c", (0,))):
        c.row(name, offset, relative_path="link/" + SECOND)
    shard(change)(c)
    return lost(**GONE)


@kind("files", "path with control characters")
def path_with_controls(c):
    name = "\x1b]0;x\x07\n\u202e \\%"
    for key in c.items:
        if c.items[key][0] == SECOND:
            c.items[key][0] = name
    return FINE


# --- the item of o ----------------------------------------------------------------

def called(module, name):
    """A pickle that calls the function; its argument makes a call detectable."""
    canary = os.environ.get("CANARY", "/tmp/canary").encode()
    return b"\x80\2c%s\n%s\n(X%stR." % (
        module, name,
        struct.pack("<I", len(canary) + 6) + b"touch " + canary)


def entry(pkl):
    def apply(c):
        c.replace("o", s.archive([("data.pkl", pkl)]), None)
    return apply


for name, pkl in (("a dangerous call", called(b"os", b"system")),
                  ("nested too deep", b"\x80\2" + b"]" * 250 + b"a" * 249 +
                   b"."),
                  ("two equal keys", b"\x80\2}(X\1\0\0\0aK\1X\1\0\0\0aK\2u."),
                  ("cut short", b"\x80\2}(X\1\0\0\0aK\1")):
    table("pickle", [("entry: " + name,)], entry(pkl),
          Want(objects={"o": "EBADMSG"}))


# --- the archive of b ------------------------------------------------------------

LOCAL, ENTRY, END = b"PK\3\4", b"PK\1\2", b"PK\5\6"


def patched(sig, at, fmt, value, last=False):
    """One field of the first (last) structure of that signature."""
    def apply(c):
        content = bytearray(c.items["b", (0, 0)][1])
        begin = content.rfind(sig) if last else content.find(sig)
        struct.pack_into(fmt, content, begin + at, value)
        c.replace("b", bytes(content))
    return apply


for name, *what in (
        ("local signature", LOCAL, 0, "<I", 1),
        ("local flags", LOCAL, 6, "<H", 8),
        ("local method", LOCAL, 8, "<H", 8),
        ("local crc", LOCAL, 14, "<I", 1),
        ("local packed size", LOCAL, 18, "<I", 1),
        ("local size", LOCAL, 22, "<I", 1),
        ("local size of zip64", LOCAL, 22, "<I", 0xffffffff),
        ("local name length", LOCAL, 26, "<H", 1),
        ("local extra length", LOCAL, 28, "<H", 8),
        ("local name", LOCAL, 30, "<B", 0x78),
        ("entry signature", ENTRY, 0, "<I", 1),
        ("entry encrypted", ENTRY, 8, "<H", 1),
        ("entry method", ENTRY, 10, "<H", 8),
        ("entry crc", ENTRY, 16, "<I", 1),
        ("entry packed size", ENTRY, 20, "<I", 1),
        ("entry size", ENTRY, 24, "<I", 1),
        ("entry size of zip64", ENTRY, 24, "<I", 0xffffffff),
        ("entry name length", ENTRY, 28, "<H", 1),
        ("entry extra length", ENTRY, 30, "<H", 4),
        ("entry comment", ENTRY, 32, "<H", 1),
        ("entry disk", ENTRY, 34, "<H", 1),
        ("entry position", ENTRY, 42, "<I", 1),
        ("entry position of zip64", ENTRY, 42, "<I", 0xffffffff),
        ("entry name", ENTRY, 46, "<B", 0x78),
        ("end signature", END, 0, "<I", 1),
        ("end disk", END, 4, "<H", 1),
        ("end disk of the directory", END, 6, "<H", 1),
        ("end count here", END, 8, "<H", 3),
        ("end count", END, 10, "<H", 3),
        ("end count of zip64", END, 10, "<H", 0xffff),
        ("end directory length", END, 12, "<I", 1),
        ("end directory position", END, 16, "<I", 1),
        ("end comment", END, 20, "<H", 1)):
    table("archive", [("zip: " + name,)], patched(*what), lost(b="EBADMSG"))


def rebuilt(change, **how):
    """Other records in the archive of b."""
    def apply(c):
        rows = s.records(s.dumps(s.Tensor((2, 3))), s.values("b"))
        c.replace("b", s.archive(change(rows), **how))
    return apply


def without(name):
    return lambda rows: [r for r in rows if r[0] != name]


def put(name, content):
    return lambda rows: [(n, content if n == name else r) for n, r in rows]


for name, change in (
        ("no data.pkl", without("data.pkl")),
        ("no storage", without("data/0")),
        ("no records", lambda rows: []),
        ("a storage too short", put("data/0", b"1" * 20)),
        ("a storage too long", put("data/0", b"1" * 28)),
        ("names that differ by case", lambda r: r + [("DATA/0", b"1" * 24)]),
        ("a name with ..", lambda rows: rows + [("../x", b"")]),
        ("a name with a backslash", lambda rows: rows + [("a\\b", b"")]),
        ("a name with an empty part", lambda rows: rows + [("a//b", b"")]),
        ("TorchScript", lambda rows: rows + [("constants.pkl", b"")]),
        ("byteorder unknown", put("byteorder", b"middle")),
        ("byteorder with a newline", put("byteorder", b"little\n")),
        ("data.pkl empty", put("data.pkl", b""))):
    table("archive", [(name,)], rebuilt(change), lost(b="EBADMSG"))
table("archive", [("compressed",)], rebuilt(lambda r: r, deflate=True),
      lost(b="EBADMSG"))
table("archive", [("records without a directory",)],
      rebuilt(lambda r: r, prefix=""), lost(b="EBADMSG"))
table("archive", [("no byteorder",)], rebuilt(without("byteorder")), FINE)


@kind("archive", "two records of one name")
def two_records(c):
    rows = s.records(s.dumps(s.Tensor((2, 3))), s.values("b"))
    content = s.archive(rows + [("data/1", b"1" * 24)])
    c.replace("b", content.replace(b"data/1", b"data/0"))
    return lost(b="EBADMSG")


@kind("archive", "bytes before")
def bytes_before(c):
    c.replace("b", b"more" + c.items["b", (0, 0)][1])
    return lost(b="EBADMSG")


@kind("archive", "bytes behind")
def bytes_behind(c):
    # The added bytes are not part of the zip; torch reads the item, too.
    c.replace("b", c.items["b", (0, 0)][1] + b"more")
    return FINE


@kind("archive", "item cut short")
def item_cut(c):
    c.row("b", length=len(c.items["b", (0, 0)][1]) - 1)
    return lost(b="EBADMSG")


@kind("archive", "item at another place")
def item_elsewhere(c):
    c.row("b", offset=1)
    return lost(b="EBADMSG")


@kind("archive", "the item of another tensor")
def item_of_another(c):
    c.replace("b", c.items["c", (0,)][1])
    return lost(b="EIO")


@kind("archive", "no directory but an end")
def only_an_end(c):
    c.replace("b", END + bytes(18))
    return lost(b="EBADMSG")


@kind("archive", "big-endian")
def big_endian(c):
    data = b"".join(s.values("b")[i:i + 4][::-1] for i in range(0, 24, 4))
    c.replace("b", s.archive(s.records(s.dumps(s.Tensor((2, 3))), data,
                                       b"big")))
    return FINE


@kind("archive", "a bit of the data flipped")
def data_flipped(c):
    content = bytearray(c.items["b", (0, 0)][1])
    content[content.find(s.values("b")) + 5] ^= 4
    c.replace("b", bytes(content))
    return Want(full=("b",), unsure=("b",))


@kind("archive", "a bit of an entry's data flipped")
def object_flipped(c):
    content = bytearray(c.items["o", None][1])
    content[content.find(b"step")] ^= 1
    c.replace("o", bytes(content), None)
    return Want(full=("o",))


@kind("archive", "no checksums were written")
def no_checksums(c):
    content = c.items["b", (0, 0)][1]
    rows = s.records(s.dumps(s.Tensor((2, 3))), s.values("b"))
    for _, data in rows:
        content = content.replace(struct.pack("<I", zlib.crc32(data)),
                                  bytes(4))
    c.replace("b", content)
    return FINE


# --- data.pkl of b -----------------------------------------------------------------

def pickled(pkl):
    def apply(c):
        c.replace("b", s.archive(s.records(pkl, s.values("b"))))
    return apply


PROPER = s.dumps(s.Tensor((2, 3)))
for name, tensor, errno in (
        ("another shape", s.Tensor((3, 2)), "EIO"),
        ("another number of dimensions", s.Tensor((6,)), "EIO"),
        ("another dtype", s.Tensor((2, 3), itemsize=8, numel=3), "EIO"),
        ("an offset past the storage", s.Tensor((2, 3), offset=1), "EIO"),
        ("a huge offset", s.Tensor((2, 3), offset=2**63 - 1), "EIO"),
        ("a negative offset", s.Tensor((2, 3), offset=-1), "EBADMSG"),
        ("strides past the storage", s.Tensor((2, 3), stride=(4, 1)), "EIO"),
        ("strides that overflow", s.Tensor((2, 3), stride=(2**62, 1)), "EIO"),
        ("negative strides", s.Tensor((2, 3), stride=(-3, 1)), "EBADMSG"),
        ("too few strides", s.Tensor((2, 3), stride=(1,)), "EBADMSG"),
        ("a storage of other size", s.Tensor((2, 3), numel=7), "EBADMSG"),
        ("a storage of negative size", s.Tensor((2, 3), numel=-6), "EBADMSG"),
        ("a storage of 2^62", s.Tensor((2, 3), numel=2**62), "EBADMSG"),
        ("a storage that is not there", s.Tensor((2, 3), key="7"), "EBADMSG"),
        ("a storage with ..", s.Tensor((2, 3), key="../version"), "EBADMSG"),
        ("hooks that run something", s.Tensor((2, 3), hooks=d.System()),
         "EBADMSG")):
    table("pickle", [("item: " + name,)], pickled(s.dumps(tensor)),
          lost(b=errno))
for module, name in (
        (b"os", b"system"), (b"posix", b"system"), (b"subprocess", b"Popen"),
        (b"builtins", b"eval"), (b"__builtin__", b"exec"),
        (b"runpy", b"run_path"), (b"io", b"open"), (b"pty", b"spawn"),
        (b"importlib", b"import_module"), (b"torch.os", b"system")):
    table("pickle", [(f"item: calls {module.decode()}.{name.decode()}",)],
          pickled(called(module, name)), lost(b="EBADMSG"))
for name, pkl in (
        ("cut short", PROPER[:-5]), ("without STOP", PROPER[:-1]),
        ("bytes behind", PROPER + b"."), ("a dict", pickle.dumps({}, 2)),
        ("only STOP", b"."), ("an unknown class", called(b"vendor", b"X")),
        ("an unknown opcode", b"\x80\2\xff."),
        ("EXT1", b"\x80\2\x82\1."), ("a text persistent id", b"P0\n."),
        ("an out-of-band buffer", b"\x80\5\x97."),
        ("a frame of 2^63", b"\x80\4\x95" + b"\0" * 7 + b"\x80."),
        ("bytes of 2^63", b"\x80\4\x8e" + b"\0" * 7 + b"\x80."),
        ("a memo place of 2^32", b"\x80\2Nr\xff\xff\xff\xff."),
        ("a memo bomb", b"\x80\2)q\0" + b"".join(
            b"h%ch%c\x86q%c" % (i, i, i + 1) for i in range(250)) + b"."),
        ("nested too deep", b"\x80\2" + b"]" * 100000 + b"a" * 99999 + b"."),
        ("marks", b"\x80\2" + b"(" * 1000000 + b"."),
        ("a cycle", b"\x80\2]q\0h\0a."),
        ("getattr of a dunder", b"\x80\2cbuiltins\ngetattr\ncvendor\nX\n"
                                b"X\x0a\0\0\0__class__x\x86R.")):
    table("pickle", [("item: " + name,)], pickled(pkl), lost(b="EBADMSG"))

# --- .metadata -----------------------------------------------------------------------

for protocol in range(6):
    table("metadata", [(f"protocol {protocol}", protocol)],
          lambda c, protocol: setattr(c, "protocol", protocol), FINE)


def entry_b(tensor):
    def apply(c):
        c.entries["b"] = tensor
    return apply


BOX = [((0, 0), (2, 3))]
for name, tensor in (
        ("boxes that overlap", d.tensor((2, 3), BOX + [((1, 0), (1, 3))])),
        ("a box outside", d.tensor((2, 3), BOX + [((2, 0), (1, 3))])),
        ("a box too wide", d.tensor((2, 3), [((0, 0), (2, 4))])),
        ("a box at a negative place", d.tensor((2, 3), [((-1, 0), (2, 3))])),
        ("a box of negative size", d.tensor((2, 3), [((0, 0), (-2, 3))])),
        ("a huge box", d.tensor((2, 3), [((0, 0), (2**63 - 1, 2**63 - 1))])),
        ("a box of other dimensions", d.tensor((2, 3), [((0,), (2,))])),
        ("offset and size of other dimensions",
         d.tensor((2, 3), [((0, 0), (2,))])),
        ("a negative dimension", d.tensor((-2, 3), BOX)),
        ("dimensions that overflow", d.tensor((2**32, 2**32), BOX)),
        ("a dimension of 2^63-1", d.tensor((2**63 - 1, 3), BOX))):
    table("metadata", [(name,)], entry_b(tensor),
          Want({"b": [(None, None, "EIO")]}))
for name, tensor in (
        ("a dimension of 70 bits", d.tensor((2**70, 3), BOX)),
        ("a dtype of the future", d.tensor((2, 3), BOX, dtype=d.FLOAT99)),
        ("a dtype without whole bytes", d.tensor((2, 3), BOX,
                                                 dtype=d.QUINT4)),
        ("65 dimensions", d.tensor((1,) * 65, [((0,) * 65, (1,) * 65)])),
        ("no properties", d.Tensor(size=d.Size((2, 3)), chunks=[])),
        ("no size", d.Tensor(chunks=[])),
        ("no list of boxes", d.Tensor(size=d.Size((2, 3))))):
    table("metadata", [(name,)], entry_b(tensor),
          Want({"b": [(0, 0, "EBADMSG")]}))


@kind("metadata", "a hole")
def hole(c):
    c.entries["a"] = d.tensor((4, 3), [((0, 0), (2, 3)), ((3, 0), (1, 3))])
    c.items["a", (3, 0)] = [SECOND, s.item((1, 3), s.values("a")[36:])]
    del c.items["a", (2, 0)]
    return lost(a=(24, 36, "ENODATA"))


@kind("metadata", "boxes of other shapes than their items")
def other_boxes(c):
    c.entries["a"] = d.tensor((4, 3), [((0, 0), (3, 3)), ((3, 0), (1, 3))])
    c.items["a", (3, 0)] = c.items.pop(("a", (2, 0)))
    return lost(a=(0, 48, "EIO"))


@kind("metadata", "another dtype")
def other_dtype(c):
    c.entries["c"] = d.tensor((3,), [((0,), (3,))], dtype=d.Named("int32"))
    return lost(c="EIO")


@kind("metadata", "a wider dtype")
def wider_dtype(c):
    c.entries["c"] = d.tensor((3,), [((0,), (3,))], dtype=d.Named("float64"))
    return Want({"c": [(0, 24, "EIO")]})


@kind("metadata", "no row for a box")
def no_row(c):
    c.rows = lambda rows: {k: v for k, v in rows.items()
                           if (k.fqn, getattr(k, "offset", None)) !=
                           ("a", (2, 0))}
    return lost(a=(24, 48, "ENODATA"))


@kind("metadata", "two boxes of one item")
def shared_bytes(c):
    c.row("a", (2, 0), relative_path=FIRST, offset=0)
    return lost(a="EIO")


for name, fields in (("at a negative place", {"offset": -1}),
                     ("of negative length", {"length": -1}),
                     ("beyond its file", {"offset": 2**40}),
                     ("that ends beyond 2^64",
                      {"offset": 2**63 - 1, "length": 2**63 - 1})):
    table("metadata", [("an item " + name, fields)],
          lambda c, fields: c.row("b", **fields), lost(b="ENODATA"))
table("metadata", [("an item without length",)],
      lambda c: c.row("b", length=0), lost(b="EBADMSG"))
table("metadata", [("an unknown transform",)],
      lambda c: c.row("b", transform_descriptors=["stream.novel/1"]),
      lost(b="EBADMSG"))
table("metadata", [("a transform that was not made",)],
      lambda c: c.row("b", transform_descriptors=["stream.zstd/1"]),
      lost(b="EBADMSG"))


@kind("metadata", "an unknown class in a field")
def unknown_class(c):
    c.more["vendor"] = d.Novel(x=1)
    return Want(unknown=("vendor.plugin.Novel",))


@kind("metadata", "an empty box without a file")
def empty_box(c):
    c.entries["b"] = d.tensor((2, 3), BOX + [((2, 0), (0, 3))])
    return FINE


@kind("metadata", "a cycle in a field")
def cycle(c):
    ring = []
    ring.append(ring)
    c.more["vendor"] = ring
    return FINE


def raw_metadata(data):
    def apply(c):
        c.bytes = data
    return apply


def doubled(c):
    c.entries["w1"] = c.entries["w2"] = d.Bytes()
    c.bytes = lambda data: data.replace(b"w2", b"w1")


table("metadata", [("two entries of one key",)], doubled,
      refused("two entries of name w1"))
for name, change, text in (
        ("empty", lambda data: b"", "STOP"),
        ("cut in the middle", lambda data: data[:len(data) // 2], ""),
        ("cut by one byte", lambda data: data[:-1], ""),
        ("bytes behind", lambda data: data + b"x", "after its end"),
        ("zeros", lambda data: bytes(len(data)), ""),
        ("a dict", lambda data: pickle.dumps({}), "no Metadata"),
        ("a list in place of a dict", lambda data: pickle.dumps(d.Metadata(
            state_dict_metadata=[], storage_data={}), 4), ""),
        ("an index without fqn", lambda data: pickle.dumps(d.checkpoint(
            {}, {d.Index(index=0): d.info()}), 4), "fqn"),
        ("nested too deep", lambda data: b"\x80\2" + b"]" * 10**6 +
         b"a" * (10**6 - 1) + b".", ""),
        ("a frame of 2^63", lambda data: b"\x80\4\x95" + b"\0" * 7 + b"\x80" +
         data[11:], ""),
        ("a string of 2^63", lambda data: b"\x80\4\x8d" + b"\0" * 7 + b"\x80.",
         ""),
        ("a memo place of 2^32", lambda data: b"\x80\2Nr\xff\xff\xff\xff.",
         ""),
        ("a million marks", lambda data: b"(" * 10**6 + b".", ""),
        ("a dangerous call at the top", lambda data: called(b"os", b"system"),
         "os.system"),
        ("zip", lambda data: s.archive([("data.pkl", data)]), "")):
    table("metadata", [(".metadata: " + name,)], raw_metadata(change),
          refused(text))


@kind("metadata", "dangerous in a field")
def dangerous_field(c):
    c.more["vendor"] = d.System()
    return refused("posix.system")


@kind("metadata", "dangerous in a chunk")
def dangerous_chunk(c):
    c.entries["b"].chunks[0].vendor = d.System()
    return refused("posix.system")


@kind("metadata", "dangerous in a row")
def dangerous_row(c):
    c.row("b", vendor=d.System())
    return refused("posix.system")


def metadata_instead(make):
    def apply(c):
        def change(path):
            path = os.path.join(path, ".metadata")
            os.unlink(path)
            make(path)
        c.after = change
    return apply


for name, make in (("missing", lambda path: None), ("a directory", os.mkdir),
                   ("a fifo", os.mkfifo),
                   ("a link", lambda path: os.symlink(FIRST, path))):
    table("metadata", [(".metadata is " + name,)], metadata_instead(make),
          refused(""))
