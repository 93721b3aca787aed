# SPDX-License-Identifier: MIT
"""Random patches of tensors with any sharding, compared with a plain model of their bytes.
After each patch its tensor is compared, at times all tensors, and the checkpoint is mounted
again.

    patch-random.py CKPTFS SOURCE MOUNT COUNT SEED

With CKPTFS_CANARY one byte of the model becomes wrong: the test must detect it.
"""

import itertools
import json
import os
import random
import subprocess
import sys

ckptfs, source, mount = sys.argv[1:4]
count, seed = map(int, sys.argv[4:])
canary = bool(os.environ.get('CKPTFS_CANARY'))
rng = random.Random(seed)
MANY = 500  # patches between two looks at everything


def command(*words):
    p = subprocess.run((ckptfs, *words), stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT)
    if p.returncode:
        sys.exit(f'{words[0]}: {p.stdout.decode()[-300:]}')


def mounted():
    command('mount', source, mount, '-o', 'write,patch')


def content(path):
    with open(path, 'rb') as f:
        return f.read()


def attribute(path, name):
    return json.loads(os.getxattr(path, 'user.ckptfs.' + name))


class Box:
    """A file, and where each of its elements is in the tensor."""

    def __init__(self, path, first, where, item):
        self.path, self.first, self.where, self.item = path, first, where, item

    def byte(self, i):
        return self.where[i // self.item] * self.item + i % self.item


class Tensor:
    def __init__(self, stem):
        raw = f'{mount}/raw/{stem}'
        self.stem = stem
        self.bytes = bytearray(content(raw))
        self.shape = attribute(raw, 'shape')
        elements = 1
        for n in self.shape:
            elements *= n
        self.item = len(self.bytes) // elements if elements else 1
        npy = f'{mount}/full/{stem}.npy'
        header = os.stat(npy).st_size - len(self.bytes)
        self.files = [Box(raw, 0, None, 1), Box(npy, header, None, 1)]

    def add_box(self, path):
        """The box of a file of local/, element by element."""
        offset, shape = attribute(path, 'offset'), attribute(path, 'shape')
        step = [1] * len(self.shape)
        for d in reversed(range(len(step) - 1)):
            step[d] = step[d + 1] * self.shape[d + 1]
        where = [sum((o + i) * s for o, i, s in zip(offset, index, step))
                 for index in itertools.product(*map(range, shape))]
        first = os.stat(path).st_size - len(where) * self.item
        if where:
            self.files.append(Box(path, first, where, self.item))

    def length(self, box):
        return len(box.where) * box.item if box.where else len(self.bytes)


def boxes(tensors):
    for directory, _, names in os.walk(f'{mount}/local'):
        for name in names:
            path = os.path.join(directory, name)
            fqn = os.getxattr(path, 'user.ckptfs.fqn').decode()
            if fqn in tensors:
                tensors[fqn].add_box(path)


def look():
    """All tensors that have bytes and can be written."""
    tensors = {}
    for stem in os.listdir(f'{mount}/raw'):
        raw = f'{mount}/raw/{stem}'
        if os.stat(raw).st_size and not os.getxattr(
                raw, 'user.ckptfs.dtype').startswith((b'q', b'b1')):
            fqn = os.getxattr(raw, 'user.ckptfs.fqn').decode()
            tensors[fqn] = Tensor(stem)
    boxes(tensors)
    return list(tensors.values())


def piece(n):
    """A range of n bytes: single ones, odd ones, long ones."""
    begin = rng.randrange(n)
    most = rng.choice((1, 1, 3, 17, 100, 5000, n))
    return begin, min(n, begin + rng.randint(1, most))


def write_pieces(fd, t, box, pieces):
    for begin, end in pieces:
        data = rng.randbytes(end - begin)
        os.pwrite(fd, data, box.first + begin)
        if box.where is None:
            t.bytes[begin:end] = data
            continue
        for i in range(begin, end):
            t.bytes[box.byte(i)] = data[i - begin]


def patch(t):
    box = rng.choice(t.files)
    pieces = [piece(t.length(box)) for _ in range(rng.choice((1, 1, 2, 5)))]
    fd = os.open(box.path, rng.choice((os.O_WRONLY, os.O_RDWR)))
    try:
        write_pieces(fd, t, box, pieces)
        if rng.random() < 0.1:
            os.fsync(fd)  # later writes are another patch
            write_pieces(fd, t, box, [piece(t.length(box))])
    finally:
        os.close(fd)
    return f'{box.path}: {pieces}'


def compare(t, after):
    got = content(f'{mount}/raw/{t.stem}')
    if got == t.bytes:
        return
    wrong = [i for i, (a, b) in enumerate(zip(got, t.bytes)) if a != b]
    sys.exit(f'seed {seed}: {t.stem} {t.shape}: {len(wrong)} bytes differ, the '
             f'first at {wrong[:1]}, after {after}')


mounted()
tensors = look()
if not tensors:
    sys.exit('nothing to patch')
for number in range(count):
    t = rng.choice(tensors)
    what = patch(t)
    if canary and number == count // 2:
        t.bytes[len(t.bytes) // 2] ^= 1
    compare(t, what)
    if number % MANY == MANY - 1 or number == count - 1:
        command('umount', mount)
        mounted()
        for t in tensors:
            compare(t, f'{number} patches and a new mount')
command('umount', mount)
print(len(tensors), 'tensors,', count, 'patches')
