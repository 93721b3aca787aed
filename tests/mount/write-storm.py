# SPDX-License-Identifier: MIT
"""Readers of every kind beside a writer that uses every tool. Each read returns one complete
version, no older than the last close that had returned at the open. Open and mapped files keep
their version.

    write-storm.py MOUNT STEM READS COMMITS [plant]

plant: a reader combines two opens of a file; the test must detect it.
"""

import mmap
import os
import random
import struct
import subprocess
import sys
import time

mount, stem = sys.argv[1:3]
READS, COMMITS = map(int, sys.argv[3:5])
PLANT = sys.argv[5:] == ['plant']
LIMIT = 140
raw, full = f'{mount}/raw/{stem}', f'{mount}/full/{stem}.npy'
size = os.stat(raw).st_size
header = os.stat(full).st_size - size
with open(full, 'rb') as f:
    HEADER = f.read(header)
# Shared memory: version begun, version committed, stop flag, then the reads of each reader.
shared = memoryview(mmap.mmap(-1, 4096)).cast('Q')
BEGUN, COMMITTED, STOP, ROWS = range(4)


def content(n):
    return struct.pack('<Q', n) * (size // 8)


class Mixed(Exception):
    pass


def number(data, what):
    n, = struct.unpack_from('<Q', data)
    if len(data) != size or data != content(n):
        found = sorted({n for n, in struct.iter_unpack('<Q', data[:size])})
        raise Mixed(f'{what}: {len(data)} bytes, numbers {found[:8]}')
    return n


def in_time(n, least, what):
    if not least <= n <= shared[BEGUN]:
        raise Mixed(f'{what}: {n}, expected {least} to {shared[BEGUN]}')


# --- readers: each call does several reads, and returns their number -------

def read_whole(path=raw, skip=0):
    least = shared[COMMITTED]
    with open(path, 'rb', buffering=0) as f:
        data = f.readall()
    in_time(number(data[skip:], path), least, path)
    return 1


def read_npy():
    return read_whole(full, header)


def read_direct():
    least = shared[COMMITTED]
    fd = os.open(raw, os.O_RDONLY | os.O_DIRECT)
    data = b''.join(os.pread(fd, 1 << 16, at) for at in range(0, size, 1 << 16))
    os.close(fd)
    in_time(number(data, 'direct'), least, 'direct')
    return 1


def read_mapped(flags=mmap.MAP_SHARED):
    """Over many commits."""
    least = shared[COMMITTED]
    fd = os.open(raw, os.O_RDONLY)
    mapped = mmap.mmap(fd, size, flags, mmap.PROT_READ)
    os.close(fd)
    first = number(mapped[:], 'a mapping')
    in_time(first, least, 'a mapping')
    for reads in range(2, 40):
        if reads % 8 == 0:  # drops pages, which are then read again
            mapped.madvise(mmap.MADV_DONTNEED)
        if number(mapped[:], 'a mapping') != first:
            raise Mixed('a mapping: another version')
    mapped.close()
    return reads


def read_open():
    """Reads an open file during many commits, and drops its page cache."""
    least = shared[COMMITTED]
    with open(raw, 'rb', buffering=0) as f:
        for reads in range(1, 20):
            f.seek(0)
            n = number(f.readall(), 'an open file')
            first = n if reads == 1 else first
            if n != first:
                raise Mixed('an open file: another version')
            if reads % 5 == 0:
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        in_time(first, least, 'an open file')
    return reads


def read_twice():
    with open(raw, 'rb') as f, open(raw, 'rb') as g:
        half = f.read(size // 2)
        time.sleep(0.05)
        g.seek(size // 2)
        number(half + g.read(), 'two opens')
    return 1


KINDS = [read_whole, read_npy, read_direct, read_mapped,
         lambda: read_mapped(mmap.MAP_PRIVATE), read_open]


def read_on(i):
    random.seed(i)
    while not shared[STOP]:
        shared[ROWS + i] += (read_twice if PLANT else random.choice(KINDS))()


# --- writers ------------------------------------------------------------------

def run(*command, data):
    subprocess.run(command, input=data, check=True,
                   stderr=subprocess.DEVNULL)


def put(path, data):
    with open(path, 'wb') as f:
        f.write(data)


def write_plainly(n):
    put(raw, content(n))


def write_npy(n):
    put(full, HEADER + content(n))


def write_over(n):
    """Writes pieces in any order, without O_TRUNC."""
    data = content(n)
    pieces = list(range(0, size, 10000))
    random.shuffle(pieces)
    fd = os.open(raw, os.O_WRONLY)
    for at in pieces:
        os.pwrite(fd, data[at:at + 10000], at)
    os.close(fd)


def write_renamed(n):
    put(f'{mount}/raw/.new', content(n))
    os.rename(f'{mount}/raw/.new', raw)


def write_synced(n):
    fd = os.open(raw, os.O_RDWR | os.O_TRUNC)
    os.write(fd, content(n))
    os.fsync(fd)
    os.close(fd)


def write_by_cp(n):
    put('/dev/shm/' + NAME, HEADER + content(n))
    run('cp', '/dev/shm/' + NAME, full, data=b'')


def write_by_dd(n):
    run('dd', f'of={raw}', 'bs=64K', 'conv=notrunc', data=content(n))


def write_by_direct_dd(n):
    run('dd', f'of={raw}', 'bs=64K', 'iflag=fullblock', 'oflag=direct',
        data=content(n))


NAME = f'ckptfs-storm-{os.getpid()}'
PLAIN = [write_plainly, write_npy, write_over, write_renamed, write_synced]
WAYS = PLAIN * 4 + [write_by_cp, write_by_dd, write_by_direct_dd]


def reads():
    return sum(shared[ROWS + i] for i in range(len(children)))


def write_on(until):
    n = 0
    while (n < COMMITS or reads() < READS) and time.monotonic() < until:
        n += 1
        shared[BEGUN] = n
        random.choice(WAYS)(n)
        shared[COMMITTED] = n
        if any(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
               for pid in children):
            return n  # a reader found something
    return n


def child(i):
    pid = os.fork()
    if pid:
        return pid
    try:
        read_on(i)
        os._exit(0)
    except BaseException as e:
        print(f'reader {i}: {e!r:.300}', flush=True)
        os._exit(1)


write_plainly(0)
children = []
children += [child(i) for i in range(5)]
try:
    commits = write_on(time.monotonic() + LIMIT)
finally:
    shared[STOP] = 1
    failed = [pid for pid in children if os.waitpid(pid, 0)[1]]
    if os.path.exists('/dev/shm/' + NAME):
        os.unlink('/dev/shm/' + NAME)
print(f'# {reads()} reads, {commits} commits, {len(failed)} readers failed')
sys.exit(bool(failed) or commits < COMMITS or reads() < READS)
