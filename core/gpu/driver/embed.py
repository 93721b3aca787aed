#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The kernels as arrays of kernels.h: embed.py OUTPUT kernels.ptx [kernels.fatbin]"""
import sys


KINDS = "ptx", "fatbin"


def array(kind, data):
    rows = [data[i:i + 24] for i in range(0, len(data), 24)]
    text = "".join("\t" + ",".join(map(str, row)) + ",\n" for row in rows)
    return f"""
static const unsigned char {kind}_bytes[] __attribute__((aligned(16))) = {{
{text}\t0
}};
const struct ck_kernels ck_kernels_{kind} = {{ {kind}_bytes, {len(data)} }};
"""


def main(output, *paths):
    found = dict.fromkeys(KINDS, b"")
    for path in paths:
        with open(path, "rb") as file:
            found[path.rsplit(".", 1)[1]] = file.read()
    with open(output, "w") as file:
        file.write('#include "kernels.h"\n')
        file.writelines(array(kind, found[kind]) for kind in KINDS)


main(*sys.argv[1:])
