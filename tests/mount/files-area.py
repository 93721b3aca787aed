# SPDX-License-Identifier: MIT
"""Looks at files/ of a mount. Prints what is wrong.

    files-area.py same SOURCE SHOWN         names, attributes, links, bytes and xattrs
    files-area.py listing DIRECTORY         cookies of a listing
    files-area.py crowd MOUNT               tensors beside many open files
    files-area.py changes SOURCE SHOWN      the source changes while its files are open
"""

import ctypes
import errno
import mmap
import os
import stat
import sys

INO = 1 << 63
problems = 0


def expect(what, got, want):
    global problems
    if got != want:
        problems += 1
        print(f'{what}: got {got!r:.200}, want {want!r:.200}')


# --- a tree ------------------------------------------------------------------------

def tree(top):
    """Each path of a directory, with `.` first."""
    found = ['.']
    for directory, below, names in os.walk(top):
        found += [os.path.relpath(os.path.join(directory, name), top) for name in below + names]
    return sorted(found)


def attributes(path):
    s = os.lstat(path)
    return {'mode': oct(s.st_mode), 'links': s.st_nlink, 'owner': (s.st_uid, s.st_gid),
            'size': s.st_size, 'blocks': s.st_blocks, 'times': (s.st_mtime_ns, s.st_ctime_ns),
            'device': s.st_rdev, 'block size': s.st_blksize, 'inode': s.st_ino & ~INO,
            'xattrs': {name: os.getxattr(path, name, follow_symlinks=False)
                       for name in os.listxattr(path, follow_symlinks=False)
                       if name.startswith('user.')}}


def content(path):
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return os.readlink(path)
    if stat.S_ISREG(mode):
        with open(path, 'rb') as f:
            return f.read()
    return None


def same(source, shown):
    names = tree(source)
    expect('names', tree(shown), names)
    for name in names:
        a, b = os.path.join(source, name), os.path.join(shown, name)
        expect(f'{name}: content', content(b), content(a))
        expect(f'{name}: attributes', attributes(b), attributes(a))
        expect(f'{name}: top bit of its inode', os.lstat(b).st_ino & INO, INO)
    for directory, _, _ in os.walk(shown):
        for e in os.scandir(directory):
            expect(f'{e.path}: listed inode', e.inode(), os.lstat(e.path).st_ino)
            expect(f'{e.path}: listed as a directory', e.is_dir(follow_symlinks=False),
                   stat.S_ISDIR(os.lstat(e.path).st_mode))
    print(f'# {len(names)} names')
    expect('canary: few names', len(names) > 2, True)


# --- a listing ---------------------------------------------------------------------

class Dirent(ctypes.Structure):
    _fields_ = [('d_ino', ctypes.c_uint64), ('d_off', ctypes.c_int64),
                ('d_reclen', ctypes.c_ushort), ('d_type', ctypes.c_ubyte),
                ('d_name', ctypes.c_char * 256)]


libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = ctypes.c_void_p
libc.readdir.restype = ctypes.POINTER(Dirent)
libc.readdir.argtypes = libc.closedir.argtypes = [ctypes.c_void_p]
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]


def rest(handle):
    out = []
    while True:
        entry = libc.readdir(handle)
        if not entry:
            return out
        out.append((entry.contents.d_name, entry.contents.d_off))


