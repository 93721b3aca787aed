# SPDX-License-Identifier: MIT
"""Small tensors of any shape, cut by lot into boxes that may be empty, in four files."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../damage"))
import source  # noqa: E402


def random_box(chance, ndim):
    return [(0, chance.choice((0, 1, 2, 3, 5, 8, 40, 300) if ndim < 3 else (1, 2, 3, 7)))
            for _ in range(ndim)]


def cut(chance, whole):
    """Boxes that are it together; some may have no elements."""
    boxes = [whole]
    for _ in range(chance.randrange(9) if whole else 0):
        box = boxes.pop(chance.randrange(len(boxes)))
        dim = chance.randrange(len(box))
        at = chance.randint(*box[dim])
        boxes += [box[:dim] + [(box[dim][0], at)] + box[dim + 1:],
                  box[:dim] + [(at, box[dim][1])] + box[dim + 1:]]
    return [b for b in boxes if all(lo < hi for lo, hi in b)] or boxes[:1]


def elements(box, shape):
    """Numbers of its elements in C order."""
    at = [0]
    for (lo, hi), size in zip(box, shape):
        at = [n * size + i for n in at for i in range(lo, hi)]
    return at


def write(place, chance, count):
    """A checkpoint of so many tensors. {name: bytes}"""
    cp, whole = source.Checkpoint(), {}
    cp.items, cp.entries = {}, {}
    for i in range(count):
        name, box = f"t{i}", random_box(chance, chance.randrange(5))
        shape = [hi for _, hi in box]
        data = chance.randbytes(4 * len(elements(box, shape)))
        boxes = cut(chance, box)
        for b in boxes:
            offset = tuple(lo for lo, _ in b)
            cp.items[name, offset] = [
                f"__{chance.randrange(4)}_0.distcp",
                source.item(tuple(hi - lo for lo, hi in b), b"".join(
                    data[4 * n:4 * n + 4] for n in elements(b, shape)))]
        cp.entries[name] = source.d.tensor(tuple(shape), [
            (tuple(lo for lo, _ in b), tuple(hi - lo for lo, hi in b)) for b in boxes])
        whole[name] = data
    cp.write(place)
    return whole
