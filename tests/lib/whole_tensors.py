# SPDX-License-Identifier: MIT
"""Checkpoints of tensors of float32 that are not sharded, as many and as large as a test wants."""
import array
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../damage"))
import source  # noqa: E402

FILES = 4


def bytes_of(number, elements):
    """No two tensors have a part in common."""
    words = array.array("I", ((number * 2654435761 + k) & 0xffffffff for k in range(elements)))
    return words.tobytes()


def write(place, sizes):
    """sizes: {name: elements}. {name: its bytes}"""
    checkpoint = source.Checkpoint()
    checkpoint.items, checkpoint.entries, whole = {}, {}, {}
    for i, (name, n) in enumerate(sizes.items()):
        whole[name] = bytes_of(i + 1, n)
        checkpoint.items[name, (0,)] = [f"__{i % FILES}_0.distcp", source.item((n,), whole[name])]
        checkpoint.entries[name] = source.d.tensor((n,), [((0,), (n,))])
    checkpoint.write(place)
    return whole
