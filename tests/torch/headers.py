#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Headers of safetensors files are taken and refused as the safetensors package takes and refuses them.

    headers.py HEADERS [--cases N]

HEADERS is the program of tests/lib/headers.c. Valid headers are mutated: bytes, tokens of JSON, numbers, whole entries.
Where the two disagree it must be for one of the reasons that the interface names: a key that comes twice, a number from
2^63 on, an odd number of values of half a byte, an entry that is an array, bytes that are missing at the end of the file.
CKPTFS_SEED repeats a run. The result is TAP.
"""
import argparse
import collections
import json
import pathlib
import random
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from tap import Tap, cases, seed  # noqa: E402

WIDTHS = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
          "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
          "F8_E8M0": 8, "C64": 64}
PIECES = ('"', "{", "}", "[", "]", ",", ":", " ", "\n", "\t", "0", "1", "-1", "1.0", "1e2", "null", "true", "\\u0041",
          "\\ud800", "\\ud83d\\ude00", "\u00e9", "\x00", "\x1f", "\ufeff", "18446744073709551615", "9223372036854775808",
          "9223372036854775807", "__metadata__", '"__metadata__":{"a":"b"},', '"x":1,', '"dtype":"F32",', '"shape":[],',
          "\\", "\\/", "\\b", "00", "F32", "F99", "f32", "[[", "]]", "{}", "[]", '""')


def valid(lot):
    """A header, and how many bytes it describes."""
    at, entries = 0, []
    if lot.random() < 0.3:
        entries.append(('"__metadata__"', lot.choice(('{"format":"pt"}', "null", "{}", '{"a":"\\u00e9","b":""}'))))
    for i in range(lot.choice((0, 1, 1, 2, 3, 5))):
        dtype = lot.choice(list(WIDTHS))
        shape = [lot.choice((0, 1, 2, 3, 4, 8)) for _ in range(lot.randrange(4))]
        if dtype.startswith("F6") or dtype == "F4":
            shape.append(8)
        bits = WIDTHS[dtype]
        for extent in shape:
            bits *= extent
        fields = [f'"dtype":"{dtype}"', f'"shape":{json.dumps(shape)}', f'"data_offsets":[{at},{at + bits // 8}]']
        at += bits // 8
        if lot.random() < 0.2:
            fields.append(lot.choice(('"x":null', '"x":{"y":[1,{"z":1.5e3}]}', '"dtype2":"F32"')))
        lot.shuffle(fields)
        entries.append((json.dumps(lot.choice(("a", "b.c", "", "\u00e9", "w/x", "d")) + str(i),
                                   ensure_ascii=lot.random() < 0.5), "{" + ",".join(fields) + "}"))
    lot.shuffle(entries)
    return "{" + ",".join(f"{k}:{v}" for k, v in entries) + "}" + " " * lot.choice((0, 0, 3)), at


def mutated(lot):
    text, end = valid(lot)
    data = text.encode()
    for _ in range(lot.choice((0, 1, 1, 1, 2, 3))):
        at, kind = lot.randrange(len(data) + 1), lot.randrange(6)
        if kind == 0:
            data = data[:at] + bytes([lot.randrange(256)]) + data[at + 1:]
        elif kind == 1:
            data = data[:at] + lot.choice(PIECES).encode("utf-8", "surrogatepass") + data[at:]
        elif kind == 2:
            data = data[:at] + data[at + lot.randrange(1, 9):]
        elif kind == 3:
            to = at + lot.randrange(1, 40)
            data = data[:to] + data[at:]
        elif kind == 4:
            digits = [i for i, c in enumerate(data) if 48 <= c < 58]
            if digits:
                i = lot.choice(digits)
                data = data[:i] + str(lot.randrange(20)).encode() + data[i + 1:]
        else:
            end = max(0, end + lot.choice((-4, -1, 1, 4)))
    return data, end


def by_package(data, end):
    from safetensors import SafetensorError, deserialize
    try:
        deserialize(struct.pack("<Q", len(data)) + data + bytes(end))
    except SafetensorError as error:
        return str(error)
    except Exception as error:                          # what Rust did not foresee
        return f"{type(error).__name__}: {error}"
    return "taken"


def has_twice(data):
    twice = False

    def pairs(found):
        nonlocal twice
        twice |= len({key for key, _ in found}) != len(found)
        return dict(found)
    json.loads(data, object_pairs_hook=pairs)
    return twice


def excuse(data, end, package, ours):
    """Why they may disagree; None: they may not."""
    if package == "taken":
        if has_twice(data):
            return "a key twice"
        if "no size below 2^63" in ours:
            return "a large number" if any(int(n) >= 1 << 63 for n in json_numbers(data)) else None
        if "odd number of values" in ours and b'"F4"' in data:
            return "half a byte"
        if "an entry that is no object" in ours:
            return "an entry that is an array"
        return None
    header = json.loads(data)
    last = max([v["data_offsets"][1] for k, v in header.items() if k != "__metadata__"], default=0)
    return "a file that is too short" if last > end else None


def json_numbers(data):
    numbers = []
    json.loads(data, parse_int=lambda text: numbers.append(text) or 0)
    return numbers


def canaries(ask):
    taken = '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    answers = ask([(taken.encode(), 8), (taken.replace("8", "7").encode(), 8)])
    return answers[0] == "taken" and answers[1] != "taken"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("headers")
    parser.add_argument("--cases", type=int, default=cases("CKPTFS_CASES", 10000, 100000))
    options = parser.parse_args()
    try:
        import safetensors
    except ImportError:
        print("1..0 # SKIP safetensors is not installed")
        return 0
    print(f"# safetensors {safetensors.__version__}", flush=True)

    def ask(some):
        text = b"".join(struct.pack("<II", len(data), end) + data for data, end in some)
        out = subprocess.run([options.headers], input=text, capture_output=True, check=True).stdout
        return out.decode().splitlines()

    tap, lot = Tap(), random.Random(seed())
    tap.result(canaries(ask), "canary: one is taken, one is not")
    excuses, taken, bad, left = collections.Counter(), 0, [], options.cases
    while left > 0 and len(bad) < 5:
        some = [mutated(lot) for _ in range(min(left, 20000))]
        left -= len(some)
        for (data, end), ours in zip(some, ask(some), strict=True):
            package = by_package(data, end)
            taken += ours == "taken"
            if (ours == "taken") == (package == "taken"):
                continue
            try:
                why = excuse(data, end, package, ours)
            except Exception as error:
                why = None
                ours += f" [{error}]"
            if why:
                excuses[why] += 1
            else:
                bad.append(f"{data!r} + {end}: package {package}, ckptfs {ours}")
    print(f"# {taken} taken; they differ where they may: {dict(excuses)}")
    tap.result(not bad, f"{options.cases} headers", bad)
    tap.result(taken > options.cases // 20, "some are taken")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
