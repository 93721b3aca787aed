# SPDX-License-Identifier: MIT
"""Compares the tree of a mount with a fixture's table: names and their order,
inode numbers, sizes, blocks, links, modes, owners and times. Prints the
differences.

    tree-names.py MOUNT SOURCE TABLE
"""

import ctypes
import os
import stat
import sys

mount, source, table = sys.argv[1:]
problems = 0


def expect(what, got, want):
    global problems
    if got != want:
        problems += 1
        print(f'{what}: got {got!r}, want {want!r}')


def listing(path):
    return [(e.name, e.inode(), e.is_dir(follow_symlinks=False))
            for e in os.scandir(os.fsencode(path))]


rows = [line.rstrip(b'\n').split(b'\t') for line in open(table, 'rb')]
meta = os.stat(os.path.join(source, '.metadata'))
directory = os.stat(source)
newest = max(os.stat(os.path.join(root, name)).st_mtime_ns
             for root, _, names in os.walk(source) for name in names
             if name != '.metadata')
numbers = {}


def attributes(path, inode, mode):
    s = os.lstat(path)
    expect(f'{path}: inode of stat', s.st_ino, inode)
    expect(f'{path}: inode used before', numbers.setdefault(inode, path), path)
    expect(f'{path}: links', s.st_nlink, 1)
    expect(f'{path}: blocks', s.st_blocks, -(-s.st_size // 512))
    expect(f'{path}: mode', oct(s.st_mode), oct(mode))
    expect(f'{path}: owner', (s.st_uid, s.st_gid), (meta.st_uid, meta.st_gid))
    return s


dir_mode = stat.S_IFDIR | stat.S_IMODE(directory.st_mode) & ~0o222
attributes(mount, 1, dir_mode)
expect('root', [n for n, _, _ in listing(mount)], [b'full', b'raw', b'local', b'objects',
                                                    *(name for name in (b'hf', b'torch', b'sharded', b'dcp', b'optim', b'f32')
                                                      if os.path.isdir(os.path.join(os.fsencode(mount), name))), b'.ckptfs',
                                                    *([b'files'] if os.path.isdir(os.path.join(mount, 'files')) else [])])
for name, inode, is_dir in listing(mount):
    path = os.path.join(os.fsencode(mount), name)
    if name == b'files':
        expect('files/: inode of the source', inode, directory.st_ino | 1 << 63)
        continue
    s = attributes(path, inode, dir_mode)
    expect(f'{path}: is a directory', is_dir, True)
    expect(f'{path}: mtime', s.st_mtime_ns, meta.st_mtime_ns)

for view, suffix in (b'full', b'.npy'), (b'raw', b''):
    path = os.path.join(os.fsencode(mount), view)
    entries = listing(path)
    expect(f'{path}: names', [n for n, _, _ in entries],
           [row[0] + suffix for row in rows])
    for (name, inode, is_dir), row in zip(entries, rows):
        expect(f'{path}/{name}: is a directory', is_dir, False)
        mode = stat.S_IFREG | meta.st_mode & directory.st_mode & 0o444
        s = attributes(os.path.join(path, name), inode, mode)
        if view == b'raw' and row[3] != b'-':
            expect(f'{path}/{name}: size', s.st_size, int(row[3]))
        if row[3] == b'-':
            expect(f'{path}/{name}: size', s.st_size, 0)
        if s.st_mtime_ns > newest:
            expect(f'{path}/{name}: mtime', s.st_mtime_ns, newest)


# Cookies: from any place on, a listing goes on as it did the first time.
class Dirent(ctypes.Structure):
    _fields_ = [('d_ino', ctypes.c_uint64), ('d_off', ctypes.c_int64),
                ('d_reclen', ctypes.c_ushort), ('d_type', ctypes.c_ubyte),
                ('d_name', ctypes.c_char * 256)]


libc = ctypes.CDLL(None)
libc.opendir.restype = ctypes.c_void_p
libc.readdir.restype = ctypes.POINTER(Dirent)
libc.readdir.argtypes = libc.closedir.argtypes = [ctypes.c_void_p]
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]


def names_from(handle, cookie):
    if cookie is not None:
        libc.seekdir(handle, cookie)
    out = []
    while True:
        entry = libc.readdir(handle)
        if not entry:
            return out
        out.append((entry.contents.d_name, entry.contents.d_off))


handle = libc.opendir(os.fsencode(mount) + b'/full')
every = names_from(handle, None)
for i in range(0, len(every), max(1, len(every) // 7)):
    expect(f'from cookie {i}', names_from(handle, every[i][1]), every[i + 1:])
libc.closedir(handle)
sys.exit(1 if problems else 0)
