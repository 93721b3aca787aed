#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares dcp/<spec>/ of a mount with a second implementation of its rules, which reads full/ and objects/.

    dcp_layouts.py MNT SPEC... [--rule NAME=DIM:PLACE]... [--canary]

`.metadata` is unpickled with stand-ins for its classes, and each item is taken apart by zipfile. Each file must have its size
at the first stat, and consist of its items without gaps: objects, then boxes, in the order of full/. Each box must be in the
file of the lowest rank that holds it, with the elements of full/. Damaged tensors are skipped. --rule and --canary are those of
sharded.py.
"""
import argparse
import io
import json
import math
import os
import pickle
import sys
import zipfile

import sharded

RECORDS = ["archive/data.pkl", "archive/byteorder", "archive/data/0", "archive/version", "archive/.data/serialization_id"]


class Thing:
    """An object, or the result of a call, of a class that is only named."""

    def __init__(self, *args):
        self.args = args

    def __setstate__(self, state):
        if isinstance(state, tuple):
            self.state = state
        else:
            self.__dict__.update(state)

    def key(self):
        return getattr(self, "fqn", None), tuple(self.offset.args[0]) if hasattr(self, "offset") else None

    def __hash__(self):
        return hash(self.key())

    def __eq__(self, other):
        return self.key() == other.key()


class Reader(pickle.Unpickler):
    """Makes a class for each name."""

    classes = {}

    @staticmethod
    def index(key, offset, number):
        """A key of storage_data."""
        made = Thing()
        made.fqn, made.index = key, number
        if offset is not None:
            made.offset = Thing(offset)
        return made

    def find_class(self, module, name):
        full = f"{module}.{name}"
        return self.classes.setdefault(full, type(name, (Thing,), {"full": full}))

    def persistent_load(self, pid):
        return pid


def metadata_of(top):
    with open(f"{top}/.metadata", "rb") as f:
        data = f.read()
    size = os.stat(f"{top}/.metadata").st_size
    return Reader(io.BytesIO(data)).load(), size == len(data) and data[:2] == b"\x80\x02"


def boxes_of(mesh, places, shape):
    """{box: lowest rank} in the order of ranks; of a tensor without elements its shape on rank 0."""
    if 0 in shape:
        return {(tuple([0] * len(shape)), tuple(shape)): 0}
    found = {}
    for rank in range(math.prod(size for _, size in mesh)):
        offsets, sizes = sharded.box_of(mesh, places, rank, shape)
        if 0 not in sizes:
            found.setdefault((tuple(offsets), tuple(sizes)), rank)
    return found


def archive(data, sizes, dtype):
    """The elements in an item, or None and the fault."""
    with zipfile.ZipFile(io.BytesIO(data)) as whole:
        infos = whole.infolist()
    if [info.filename for info in infos] != RECORDS or any(info.CRC for info in infos):
        return None, f"records {[(info.filename, info.CRC) for info in infos]}"
    found = []
    for info in infos:
        begin = info.header_offset + 30 + sum(int.from_bytes(data[info.header_offset + at:][:2], "little") for at in (26, 28))
        if begin % 64:
            return None, f"{info.filename} begins at {begin}"
        found.append(data[begin:begin + info.file_size])
    tensor = Reader(io.BytesIO(found[0])).load()
    (_, storage, key, location, _), offset, size = tensor.args[:3]
    named = storage.full == "torch.storage.UntypedStorage"
    if (key, location, offset, size) != ("0", "cpu", 0, sizes) or (named and tensor.args[6].full != f"torch.{dtype}"):
        return None, f"tensor {tensor.args[:4]}"
    if (found[1], found[3], found[4]) != (b"little", b"3\n", b"0" * 40):
        return None, f"records {found[1]} {found[3]} {found[4]}"
    return found[2], None


class Layout:
    """The directory, and the faults that were found."""

    def __init__(self, mnt, spec, rules, canary):
        self.mnt, self.top, self.mesh, self.rules, self.canary = mnt, f"{mnt}/dcp/{spec}", sharded.mesh_of(spec), rules, canary
        self.ranks = math.prod(size for _, size in self.mesh)
        self.meta, exact = metadata_of(self.top)
        self.files, self.wrong, self.items = {}, [] if exact else ["size of .metadata, or its protocol"], 0
        self.ends, self.known = [0] * self.ranks, {}

    def say(self, text):
        self.wrong.append(text)

    def names(self):
        want = [".metadata", *(f"__{rank}_0.distcp" for rank in range(self.ranks))]
        if os.listdir(self.top) != want:
            self.say(f"names {os.listdir(self.top)[:4]}")
        for name in want[1:]:
            size = os.stat(f"{self.top}/{name}").st_size
            try:
                with open(f"{self.top}/{name}", "rb") as f:
                    self.files[name] = f.read()
            except OSError:
                self.files[name] = None
            if self.files[name] is not None and len(self.files[name]) != size:
                self.say(f"{name}: size {size} at the first stat, not {len(self.files[name])}")

    def bytes_at(self, rank, place):
        """Of an item, which must begin where the one before it ends."""
        name = f"__{rank}_0.distcp"
        if place.relative_path != name or place.offset != self.ends[rank]:
            self.say(f"{place.relative_path} at {place.offset}, not {name} at {self.ends[rank]}")
        self.ends[rank] += place.length
        data = self.files[name]
        return None if data is None else data[place.offset:place.offset + place.length]

    def places_of(self, name, ndim):
        rule = self.rules.get(name, {})
        return [rule[dim] if dim in rule else 0 if ndim and (dim not in sharded.WHOLE or self.canary) else None
                for dim, _ in self.mesh]

    def objects(self, names):
        """In their order, in the file of rank 0."""
        for key, name in names:
            place = self.meta.storage_data.pop(Reader.index(key, None, None))
            with open(f"{self.mnt}/objects/{name}.pt", "rb") as f:
                if self.bytes_at(0, place) != f.read():
                    self.say(f"object {key}: other bytes")

    def tensor(self, key, path, entry):
        dtype = sharded.attribute(path, "dtype")
        shape = json.loads(sharded.attribute(path, "shape"))
        want = boxes_of(self.mesh, self.places_of(os.path.basename(path)[:-4], len(shape)), shape)
        got = [(tuple(c.offsets.args[0]), tuple(c.sizes.args[0])) for c in entry.chunks]
        state = entry.properties.state
        if list(entry.size.args[0]) != shape or got != list(want) or state[0].full != f"torch.{dtype}" or len(state) != 5:
            self.say(f"{key}: {entry.size.args}, {got} instead of {list(want)}")
            return
        try:
            _, data = sharded.read(path)
        except OSError:
            data = None
        for i, ((offsets, sizes), rank) in enumerate(want.items()):
            place = self.meta.storage_data.pop(Reader.index(key, offsets, i))
            if self.alias(path, (offsets, sizes), place):
                continue
            item = self.bytes_at(rank, place)
            if item is None or data is None:
                continue
            width = len(data) // math.prod(shape) if math.prod(shape) else 0
            elements, why = archive(item, sizes, dtype)
            if why or elements != sharded.cut(data, shape, offsets, sizes, width):
                self.say(f"{key} at {offsets}: {why or 'other bytes'}")
            self.items += 1

    def alias(self, path, box, place):
        """True for an item of another tensor with the same bytes."""
        try:
            of = sharded.attribute(path, "alias_of")
        except OSError:
            self.known[path, box] = place
            return False
        known = self.known[f"{self.mnt}/full/{of}.npy", box]
        if vars(known) != vars(place):
            self.say(f"{path}: not the item of {of}")
        return True


def key_of(path):
    """As pickle reads it, where surrogates are characters; None for a key that it cannot read."""
    try:
        key = os.getxattr(path, "user.ckptfs.raw_key")
    except OSError:
        key = os.getxattr(path, "user.ckptfs.fqn")
    try:
        return key.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return None


def check(layout):
    mnt, top = layout.mnt, layout.top
    entries = layout.meta.state_dict_metadata
    left_out = json.loads(sharded.attribute(f"{top}/__0_0.distcp", "left_out"))
    layout.names()
    objects = [(key_of(f"{mnt}/objects/{name}"), name[:-3]) for name in os.listdir(f"{mnt}/objects") if name.endswith(".pt")]
    tensors = [(key_of(path), path) for path in (f"{mnt}/full/{name}" for name in os.listdir(f"{mnt}/full"))]
    shown = [key for key, _ in objects + tensors if key in entries]
    if sorted(shown) != sorted(entries):
        layout.say(f"entries {sorted(set(entries) - set(shown))[:4]}")
    if len(shown) + len(left_out) < len(objects) + len(tensors):
        layout.say(f"{len(shown)} entries and {len(left_out)} left out of {len(objects) + len(tensors)}")
    layout.objects([(key, name) for key, name in objects if key in entries])
    for key, path in tensors:
        if key in entries:
            layout.tensor(key, path, entries[key])
    if layout.meta.storage_data:
        layout.say(f"more places: {list(layout.meta.storage_data)[0].key()}")
    for rank, end in enumerate(layout.ends):
        if os.stat(f"{top}/__{rank}_0.distcp").st_size != end:
            layout.say(f"file {rank}: bytes behind the last item")
    paths = layout.meta.planner_data
    if paths is not None and ([*paths] != [*entries] or any(
            ".".join(map(str, path)) != key.rsplit("~", 1)[0] and ".".join(map(str, path)) != key for key, path in paths.items())):
        layout.say("planner_data")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mnt")
    parser.add_argument("spec", nargs="+")
    parser.add_argument("--rule", action="append", default=[])
    parser.add_argument("--canary", action="store_true")
    o = parser.parse_args()
    rules = {}
    for rule in o.rule:
        name, place = rule.rsplit("=", 1)
        dim, place = place.split(":")
        rules.setdefault(name, {})[dim] = None if place == "R" else int(place)
    layouts = [Layout(o.mnt, spec, rules, o.canary) for spec in o.spec]
    for layout in layouts:
        check(layout)
        print(f"{layout.items} items", *layout.wrong[:8], sep="\n")
    return 1 if any(layout.wrong for layout in layouts) else 0


if __name__ == "__main__":
    sys.exit(main())
