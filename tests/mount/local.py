# SPDX-License-Identifier: MIT
"""local.py MNT: the files of local/ put together give the tensors of raw/.

Each file is laid into its tensor by its own header and its attribute
`offset`; every byte of every tensor must come from exactly one box. Copies of a
box have its bytes. What a sidecar makes of flat parameters has no boxes."""
import ast
import os
import pathlib
import struct
import sys


def read_npy(path):
    data = path.read_bytes()
    length = struct.unpack('<H', data[8:10])[0]
    header = ast.literal_eval(data[10:10 + length].decode())
    return header['shape'], data[10 + length:]


def attribute(path, name):
    return os.getxattr(path, f'user.ckptfs.{name}')


def lay(tensor, covered, shape, item, offset, size, data):
    """Copies the rows of a box to their places."""
    if 0 in size:
        return
    row = (size[-1] if size else 1) * item
    rows = len(data) // row
    for r in range(rows):
        index, rest = [], r
        for n in reversed(size[:-1]):
            index.insert(0, rest % n)
            rest //= n
        at = 0
        for d, n in enumerate(shape):
            at = at * n + offset[d] + (index[d] if d < len(index) else 0)
        at *= item
        tensor[at:at + row] = data[r * row:(r + 1) * row]
        for i in range(at, at + row):
            covered[i] += 1


def main():
    mnt = pathlib.Path(sys.argv[1])
    tensors = {}
    for owner in sorted((mnt / 'local').iterdir()):
        names = {name for name in os.listdir(owner) if name.endswith('.npy')}
        for name in names:
            path = owner / name
            stem = name[:-4].split('%@')[0]
            suffixed = name != stem + '.npy'
            assert not suffixed or stem + '.npy' not in names, path
            offset = ast.literal_eval(attribute(path, 'offset').decode())
            size, data = read_npy(path)
            assert list(size) == ast.literal_eval(
                attribute(path, 'shape').decode()), path
            if suffixed and '%@~' not in name:
                assert name == '%s%%@%s.npy' % (
                    stem, ','.join(map(str, offset))), path
            assert len(path.read_bytes()) == path.stat().st_size, path
            boxes = tensors.setdefault(stem, {})
            assert boxes.setdefault((tuple(offset), size), data) == data, path
    flat = any(name.endswith('_flat_param') for name in tensors)
    for path in sorted((mnt / 'raw').iterdir()):
        raw = path.read_bytes()
        shape = ast.literal_eval(attribute(path, 'shape').decode())
        boxes = tensors.pop(path.name, {})
        if flat and not boxes:
            continue
        assert len(boxes) == int(attribute(path, 'chunks')), path
        if not raw:
            continue
        count = 1
        for n in shape:
            count *= n
        whole, covered = bytearray(len(raw)), bytearray(len(raw))
        for (offset, size), data in boxes.items():
            lay(whole, covered, shape, len(raw) // count, offset, size, data)
        assert set(covered) == {1}, path
        assert whole == raw, path
    assert not tensors, tensors.keys()


main()
