#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads torch/checkpoint.pt of a mount without PyTorch: as a zip, and data.pkl as a pickle.

    torch-view.py MNT [--root NAME] [--canary]    compares each tensor with raw/, and names with left_out
    torch-view.py FILE --dump                     prints the records and the opcodes of data.pkl
    torch-view.py FILE --opcodes                  prints the opcodes of a pickle
    torch-view.py FILE --lost OLD                 reads a damaged file in pieces, and compares it with the one before
    torch-view.py FILE --large                    checks the records of a sparse file of more than 4 GiB

Each record must be stored, have no CRC, and begin at a multiple of 64; local headers, directory and size must agree. Each entry
of raw/ must be in the file once, with its bytes, or in `left_out`. --canary changes a byte, and must fail.
"""
import argparse
import collections
import errno
import io
import json
import os
import pickle
import pickletools
import struct
import sys


def directory(data):
    """[(name, position of the header, size)] of the zip64 directory."""
    end = data.rfind(b"PK\5\6")
    locator = struct.unpack_from("<IIQI", data, end - 20)
    _, _, _, _, _, _, _, n, length, at = struct.unpack_from("<IQHHIIQQQQ", data, locator[2])
    if end + 22 != len(data) or at + length != locator[2] or end - 20 != locator[2] + 56:
        raise ValueError("end records")
    found = []
    for _ in range(n):
        (sig, _, _, _, method, _, _, crc, packed, size, name, extra, comment, _, _, _, header) = \
            struct.unpack_from("<IHHHHHHIIIHHHHHII", data, at)
        if (sig, method, crc, comment) != (0x02014B50, 0, 0, 0) or packed != size:
            raise ValueError(f"entry at {at}")
        found.append((data[at + 46:at + 46 + name].decode(), header, size))
        at += 46 + name + extra
    return found


def records(data):
    """{name: bytes}, in order; checks headers, alignment and gaps."""
    found, pos = {}, 0
    for name, header, size in directory(data):
        sig, _, flags, method, _, _, crc, packed, plain, length, extra = struct.unpack_from("<IHHHHHIIIHH", data, header)
        at = header + 30 + length + extra
        if header != pos or at % 64 or (sig, flags, method, crc, packed, plain) != (0x04034B50, 0x808 if size else 0x800, 0, 0, 0, 0):
            raise ValueError(f"{name}: header at {header}, data at {at}")
        pos = at + size + (16 if size else 0)
        if size and data[at + size:pos] != struct.pack("<IIII", 0x08074B50, 0, size, size):
            raise ValueError(f"{name}: descriptor")
        found[name.removeprefix("checkpoint/")] = data[at:at + size]
    return found


class Reader(pickle.Unpickler):
    """A tensor is read as ("tensor", number of its storage, sizes)."""

    def persistent_load(self, pid):
        return pid[2]

    def find_class(self, module, name):
        if name.startswith("_rebuild_tensor"):
            return lambda storage, offset, sizes, *_: ("tensor", storage, sizes)
        return getattr(collections, name, lambda *args: (name, args))


def leaves(value, path=()):
    if isinstance(value, (dict, list)) and value:
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inside, (*path, key))
    elif isinstance(value, tuple) and value[:1] == ("tensor",):
        yield ".".join(map(str, path)), value


def attribute(path, name, default=None):
    try:
        return os.getxattr(path, f"user.ckptfs.{name}").decode("utf-8", "surrogatepass")
    except OSError:
        return default


def compare(o):
    """The errors."""
    path, wrong, above = f"{o.path}/torch/checkpoint.pt", [], f"{o.root}." if o.root else ""
    size = os.stat(path).st_size
    with open(path, "rb") as f:
        data = f.read()
    found = records(data)
    if size != len(data):
        wrong.append(f"size {size} at the first stat, not {len(data)}")
    left = json.loads(attribute(path, "left_out"))
    have, want = {}, {}
    for key, value in leaves(Reader(io.BytesIO(found["data.pkl"])).load()):
        have[f"{key}~2" if key in have else key] = value
    for name in os.listdir(f"{o.path}/raw"):
        raw = f"{o.path}/raw/{name}"
        fqn = attribute(raw, "fqn")
        if not fqn.startswith(above):
            continue
        key = attribute(raw, "raw_key", fqn)
        with open(raw, "rb") as f:
            want[key[len(above):] if key.startswith(above) else fqn[len(above):]] = f.read(), fqn
    for key, (expected, fqn) in want.items():
        got = have.pop(key, None) or have.pop(key.removesuffix("~2"), None)
        if (got is None) != (fqn in left):
            wrong.append(f"{key!r} is {'absent' if got is None else 'there'}, left_out {fqn in left}")
        elif got and found[f"data/{got[1]}"] != expected[o.canary:] + expected[:o.canary]:
            wrong.append(f"{key!r}: other bytes")
    if have:
        wrong.append(f"more tensors: {list(have)}")
    if int(attribute(path, "tensors")) != len(want) - sum(fqn in left for _, fqn in want.values()):
        wrong.append(f"tensors {attribute(path, 'tensors')}")
    return wrong


def dump(path):
    with open(path, "rb") as f:
        data = f.read()
    for name, header, size in directory(data):
        print(f"{header:6} {size:6} {name}")
    opcodes(records(data)["data.pkl"])


def opcodes(pickled):
    line = []
    for op, arg, _ in pickletools.genops(pickled):
        line.append(op.name if arg is None else f"{op.name} {arg!r}")
        if op.name in ("BINPERSID", "REDUCE", "STOP", "SETITEMS", "APPENDS"):
            print(*line, sep=", ")
            line = []


def lost(path, old):
    """Prints which bytes fail. Only data of tensors may; all other bytes must be those of OLD."""
    with open(old, "rb") as f:
        before = f.read()
    spans = [(header, size) for name, header, size in directory(before) if "/data/" in name]
    failed, fd = set(), os.open(path, os.O_RDONLY)
    for at in range(0, len(before), 32):
        try:
            found = os.pread(fd, 32, at)    # ends before a lost byte
            if not found or not before[at:at + 32].startswith(found):
                return f"other bytes at {at}"
        except OSError as e:
            failed.add(errno.errorcode[e.errno])
            if not any(header + 32 <= at < header + 192 + size for header, size in spans):
                return f"{e} at {at}, in no tensor"
    os.close(fd)
    return f"{' '.join(failed)} only inside of tensors"


def large(path):
    """Reads records and ends of a large file by the rules of zip64."""
    full, size = 0xFFFFFFFF, os.stat(path).st_size
    with open(path, "rb") as f:
        f.seek(size - 4096)
        tail = f.read()
        locator = struct.unpack_from("<IIQI", tail, len(tail) - 42)
        _, _, _, _, _, _, _, n, length, at = struct.unpack_from("<IQHHIIQQQQ", tail, locator[2] - size + 4096)
        f.seek(at)
        entries, pos, behind = f.read(length), 0, 0
        for _ in range(n):
            row = struct.unpack_from("<IHHHHHHIIIHHHHHII", entries, pos)
            packed, plain, header = row[8], row[9], row[16]
            name = entries[pos + 46:pos + 46 + row[10]].decode()
            extra = entries[pos + 46 + row[10]:pos + 46 + row[10] + row[11]]
            wide = [value for (value,) in struct.iter_unpack("<Q", extra[4:])]
            if plain == full:
                plain, packed = wide.pop(0), wide.pop(0)
            header = wide.pop(0) if header == full else header
            is_wide = plain >= full or header >= full
            if wide or packed != plain or header != behind or bool(extra) != is_wide or extra[:2] not in (b"", b"\1\0"):
                return f"{name}: entry {row}, {extra!r}"
            f.seek(header)
            local = f.read(30)
            start = header + 30 + sum(struct.unpack_from("<HH", local, 26))
            behind = start + plain + (24 if is_wide else 16)
            f.seek(start + plain)
            want = struct.pack("<II" + ("QQ" if is_wide else "II"), 0x08074B50, 0, plain, plain)
            if start % 64 or local[:4] != b"PK\3\4" or f.read(len(want)) != want:
                return f"{name}: header at {header}, data at {start}"
            pos += 46 + row[10] + row[11]
            if name.endswith("data/3"):
                f.seek(start)
                if f.read(3) != b"abc":
                    return "data/3"
    return None if n == 8 and behind == at else f"{n} records up to {behind}, directory at {at}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--root", default="")
    parser.add_argument("--canary", action="store_true")
    parser.add_argument("--dump", action="store_true")
    parser.add_argument("--opcodes", action="store_true")
    parser.add_argument("--lost")
    parser.add_argument("--large", action="store_true")
    o = parser.parse_args()
    if o.lost:
        print(lost(o.path, o.lost))
        return 0
    if o.large:
        why = large(o.path)
        print(why)
        return bool(why)
    if o.dump:
        dump(o.path)
        return 0
    if o.opcodes:
        with open(o.path, "rb") as f:
            opcodes(f.read())
        return 0
    wrong = compare(o)
    print("\n".join(wrong[:20]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
