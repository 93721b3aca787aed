# SPDX-License-Identifier: MIT
"""All forms of sharding: random checkpoints, whose tensors are cut by rows, by
columns, in blocks, evenly or not, or not at all, whose items lie in order, in
any order of strides or inside a larger storage; empty tensors, empty boxes,
tensors without dimensions and with as many as there may be. `ckptfs cat` of
full/, raw/ and local/ against a plain model. Prints what differs.

    two-ways-forms.py DIRECTORY             CKPTFS_SEED chooses other ones
    two-ways-forms.py --wrong DIRECTORY     one byte of the model is wrong
"""
import ast
import itertools
import json
import os
import random
import re
import struct
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", name) for name in ("damage", "lib")]
import source as s  # noqa: E402
import two_trees as t  # noqa: E402
from source import d, product  # noqa: E402
from tap import cases, seed  # noqa: E402

CHECKPOINTS, TENSORS = cases("CKPTFS_CHECKPOINTS", 6, 24), 12
# By bytes of an element.
DTYPES = {4: (d.FLOAT32, "<f4"), 8: (d.Named("float64"), "<f8")}
KINDS = ("whole", "rows", "columns", "blocks", "any", "points")


# --- making ------------------------------------------------------------------------

def shape_of(chance):
    dims = chance.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 6, 64))
    if dims == 64:
        shape = [1] * 64
        for _ in range(4):
            shape[chance.randrange(64)] = chance.randrange(1, 4)
        return tuple(shape)
    most = {0: 1, 1: 300, 2: 24, 3: 9, 4: 5, 6: 3}[dims]
    shape = [chance.randrange(1, most + 1) for _ in range(dims)]
    if dims and chance.random() < 0.15:
        shape[chance.randrange(dims)] = 0
    return tuple(shape)


