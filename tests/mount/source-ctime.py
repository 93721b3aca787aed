# SPDX-License-Identifier: MIT
"""Writes over files in place and restores their mtime, so that only the ctime has changed.

    source-ctime.py save FILE            two tensors of 16 bytes as safetensors
    source-ctime.py move DIR             item of t0 of big.py: other places, same elements
    source-ctime.py spoil DIR            the same: its pickle is another tensor's
    source-ctime.py flip DIR             the same: one bit of an element
    source-ctime.py back DIR             as it was before the first of these
    source-ctime.py blob FILE              of the fixture blobs_1: two tensors exchange places
    source-ctime.py replace FILE OLD NEW text of the same length, wherever it is
"""

import json
import os
import struct
import sys

import big


def restored(path, at, data):
    before = os.stat(path)
    with open(path, 'r+b') as f:
        f.seek(at)
        f.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(path)
    assert (before.st_ino, before.st_size, before.st_mtime_ns) == \
        (after.st_ino, after.st_size, after.st_mtime_ns)
    assert before.st_ctime_ns != after.st_ctime_ns


def save(path):
    header = json.dumps({
        'a': {'dtype': 'U8', 'shape': [16], 'data_offsets': [0, 16]},
        'b': {'dtype': 'U8', 'shape': [16], 'data_offsets': [16, 32]},
    }).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(header)) + header)
        f.write(bytes(range(32)))


def records_of(item):
    """Of a container of big.py, as it was given to zip_parts()."""
    end = item.rindex(b'PK\x05\x06')
    count, size, at = struct.unpack('<HII', item[end + 10:end + 20])
    records = []
    for _ in range(count):
        length, name_len = struct.unpack('<IH', item[at + 24:at + 30])
        start, = struct.unpack('<I', item[at + 42:at + 46])
        name = item[at + 46:at + 46 + name_len]
        a, b = struct.unpack('<HH', item[start + 26:start + 30])
        data = item[start + 30 + a + b:start + 30 + a + b + length]
        records.append((name.removeprefix(b'archive/'), data))
        at += 46 + name_len
    return records


def item_of(path):
    """Of the first tensor, which is the first in the file."""
    with open(path + '/__0_0.distcp', 'rb') as f:
        data = f.read()
    return data[:data.index(b'PK\x03\x04', data.index(b'PK\x05\x06'))]


def padded(records, length):
    """A container of that many bytes."""
    for n in range(1, 400):
        out = big.zip_archive(
            [(name, b'1' * n if name == b'.data/serialization_id' else data)
             for name, data in records])
        if len(out) == length:
            return out
    raise ValueError(length)


def change(path, how):
    kept = path + '.item'
    if not os.path.exists(kept):
        with open(kept, 'wb') as f:
            f.write(item_of(path))
    with open(kept, 'rb') as f:
        item = f.read()
    records = records_of(item)
    if how == 'move':
        records.sort(key=lambda r: r[0] != b'data/0')
        item = padded(records, len(item))
    elif how == 'flip':
        data = dict(records)[b'data/0']
        item = item.replace(data, bytes([data[0] ^ 1]) + data[1:])
    elif how == 'spoil':
        item = item.replace(b'LongStorage', b'ByteStorage')
    restored(path + '/__0_0.distcp', 0, item)


def replace(path, old, new):
    assert len(old) == len(new)
    with open(path, 'rb') as f:
        data = f.read()
    assert old in data
    restored(path, 0, data.replace(old, new))


def blob(path):
    with open(path, 'rb') as f:
        data = f.read()
    start = data.index(b'{"__metadata__"')
    start += struct.unpack('<Q', data[start - 8:start])[0]
    first, second = data[start + 184:start + 208], data[start + 208:start + 228]
    data = data[:start + 184] + second + first + data[start + 228:]
    data = data.replace(b'[184,208]', b'[204,228]')
    restored(path, 0, data.replace(b'[208,228]', b'[184,204]'))


if __name__ == '__main__':
    what, path, *rest = sys.argv[1:]
    if what == 'save':
        save(path)
    elif what == 'blob':
        blob(path)
    elif what == 'replace':
        replace(path, *(text.encode() for text in rest))
    else:
        change(path, what)
