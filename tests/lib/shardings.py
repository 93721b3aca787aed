# SPDX-License-Identifier: MIT
"""A checkpoint of one tensor for each form of sharding, its boxes dealt over three hosts:
what tests of bytes on their way read."""
import array
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../damage"))
import source  # noqa: E402

ROWS, COLUMNS, ITEM = 1200, 1024, 4
SIZE = ROWS * COLUMNS * ITEM


def cuts(size, parts):
    """[begin, end) of each part."""
    at = [size * i // parts for i in range(parts + 1)]
    return list(zip(at, at[1:]))


def boxes(rows, columns):
    return [(r, c) for r in rows for c in columns]


# Boxes, (rows, columns) each; box i is on host i % 3.
SHARDINGS = {
    "rows": boxes(cuts(ROWS, 3), [(0, COLUMNS)]),
    "columns": boxes([(0, ROWS)], cuts(COLUMNS, 3)),
    "grid": boxes(cuts(ROWS, 2), cuts(COLUMNS, 5)),
    "strided": boxes(cuts(ROWS, 75), [(0, COLUMNS)]),
    "uneven": boxes([(0, 1000), (1000, 1190), (1190, ROWS)], [(0, COLUMNS)]),
    "here": [((0, ROWS), (0, COLUMNS))],
}


def element(name):
    """The first one of a tensor; they are counted from there, row by row."""
    return list(SHARDINGS).index(name) * ROWS * COLUMNS


def bytes_of(name):
    first = element(name)
    return array.array("f", range(first, first + ROWS * COLUMNS)).tobytes()


def box_bytes(whole, box):
    (r0, r1), (c0, c1) = box
    width = COLUMNS * ITEM
    return b"".join(whole[r * width + c0 * ITEM:r * width + c1 * ITEM]
                    for r in range(r0, r1))


def put(place):
    """The checkpoint, in one directory."""
    checkpoint = source.Checkpoint()
    checkpoint.items, checkpoint.entries = {}, {}
    for name, list_ in SHARDINGS.items():
        whole = bytes_of(name)
        for i, box in enumerate(list_):
            (r0, r1), (c0, c1) = box
            checkpoint.items[name, (r0, c0)] = [
                f"__{i % 3}_0.distcp",
                source.item((r1 - r0, c1 - c0), box_bytes(whole, box))]
        checkpoint.entries[name] = source.d.tensor(
            (ROWS, COLUMNS), [((r0, c0), (r1 - r0, c1 - c0))
                              for (r0, r1), (c0, c1) in list_])
    checkpoint.write(place)


def write(hosts):
    """The same, each box where it belongs."""
    place = f"{hosts.base}/whole"
    put(place)
    for i, host in enumerate(hosts.names):
        os.rename(f"{place}/__{i}_0.distcp",
                  f"{hosts.directory(host)}/__{i}_0.distcp")
    os.rename(f"{place}/.metadata", f"{hosts.directory('h1')}/.metadata")


def needed(name, at, size):
    """Bytes of [at, at + size) that are on the other hosts."""
    total, width = 0, COLUMNS * ITEM
    for row in range(at // width, (at + size - 1) // width + 1):
        begin = max(at - row * width, 0)
        end = min(at + size - row * width, width)
        for i, ((r0, r1), (c0, c1)) in enumerate(SHARDINGS[name]):
            if i % 3 and r0 <= row < r1:
                total += max(min(end, c1 * ITEM) - max(begin, c0 * ITEM), 0)
    return total
