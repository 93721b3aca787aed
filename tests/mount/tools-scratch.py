# SPDX-License-Identifier: MIT
"""Tries scratch files of a mount for writing: they are ordinary files until
they are renamed onto a tensor. Prints the errors.

    tools-scratch.py MOUNT STEM
"""

import errno
import mmap
import os
import stat
import subprocess
import sys

mount, stem = sys.argv[1:]
# Two directories, and a file in the first with its header's length.
PLACES = ((f'{mount}/raw', f'{mount}/full', stem, 0),
          (f'{mount}/local/rank-1', f'{mount}/local/rank-0', stem + '.npy',
           128),
          (f'{mount}/local/rank-2', f'{mount}/raw', stem + '.npy', 128))
problems = 0


def expect(what, got, want):
    global problems
    if got != want:
        problems += 1
        print(f'{raw}: {what}: got {got!r:.80}, want {want!r:.80}')


def expect_error(what, number, call):
    try:
        call()
    except OSError as e:
        expect(what, errno.errorcode[e.errno], errno.errorcode[number])
    else:
        expect(what, 'no error', errno.errorcode[number])


def make(path, content=b'', mode=0o644):
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    os.write(fd, content)
    return fd


def bytes_and_size():
    fd = make(f'{raw}/a', b'hello')
    os.pwrite(fd, b'x', 3000000)
    expect('size', os.fstat(fd).st_size, 3000001)
    expect('a hole', os.pread(fd, 5, 1000000), bytes(5))
    expect('the end', os.pread(fd, 5, 3000000), b'x')
    expect('blocks', os.fstat(fd).st_blocks, 3000001 // 512 + 1)
    packed = subprocess.run(('tar', '-cSC', raw, 'a'), stdout=subprocess.PIPE, check=True)
    unpacked = subprocess.run(('tar', '-xO'), input=packed.stdout, stdout=subprocess.PIPE, check=True)
    expect('tar -S', unpacked.stdout, b'hello'.ljust(3000000, b'\0') + b'x')
    os.ftruncate(fd, 3)
    expect('cut', os.pread(fd, 10, 0), b'hel')
    with open(f'{raw}/a', 'ab') as f:
        f.write(b'p!')
    with open(f'{raw}/a', 'rb') as f:
        expect('appended', f.read(), b'help!')
        m = mmap.mmap(f.fileno(), 5, mmap.MAP_PRIVATE, mmap.PROT_READ)
        expect('a private mapping', m[:], b'help!')
    expect_error('a shared mapping', errno.ENODEV,
                 lambda: mmap.mmap(fd, 5, mmap.MAP_SHARED))
    os.close(fd)
    with open(f'{raw}/a', 'wb') as f:
        expect('open to cut', os.fstat(f.fileno()).st_size, 0)
    os.unlink(f'{raw}/a')


def attributes():
    path = f'{full}/.b.npy'
    os.close(make(path, mode=0o640))
    expect('mode', stat.S_IMODE(os.stat(path).st_mode), 0o640)
    os.chmod(path, 0o4700)
    expect('chmod', stat.S_IMODE(os.stat(path).st_mode), 0o4700)
    os.utime(path, ns=(1, 1234567890123456789))
    expect('utimens', os.stat(path).st_mtime_ns, 1234567890123456789)
    if os.geteuid() == 0:
        os.chown(path, 12, 34)
        s = os.stat(path)
        expect('chown', (s.st_uid, s.st_gid), (12, 34))
    expect_error('setxattr', errno.EOPNOTSUPP,
                 lambda: os.setxattr(path, 'user.x', b'y'))
    os.setxattr(path, 'user.ckptfs.dtype', b'float32')
    os.removexattr(path, 'user.ckptfs.shape')
    expect('attributes', os.listxattr(path), [])
    os.unlink(path)


def names():
    before = sorted(os.listdir(raw))
    for i in range(300):
        os.close(make(f'{raw}/n{i}', b'%d' % i))
    expect('listed', sorted(os.listdir(raw)),
           sorted(before + [f'n{i}' for i in range(300)]))
    expect('in the other directory', os.path.exists(f'{full}/n1'), False)
    for i in range(0, 300, 2):
        os.rename(f'{raw}/n{i}', f'{raw}/n{i + 1}')
    for e in os.scandir(raw):
        expect('inode', e.inode(), e.stat().st_ino)
    with open(f'{raw}/n7', 'rb') as f:
        expect('replaced', f.read(), b'6')
    os.rename(f'{raw}/n7', f'{full}/m7')
    expect('the other directory', 'm7' in os.listdir(full), True)
    expect_error('the old name', errno.ENOENT, lambda: os.stat(f'{raw}/n7'))
    os.unlink(f'{full}/m7')
    for i in range(1, 300, 2):
        if i != 7:
            os.unlink(f'{raw}/n{i}')
    expect('all gone', sorted(os.listdir(raw)), before)
    os.close(make(f'{raw}/' + 'l' * 255))
    os.unlink(f'{raw}/' + 'l' * 255)
    expect_error('a long name', errno.ENAMETOOLONG,
                 lambda: make(f'{raw}/' + 'l' * 256))
    if not full.endswith('raw'):
        expect_error('as a tensor', errno.EPERM, lambda: make(f'{full}/c.npy'))


def without_name():
    fd = make(f'{raw}/d', b'kept')
    os.unlink(f'{raw}/d')
    expect('links', os.fstat(fd).st_nlink, 0)
    expect('removed, open', os.pread(fd, 10, 0), b'kept')
    os.pwrite(fd, b'w', 0)
    expect('removed, written', os.pread(fd, 10, 0), b'wept')
    os.close(fd)


def becomes_tensor():
    """Later writes to the renamed file get an error."""
    other = data[:header] + data[header:][::-1]
    fd = make(f'{full}/e', other)
    before = os.stat(tensor)
    os.rename(f'{full}/e', tensor)
    expect('inode of an open one', os.fstat(fd).st_ino != os.stat(tensor).st_ino,
           True)
    expect('a new inode', os.stat(tensor).st_ino != before.st_ino, True)
    expect('mode', os.stat(tensor).st_mode, before.st_mode)
    expect_error('written after', errno.ESTALE, lambda: os.write(fd, b'x'))
    expect_error('cut after', errno.ESTALE, lambda: os.ftruncate(fd, 0))
    expect('read after', os.pread(fd, len(data), 0), other)
    os.close(fd)
    with open(tensor, 'rb') as f:
        expect('the tensor', f.read(), other)


def many():
    """More than there may be: ENFILE, and tensors are still read."""
    made = []
    try:
        for i in range(5000):
            os.close(make(f'{full}/many{i}'))
            made.append(f'{full}/many{i}')
    except OSError as e:
        expect('too many', errno.errorcode[e.errno], 'ENFILE')
    expect('too many are refused', len(made) < 5000, True)
    with open(tensor, 'rb') as f:
        expect('a tensor besides', len(f.read()), len(data))
    for path in made:
        os.unlink(path)


for raw, full, name, header in PLACES:
    tensor = f'{raw}/{name}'
    with open(tensor, 'rb') as f:
        data = f.read()
    for test in bytes_and_size, attributes, names, without_name, becomes_tensor:
        test()
many()
sys.exit(1 if problems else 0)
