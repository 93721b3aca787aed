# SPDX-License-Identifier: MIT
"""Kinds of damage: items that are other containers than PyTorch writes now,
and archives whose records lie in each other."""
import io
import pickle
import struct
import tarfile
import zlib

import source as s
from want import FINE, kind, lost, table

PROPER = s.dumps(s.Tensor((2, 3)))
DATA = s.values("b")
STORAGE = struct.pack("<q", 6) + DATA


def legacy():
    """torch.save before 1.6: several pickles, then the storages."""
    parts = (0x1950a86a20f9469cfc6c, 1001,
             {"protocol_version": 1001, "little_endian": True})
    return b"".join(pickle.dumps(part, 2) for part in parts) + PROPER + \
        pickle.dumps(["0"], 2) + STORAGE


def tar():
    """torch.save before 0.1.10."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in (("storages", STORAGE), ("tensors", b""),
                              ("pickle", PROPER)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def local(name, data):
    return struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 33,
                       zlib.crc32(data), len(data), len(data), len(name),
                       0) + name + data


def entry(name, data, at):
    return struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 33,
                       zlib.crc32(data), len(data), len(data), len(name), 0,
                       0, 0, 0, 0, at) + name


def nested(inner):
    """An archive, right in each header, in which the record data/0 holds,
    besides its own bytes, `inner` more records, one in the other."""
    out, directory, rows = b"", b"", s.records(PROPER, DATA)
    for name, data in rows:
        name = b"archive/" + name.encode()
        chain = [(name, data)]
        for i in range(inner if name.endswith(b"data/0") else 0):
            chain.append((b"archive/data/%d" % (i + 1), local(*chain[-1])))
        at = len(out)
        out += local(*chain[-1])
        for row in reversed(chain):
            directory += entry(*row, at)
            at += 30 + len(row[0])
    count = len(rows) + inner
    return out + directory + struct.pack(
        "<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(directory), len(out), 0)


for row in (("a file of torch.save before 1.6", legacy()),
            ("a tar archive of torch.save before 0.1.10", tar()),
            ("tar's magic before an archive",
             tar() + s.archive(s.records(PROPER, DATA))),
            ("two records, one in the other", nested(1)),
            ("two hundred records, each in the next", nested(200))):
    table("archive", [row], lambda c, content: c.replace("b", content),
          lost(b="EBADMSG"))


@kind("archive", "records side by side by the same hand")
def side_by_side(c):
    c.replace("b", nested(0))
    return FINE
