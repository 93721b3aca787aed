# SPDX-License-Identifier: MIT
"""Writes a tensor in ways that skip bytes, or seem to: each close is refused, or the tensor is
complete. The same holds for a scratch file that is then renamed onto the tensor. Prints each
way with a result that differs from the table.

    write-incomplete.py MOUNT STEM
"""

import errno
import functools
import itertools
import os
import subprocess
import sys
import threading

mount, stem = sys.argv[1:]
raw = f'{mount}/raw/{stem}'
npy = f'{mount}/full/{stem}.npy'
with open(raw, 'rb') as f:
    size = len(f.read())
with open(npy, 'rb') as f:
    header = f.read()[:-size]
half = size // 2
problems = 0
turn = 0


def fresh():
    """New bytes, all of them different from 0."""
    global turn
    turn += 1
    return bytes((i * 7 + turn) % 255 + 1 for i in range(size))


def opened(path, write, flags=os.O_TRUNC):
    """The result of write(fd) and of the close."""
    fd = os.open(path, os.O_WRONLY | flags)
    try:
        write(fd)
    finally:
        os.close(fd)


def renamed(path, write, directory):
    """The same through a scratch file in a directory of the mount, and a rename."""
    scratch = f'{mount}/{directory}/.tmp'
    try:
        opened(scratch, write, os.O_CREAT | os.O_TRUNC)
        os.rename(scratch, path)
    finally:
        if os.path.exists(scratch):
            os.unlink(scratch)


def in_threads(*calls):
    threads = [threading.Thread(target=call) for call in calls]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def pieces(fd, data, n, left_out=()):
    step = size // n

    def piece(i):
        return lambda: os.pwrite(fd, data[i * step:(i + 1) * step], i * step)
    return [piece(i) for i in range(n) if i not in left_out]


def backwards(fd, data, left_out=()):
    for piece in reversed(pieces(fd, data, 8, left_out)):
        piece()


def front_to_back(fd, data, left_out=()):
    for piece in pieces(fd, data, 8, left_out):
        piece()


def child(fd, what='pass'):
    subprocess.run((sys.executable, '-c', f'import os\nfd = {fd}\n{what}'),
                   pass_fds=(fd,), check=True)


def with_holes(data, *left_out):
    step = size // 8
    return b''.join(bytes(step) if i in left_out
                    else data[i * step:(i + 1) * step] for i in range(8))


# name: the view, the operation, the errno of the close or None, and the final contents if
# they are not the new bytes
def header_last(fd, data):
    os.pwrite(fd, data, len(header))
    os.pwrite(fd, header, 0)


def header_last_and_a_gap(fd, data):
    os.pwrite(fd, data[half:], len(header) + half)
    os.pwrite(fd, header, 0)


def sized_then(call):
    def do(fd, data):
        os.ftruncate(fd, size)
        call(fd, data)
    return do


def and_sized(call):
    def do(fd, data):
        call(fd, data)
        os.ftruncate(fd, size)
    return do


def allocated(call):
    def do(fd, data):
        os.posix_fallocate(fd, 0, size)
        call(fd, data)
    return do


def copied(n, step):
    """Copies n bytes of another file of the mount by step(from, to, bytes, position)."""
    def do(fd, data):
        source, done = f'{mount}/raw/.source', 0
        with open(source, 'w+b', buffering=0) as f:
            f.write(data)
            while done < n:
                done += step(f.fileno(), fd, n - done, done)
        os.unlink(source)
    return do


def spliced(source, fd, n, at):
    """splice(2) through a pipe."""
    out, into = os.pipe()
    try:
        n = os.splice(source, into, n, at)
        return os.splice(out, fd, n)
    finally:
        os.close(out)
        os.close(into)


KERNEL_COPIES = {
    'copy_file_range': os.copy_file_range,
    'sendfile': lambda source, fd, n, at: os.sendfile(fd, source, at, n),
    'splice': spliced,
}


def cut_and_grown(fd, data):
    os.write(fd, data)
    os.ftruncate(fd, half)
    os.ftruncate(fd, size)


def cut_and_written(fd, data):
    cut_and_grown(fd, data)
    os.pwrite(fd, data[:half + 1], 0)


def synced(call):
    """Calls fsync(2) after an operation; EINVAL of an incomplete tensor is ignored."""
    def do(fd, data):
        call(fd, data)
        try:
            os.fsync(fd)
        except OSError as e:
            assert e.errno == errno.EINVAL
    return do


