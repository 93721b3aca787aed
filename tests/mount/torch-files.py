#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Files of torch.save as it wrote them before 1.6, without a tensor.

    torch-files.py WHAT FILE
"""
import os
import pickle
import sys


def many():
    """One key, cut into parts in 46,368 ways."""
    before, last = {"a": None}, {"a": {"a": None}, "a.a": None}
    for _ in range(21):
        before, last = last, {"a": last, "a.a": before}
    return last


class Touch:
    def __reduce__(self):
        return os.system, (f"touch {sys.argv[2]}.canary",)


VALUES = {"many": many, "dangerous": lambda: {"epoch": 3, "run": Touch()}, "value": lambda: [1, "two"]}

if __name__ == "__main__":
    parts = [0x1950a86a20f9469cfc6c, 1001, {"protocol_version": 1001, "little_endian": True}, VALUES[sys.argv[1]](), []]
    with open(sys.argv[2], "wb") as file:
        file.write(b"".join(pickle.dumps(part, 2) for part in parts))
