# SPDX-License-Identifier: MIT
"""The parts of digest.sh that need more than a shell. The oracle is libxxhash, called by ctypes.

    digest.py fixtures CKPTFS SOURCE...     digests against the bytes that PyTorch saved
    digest.py flips CKPTFS SOURCE SEED N    a flipped byte in each of N places is named

The bytes of a fixture are those of PyTorch if their SHA-256 is in SOURCE.sha256.
"""

import ctypes
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import zipfile


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def oracle():
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_128bits.restype = Hash128
    library.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

    def digest(data):
        found = library.XXH3_128bits(data, len(data))
        return f"{found.high:016x}{found.low:016x}"
    return digest


def run(*command, expected=0):
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == expected, (command[:4], done.returncode, done.stderr[:500])
    return done.stdout


def saved_hashes(source):
    """stem: SHA-256 of the bytes that PyTorch saved."""
    found = {}
    with open(source + ".sha256", "rb") as file:
        for line in file.read().splitlines():
            name = line[1:].replace(b"\\\\", b"\\") if line[:1] == b"\\" else line
            digest, path = name.split(b"  ", 1)
            if path.startswith(b"raw/"):
                found[path[4:]] = digest.decode()
    return found


def sizes(source):
    with open(source + ".tensors.tsv", "rb") as file:
        rows = [line.split(b"\t") for line in file.read().splitlines()]
    return {row[0]: int(row[3]) for row in rows if row[3].isdigit()}


def printed(text):
    lines = [line.split(b"  raw/", 1) for line in text.splitlines()]
    return {stem: digest.decode() for digest, stem in lines}


def fixture(ckptfs, source, digest):
    saved, size = saved_hashes(source), sizes(source)
    damaged = os.path.exists(source + ".errors.tsv")
    digests = printed(run(ckptfs, "digest", source, expected=1 if damaged else 0))
    assert set(digests) == set(saved), set(digests) ^ set(saved)
    stems = list(saved)
    data = run(ckptfs, "cat", source, *[b"raw/" + stem for stem in stems]) if stems else b""
    at = 0
    for stem in stems:
        part = data[at:at + size[stem]]
        at += size[stem]
        assert hashlib.sha256(part).hexdigest() == saved[stem], stem
        assert digests[stem] == digest(part), stem
    assert at == len(data)
    return len(stems)


def fixtures(ckptfs, *sources):
    digest, kinds, count = oracle(), set(), 0
    for source in sources:
        count += fixture(ckptfs, source, digest)
        kinds.add(json.loads(run(ckptfs, "inspect", "--json", source))["kind"])
    print(len(sources), "fixtures,", count, "tensors:", *sorted(kinds))
    assert count > 0


# --- flipped bytes

def data_of(path, box):
    """Position and length of the elements of a box: an archive, or elements alone."""
    with open(path, "rb") as file:
        file.seek(box["pos"])
        item = file.read(box["length"])
    if item[:4] != b"PK\3\4":
        return box["pos"], box["length"]
    info = next(i for i in zipfile.ZipFile(io.BytesIO(item)).infolist()
                if i.filename.endswith("data/0"))
    header = item[info.header_offset:info.header_offset + 30]
    names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    return box["pos"] + info.header_offset + 30 + names, info.file_size


def places(ckptfs, source):
    tensors = json.loads(run(ckptfs, "inspect", "--chunks", "--json", source))["tensors"]
    for tensor in tensors:
        for box in tensor["boxes"]:
            path = os.path.join(source, box["file"])
            at, length = data_of(path, box)
            if length:
                yield tensor["fqn"], path, at, length


def flip(path, at, bit):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ bit]))


def flips(ckptfs, source, seed, count):
    pick, wanted = random.Random(int(seed)), source + ".xxh"
    run(ckptfs, "digest", source, "--output", wanted)
    run(ckptfs, "check", "--digests", wanted, source)
    all_places = list(places(ckptfs, source))
    for _ in range(int(count)):
        name, path, begin, length = pick.choice(all_places)
        at, bit = begin + pick.randrange(length), 1 << pick.randrange(8)
        flip(path, at, bit)
        report = json.loads(run(ckptfs, "check", "--json", "--digests", wanted, source, expected=1))
        found = [(f["fqn"], f["kind"], f["what"]) for f in report["findings"]
                 if f.get("severity") != "warning"]
        assert found == [(name, "digest", "its digest differs")], (name, path, at, bit, found)
        flip(path, at, bit)
    run(ckptfs, "check", "--digests", wanted, source)


if __name__ == "__main__":
    {"fixtures": fixtures, "flips": flips}[sys.argv[1]](*sys.argv[2:])
