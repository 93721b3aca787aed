# SPDX-License-Identifier: MIT
"""The parts of shard-maps.sh that need more than a shell.

    shard_maps.py sources CKPTFS SOURCE...          every map of every source, without a mount
    shard_maps.py mounted CKPTFS SOURCE MNT         the maps in a mount: the same bytes
    shard_maps.py rects                             the rectangles of the map on stdin, a line each
    shard_maps.py many DIR N                        a safetensors file with N tensors

Boxes and files are those of `ckptfs inspect --json --chunks`. A rectangle must have the share of
its box in the elements, lie in the map, and begin where the shares of the dimensions say.
"""

import base64
import json
import os
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as xml
from fractions import Fraction
from math import prod

SVG = "{http://www.w3.org/2000/svg}"
MOST = 256
LEFT, TOP, RIGHT, BOTTOM, LINE = 28, 24, 4, 4, 18
RANK = re.compile(r"__([0-9]+)_.*\.distcp$")


def run(*command):
    return subprocess.run(command, capture_output=True)


def bytes_of(text):
    """The bytes of a name in JSON."""
    if isinstance(text, dict):
        return base64.b64decode(text["$str"])
    return text.encode()


def shown(text):
    """A name as XML can have it."""
    try:
        decoded = bytes_of(text).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        decoded = bytes_of(text).decode("utf-8", "replace")
    return "".join(
        "\ufffd" if (c < " " and c not in "\t\n\r") or "\ud800" <= c <= "\udfff"
        or c in "\ufffe\uffff" else c for c in decoded)


# --- one map

def dims(text):
    return [int(x) for x in text.split(",")] if text else []


def size_of(shape):
    """Width and height of a map."""
    if len(shape) < 2:
        return (320, 240) if shape else (160, 80)
    ratio = Fraction(shape[1], shape[0]) if shape[0] > 0 and shape[1] > 0 else Fraction(1)
    ratio = min(max(ratio, Fraction(1, 2)), Fraction(3))
    half = Fraction(1, 2)
    if ratio >= Fraction(3, 2):
        return 600, int(600 / ratio + half)
    return int(400 * ratio + half), 400


def rectangle(shape, offset, size):
    """x, y, width, height, exactly."""
    width, height = size_of(shape)
    x, y, w, h = Fraction(LEFT), Fraction(TOP), Fraction(width), Fraction(height)
    for d, n in enumerate(shape):
        low = Fraction(offset[d], n) if n else Fraction(0)
        high = Fraction(offset[d] + size[d], n) if n else Fraction(1)
        low = min(max(low, Fraction(0)), Fraction(1))
        high = min(max(high, low), Fraction(1))
        if d == 0:
            y, h = y + h * low, h * (high - low)
        else:
            x, w = x + w * low, w * (high - low)
    return x, y, w, h


def check_rect(rect, tensor, box, kind):
    assert dims(rect.get("data-offset")) == box["offset"], rect.attrib
    assert dims(rect.get("data-size")) == box["size"], rect.attrib
    got = [Fraction(rect.get(a)) for a in ("x", "y", "width", "height")]
    want = rectangle(tensor["shape"], box["offset"], box["size"])
    assert all(abs(g - w) <= Fraction(51, 10000) for g, w in zip(got, want)), (rect.attrib, want)
    owners = [rect.get("data-rank")] + (rect.get("data-copies") or "").split(",")
    path = box["file"]
    if path is None:
        assert owners[0] == "", rect.attrib
    elif kind == "dcp" and RANK.search(path):
        assert RANK.search(path)[1] in owners, (rect.attrib, path)
    elif owners[0].isdigit():
        numbers = {int(n) for n in re.findall("[0-9]+", path)}
        assert any(int(o) in numbers or int(o) + 1 in numbers for o in owners if o), path
    else:
        assert shown(path) == owners[0] or path in owners, (rect.attrib, path)


def check_map(text, tensor, kind):
    top = xml.fromstring(text)
    name = shown(tensor["fqn"])
    assert top.tag == SVG + "svg" and top.get("data-fqn") == name, (top.attrib, name)
    assert top.find(SVG + "title").text == name or not name
    assert dims(top.get("data-shape")) == tensor["shape"]
    assert top.get("data-dtype") == shown(tensor["dtype"])
    rects = [r for r in top.iter(SVG + "rect") if r.get("data-rank") is not None]
    boxes = sorted(tensor["boxes"], key=lambda b: b["offset"])
    if len(boxes) > MOST:
        assert not rects and top.get("data-boxes") == str(len(boxes))
        return 0
    assert len(rects) == len(boxes) and top.get("data-boxes") is None
    # Equal offsets, of boxes without elements, are in any order.
    rects.sort(key=lambda r: (dims(r.get("data-offset")), dims(r.get("data-size"))))
    boxes.sort(key=lambda b: (b["offset"], b["size"]))
    for rect, box in zip(rects, boxes):
        check_rect(rect, tensor, box, kind)
    check_picture(top, tensor, rects)
    return len(rects)


