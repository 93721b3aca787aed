# SPDX-License-Identifier: MIT
"""Calls that a mount for writing must refuse, and calls that it must accept without effect.
Prints each call whose result differs from the table.

    write-refused.py MOUNT STEM
"""

import concurrent.futures
import contextlib
import errno
import mmap
import os
import struct
import sys

mount, stem = sys.argv[1:]
raw = f'{mount}/raw/{stem}'
npy = f'{mount}/full/{stem}.npy'
new = f'{mount}/full/new.npy'
with open(raw, 'rb') as f:
    data = f.read()
with open(npy, 'rb') as f:
    good = f.read()
problems = 0


@contextlib.contextmanager
def opened(path, flags):
    fd = os.open(path, flags)
    try:
        yield fd
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(fd)
        raise
    os.close(fd)


def put(path, content, flags=os.O_TRUNC):
    with opened(path, os.O_WRONLY | flags) as fd:
        os.write(fd, content)


def header(descr="'<f4'", shape='(16, 16)', fortran='False', fill=0):
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, " \
           f"'shape': {shape}, }}"
    text += ' ' * (fill + (-11 - len(text)) % 64) + '\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(text)) + text.encode()


def second_writer(first, second):
    with opened(first, os.O_WRONLY):
        os.close(os.open(second, os.O_RDWR))


def mapped(access):
    with opened(raw, os.O_RDWR) as fd:
        mmap.mmap(fd, 1024, access).close()


def private_mapping():
    with opened(raw, os.O_RDWR) as fd:
        with mmap.mmap(fd, 1024, mmap.MAP_PRIVATE) as m:
            assert m[:] == data


def after_refusal():
    """A handle with an error keeps it."""
    with opened(raw, os.O_WRONLY) as fd:
        with contextlib.suppress(OSError):
            os.pwrite(fd, b'x', len(data))
        os.pwrite(fd, data, 0)


def half_then_fsync():
    with opened(raw, os.O_WRONLY) as fd:
        os.write(fd, data[:512])
        os.fsync(fd)


def half_then_rest():
    """The close of a duplicate is refused; the handle can still be used."""
    with opened(raw, os.O_WRONLY | os.O_TRUNC) as fd:
        os.write(fd, data[:512])
        try:
            os.close(os.dup(fd))
            raise AssertionError
        except OSError as e:
            assert e.errno == errno.EINVAL
        os.ftruncate(fd, 0)


def others_read_what_is_committed():
    with opened(raw, os.O_RDWR) as fd:
        os.pwrite(fd, b'x' * 100, 0)
        assert os.fstat(fd).st_size == len(data)
        with open(raw, 'rb') as other:
            assert other.read() == data
        os.ftruncate(fd, 0)
        assert os.fstat(fd).st_size == len(data)
        with open(raw, 'rb') as other:
            assert other.read() == data


def shown_attributes():
    """Tools that copied the attributes may set them again; the values do not change."""
    for path in raw, npy, f'{mount}/local/rank-0/{stem}.npy':
        for flags in 0, os.XATTR_CREATE, os.XATTR_REPLACE:
            os.setxattr(path, 'user.ckptfs.dtype', b'int8', flags)
        os.setxattr(path, 'user.ckptfs.unknown', b'y')
        os.removexattr(path, 'user.ckptfs.dtype')
        assert os.getxattr(path, 'user.ckptfs.dtype') == b'float32'
        assert 'user.ckptfs.unknown' not in os.listxattr(path)