def edges(chance, size, parts):
    """Places where a dimension is cut: as torch.chunk does, or anywhere."""
    if chance.random() < 0.5:
        step = max(1, -(-size // parts))
        inner = range(step, size, step)
    else:
        inner = [chance.randrange(size + 1) for _ in range(parts - 1)]
    return sorted({0, size, *inner})


def grid(chance, shape, cut):
    """Boxes of a tensor that is cut along the dimensions `cut`."""
    spans = []
    for i, size in enumerate(shape):
        at = edges(chance, size, chance.randrange(2, 6)) if i in cut else \
            [0, size]
        spans.append(list(zip(at, at[1:])) or [(0, 0)])
    return [(tuple(a for a, _ in box), tuple(b - a for a, b in box))
            for box in itertools.product(*spans)]


def halves(chance, offset, size, depth):
    """Boxes that are no grid."""
    wide = [i for i, n in enumerate(size) if n > 1]
    if not wide or not depth or chance.random() < 0.1:
        return [(offset, size)]
    i = chance.choice(wide)
    at = chance.randrange(1, size[i])
    low, high = list(size), list(size)
    low[i], high[i] = at, size[i] - at
    beyond = list(offset)
    beyond[i] += at
    return halves(chance, offset, tuple(low), depth - 1) + \
        halves(chance, tuple(beyond), tuple(high), depth - 1)


def boxes_of(chance, shape, kind):
    whole = [((0,) * len(shape), shape)]
    if not shape or 0 in shape or kind == "whole":
        return whole
    if kind == "rows":
        return grid(chance, shape, {0})
    if kind == "columns":
        return grid(chance, shape, {len(shape) - 1})
    if kind == "blocks":
        some = range(min(len(shape), 4))
        return grid(chance, shape, set(chance.sample(
            range(len(shape)), chance.choice(some) + 1)))
    if kind == "points" and product(shape) <= 40:
        return grid(chance, shape, set()) if len(shape) > 6 else [
            (at, (1,) * len(shape))
            for at in itertools.product(*map(range, shape))]
    return halves(chance, *whole[0], 4)


def strides_of(size):
    out, step = [], 1
    for n in reversed(size):
        out.insert(0, step)
        step *= n
    return out


def part(data, shape, box, width):
    """The bytes of a box, in its own order."""
    offset, size = box
    if 0 in size:
        return b""
    steps = strides_of(shape)
    ranges = [range(o * step, (o + n) * step, step)
              for o, n, step in zip(offset, size, steps)]
    return b"".join(data[at * width:(at + 1) * width]
                    for at in map(sum, itertools.product(*ranges)))


def item(chance, size, data, width):
    """In order, or elements at strides in a storage that may be larger."""
    count = product(size)
    if chance.random() < 0.4 or not count:
        return s.item(size, data, numel=count, itemsize=width)
    order = chance.sample(range(len(size)), len(size))
    stride, step = [0] * len(size), 1
    for i in order:
        stride[i] = step
        step *= size[i] + (step < 500 and chance.choice((0, 0, 1)))
    offset = chance.randrange(3)
    numel = offset + step + chance.randrange(3)
    storage = bytearray(b"\xee" * (numel * width))
    ranges = [range(0, n * step, step) for n, step in zip(size, stride)]
    for i, at in enumerate(map(sum, itertools.product(*ranges))):
        storage[(offset + at) * width:(offset + at + 1) * width] = \
            data[i * width:(i + 1) * width]
    return s.archive(s.records(s.dumps(s.Tensor(
        size, stride=stride, offset=offset, numel=numel, itemsize=width)),
        bytes(storage)))


class Model:
    """One tensor: its bytes, and the boxes of each rank."""

    def __init__(self, chance, name):
        self.name, self.shape = name, shape_of(chance)
        self.width = chance.choice(list(DTYPES))
        self.data = chance.randbytes(product(self.shape) * self.width)
        kind = chance.choice(KINDS)
        boxes = boxes_of(chance, self.shape, kind)
        chance.shuffle(boxes)
        ranks = chance.randrange(1, 6)
        self.boxes = {box: f"__{chance.randrange(ranks)}_"
                      f"{chance.randrange(2)}.distcp" for box in boxes}

    def add_to(self, checkpoint, chance):
        checkpoint.entries[self.name] = d.tensor(
            self.shape, list(self.boxes),
            dtype=DTYPES[self.width][0])
        for (offset, size), file in self.boxes.items():
            data = part(self.data, self.shape, (offset, size), self.width)
            checkpoint.items[self.name, offset] = [
                file, item(chance, size, data, self.width)]


def make(path, chance):
    checkpoint = s.Checkpoint()
    checkpoint.items, checkpoint.entries = {}, {}
    models = [Model(chance, f"t{i}.weight") for i in range(TENSORS)]
    for model in models:
        model.add_to(checkpoint, chance)
    checkpoint.write(path)
    return models


# --- comparing ---------------------------------------------------------------------

def expected(models):
    """Bytes of all files by path; of an npy file: shape, type, bytes."""
    out = {}
    for m in models:
        kind = DTYPES[m.width][1]
        out[f"raw/{m.name}"] = m.data
        out[f"full/{m.name}.npy"] = m.shape, kind, m.data
        for box, file in m.boxes.items():
            rank = re.match("__([0-9]+)_", file)[1]
            same = [b for b, f in m.boxes.items()
                    if f.startswith(f"__{rank}_")]
            key = f"local/rank-{rank}", m.name, box[0]
            out[key] = (box[1], kind,
                        part(m.data, m.shape, box, m.width), len(same) > 1)
    return out


def npy_differs(path, got, shape, kind, data):
    if got[:8] != b"\x93NUMPY\1\0":
        yield f"{path}: no NumPy file of version 1.0: {got[:8]!r}"
        return
    end = 10 + struct.unpack("<H", got[8:10])[0]
    header = ast.literal_eval(got[10:end].decode())
    want = {"descr": kind, "fortran_order": False, "shape": shape}
    if end % 64 or header != want:
        yield f"{path}: {header!r} at {end}, expected {want!r}"
    if got[end:] != data:
        yield f"{path}: other bytes"


def name_differs(path, name, offset, several):
    """local/ has the offset in a name, where a rank has several boxes."""
    file = os.path.basename(path)
    text = ",".join(map(str, offset))
    if several and offset and len(text) <= 40:
        good = file == f"{name}%@{text}.npy"
    elif several and offset:
        good = re.fullmatch(re.escape(name) + "%@~[0-9a-f]{32}.npy", file)
    else:
        good = file == f"{name}.npy"
    if not good:
        yield f"{path}: another name was expected for offset {text}"


def file_differs(want, row, got):
    path, attributes = row["path"], row["xattrs"]
    if path in want:
        value = want.pop(path)
        if isinstance(value, tuple):
            yield from npy_differs(path, got, *value)
        elif got != value:
            yield f"{path}: other bytes"
        return
    offset = tuple(json.loads(attributes[t.PREFIX + "offset"]))
    name = attributes[t.PREFIX + "fqn"]
    key = os.path.dirname(path), name, offset
    if key not in want:
        yield f"{path}: not expected"
        return
    *value, several = want.pop(key)
    yield from npy_differs(path, got, *value)
    yield from name_differs(path, name, offset, several)


def differences(source, models):
    bare, want = t.Bare(source), expected(models)
    got = bare.run("ls", options=("-R", "--json"))
    yield from t.trouble(got)
    rows = [row for row in map(t.loads, got.stdout.splitlines())
            if row["path"].startswith(("full/", "raw/", "local/"))
            and row["type"] == "file"]
    sizes = iter(rows)
    for group in t.groups([row["path"] for row in rows]):
        got = bare.run("cat", *group)
        yield from t.trouble(got)
        at = 0
        for row in itertools.islice(sizes, len(group)):
            end = at + row["size"]
            yield from file_differs(want, row, got.stdout[at:end])
            at = end
        if at != len(got.stdout):
            yield "bytes behind the last"
    for key in want:
        yield f"{key}: not listed"


def main(path, wrong):
    first, problems = seed(), 0
    for i in range(1 if wrong else CHECKPOINTS):
        chance = random.Random(first * 1000 + i)
        source = os.path.join(path, str(i))
        models = make(source, chance)
        if wrong:
            m = next(m for m in models if m.data)
            m.data = m.data[:-1] + bytes([m.data[-1] ^ 1])
        for problem in differences(source, models):
            print(f"checkpoint {i}: {problem}")
            problems += 1
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1], "--wrong" in sys.argv))
