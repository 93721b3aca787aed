# SPDX-License-Identifier: MIT
"""Commits to one tensor of a mount while other threads read it. Prints the errors.

    write-isolation.py MOUNT STEM files|inodes|readers|lookups
"""

import mmap
import os
import random
import struct
import sys
import threading
import time

sys.path.insert(0, f'{os.path.dirname(os.path.abspath(__file__))}/../lib')
sys.dont_write_bytecode = True
from tap import cases  # noqa: E402

mount, stem, part = sys.argv[1:]
raw = f'{mount}/raw/{stem}'
size = os.stat(raw).st_size
problems = []
COMMITS = cases('CKPTFS_COMMITS', 20, 400)  # beside readers; of each writer beside lookups a tenth
stop = threading.Event()


def expect(what, got, want):
    if got != want:
        problems.append(f'{what}: {got!r:.200}, expected {want!r:.200}')


def content(n):
    """The contents of version n: the number in all elements."""
    return struct.pack('<I', n) * (size // 4)


def put(path, data):
    with open(path, 'wb') as f:
        f.write(data)


def get(path):
    with open(path, 'rb') as f:
        return f.read()


def files():
    """An open file keeps its contents, also bytes that were not read yet."""
    put(raw, content(1))
    fd = os.open(raw, os.O_RDONLY)
    untouched = os.open(raw, os.O_RDONLY)
    direct = os.open(raw, os.O_RDONLY | os.O_DIRECT)
    shared = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
    private = mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ)
    expect('read', os.pread(fd, size, 0), content(1))
    first = private[:4096]
    inode = os.fstat(fd).st_ino
    for n in range(2, 12):
        put(raw, content(n))
        expect('a new open', get(raw), content(n))
        expect('a new open of the other view', get(f'{mount}/full/{stem}.npy')
               [-size:], content(n))
        expect('an open file', os.pread(fd, size, 0), content(1))
        expect('one not read before', os.pread(untouched, 64, 64 * n % size),
               content(1)[:64])
        expect('one past the page cache', os.pread(direct, size, 0),
               content(1))
        expect('a shared mapping', shared[:], content(1))
        expect('a private mapping', private[:4096], first)
        expect('inode of an open file', os.fstat(fd).st_ino, inode)
        expect('size of an open file', os.fstat(fd).st_size, size)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    expect('an open file, not cached', os.pread(fd, size, 0), content(1))
    expect('a mapping, not cached', shared[:], content(1))


def numbers():
    """Inode number and mtime of every file, by stat and by listing."""
    seen = {}
    for directory, below, names in os.walk(mount):
        if directory == mount:
            below.remove('files')
        listed = {e.name: e.inode() for e in os.scandir(directory)}
        for name in names:
            path = os.path.join(directory, name)
            s = os.stat(path)
            expect(f'{path}: listed inode', listed[name], s.st_ino)
            seen[path] = s.st_ino, s.st_mtime_ns
    return seen


def of_tensor(path):
    """True for a file of the tensor, or of several tensors including it."""
    return (os.path.basename(path).split('%@')[0] in (stem, stem + '.npy') or
            path.endswith('/hf/model.safetensors'))


def is_of_all(path):
    """True for a file of all tensors, which torch-view and dcp-layouts look at."""
    return bool({'torch', 'dcp'} & set(path.split('/')))


def inodes():
    used = set()
    before = numbers()
    for n in range(5):
        used |= {inode for inode, _ in before.values()}
        begun = time.time_ns()
        put(raw, content(n))
        after = numbers()
        expect('names', set(after), set(before))
        for path, (inode, mtime) in after.items():
            if '/.ckptfs/' in path:
                expect(f'{path}: inode', inode, before[path][0])
            elif is_of_all(path):
                continue
            elif not of_tensor(path):
                expect(f'{path}: untouched', (inode, mtime), before[path])
            elif inode in used:
                problems.append(f'{path}: inode {inode} was used before')
            elif not begun - 10 ** 9 < mtime < time.time_ns() + 10 ** 9:
                problems.append(f'{path}: time {mtime}')
        expect('files changed', sum(map(of_tensor, after)) >= 6, True)
        expect('time of the directory',
               os.stat(f'{mount}/raw').st_mtime_ns >= begun - 10 ** 9, True)
        before = after


def together(work, threads):
    """Runs work() in threads until `stop` is set."""
    pool = [threading.Thread(target=work, daemon=True)
            for _ in range(threads)]
    for thread in pool:
        thread.start()
    return pool


committed = 0  # the version whose close has returned
begun = 0      # the version being written


def read_on():
    while not stop.is_set() and not problems:
        least = committed
        data = get(raw)
        most = begun
        n = struct.unpack_from('<I', data)[0]
        if data != content(n):
            problems.append('a mixture')
        if not least <= n <= most:
            problems.append(f'{n}, expected {least} to {most}')


def write_on():
    global begun, committed
    for n in range(1, COMMITS + 1):
        if problems:
            break
        begun = n
        put(raw, content(n))
        committed = n
        expect('the writer reads', get(raw), content(n))


def join(pool):
    for thread in pool:
        thread.join(100)
        expect('a thread is stuck', thread.is_alive(), False)


def readers():
    put(raw, content(0))
    pool = together(read_on, 4)
    write_on()
    stop.set()
    join(pool)


def look_up():
    """Looks up names in the kernel's cache, and new names."""
    mine = random.Random(threading.get_ident())
    folders = [f'{mount}/{d}' for d in ('raw', 'full', 'local/rank-0')]
    while not stop.is_set():
        folder = mine.choice(folders)
        names = os.listdir(folder)
        for name in mine.sample(names, 20):
            os.stat(f'{folder}/{name}')
            os.path.exists(f'{folder}/{name}{mine.random()}')
        os.listxattr(f'{folder}/{names[0]}')


def lookups():
    """Several writers, each with its own tensor."""
    stems = sorted(os.listdir(f'{mount}/raw'))[:6]

    def write_own(name):
        path = f'{mount}/raw/{name}'
        data = get(path)
        for _ in range(COMMITS // 10):
            put(path, data)

    pool = together(look_up, 8)
    writers = [threading.Thread(target=write_own, args=(name,), daemon=True)
               for name in stems]
    for thread in writers:
        thread.start()
    join(writers)
    stop.set()
    join(pool)


{'files': files, 'inodes': inodes, 'readers': readers,
 'lookups': lookups}[part]()
for problem in problems[:8]:
    print(problem)
sys.stdout.flush()
os._exit(1 if problems else 0)