def in_thread(call):
    """The value of call() in another thread, or its errno."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        try:
            return pool.submit(call).result()
        except OSError as e:
            return e.errno


def begun_anew(*sizes):
    """No bytes are written; the close of a duplicate is refused, too."""
    with opened(raw, os.O_WRONLY) as fd:
        for size in sizes:
            os.ftruncate(fd, size)
        with contextlib.suppress(OSError):
            os.close(os.dup(fd))
            raise AssertionError


def cut_to_present_size():
    with opened(raw, os.O_WRONLY) as fd:
        os.ftruncate(fd, len(data))
        os.fsync(fd)


def used_afterwards():
    """A write handle can be used after a refused close."""
    with opened(raw, os.O_WRONLY) as fd:
        os.ftruncate(fd, 0)
        for call in os.fsync, lambda fd: os.close(os.dup(fd)):
            try:
                call(fd)
                raise AssertionError
            except OSError as e:
                assert e.errno == errno.EINVAL
        os.write(fd, data[:-1])
        os.pwrite(fd, b'x', len(data))  # the end: refused


def cut_by_another():
    """regression: truncate(2) overwrote written bytes with zeros."""
    with opened(raw, os.O_WRONLY | os.O_TRUNC) as fd:
        os.write(fd, data[:512])
        for size in 0, 100, len(data):
            got = in_thread(lambda size=size: os.truncate(raw, size))
            assert got == errno.EBUSY, (size, got)
        os.ftruncate(fd, 0)


def private_while_written():
    """chmod by the writing thread, like cp -p; other threads are refused."""
    with opened(raw, os.O_WRONLY) as fd:
        os.fchmod(fd, 0o600)
        os.chmod(raw, 0o600)
        os.fsync(fd)
        assert in_thread(lambda: os.chmod(raw, 0o600)) == errno.EPERM
        assert os.fstat(fd).st_mode & 0o777 == bits
    os.chmod(raw, 0o600)  # no writer: refused


E = errno
bits = os.stat(raw).st_mode & 0o777
calls = {
    'part': (E.EINVAL, lambda: put(raw, data[:100])),
    'all but one byte': (E.EINVAL, lambda: put(raw, data[:-1])),
    'part, without truncation': (E.EINVAL, lambda: put(raw, data[:9], 0)),
    'one byte more': (E.EFBIG, lambda: put(raw, data + b'x')),
    'after a refusal': (E.EINVAL, after_refusal),
    'fsync of a part': (E.EINVAL, half_then_fsync),
    'a copy closed too early': (E.EINVAL, half_then_rest),
    'truncated at open': (E.EINVAL, lambda: put(raw, b'')),
    'npy: truncated at open': (E.EINVAL, lambda: put(npy, b'')),
    'truncated by ftruncate': (E.EINVAL, lambda: begun_anew(0)),
    'nothing but a size': (E.EINVAL, lambda: begun_anew(0, len(data))),
    'truncated at open, and used afterwards': (E.EFBIG, used_afterwards),
    'nothing written': (0, lambda: put(raw, b'', 0)),
    'cut to the present size': (0, cut_to_present_size),
    'npy: part': (E.EINVAL, lambda: put(npy, good[:-1])),
    'npy: no header': (E.EINVAL, lambda: put(npy, data + b'x' * 128)),
    'npy: a longer header': (E.EFBIG, lambda: put(
        npy, header(fill=320) + data)),
    'npy: shape': (E.EINVAL, lambda: put(npy, header(shape='(8, 32)') + data)),
    'npy: rank': (E.EINVAL, lambda: put(npy, header(shape='(256,)') + data)),
    'npy: size': (E.EINVAL,
                  lambda: put(npy, header(shape='(16, 17)') + data)),
    'npy: dtype': (E.EINVAL, lambda: put(npy, header("'<f8'") + data + data)),
    'npy: integers': (E.EINVAL, lambda: put(npy, header("'<i4'") + data)),
    'npy: objects': (E.EINVAL, lambda: put(npy, header("'|O'") + data)),
    'second writer': (E.EBUSY, lambda: second_writer(raw, raw)),
    'second writer of another view': (E.EBUSY,
                                      lambda: second_writer(raw, npy)),
    'second writer of a box': (
        E.EBUSY, lambda: second_writer(
            raw, f'{mount}/local/rank-0/{stem}.npy')),
    'shared mapping': (E.ENODEV, lambda: mapped(mmap.MAP_SHARED)),
    'private mapping': (0, private_mapping),
    'reading uncommitted bytes': (E.EINVAL, others_read_what_is_committed),
    'open to cut, reading': (E.EINVAL,
                             lambda: os.close(os.open(raw, os.O_TRUNC))),
    'truncate': (E.EINVAL, lambda: os.truncate(raw, 0)),
    'truncate, longer': (E.EINVAL, lambda: os.truncate(raw, 2000)),
    'truncate to the present size': (0, lambda: os.truncate(raw, len(data))),
    'regression: truncate while another writes': (E.EINVAL, cut_by_another),
    'chmod, private': (E.EPERM, lambda: os.chmod(raw, 0o600)),
    'chmod, private, by who writes': (E.EPERM, private_while_written),
    'chmod as it is': (0, lambda: os.chmod(raw, bits)),
    'chmod, more': (0, lambda: os.chmod(raw, 0o777)),
    'chown': (0, lambda: os.chown(raw, os.getuid(), os.getgid())),
    'utimens': (0, lambda: os.utime(raw, (1, 1))),
    'utimens of a directory': (0, lambda: os.utime(f'{mount}/full', (1, 1))),
    'setxattr': (E.EOPNOTSUPP, lambda: os.setxattr(raw, 'user.x', b'y')),
    'removexattr': (E.EOPNOTSUPP, lambda: os.removexattr(raw, 'user.x')),
    'setxattr of a directory': (
        E.EOPNOTSUPP, lambda: os.setxattr(f'{mount}/raw', 'user.ckptfs.fqn',
                                          b'y')),
    'attributes that are shown': (0, shown_attributes),
    'create': (E.EPERM, lambda: os.open(new, os.O_WRONLY | os.O_CREAT)),
    'create in a box directory': (
        E.EPERM, lambda: os.open(f'{mount}/local/rank-0/new.npy',
                                 os.O_WRONLY | os.O_CREAT)),
    'create beside the box directories': (
        E.EROFS, lambda: os.open(f'{mount}/local/x',
                                 os.O_WRONLY | os.O_CREAT)),
    'create in the root': (E.EROFS, lambda: os.mknod(f'{mount}/x')),
    'mkdir': (E.EPERM, lambda: os.mkdir(new)),
    'symlink': (E.EPERM, lambda: os.symlink('x', new)),
    'link': (E.EPERM, lambda: os.link(raw, new)),
    'unlink of an object': (
        E.EROFS, lambda: os.unlink(f'{mount}/objects/step.pt')),
    'rename': (E.EPERM, lambda: os.rename(raw, f'{mount}/raw/x')),
    'rmdir': (E.EROFS, lambda: os.rmdir(f'{mount}/full')),
    'write to a report': (
        E.EROFS, lambda: os.open(f'{mount}/.ckptfs/log', os.O_WRONLY)),
    'write to an object': (
        E.EROFS, lambda: os.open(f'{mount}/objects/step.pt', os.O_WRONLY)),
}
if os.geteuid() != 0:  # the kernel refuses by mode, without a request
    for name in 'write to a report', 'write to an object':
        calls[name] = (E.EACCES, calls[name][1])
for name, (want, call) in calls.items():
    got = 0
    try:
        call()
    except OSError as e:
        got = e.errno
    except AssertionError as e:
        got = repr(e)
    with open(raw, 'rb') as f, open(npy, 'rb') as g:
        if f.read() != data or g.read() != good:
            got = 'changed'
    if os.stat(raw).st_mode & 0o777 != bits or os.stat(raw).st_mtime < 10:
        got = 'attributes'
    if got != want:
        problems += 1
        print(f'{name}: {errno.errorcode.get(got, got)}')
sys.exit(1 if problems else 0)
