# SPDX-License-Identifier: MIT
"""Makes checkpoints for tests/gpu/run, as fast as a disk takes them: tests/mount/big.py has
their form, and bytes are random, each box others.

    data.py DIR TENSORS RANKS BYTES                  each sharded on the first dimension
    data.py --columns DIR TENSORS RANKS BYTES ROW    on the second; runs of ROW bytes
    data.py --whole DIR TENSORS RANKS BYTES          each in one file, those in turn

BYTES are a box's. It is a program, since big.py has a module `torch` of its own.
"""
import concurrent.futures
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../mount"))
import big  # noqa: E402

ELEMENT = 8


class Pool:
    """Random bytes, of which each box takes others: equal ones at other places."""

    def __init__(self, nbytes, boxes):
        self.nbytes = nbytes
        self.bytes = memoryview(os.urandom(nbytes + ELEMENT * boxes))

    def box(self, number):
        return self.bytes[ELEMENT * number:ELEMENT * number + self.nbytes]


def append(file, dims, data):
    """Where the item begins, and its bytes."""
    start = file.tell()
    for part in big.item_parts(*dims, data):
        file.write(part)
    return start, file.tell() - start


def rank_write(path, rank, items, pool):
    """items: number of the box, its sizes. Where each lies."""
    with open(f"{path}/__{rank}_0.distcp", "wb") as file:
        return [append(file, dims, pool.box(number)) for number, dims in items]


def make(path, tensors, ranks, nbytes, row=None, whole=False):
    os.makedirs(path)
    rows = nbytes // (row or ELEMENT * big.COLUMNS)
    dims = rows, (row or ELEMENT * big.COLUMNS) // ELEMENT
    pool = Pool(dims[0] * dims[1] * ELEMENT, tensors * ranks)
    of_rank = [[(t * ranks + r, dims) for t in range(tensors) if not whole or t % ranks == r]
               for r in range(ranks)]
    with concurrent.futures.ThreadPoolExecutor(ranks) as threads:
        places = list(threads.map(lambda r: rank_write(path, r, of_rank[r], pool),
                                  range(ranks)))
    made = []
    for t in range(tensors):
        if whole:
            made.append((dims, [((0, 0), dims, t % ranks, *places[t % ranks][t // ranks])]))
            continue
        step = (0, dims[1]) if row else (dims[0], 0)
        made.append((
            (dims[0] * (1 if row else ranks), dims[1] * (ranks if row else 1)),
            [((r * step[0], r * step[1]), dims, r, *places[r][t]) for r in range(ranks)]))
    big.write_metadata(path, made)


if __name__ == "__main__":
    words = sys.argv[1:]
    flag = words.pop(0) if words[0].startswith("--") else None
    numbers = [int(n) for n in words[1:]]
    make(words[0], *numbers, whole=flag == "--whole")
