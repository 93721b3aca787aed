# SPDX-License-Identifier: MIT
"""Reads each file of a list in every way and compares. Prints what differs.

    read-forms.py MOUNT LIST-OF-SHA256SUM
"""

import errno
import hashlib
import mmap
import os
import random
import re
import sys
import tempfile
import threading

mount, table = sys.argv[1:]
problems = 0
chance = random.Random(1)


def expect(what, got, want):
    global problems
    if got != want:
        problems += 1
        print(f'{what}: {len(got) if isinstance(got, bytes) else got!r}')


def pieces(path, fd, data):
    size = len(data)
    places = [0, 1, 63, 64, 4095, 4096, size - 1, size, size + 1, size + 5000]
    places += [chance.randrange(size + 1) for _ in range(40)]
    for at in places:
        if at < 0:
            continue
        for length in 1, 7, 4096, 131073, chance.randrange(1, 2 * size + 2):
            expect(f'{path}: pread {length} at {at}',
                   os.pread(fd, length, at), data[at:at + length])


def seeks(path, fd, data):
    size = len(data)
    expect(f'{path}: end', os.lseek(fd, 0, os.SEEK_END), size)
    expect(f'{path}: read at the end', os.read(fd, 10), b'')
    os.lseek(fd, size // 2, os.SEEK_SET)
    expect(f'{path}: read on', os.read(fd, 2 * size + 1), data[size // 2:])
    if size:
        expect(f'{path}: hole', os.lseek(fd, 0, os.SEEK_HOLE), size)
        expect(f'{path}: data', os.lseek(fd, size // 3, os.SEEK_DATA),
               size // 3)


def vectors(path, fd, data):
    parts = [bytearray(n) for n in (1, 13, 4096, len(data))]
    got = os.preadv(fd, parts, 0)
    expect(f'{path}: preadv', b''.join(parts)[:got], data)


def mappings(path, fd, data, direct):
    if not data:
        return
    for flags in mmap.MAP_SHARED, mmap.MAP_PRIVATE:
        try:
            with mmap.mmap(fd, len(data), flags, mmap.PROT_READ) as m:
                expect(f'{path}: mapping {flags}', m[:], data)
        except OSError as e:
            expect(f'{path}: mapping {flags}: {e}',
                   direct and flags == mmap.MAP_SHARED
                   and e.errno == errno.ENODEV, True)


def copies(path, fd, data):
    with tempfile.TemporaryFile() as out:
        at = 0
        while True:
            n = os.sendfile(out.fileno(), fd, at, 1 << 20)
            if n == 0:
                break
            at += n
        out.seek(0)
        expect(f'{path}: sendfile', out.read(), data)


def unbuffered(path, data):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    page = mmap.mmap(-1, (len(data) // 4096 + 2) * 4096)
    try:
        got = os.preadv(fd, [page], 0)
        expect(f'{path}: O_DIRECT', page[:got], data)
        got = os.preadv(fd, [memoryview(page)[:512]], 512)
        expect(f'{path}: O_DIRECT, a part', page[:got], data[512:1024])
    finally:
        os.close(fd)


def many(path, data):
    def work():
        fd = os.open(path, os.O_RDONLY)
        try:
            expect(f'{path}: a thread', os.pread(fd, len(data) + 1, 0), data)
        finally:
            os.close(fd)
    threads = [threading.Thread(target=work) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


with open(mount + '/.ckptfs/status') as status:
    direct = re.search(r'\noptions: (\S+,)?direct\n', status.read()) is not None
for line in open(table):
    digest, name = line.rstrip('\n').split('  ', 1)
    path = f'{mount}/{name}'
    with open(path, 'rb') as f:
        data = f.read()
    expect(f'{path}: sha256', hashlib.sha256(data).hexdigest(), digest)
    fd = os.open(path, os.O_RDONLY)
    expect(f'{path}: size', os.fstat(fd).st_size, len(data))
    pieces(path, fd, data)
    seeks(path, fd, data)
    vectors(path, fd, data)
    mappings(path, fd, data, direct)
    copies(path, fd, data)
    os.close(fd)
    unbuffered(path, data)
    many(path, data)
sys.exit(1 if problems else 0)
