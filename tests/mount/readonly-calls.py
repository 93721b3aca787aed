# SPDX-License-Identifier: MIT
"""Tries every system call that changes files on a mount; each must fail with EROFS or
with the errno of the table. Prints the other results.

    readonly-calls.py MOUNT STEM [DIRECTORY SUFFIX]
"""

import ctypes
import errno
import os
import sys

mount, stem, view, suffix = (*sys.argv[1:], 'full', '.npy')[:4]
directory = f'{mount}/{view}'
path = f'{directory}/{stem}{suffix}'
new = f'{directory}/new.npy'
problems = 0
libc = ctypes.CDLL(None, use_errno=True)


def opened(flags, *names):
    for name in names:
        os.close(os.open(name, flags, 0o644))


def with_fd(call):
    fd = os.open(path, os.O_RDONLY)
    try:
        call(fd)
    finally:
        os.close(fd)


def renameat2(flags):
    if libc.renameat2(-100, os.fsencode(path), -100, os.fsencode(new), flags):
        raise OSError(ctypes.get_errno(), '')


calls = {
    'open for writing': lambda: opened(os.O_WRONLY, path),
    'open for both': lambda: opened(os.O_RDWR, path),
    'open to append': lambda: opened(os.O_WRONLY | os.O_APPEND, path),
    'open to truncate': lambda: opened(os.O_WRONLY | os.O_TRUNC, path),
    'open and truncate, reading': lambda: opened(os.O_TRUNC, path),
    'create': lambda: opened(os.O_WRONLY | os.O_CREAT, new),
    'create in the root': lambda: opened(os.O_RDWR | os.O_CREAT, mount + '/x'),
    'create in .ckptfs': lambda: opened(os.O_RDWR | os.O_CREAT,
                                        mount + '/.ckptfs/x'),
    'create exclusively': lambda: opened(
        os.O_WRONLY | os.O_CREAT | os.O_EXCL, new),
    'unnamed file': lambda: opened(os.O_WRONLY | os.O_TMPFILE, directory),
    'truncate': lambda: os.truncate(path, 0),
    'mkdir': lambda: os.mkdir(new),
    'mknod': lambda: os.mknod(new, 0o644),
    'mkfifo': lambda: os.mkfifo(new),
    'symlink': lambda: os.symlink('x', new),
    'link': lambda: os.link(path, new),
    'unlink': lambda: os.unlink(path),
    'rmdir': lambda: os.rmdir(directory),
    'rename': lambda: os.rename(path, new),
    'rename a directory': lambda: os.rename(directory, mount + '/x'),
    'rename, no replacement': lambda: renameat2(1),
    'rename, exchange': lambda: renameat2(2),
    'chmod': lambda: os.chmod(path, 0o600),
    'fchmod': lambda: with_fd(lambda fd: os.fchmod(fd, 0o600)),
    'chown': lambda: os.chown(path, 1, 1),
    'utimens': lambda: os.utime(path),
    'futimens': lambda: with_fd(os.utime),
    'setxattr': lambda: os.setxattr(path, 'user.x', b'y'),
    'removexattr': lambda: os.removexattr(path, 'user.ckptfs.fqn'),
    'write to a report': lambda: opened(os.O_WRONLY,
                                        mount + '/.ckptfs/status'),
    'ftruncate': lambda: with_fd(lambda fd: os.ftruncate(fd, 0)),
    'fallocate': lambda: with_fd(lambda fd: os.posix_fallocate(fd, 0, 9)),
    'write': lambda: with_fd(lambda fd: os.write(fd, b'x')),
}
other = {
    # The kernel looks at the descriptor first: it is not open for writing.
    'ftruncate': {errno.EINVAL},
    'fallocate': {errno.EBADF},
    'write': {errno.EBADF},
    'unnamed file': {errno.EROFS, errno.EOPNOTSUPP},
    'rename, exchange': {errno.EROFS, errno.ENOENT, errno.EINVAL},
    'rename, no replacement': {errno.EROFS, errno.EINVAL},
}
for name, call in calls.items():
    try:
        call()
        got = 0
    except OSError as e:
        got = e.errno
    if got not in other.get(name, {errno.EROFS}):
        problems += 1
        print(f'{name}: {errno.errorcode.get(got, got)}')
sys.exit(1 if problems else 0)
