#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Numbers through JSON and back: Python's json must read the very number that was written, and must write the same text.

    numbers.py PROGRAM        the program built from numbers.c
"""
import json
import math
import pathlib
import random
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402

if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)


def floats(rng):
    edges = [0.0, -0.0, 1.0, 0.1, 1e15, 1e16, 1e17, 1e22, 1e23, 1e-4, 1e-5, 9999999999999998.0, 123456789012345680.0,
             5e-324, sys.float_info.max, sys.float_info.min, 2.2250738585072011e-308, 0.3, 2 / 3, 9007199254740993.0]
    yield from edges
    for exponent in range(-1074, 1024):
        power = math.ldexp(1.0, exponent)
        yield from (power, math.nextafter(power, 0), math.nextafter(power, math.inf), -power * 1.5)
    for exponent in range(-323, 309):
        yield from (float(f"1e{exponent}"), float(f"{rng.randrange(1, 1000)}e{exponent}"))
    for _ in range(tap.cases("CKPTFS_CASES", 30000, 1000000)):
        value = struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0]
        yield value
    for _ in range(20000):                                         # few bits, subnormal, few digits
        yield struct.unpack("<d", struct.pack("<Q", rng.getrandbits(rng.randrange(1, 53))))[0]
        yield round(rng.uniform(-1000, 1000), rng.randrange(0, 12))


def ints(rng):
    for bits in list(range(0, 140)) + [255, 256, 1000, 4096, 14280, 20000, 100000]:
        for value in (1 << bits, (1 << bits) - 1, -(1 << bits), -(1 << bits) - 1, rng.getrandbits(bits + 1)):
            yield value, (value.bit_length() // 8 + 1)
    for exponent in range(0, 200):
        for value in (10 ** exponent, 10 ** exponent - 1, -10 ** exponent):
            yield value, value.bit_length() // 8 + 1 + rng.randrange(3)             # longer than need be, too
    yield 0, 0


def same(value, text):
    if text != json.dumps(value):
        return False
    back = json.loads(text)
    if isinstance(value, int):
        return back == value
    return isinstance(back, float) and struct.pack("<d", back) == struct.pack("<d", value)


def main():
    rng = random.Random(tap.seed())
    values, data = [], bytearray()
    for value in filter(math.isfinite, floats(rng)):
        values.append(value)
        data += b"f" + struct.pack("<d", value)
    for value, width in ints(rng):
        values.append(value)
        data += b"i" + struct.pack("<I", width) + value.to_bytes(width, "little", signed=True)
    lines = subprocess.run([sys.argv[1]], input=bytes(data), stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")
    wrong = [(value, text) for value, text in zip(values, lines) if not same(value, text)]
    for value, text in wrong[:10]:
        print(f"# {value!r} became {str(text)[:100]}")
    good = not wrong and len(lines) == len(values) + 1
    print(f"{'ok' if good else 'not ok'} 1 - {len(values)} numbers come back the same\n1..1")
    sys.exit(not good)


main()
