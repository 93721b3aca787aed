# SPDX-License-Identifier: MIT
"""Random writes, truncations and allocations of a file that becomes a tensor, directly or by a rename, beside a model
that knows for each byte whether it was written. A file that lacks bytes is EINVAL and changes nothing; any other has
the bytes of the model. CKPTFS_CASES: files for each way. Prints TAP.

    write-model.py CKPTFS SOURCE MOUNT
"""
import errno
import os
import random
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import Tap, cases, seed  # noqa: E402

CKPTFS, SOURCE, MOUNT = sys.argv[1:]
STEM = "model.layers.0.attention.wk.weight"
WAYS = [None, "raw", "full", "local/rank-1"]        # None: directly; or the directory of the scratch file
SHOWN = {"raw": f"raw/{STEM}", "full": f"full/{STEM}.npy"}


class Model:
    """The rules of ckptfs(5) on bytes that are left out."""

    def __init__(self):
        self.bytes, self.written = bytearray(), []
        self.by, self.front_to_back, self.sized = None, True, False

    def grow(self, end):
        missing = end - len(self.bytes)
        self.bytes += bytes(max(missing, 0))
        self.written += [False] * missing

    def write(self, at, data, by):
        if self.by not in (None, by) or at < len(self.bytes) or self.sized:
            self.front_to_back = False
        self.by = by
        self.grow(at + len(data))
        self.bytes[at:at + len(data)] = data
        self.written[at:at + len(data)] = [True] * len(data)

    def truncate(self, size):
        if size == 0:
            self.__init__()
            return
        del self.bytes[size:], self.written[size:]
        self.grow(size)
        self.sized = True

    def allocate(self, at, n):
        if at + n > len(self.bytes):
            self.truncate(at + n)
            self.front_to_back = False

    def is_complete(self, size, header):
        """A header is never skipped, and bytes only if the thread that closes, number 0, has written all."""
        return len(self.bytes) == size and all(self.written[:header]) and (
            all(self.written) or any(self.written) and self.front_to_back and self.by == 0)


class Play:
    def __init__(self, dice, path):
        self.dice, self.path = dice, f"{MOUNT}/{path}"
        with open(self.path, "rb") as file:
            self.shown = file.read()
        self.size = len(self.shown)
        self.header = self.shown[:self.size - os.stat(f"{MOUNT}/{SHOWN['raw']}").st_size]

    def draw(self):
        """Operations, of which most leave the file whole or almost."""
        dice, n = self.dice, self.dice.randint(1, 8)
        edges = sorted(dice.randrange(len(self.header), self.size) for _ in range(n))
        edges = [0, *edges, self.size]
        pieces = [(a, b) for a, b in zip(edges, edges[1:]) if a < b]
        if dice.random() < .5:
            pieces = [piece for piece in pieces if piece[0] == 0 or dice.random() < .8]
        if dice.random() < .4:
            dice.shuffle(pieces)
        ops = [("write", piece, 0 if dice.random() < .9 else 1) for piece in pieces]
        for _ in range(dice.choice((0, 0, 1, 2))):
            at = dice.choice((0, len(ops), dice.randint(0, len(ops))))
            ops.insert(at, dice.choice((("truncate", dice.choice((0, self.size, self.size, self.size // 2))),
                                        ("allocate", 0, self.size), ("allocate", self.size // 3, 99))))
        return ops

    def data(self, begin, end):
        """Bytes without a zero; those of the header as they are shown."""
        data = bytes(self.dice.randrange(1, 256) for _ in range(end - begin))
        return self.header[begin:end] + data[max(len(self.header) - begin, 0):]

    def do(self, fd, ops, model):
        for op, *words in ops:
            if op == "write":
                (begin, end), thread = words
                data = self.data(begin, end)
                model.write(begin, data, thread)
                self.pwrite(fd, data, begin, thread)
            elif op == "truncate":
                model.truncate(*words)
                os.ftruncate(fd, *words)
            else:
                model.allocate(*words)
                os.posix_fallocate(fd, *words)

    @staticmethod
    def pwrite(fd, data, at, thread):
        if thread == 0:
            os.pwrite(fd, data, at)
            return
        other = threading.Thread(target=os.pwrite, args=(fd, data, at))
        other.start()
        other.join()

    def put(self, directory, ops, model):
        """0, or the errno of the close or rename."""
        scratch = directory and f"{MOUNT}/{directory}/.tmp"
        fd = os.open(scratch or self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            try:
                self.do(fd, ops, model)
            finally:
                os.close(fd)
            if scratch:
                os.rename(scratch, self.path)
        except OSError as error:
            return error.errno
        finally:
            if scratch and os.path.exists(scratch):
                os.unlink(scratch)
        return 0

    def wrong(self, directory, manual):
        """None, or why the outcome differs from that of the model."""
        ops, model = self.draw(), Model()
        got = self.put(directory, ops, model)
        want = 0 if model.is_complete(self.size, len(self.header)) else errno.EINVAL
        if not want and not got and manual:
            subprocess.run([CKPTFS, "commit", MOUNT], check=True, stdout=subprocess.DEVNULL)
        if not want:
            self.shown = bytes(model.bytes)
        with open(self.path, "rb") as file:
            there = file.read()
        if got == want and there == self.shown:
            return None
        self.shown = there
        return f"{errno.errorcode.get(got, got)}, {errno.errorcode.get(want, want)} expected; {ops}"


def main():
    tap, dice, n = Tap(), random.Random(seed(20261128)), cases("CKPTFS_CASES", 20, 500)
    for options in ("write", "write,commit=manual"):
        subprocess.run([CKPTFS, "mount", SOURCE, MOUNT, "-o", options], check=True)
        for form, path in SHOWN.items():
            for directory in WAYS:
                play = Play(dice, path)
                wrong = [why for _ in range(n) if (why := play.wrong(directory, "manual" in options))]
                tap.result(not wrong, f"{options}: {form}/, {'renamed from ' + directory if directory else 'directly'}",
                           wrong[:3])
        subprocess.run([CKPTFS, "umount", MOUNT], check=True)
    return tap.finish()


sys.exit(main())
