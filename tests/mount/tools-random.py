# SPDX-License-Identifier: MIT
"""Random operations on the file of one tensor, compared with a model of the
promises of the mount. The size is fixed, so each operation has one right result.
Prints differences with the operations before them.

    tools-random.py CKPTFS SOURCE MOUNT STEM COUNT SEED

With CKPTFS_CANARY the model is wrong at times: the test must detect it.
"""

import collections
import concurrent.futures
import errno
import os
import random
import subprocess
import sys
import time

ckptfs, source, mount, stem = sys.argv[1:5]
count, seed = map(int, sys.argv[5:])
canary = bool(os.environ.get('CKPTFS_CANARY'))
raw = f'{mount}/raw/{stem}'
npy = f'{mount}/full/{stem}.npy'
rng = random.Random(seed)
pool = concurrent.futures.ThreadPoolExecutor(1)
done = collections.deque(maxlen=12)
tally = collections.Counter()


class Wrong(Exception):
    pass


def command(*words):
    """Runs a command, and prints its output if it fails. It is repeated while the
    daemon of the last mount holds the checkpoint after umount has returned."""
    for _ in range(600):
        p = subprocess.run((ckptfs, *words), stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
        if p.returncode == 0 or b'already' not in p.stdout:
            break
        time.sleep(0.1)
    if p.returncode:
        raise Wrong(f'{words[0]}: {p.stdout.decode()[-300:]}')


def call(what, want, function, *args):
    """Calls a function. want: the expected errno, or 0. Returns its value, or
    None after an error."""
    done.append(what)
    value = None
    try:
        value = function(*args)
        got = 0
    except OSError as e:
        got = e.errno
    tally[what.split()[0] + (' ' + errno.errorcode[want] if want else '')] += 1
    if got != want:
        raise Wrong(f'{what}: {errno.errorcode.get(got, got)}, not '
                    f'{errno.errorcode.get(want, want)}')
    return value


def content(path):
    with open(path, 'rb') as f:
        return f.read()


def in_thread(*args):
    return pool.submit(os.pwrite, *args).result()


class Writer:
    """Model of the bytes written through one open file."""

    def __init__(self, fd, readable, size):
        self.fd, self.readable, self.size = fd, readable, size
        self.longer = self.removed = False
        self.resting = False
        self.begin(False)

    def begin(self, anew):
        self.anew, self.reached, self.given = anew, 0, set()
        self.touched, self.spoiled = anew, False
        self.by, self.jumped, self.sized = None, False, False
        self.longer = self.longer and not anew
        self.bytes = bytearray(self.size)

    def put(self, at, data, thread):
        """Returns the errno of a write."""
        self.resting = False
        if self.spoiled:
            return errno.EINVAL
        fits = data[:max(0, self.size - at)]
        if fits:
            self.touched = True
            self.jumped |= (self.by not in (None, thread) or self.sized or
                            at < self.reached or
                            (fits == b'\0' and at > self.reached))
            self.by = thread
            self.bytes[at:at + len(fits)] = fits
            self.given.update(range(at, at + len(fits)))
            self.reached = max(self.reached, at + len(fits))
        if len(fits) < len(data):
            self.longer = True
            return errno.EFBIG
        return 0

    def cut(self, size):
        """Returns the errno of ftruncate."""
        self.resting = False
        if size == 0:
            self.begin(True)
            return 0
        if self.spoiled or not self.anew:
            if not self.spoiled and size == self.size:
                return 0
            self.spoiled = True
            return errno.EINVAL
        if size > self.size:
            self.spoiled = True
            return errno.EFBIG
        self.bytes[size:] = bytes(self.size - size)
        self.given.difference_update(range(size, self.size))
        self.reached, self.sized = size, True
        return 0

    def complete(self):
        """True if all bytes are written. Skipped bytes count as zeros if the closing
        thread wrote all bytes from front to back."""
        if len(self.given) == self.size:
            return not self.anew or self.reached == self.size
        return (bool(self.given) and self.anew and self.reached == self.size and
                not self.jumped and self.by is False)

    def sync(self):
        """After fsync skipped bytes do not count as zeros."""
        if self.anew and len(self.given) < self.reached:
            self.jumped = True

    def reads(self, committed):
        """Returns the bytes that a read of the whole file gives."""
        if self.anew:
            return bytes(self.bytes[:self.reached])
        return bytes(self.bytes[i] if i in self.given else committed[i] for i in range(self.size))

    def settle(self):
        """Returns the errno of a close, and whether it commits."""
        self.resting = True
        if self.longer:
            return errno.EINVAL, False
        if self.removed and (self.touched or self.spoiled):
            return errno.ESTALE, False
        if self.spoiled:
            return errno.EINVAL, False
        if not self.touched:
            return 0, False
        return (0, True) if self.complete() else (errno.EINVAL, False)


class Test:
    def __init__(self):
        self.committed = content(raw)
        self.size = len(self.committed)
        self.header = len(content(npy)) - self.size
        self.hidden = False
        self.made = False  # created again, and not opened for writing since
        self.writer = None
        self.readers = []  # (fd, bytes)

    def would_wait(self):
        """True if the next open would probably wait: after a close the mount defers
        an open by up to 300 ms. Most such opens are avoided to save time."""
        return self.writer and self.writer.resting and rng.random() < 0.99

    # --- the operations; each is possible at any time -----------------------

    def open(self):
        if self.would_wait():
            return self.write()
        flags = rng.choice((os.O_WRONLY, os.O_RDWR))
        flags |= rng.choice((0, os.O_TRUNC, os.O_CREAT, os.O_CREAT |
                             os.O_TRUNC, os.O_CREAT | os.O_EXCL))
        want = 0
        if self.hidden and not flags & os.O_CREAT:
            want = errno.ENOENT
        elif not self.hidden and flags & os.O_EXCL:
            want = errno.EEXIST
        elif self.writer:
            want = errno.EBUSY
        fd = call(f'open {flags:o}', want, os.open, raw, flags, 0o600)
        if fd is None:
            return
        self.writer = Writer(fd, flags & os.O_RDWR, self.size)
        if self.hidden or self.made or flags & os.O_TRUNC:
            self.writer.cut(0)
        self.hidden = self.made = False

    def write(self):
        if not self.writer:
            return self.open()
        at = rng.choice((0, 0, self.size // 2, rng.randrange(self.size)))
        n = rng.choice((self.size - at, self.size - at, self.size // 2,
                        rng.randint(1, self.size)))
        if rng.random() < 0.9:
            n = max(1, min(n, self.size - at))
        if rng.random() < 0.2:  # the next bytes, or bytes after a gap
            at = min(self.writer.reached, self.size - 1)
            at = rng.choice((at, rng.randrange(at, self.size)))
            n = min(n, self.size - at)
        data = rng.randbytes(n)
        other = rng.random() < 0.1
        want = self.writer.put(at, data, other)
        write = in_thread if other else os.pwrite
        call(f'write {at}+{n}{" by another" * other}', want, write,
             self.writer.fd, data, at)

    def cut(self):
        if not self.writer:
            size = rng.choice((0, self.size, self.size + 1))
            want = 0 if size == self.size else errno.EINVAL
            if self.hidden:
                want = errno.ENOENT
            return call(f'truncate {size}', want, os.truncate, raw, size)
        size = rng.choice((0, 0, self.size, self.size,
                           rng.randint(0, self.size + 2)))
        call(f'ftruncate {size}', self.writer.cut(size), os.ftruncate,
             self.writer.fd, size)

    def commit(self, data):
        tally['commits'] += 1
        wrong = canary and rng.random() < 0.3
        self.committed = bytes(self.size) if wrong else data

    def end(self, what, function):
        want, commits = self.writer.settle()
        if commits:
            self.commit(bytes(self.writer.bytes))
            self.writer.begin(False)
        call(what, want, function, self.writer.fd)

    def sync(self):
        if self.writer:
            self.writer.sync()
            self.end('fsync', os.fsync)

    def close_copy(self):
        if self.writer:
            self.end('close of a copy', lambda fd: os.close(os.dup(fd)))

    def close(self):
        if self.writer:
            self.end('close', os.close)
            self.writer = None

    def unlink(self):
        want = errno.ENOENT if self.hidden else 0
        call('unlink', want, os.unlink, raw)
        if self.writer and not self.hidden:
            self.writer.removed = True
        self.hidden, self.made = True, False

    def mknod(self):
        want = 0 if self.hidden else errno.EEXIST
        call('mknod', want, os.mknod, raw, 0o600)
        if self.hidden:
            self.hidden, self.made = False, True

    def rename(self):
        if self.would_wait():
            return self.write()
        name = rng.choice((f'{mount}/raw/.new~', f'{mount}/full/x.tmp'))
        n = rng.choice((self.size,) * 8 + (0, self.size - 1, self.size + 1))
        data = rng.randbytes(n)
        with open(name, 'xb') as f:
            f.write(data)
        want = 0
        if self.writer:
            want = errno.EBUSY
        elif n != self.size:
            want = errno.EFBIG if n > self.size else errno.EINVAL
        call(f'rename of {n}', want, os.rename, name, raw)
        if want:
            if content(name) != data:
                raise Wrong('a scratch file has changed')
            os.unlink(name)
            return
        self.commit(data)
        self.hidden = self.made = False

    def read(self):
        want = errno.ENOENT if self.hidden else 0
        got = call('read', want, content, raw)
        if got is not None and got != self.committed:
            raise Wrong('raw/ has other bytes')
        if content(npy)[self.header:] != self.committed:
            raise Wrong('full/ has other bytes')
        if not self.hidden and os.stat(raw).st_size != self.size:
            raise Wrong('another size')
        if self.writer and self.writer.readable:
            got = call('read by the writer', errno.EINVAL if self.writer.spoiled else 0,
                       os.pread, self.writer.fd, 9999, 0)
            if got is not None and got != self.writer.reads(self.committed):
                raise Wrong('the writer reads other bytes')

    def keep(self):
        """Open files keep their contents."""
        done.append('keep')
        for fd, data in self.readers:
            at = rng.randrange(self.size)
            if os.pread(fd, 100, at) != data[at:at + 100]:
                raise Wrong('an open file has other bytes')
        if len(self.readers) > 3:
            os.close(self.readers.pop(rng.randrange(4))[0])
        if not self.hidden:
            self.readers.append((os.open(raw, os.O_RDONLY), self.committed))

    def remount(self):
        self.close()
        while self.readers:
            os.close(self.readers.pop()[0])
        done.append('remount')
        command('umount', mount)
        command('mount', source, mount, '-o', 'write')
        self.hidden = self.made = False
        self.read()
        tally['remounts'] += 1

    def run(self):
        weights = {self.open: 10, self.write: 32, self.cut: 12, self.sync: 3,
                   self.close_copy: 2, self.close: 8, self.unlink: 4,
                   self.mknod: 2, self.rename: 6, self.read: 14, self.keep: 8}
        for i in range(count):
            rng.choices(list(weights), weights.values())[0]()
            if i % 1000 == 500:  # at fixed steps, so that a short run includes it
                self.remount()
        self.remount()


command('mount', source, mount, '-o', 'write')
status = 0
test = Test()
try:
    test.run()
except Wrong as e:
    print(f'seed {seed}: {e}; after {"; ".join(done)}')
    status = 1
if os.environ.get('CKPTFS_VERBOSE'):
    for what, n in sorted(tally.items()):
        print(f'{n:7} {what}', file=sys.stderr)
if test.writer:
    try:
        os.close(test.writer.fd)
    except OSError:
        pass
for fd, _ in test.readers:
    os.close(fd)
command('umount', mount)
sys.exit(status)
