# SPDX-License-Identifier: MIT
"""A reader of DCP checkpoints that shares no code with ckptfs and needs only
Python's library: it checks that a checkpoint is complete, and returns its
contents.

    read(path) -> Contents, or raises Broken with the reason

The reader is stricter than PyTorch: an item with a wrong CRC, size or shape is
broken, even if PyTorch reads it.
"""
import collections
import hashlib
import io
import os
import pickle
import zipfile

# tensors: name -> (dtype, shape, digest of the bytes in C order)
# objects: name -> digest; files: file names in .metadata
Contents = collections.namedtuple("Contents", "tensors objects files")

WIDTHS = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex128": 16,
    "complex64": 8, "complex32": 4, "int64": 8, "int32": 4, "int16": 2,
    "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1,
}
STORAGES = {
    "DoubleStorage": "float64", "FloatStorage": "float32",
    "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16",
    "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool",
    "ComplexDoubleStorage": "complex128", "ComplexFloatStorage": "complex64",
    "UntypedStorage": "uint8",
}


class Broken(Exception):
    """No complete checkpoint."""


class Thing:
    """An inert object for any class of a pickle: creating, calling and filling
    it has no effect."""

    name = ""

    def __new__(cls, *args, **kwargs):
        thing = object.__new__(cls)
        thing.args, thing.state = args, None
        return thing

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args):
        return Thing(self, *args)

    def __setstate__(self, state):
        self.state = state

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return id(self)

    def append(self, _):
        pass

    def extend(self, _):
        pass

    def __setitem__(self, _key, _value):
        pass

    def field(self, name):
        if not isinstance(self.state, dict) or name not in self.state:
            raise Broken(f"no field {name} in {type(self).name}")
        return self.state[name]


class Unpickler(pickle.Unpickler):
    """Knows no class. One class of inert objects stands for each name."""

    def __init__(self, file, storage=None):
        super().__init__(file)
        self.classes, self.storage = {}, storage

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if name == "Size" and module == "torch":
            return tuple
        full = f"{module}.{name}"
        if full not in self.classes:
            self.classes[full] = type("Thing", (Thing,), {"name": full})
        return self.classes[full]

    def persistent_load(self, pid):
        if self.storage is None:
            raise Broken("a storage in .metadata")
        return self.storage(pid)


def unpickle(data, what, storage=None):
    try:
        return Unpickler(io.BytesIO(data), storage).load()
    except Broken:
        raise
    except Exception as problem:
        raise Broken(f"{what}: {type(problem).__name__}: {problem}")


def last_part(value):
    """float32 of the class that stands for torch.float32."""
    return getattr(value, "name", "?").rpartition(".")[2]


def product(numbers):
    out = 1
    for number in numbers:
        out *= number
    return out


# --- one item --------------------------------------------------------------------

class Item:
    """An archive of torch.save in a slice of a file."""

    def __init__(self, data, what):
        self.what = what
        try:
            self.zip = zipfile.ZipFile(io.BytesIO(data))
            self.infos = {i.filename.partition("/")[2]: i
                          for i in self.zip.infolist()}
            self.pickle = self.record("data.pkl")
        except (zipfile.BadZipFile, KeyError, EOFError, OSError,
                ValueError, NotImplementedError) as problem:
            raise Broken(f"{what}: {type(problem).__name__}: {problem}")

    def record(self, name):
        info = self.infos[name]
        with self.zip.open(info) as entry:
            if info.CRC == 0:       # PyTorch can leave it out
                entry._expected_crc = None
            return entry.read()

    def storage(self, pid):
        kind, cls, key, _, numel = pid
        dtype = STORAGES.get(last_part(cls))
        if kind != "storage" or dtype is None:
            raise Broken(f"{self.what}: storage {pid}")
        try:
            data = self.record(f"data/{key}")
        except (KeyError, zipfile.BadZipFile, EOFError, OSError) as problem:
            raise Broken(f"{self.what}: data/{key}: {problem}")
        if len(data) != numel * WIDTHS[dtype]:
            raise Broken(f"{self.what}: data/{key} has {len(data)} bytes")
        return dtype, data

    def tensor(self):
        """dtype, shape, stride, first element, bytes of the storage."""
        value = unpickle(self.pickle, self.what, self.storage)
        while "_rebuild_parameter" in type(value).name:
            value = value.args[0]
        name = last_part(type(value))
        if not name.startswith("_rebuild_tensor"):
            raise Broken(f"{self.what}: no tensor but {name}")
        (dtype, data), first, shape, stride = value.args[:4]
        more = value.args[6:]
        if name == "_rebuild_tensor_v3":
            dtype, more = last_part(value.args[6]), value.args[7:]
        if more and more[0]:
            raise Broken(f"{self.what}: conjugated or negated")
        return dtype, tuple(shape), tuple(stride), first, data

    def digest(self):
        """Digest of the item's contents, independent of the order of records."""
        out = hashlib.sha256(self.pickle)
        for name in sorted(n for n in self.infos if n.startswith("data/")):
            out.update(name.encode() + b"\0" + self.record(name))
        return out.hexdigest()


