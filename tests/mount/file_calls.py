# SPDX-License-Identifier: MIT
"""One call each that changes a file, and its result as text, which does not depend on the place."""

import ctypes
import errno
import os
import socket
import stat

LIBC = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
KEEP_SIZE, PUNCH_HOLE, ZERO = 1, 2, 16
FOLLOW, EMPTY_PATH = 0x400, 0x1000
USER, OTHER, GROUP = 65534, 65533, 65532
is_root = os.geteuid() == 0


def libc(name, *args):
    """Calls a function of the C library; raises its errno."""
    args = [a.encode() if isinstance(a, str) else ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    if getattr(LIBC, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), name)


def rename2(old, new, flags):
    libc('renameat2', -100, old, -100, new, flags)


def fallocate(path, mode, at, length):
    with open(path, 'r+b', buffering=0) as f:
        libc('fallocate', f.fileno(), mode, at, length)


def outcome(call, *args):
    """The result of a call: its value, or the name of its errno."""
    try:
        got = call(*args)
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e.errno))
    if isinstance(got, int) and not isinstance(got, bool):
        return 'fine'
    return 'fine' if got is None else repr(got)


def as_user(uid, groups, call, *args):
    """The same in a process of another user, or of this one if it is not root."""
    if not is_root:
        return outcome(call, *args)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups(groups)
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        os.umask(0o022)
        os.write(write, outcome(call, *args).encode())
        os._exit(0)
    os.close(write)
    with open(read) as f:
        said = f.read()
    os.waitpid(child, 0)
    return said


def state(path):
    """The attributes of a file that do not depend on the place."""
    try:
        s = os.lstat(path)
    except OSError as e:
        return errno.errorcode[e.errno]
    size = s.st_size if not stat.S_ISDIR(s.st_mode) else '-'
    links = s.st_nlink if not stat.S_ISDIR(s.st_mode) else '-'
    device = f' {os.major(s.st_rdev)}:{os.minor(s.st_rdev)}' if s.st_rdev else ''
    return f'{oct(s.st_mode)} {links} {s.st_uid}:{s.st_gid} {size}{device}'


def show(what, got, *paths):
    print(f'{what}: {got}' + ''.join(f'; {p[:20]} {state(p)}' for p in paths))


def touch(path, mode=0o644, text=''):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    os.write(fd, text.encode())
    os.close(fd)


def make(kind, path):
    {'file': touch, 'dir': os.mkdir, 'fifo': os.mkfifo,
     'link': lambda p: os.symlink('target', p),
     'socket': lambda p: socket.socket(socket.AF_UNIX).bind(p),
     'char': lambda p: os.mknod(p, 0o600 | stat.S_IFCHR, os.makedev(1, 3)),
     'block': lambda p: os.mknod(p, 0o600 | stat.S_IFBLK, os.makedev(1, 3))}[kind](path)


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    elif os.path.lexists(path):
        os.unlink(path)


KINDS = ['file', 'dir', 'fifo', 'link', 'socket'] + (['char', 'block'] if is_root else [])