def check_picture(top, tensor, rects):
    """Size, legend, and the areas of all boxes together."""
    width, height = size_of(tensor["shape"])
    colours = {(r.get("data-rank"), r.get("fill")) for r in rects if r.get("data-rank")}
    circles = list(top.iter(SVG + "circle"))
    assert len(circles) == min(len(colours), 32), (len(circles), colours)
    assert {c.get("fill") for c in circles} <= {fill for _, fill in colours}
    view = [int(n) for n in top.get("viewBox").split()]
    assert view[:3] == [0, 0, LEFT + width + RIGHT], view
    assert (view[3] - TOP - height - BOTTOM) % LINE == 0, view
    assert all(float(c.get("cy")) + 5 <= view[3] for c in circles)
    area = sum(Fraction(r.get("width")) * Fraction(r.get("height")) for r in rects)
    elements = sum(prod(b["size"]) for b in tensor["boxes"])
    if elements and elements == prod(tensor["shape"]):
        assert abs(area / (width * height) - 1) < Fraction(1, 100), float(area)


# --- sources

def tensors_of(ckptfs, source):
    done = run(ckptfs, "inspect", "--json", "--chunks", source)
    return json.loads(done.stdout) if done.returncode in (0, 1) and done.stdout else None


def maps_of(ckptfs, source, tensors):
    """The maps of all tensors, in their order, and the listing of their directory."""
    directory = ".ckptfs/shards"
    paths = [b".ckptfs/shards/" + bytes_of(t["stem"]) + b".svg" for t in tensors]
    listed = run(ckptfs, "ls", "-l", source, directory).stdout if paths else b""
    maps = []
    for at in range(0, len(paths), 500):
        done = run(ckptfs, "cat", source, *paths[at:at + 500])
        assert done.returncode == 0, (source, done.stderr)
        maps += re.split(rb"(?<=</svg>\n)", done.stdout)[:-1]
    assert len(maps) == len(paths), (source, len(maps), len(paths))
    return maps, listed


def check_source(ckptfs, source, found):
    tensors = found["tensors"]
    maps, listed = maps_of(ckptfs, source, tensors)
    rects = 0
    for text, tensor in zip(maps, tensors):
        try:
            rects += check_map(text, tensor, found["kind"])
        except Exception as error:
            raise AssertionError(source, tensor["fqn"]) from error
    assert len(listed.splitlines()) == len(tensors), listed[:300]
    return rects


def sources(ckptfs, *paths):
    rects, kinds, skipped = 0, set(), 0
    for source in paths:
        found = tensors_of(ckptfs, source)
        if found is None or found["kind"] == "run":
            skipped += 1
            continue
        kinds.add(found["kind"])
        rects += check_source(ckptfs, source, found)
    print(len(paths) - skipped, "sources,", rects, "boxes:", *sorted(kinds))
    assert rects > 100 * len(kinds) and len(kinds) >= 5 and skipped * 10 < len(paths)


def mounted(ckptfs, source, mnt):
    found = tensors_of(ckptfs, source)
    maps, _ = maps_of(ckptfs, source, found["tensors"])
    directory = os.path.join(os.fsencode(mnt), b".ckptfs/shards")
    stems = [bytes_of(t["stem"]) for t in found["tensors"]]
    for stem, text in zip(stems, maps):
        path = os.path.join(directory, stem + b".svg")
        assert os.stat(path).st_size == len(text), path
        with open(path, "rb") as file:
            assert file.read() == text, path
    assert sorted(os.listdir(directory)) == sorted(s + b".svg" for s in stems)


def rects():
    for rect in xml.parse(sys.stdin.buffer).iter(SVG + "rect"):
        print(*(f"{name}={rect.get(name)}" for name in (
            "data-rank", "data-offset", "data-size", "x", "y", "width", "height")))


def many(directory, count):
    os.mkdir(directory)
    header = json.dumps({
        f"model.layers.{i // 10}.part.{i % 10}.weight":
            {"dtype": "U8", "shape": [1, 2], "data_offsets": [2 * i, 2 * i + 2]}
        for i in range(int(count))}).encode()
    with open(os.path.join(directory, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + bytes(2 * int(count)))


{"sources": sources, "mounted": mounted, "rects": rects, "many": many}[sys.argv[1]](*sys.argv[2:])