# --- one tensor --------------------------------------------------------------------

def rows_of(shape):
    """Every index of a shape without its last dimension."""
    index = [0] * (len(shape) - 1)
    while True:
        yield index
        for d in reversed(range(len(index))):
            index[d] += 1
            if index[d] < shape[d]:
                break
            index[d] = 0
        else:
            return


def place(whole, seen, shape, width, box, item, what):
    """Copies one box; no earlier box may cover its rows."""
    offsets, sizes = box
    dtype, found, stride, first, data = item
    if found != sizes:
        raise Broken(f"{what}: shape {found}, expected {sizes}")
    if any(o < 0 or s < 0 or o + s > n
           for o, s, n in zip(offsets, sizes, shape)):
        raise Broken(f"{what}: outside of the tensor")
    if not product(sizes):
        return
    if not shape:
        sizes, offsets, shape, stride = (1,), (0,), (1,), (1,)
    last = sizes[-1]
    for index in rows_of(sizes):
        at = offsets[-1]
        step = 1
        for d in reversed(range(len(shape) - 1)):
            step *= shape[d + 1]
            at += (index[d] + offsets[d]) * step
        source = first + sum(i * s for i, s in zip(index, stride))
        if stride[-1] == 1 or last == 1:
            row = data[source * width:(source + last) * width]
        else:
            row = b"".join(data[(source + n * stride[-1]) * width:][:width]
                           for n in range(last))
        if len(row) != last * width:
            raise Broken(f"{what}: outside of its storage")
        if any(seen[at:at + last]):
            raise Broken(f"{what}: boxes overlap")
        seen[at:at + last] = b"\1" * last
        whole[at * width:(at + last) * width] = row


# --- the checkpoint -----------------------------------------------------------------

class Checkpoint:
    def __init__(self, path):
        self.path, self.data = path, {}
        data = self.file(".metadata")
        metadata = unpickle(data, ".metadata")
        if last_part(type(metadata)) != "Metadata":
            raise Broken(".metadata: not of a checkpoint")
        self.entries = metadata.field("state_dict_metadata")
        self.rows = {}
        for index, info in metadata.field("storage_data").items():
            offset = index.state.get("offset")
            key = index.field("fqn"), None if offset is None else tuple(offset)
            if key in self.rows:
                raise Broken(f".metadata: {key} twice")
            self.rows[key] = info

    def file(self, name):
        if name not in self.data:
            if name.startswith("/") or ".." in name.split("/"):
                raise Broken(f"{name}: not beneath the checkpoint")
            try:
                with open(os.path.join(self.path, name), "rb") as f:
                    self.data[name] = f.read()
            except OSError as problem:
                raise Broken(f"{name}: {problem.strerror}")
        return self.data[name]

    def item(self, fqn, offset):
        info = self.rows.get((fqn, offset))
        if info is None:
            raise Broken(f"{fqn} {offset}: no row in storage_data")
        name, at = info.field("relative_path"), info.field("offset")
        length, what = info.field("length"), f"{fqn} {offset} in {name}"
        if info.state.get("transform_descriptors"):
            raise Broken(f"{what}: a stream transform is not for this reader")
        data = self.file(name)
        if at < 0 or length <= 0 or at + length > len(data):
            raise Broken(f"{what}: ends behind the file")
        return Item(data[at:at + length], what)

    def tensor(self, fqn, entry):
        properties = entry.field("properties").state
        if isinstance(properties, dict):
            dtype = last_part(properties["dtype"])
        else:
            dtype = last_part(properties[0])
        shape = tuple(entry.field("size"))
        if dtype not in WIDTHS:
            raise Broken(f"{fqn}: dtype {dtype}")
        width, count = WIDTHS[dtype], product(shape)
        whole, seen = bytearray(count * width), bytearray(count)
        for chunk in entry.field("chunks"):
            box = tuple(chunk.field("offsets")), tuple(chunk.field("sizes"))
            item = self.item(fqn, box[0]).tensor()
            what = f"{fqn} {box[0]}"
            if item[0] != dtype:
                raise Broken(f"{what}: {item[0]}, expected {dtype}")
            place(whole, seen, shape, width, box, item, what)
        if seen.count(1) != count:
            raise Broken(f"{fqn}: {seen.count(0)} elements in no box")
        return dtype, shape, hashlib.sha256(whole).hexdigest()

    def read(self):
        tensors, objects = {}, {}
        for fqn, entry in self.entries.items():
            if last_part(type(entry)) == "TensorStorageMetadata":
                tensors[fqn] = self.tensor(fqn, entry)
            else:
                objects[fqn] = self.item(fqn, None).digest()
        files = {info.field("relative_path") for info in self.rows.values()}
        for name in files:
            self.file(name)
        return Contents(tensors, objects, files)


def read(path):
    return Checkpoint(path).read()
