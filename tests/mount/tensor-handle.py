# SPDX-License-Identifier: MIT
"""Random operations on tensors through one read-write handle each, as fsx does on files,
compared with a buffer in memory. The handle must show its own writes, and every other handle,
stat(2) and fstat(2) the committed state.

    tensor-handle.py MOUNT OPERATIONS SEED PATH...

With CKPTFS_CANARY one byte of the model becomes wrong: the test must detect it.
"""

import os
import random
import sys

mount, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
canary = bool(os.environ.get('CKPTFS_CANARY'))
done = {}


def fail(path, what, begin, got, want):
    at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    sys.exit(f'{path}: {what}: {len(got)} bytes at {begin}, the first difference at {begin + at}')


class Tensor:
    """A file of a tensor, open for reading and writing. `head` is the length of its header,
    which keeps its bytes."""

    def __init__(self, path):
        self.path = f'{mount}/{path}'
        self.open()
        self.shown = bytearray(os.pread(self.fd, 1 << 30, 0))
        self.committed = bytes(self.shown)
        self.head = 0
        if path.endswith('.npy'):
            self.head = 10 + int.from_bytes(self.shown[8:10], 'little')

    def open(self):
        self.fd = os.open(self.path, os.O_RDWR)
        self.other = os.open(self.path, os.O_RDONLY)

    def close(self):
        os.close(self.fd)
        os.close(self.other)

    def range(self, first):
        """Single bytes, odd ranges, long ones, and those that end behind the file."""
        size = len(self.shown)
        begin = rng.randrange(first, size)
        return begin, begin + rng.choice((1, 3, rng.randint(1, 100), rng.randint(1, 5000), rng.randint(1, size)))

    def read(self):
        begin, end = self.range(0)
        got = os.pread(self.fd, end - begin, begin)
        if got != self.shown[begin:end]:
            fail(self.path, 'read', begin, got, self.shown[begin:end])

    def write(self):
        begin, end = self.range(self.head)
        data = rng.randbytes(min(end, len(self.shown)) - begin)
        if os.pwrite(self.fd, data, begin) != len(data):
            sys.exit(f'{self.path}: a short write')
        self.shown[begin:begin + len(data)] = data

    def look(self):
        """What others see."""
        begin, end = self.range(0)
        got = os.pread(self.other, end - begin, begin)
        if got != self.committed[begin:end]:
            fail(self.path, 'read by another handle', begin, got, self.committed[begin:end])
        for s in os.fstat(self.fd), os.fstat(self.other), os.stat(self.path):
            if s.st_size != len(self.committed):
                sys.exit(f'{self.path}: size {s.st_size}')

    def truncate(self):
        """To its present size, which changes nothing."""
        os.ftruncate(self.fd, len(self.shown))

    def sync(self):
        """A commit: an older handle stays at its version."""
        os.fsync(self.fd)
        os.close(self.other)
        self.committed = bytes(self.shown)
        self.other = os.open(self.path, os.O_RDONLY)

    def again(self):
        self.close()
        self.committed = bytes(self.shown)
        self.open()


NAMES = ('read', 'write', 'look', 'truncate', 'sync', 'again')
WEIGHTS = (30, 30, 20, 2, 1, 1)

tensors = [Tensor(path) for path in sys.argv[4:]]
for number in range(count):
    name = rng.choices(NAMES, WEIGHTS)[0]
    if canary and number == count // 2:
        tensors[0].shown[-1] ^= 1
    getattr(rng.choice(tensors), name)()
    done[name] = done.get(name, 0) + 1
for tensor in tensors:
    tensor.close()
    with open(tensor.path, 'rb') as f:
        got = f.read()
    if got != tensor.shown:
        fail(tensor.path, 'at the end', 0, got, tensor.shown)
print('#', ', '.join(f'{n} {name}' for name, n in sorted(done.items())))
sys.exit(0 if set(done) == set(NAMES) else 'not every operation')