def listing(directory):
    handle = libc.opendir(os.fsencode(directory))
    every = rest(handle)
    names = [name for name, _ in every]
    expect('each name once', len(set(names)), len(names))
    expect('dots', {b'.', b'..'} <= set(names), True)
    expect('canary: a long listing', len(names) > 1000, True)
    for at in range(0, len(every), len(every) // 9):
        libc.seekdir(handle, every[at][1])
        expect(f'from cookie {at}', rest(handle), every[at + 1:])
    libc.seekdir(handle, 0)
    expect('from the beginning', rest(handle), every)
    libc.closedir(handle)


# --- changes -----------------------------------------------------------------------

def put(path, data, how='wb'):
    with open(path, how) as f:
        f.write(data)


def read_all(fd):
    return os.pread(fd, 1 << 20, 0)


def growth(source, shown):
    """A program that reads a log to its end sees what is appended, and no zeros."""
    put(f'{source}/log', b'')
    with open(f'{shown}/log', 'rb', buffering=0) as f:
        wrote = b''
        for line in range(300):
            text = b'line %d, of some length %s\n' % (line, b'x' * (line % 97))
            put(f'{source}/log', text, 'ab')
            wrote += text
            expect(f'line {line}', f.read(), text)
        expect('the whole log', read_all(f.fileno()), wrote)
    os.truncate(f'{source}/log', 1000)
    expect('a log that was cut', content(f'{shown}/log'), wrote[:1000])


def in_place(source, shown):
    """Another program rewrites a file, with the same size."""
    for text in b'global_step100', b'global_step200', b'global_step300':
        put(f'{source}/latest', text)
        expect('a file of the same size', content(f'{shown}/latest'), text)


def replaced(source, shown):
    """An open file and a mapping keep their file when another takes its name."""
    put(f'{source}/state', b'old' * 9000)
    with open(f'{shown}/state', 'rb') as f:
        fd = f.fileno()
        old = os.fstat(fd).st_ino
        with mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
            put(f'{source}/new', b'new' * 10000)
            os.rename(f'{source}/new', f'{source}/state')
            expect('an open file', read_all(fd), b'old' * 9000)
            expect('its mapping', mapped[:], b'old' * 9000)
            expect('its number', os.fstat(fd).st_ino, old)
        expect('the name', content(f'{shown}/state'), b'new' * 10000)
        expect('another number', os.stat(f'{shown}/state').st_ino != old, True)
    os.unlink(f'{source}/state')
    expect('removed', os.path.lexists(f'{shown}/state'), False)
    os.mkdir(f'{source}/state')
    expect('a directory now', os.path.isdir(f'{shown}/state'), True)
    os.rmdir(f'{source}/state')


def stale(source, shown):
    """A directory that was replaced, after its descriptor was closed for others."""
    os.makedirs(f'{source}/gone/below')
    put(f'{source}/gone/below/x', b'old')
    fd = os.open(f'{shown}/gone/below', os.O_PATH)
    for i in range(300):
        os.mkdir(f'{source}/many-{i}')
        os.stat(f'{shown}/many-{i}')
    os.rename(f'{source}/gone', f'{source}/moved')
    os.makedirs(f'{source}/gone/below')
    put(f'{source}/gone/below/x', b'new')
    try:
        os.stat('x', dir_fd=fd)
        got = 0
    except OSError as e:
        got = e.errno
    expect('a file in a directory that was replaced', got, errno.ESTALE)
    os.close(fd)
    expect('by name', content(f'{shown}/gone/below/x'), b'new')


def kept(source, shown):
    """A log that is renamed, and then removed, while a program follows it; a directory that
    is renamed while a program has it open."""
    put(f'{source}/log', b'one\n')
    os.makedirs(f'{source}/open')
    put(f'{source}/open/x', b'below')
    directory = os.open(f'{shown}/open', os.O_RDONLY)
    with open(f'{shown}/log', 'rb', buffering=0) as f:
        os.rename(f'{source}/log', f'{source}/log.1')
        put(f'{source}/log', b'another\n')
        os.rename(f'{source}/open', f'{source}/renamed')
        for i in range(300):
            os.mkdir(f'{source}/directory-{i}')
            os.stat(f'{shown}/directory-{i}')
        expect('a renamed log', f.read(), b'one\n')
        put(f'{source}/log.1', b'two\n', 'ab')
        expect('appended to it', f.read(), b'two\n')
        os.unlink(f'{source}/log.1')
        expect('a removed log', os.fstat(f.fileno()).st_size, 8)
        with open(f'/proc/self/fd/{f.fileno()}', 'rb') as again:
            expect('opened again', again.read(), b'one\ntwo\n')
        expect('the name of the log', content(f'{shown}/log'), b'another\n')
    expect('a renamed directory', os.listdir(directory), ['x'])
    expect('a size in it', os.stat('x', dir_fd=directory).st_size, 5)
    os.close(directory)


def changes(source, shown):
    for step in growth, in_place, replaced, stale, kept:
        step(source, shown)


# --- many open files ---------------------------------------------------------------

def crowd(mount):
    """A program opens files of files/ until it cannot; tensors are read meanwhile."""
    def tensors():
        return {e.name: content(e.path) for e in os.scandir(f'{mount}/raw') if e.is_file()}

    opened, got = [], 0
    try:
        for _ in range(500):
            opened.append(os.open(f'{mount}/files/config.json', os.O_RDONLY))
    except OSError as e:
        got = e.errno
    expect('one too many', errno.errorcode.get(got), 'ENFILE')
    expect('canary: most were opened', len(opened) > 50, True)
    got = 0
    try:
        os.open(f'{mount}/files/one-too-many', os.O_WRONLY | os.O_CREAT)
    except OSError as e:
        got = e.errno
    expect('one too many, new', errno.errorcode.get(got), 'ENFILE')
    expect('one too many, new: it is not there', os.path.exists(f'{mount}/files/one-too-many'), False)
    meanwhile = tensors()
    for fd in opened:
        os.close(fd)
    expect('tensors meanwhile', meanwhile, tensors())


# --- refused -----------------------------------------------------------------------

commands = (same, listing, changes, crowd)
{f.__name__: f for f in commands}[sys.argv[1]](*sys.argv[2:])
sys.exit(1 if problems else 0)