def mapped(fd, data):
    """numpy.memmap(mode='w+') of a file that cannot be mapped."""
    os.pwrite(fd, b'\0', size - 1)


E = errno.EINVAL
ways = {
    'backwards': (raw, backwards, 0),
    'backwards, a gap': (raw, lambda f, d: backwards(f, d, (3,)), E),
    'front to back, holes': (
        raw, lambda f, d: front_to_back(f, d, (0, 3)), 0, (0, 3)),
    'front to back, the end set': (
        raw, and_sized(lambda f, d: front_to_back(f, d, (2, 7))), 0, (2, 7)),
    'the end set first, all written': (raw, sized_then(front_to_back), 0),
    'the end set first, backwards': (raw, sized_then(backwards), 0),
    'the end set first, a hole': (
        raw, sized_then(lambda f, d: front_to_back(f, d, (3,))), E),
    'the end set first, a part': (
        raw, sized_then(lambda f, d: os.write(f, d[:half])), E),
    'the end set, nothing written': (
        raw, lambda f, d: os.ftruncate(f, size), E),
    'a zero at the end, to map the file': (raw, mapped, E),
    'a part, and a zero at the end': (
        raw, lambda f, d: [os.write(f, d[:9]), mapped(f, d)], E),
    'a part, and bytes at the end': (
        raw, lambda f, d: [os.write(f, d[:size // 8]),
                           os.pwrite(f, d[-1:], size - 1)],
        0, range(1, 8), -1),
    'a hole, synced': (
        raw, synced(lambda f, d: front_to_back(f, d, (3,))), E),
    'a hole in front, synced, written then': (
        raw, lambda f, d: [synced(lambda f, d: os.pwrite(f, d[8:], 8))(f, d),
                           os.pwrite(f, d[:8], 0)], 0),
    'in a thread, the last piece alone': (
        raw, lambda f, d: in_threads(pieces(f, d, 8)[7]), E),
    'the end set, a child that merely exits': (
        raw, sized_then(lambda f, d: child(f)), E),
    'eight threads': (
        raw, lambda f, d: in_threads(*pieces(f, d, 8)), 0),
    'eight threads, the end set first': (
        raw, sized_then(lambda f, d: in_threads(*pieces(f, d, 8))), 0),
    'eight threads of which one fails': (
        raw, sized_then(lambda f, d: in_threads(*pieces(f, d, 8, (3,)))), E),
    'one after the other, of which the second fails': (
        raw, lambda f, d: [in_threads(p) for p in pieces(f, d, 8, (1,))], E),
    'a child writes behind a hole': (
        raw, lambda f, d: [os.pwrite(f, d[:9], 0), child(
            f, f'os.pwrite(fd, b"x" * {half}, {half})')], E),
    'a child writes all': (
        raw, lambda f, d: child(f, f'os.write(fd, {d!r})'), 0),
    'allocated, nothing written': (raw, allocated(lambda f, d: None), E),
    'allocated, the first half': (
        raw, allocated(lambda f, d: os.pwrite(f, d[:half], 0)), E),
    'allocated, both ends': (
        raw, allocated(lambda f, d: [os.pwrite(f, d[:9], 0),
                                     os.pwrite(f, d[-9:], size - 9)]), E),
    'half, allocated then': (
        raw, lambda f, d: [os.pwrite(f, d[:half], 0),
                           os.posix_fallocate(f, 0, size)], E),
    'all, cut, allocated then': (
        raw, lambda f, d: [os.write(f, d), os.ftruncate(f, half),
                           os.posix_fallocate(f, 0, size)], E),
    'both ends, a child that merely exits, the rest': (
        raw, lambda f, d: [os.pwrite(f, d[:9], 0),
                           os.pwrite(f, d[-9:], size - 9), child(f),
                           os.pwrite(f, d[9:-9], 9)], 0),
    'allocated, all written': (raw, allocated(front_to_back), 0),
    **{f'{name} of all': (raw, copied(size, step), 0)
       for name, step in KERNEL_COPIES.items()},
    **{f'{name} of a part': (raw, copied(half, step), E)
       for name, step in KERNEL_COPIES.items()},
    'cut, and longer again': (raw, cut_and_grown, 0, (4, 5, 6, 7)),
    'cut, longer again, and written': (raw, cut_and_written, E),
    'npy: the header last': (npy, header_last, 0),
    'npy: the header last, and a gap': (npy, header_last_and_a_gap, E),
    'npy: a header and zeros': (
        npy, lambda f, d: [os.write(f, header),
                           os.ftruncate(f, len(header) + size)], 0,
        range(8)),
    'npy: zeros and no header': (
        npy, lambda f, d: os.ftruncate(f, len(header) + size), E),
}
with open(raw, 'rb') as f:
    committed = f.read()


def check(what, good):
    global problems
    problems += not good
    if not good:
        print(what)


# The kernel closes the file of a program that ends; that is not a close(2) by the program.
for end in 'os.kill(os.getpid(), 9)', 'os._exit(0)':
    for path, begin in (raw, b'abc'), (npy, header):
        subprocess.run((sys.executable, '-c', f'import os\n'
                        f'fd = os.open({path!r}, os.O_WRONLY | os.O_TRUNC)\n'
                        f'os.write(fd, {begin!r})\n'
                        f'os.ftruncate(fd, {len(begin)} // 4 // 8 * 32 + {size})\n{end}'))
        with open(raw, 'rb') as f:
            check(f'{path}, a part and its size, {end}: other bytes', f.read() == committed)

# Written bytes can be read through the same open file; other open files read committed bytes.
data = fresh()
fd, last = os.open(raw, os.O_RDWR), half + 100
check('read before a write', os.pread(fd, size, 0) == committed)
os.pwrite(fd, data[half:last], half)
mixed = committed[:half] + data[half:last] + committed[last:]
check('read after a write', os.pread(fd, size, 0) == mixed)
check('read after a write, across its end', os.pread(fd, 20, last - 10) == mixed[last - 10:last + 10])
with open(raw, 'rb') as f:
    check('read by others', f.read() == committed)
os.ftruncate(fd, 0)
os.pwrite(fd, data[8:16], 8)
check('read after it was cut', os.pread(fd, size, 0) == bytes(8) + data[8:16])
os.pwrite(fd, data, 0)
os.fsync(fd)
check('read after a commit', os.pread(fd, size, 0) == data)
os.close(fd)
committed = data

# The same with the other byte order, and rows in several boxes.
import numpy  # noqa: E402

array = numpy.load(npy)
other = numpy.asfortranarray((array + 1).astype(array.dtype.newbyteorder('>')))
numpy.save('other.npy', other)
with open('other.npy', 'rb') as f:
    data = f.read()
fd = os.open(npy, os.O_RDWR | os.O_TRUNC)
os.write(fd, data[:-7])
check('read after a part of a Fortran array', os.pread(fd, len(data), 0) == data[:-7])
check('read a part of a number', os.pread(fd, 5, 129) == data[129:134])
os.pwrite(fd, data[-7:], len(data) - 7)
os.close(fd)
check('a Fortran array', numpy.load(npy).tobytes() == (array + 1).tobytes())
with open(raw, 'rb') as f:
    committed = f.read()

# A file that was removed while open is not committed.
fd = os.open(raw, os.O_WRONLY | os.O_TRUNC)
os.unlink(raw)
os.write(fd, fresh())
try:
    os.close(fd)
    check('closed after it was removed', False)
except OSError as e:
    check(f'closed after it was removed: {e}', e.errno == errno.ESTALE)
fd = os.open(raw, os.O_WRONLY | os.O_CREAT)
os.write(fd, committed)
os.close(fd)
with open(npy, 'rb') as f:
    check('removed, other bytes', f.read()[len(header):] == committed)

routes = {'': opened, **{
    f', renamed from {directory}/': functools.partial(
        renamed, directory=directory)
    for directory in ('raw', 'full', 'local/rank-0')}}
cases = list(itertools.product(ways.items(), routes.items()))
if not os.environ.get('CKPTFS_ALL'):
    # Each way has two of the four routes, and each route the half of the ways.
    cases = [case for number, case in enumerate(cases) if (number // 4 + number) % 2 == 0]
for (name, (path, write, want, *left_out)), (route, way) in cases:
    data, got = fresh(), 0
    try:
        way(path, lambda fd: write(fd, data))
    except OSError as e:
        got = e.errno
    if not want:
        committed = with_holes(data, *left_out[0]) if left_out else data
        if left_out[1:]:
            committed = committed[:-1] + data[-1:]
    with open(raw, 'rb') as f:
        bytes_there = f.read()
    if got != want or bytes_there != committed:
        problems += 1
        print(f'{name}{route}: {errno.errorcode.get(got, got)}'
              f'{", other bytes" * (bytes_there != committed)}')
        committed = bytes_there
sys.exit(1 if problems else 0)
