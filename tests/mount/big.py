# SPDX-License-Identifier: MIT
"""Makes a checkpoint larger than a committed one, without PyTorch: row-sharded
int64 tensors whose element i is (tensor << 40) + i, so that any part of one
can be judged alone. Containers are laid out as PyTorch 2.13 does.

    big.py DIR TENSORS RANKS BYTES-OF-A-SHARD    names t0, t1, ...
    big.py --columns DIR TENSORS RANKS BYTES ROW-BYTES
                                                 sharded on the last dimension
    big.py --verify TENSOR FILE                  a prefix of raw/t<TENSOR>
"""

import array
import os
import pickle
import struct
import sys
import types
import zlib


def module(name, *classes):
    m = types.ModuleType(name)
    sys.modules[name] = m
    for cls in classes:
        setattr(m, cls, type(cls, (), {'__module__': name}))
    return m


def function(name):
    module_name, _, attribute = name.rpartition('.')
    m = sys.modules.get(module_name) or module(module_name)

    def f(*args):
        raise NotImplementedError
    f.__module__, f.__name__, f.__qualname__ = module_name, attribute, attribute
    setattr(m, attribute, f)
    return f


class Call:
    """Pickles as function(*args)."""

    def __init__(self, what, *args):
        self.what, self.args = what, args

    def __reduce__(self):
        return self.what, self.args


class Named:
    """Pickles as the global of that name."""

    def __init__(self, name):
        self.name = name

    def __reduce__(self):
        return self.name


meta = module('torch.distributed.checkpoint.metadata', 'Metadata',
              'TensorStorageMetadata', 'TensorProperties',
              'ChunkStorageMetadata', 'MetadataIndex', 'StorageMeta')
storage = module('torch.distributed.checkpoint.filesystem', '_StorageInfo')
torch = module('torch')
torch.int64 = Named('int64')
torch.int64.__module__ = 'torch'
Size = function('torch.Size')
get_layout = function('torch.serialization._get_layout')
memory_format = function(
    'torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING')


def made(cls, state):
    out = cls.__new__(cls)
    if isinstance(state, dict):
        out.__dict__.update(state)
    else:
        cls.__getstate__ = lambda self: self.state
        out.state = state
    return out


def size(*dims):
    return Call(Size, tuple(dims))


# --- the container of one item ---------------------------------------------

MAX = 0xFFFFFFFF


def zip_parts(records):
    """The parts of a zip archive; the bytes of records are not copied."""
    parts, at = [], 0
    central = bytearray()
    for name, data in records:
        name = b'archive/' + name
        out = bytearray()
        start = at + 30 + len(name) + 4
        pad = 64 - start % 64
        flags = 0x0808 if data else 0x0800
        crc = zlib.crc32(data)
        out += struct.pack('<IHHHHHIIIHH', 0x04034b50, 0, flags, 0, 0, 0, 0, 0,
                           0, len(name), 4 + pad)
        out += name + b'FB' + struct.pack('<H', pad) + b'Z' * pad
        tail = struct.pack('<IIII', 0x08074b50, crc, len(data),
                           len(data)) if data else b''
        parts += [bytes(out), data, tail]
        central += struct.pack('<IHHHHHHIIIHHHHHII', 0x02014b50, 0, 0, flags,
                               0, 0, 0, crc, len(data), len(data), len(name),
                               0, 0, 0, 0, 0, at) + name
        at += len(out) + len(data) + len(tail)
    where, n = at, len(records)
    end = where + len(central)
    out = bytearray(central)
    out += struct.pack('<IQHHIIQQQQ', 0x06064b50, 44, 0x031e, 45, 0, 0, n, n,
                       len(central), where)
    out += struct.pack('<IIQI', 0x07064b50, 0, end, 1)
    out += struct.pack('<IHHHHIIH', 0x06054b50, 0, 0, n, n, len(central),
                       where, 0)
    return parts + [bytes(out)]


def zip_archive(records):
    return b''.join(zip_parts(records))


def number(n):
    if n < 256:
        return b'K' + struct.pack('<B', n)
    if n < 65536:
        return b'M' + struct.pack('<H', n)
    return b'J' + struct.pack('<i', n)


def text(s):
    return b'X' + struct.pack('<I', len(s)) + s


def item_parts(rows, columns, data):
    pkl = (b'\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((' + text(b'storage')
           + b'ctorch\nLongStorage\n' + text(b'0') + text(b'cpu')
           + number(rows * columns) + b'tQ' + number(0)
           + number(rows) + number(columns) + b'\x86'
           + number(columns) + number(1) + b'\x86'
           + b'\x89ccollections\nOrderedDict\n)RtR.')
    return zip_parts([
        (b'data.pkl', pkl), (b'.format_version', b'1'),
        (b'.storage_alignment', b'64'), (b'byteorder', b'little'),
        (b'data/0', data), (b'version', b'3\n'),
        (b'.data/serialization_id', b'1' * 40)])


def item(rows, columns, data):
    return b''.join(item_parts(rows, columns, data))


# --- the checkpoint -----------------------------------------------------------

COLUMNS = 512  # of a row-sharded tensor: a row is 4 KiB


def elements(tensor, first, n):
    base = (tensor << 40) + first
    return array.array('q', range(base, base + n)).tobytes()


def column_block(tensor, rows, columns, width, first):
    return b''.join(elements(tensor, r * columns + first, width)
                    for r in range(rows))


def boxes(tensor, ranks, nbytes, row_bytes):
    """offsets, sizes, data for each rank; the whole shape"""
    if row_bytes is None:
        rows = nbytes // 8 // COLUMNS
        return [((r * rows, 0), (rows, COLUMNS),
                 elements(tensor, r * rows * COLUMNS, rows * COLUMNS))
                for r in range(ranks)], (rows * ranks, COLUMNS)
    width = row_bytes // 8
    rows, columns = nbytes // row_bytes, width * ranks
    return [((0, r * width), (rows, width),
             column_block(tensor, rows, columns, width, r * width))
            for r in range(ranks)], (rows, columns)


def make(path, tensors, ranks, nbytes, row_bytes=None):
    os.makedirs(path)
    files = [open(f'{path}/__{r}_0.distcp', 'wb') for r in range(ranks)]
    made_tensors = []
    for t in range(tensors):
        parts, shape = boxes(t, ranks, nbytes, row_bytes)
        chunks = []
        for rank, (offset, dims, data) in enumerate(parts):
            f = files[rank]
            start = f.tell()
            f.write(item(*dims, data))
            chunks.append((offset, dims, rank, start, f.tell() - start))
        made_tensors.append((shape, chunks))
    for f in files:
        f.close()
    write_metadata(path, made_tensors)


def write_metadata(path, tensors):
    """tensors: of each its shape, and for each box: offsets, sizes, number of
    the file, where the item begins there, its bytes"""
    state, places = {}, {}
    for t, (shape, boxes_of_it) in enumerate(tensors):
        chunks = []
        for i, (offset, dims, rank, start, length) in enumerate(boxes_of_it):
            chunks.append(made(meta.ChunkStorageMetadata, {
                'offsets': size(*offset), 'sizes': size(*dims)}))
            index = made(meta.MetadataIndex, {
                'fqn': f't{t}', 'index': i, 'offset': size(*offset)})
            places[index] = made(storage._StorageInfo, {
                'relative_path': f'__{rank}_0.distcp', 'offset': start,
                'length': length})
        properties = made(meta.TensorProperties, (
            torch.int64, Call(get_layout, 'torch.strided'), False,
            Call(memory_format, 0), False))
        state[f't{t}'] = made(meta.TensorStorageMetadata, {
            'properties': properties, 'size': size(*shape), 'chunks': chunks})
    with open(f'{path}/.metadata', 'wb') as f:
        pickle.dump(made(meta.Metadata, {
            'state_dict_metadata': state,
            'planner_data': {name: (name,) for name in state},
            'storage_data': places,
            'storage_meta': made(meta.StorageMeta, {
                'checkpoint_id': path, 'save_id': 'none', 'load_id': None,
                'modules': []})}), f, protocol=2)


def verify(tensor, path):
    with open(path, 'rb') as f:
        data = f.read()
    got = array.array('q', data[:len(data) // 8 * 8])
    base = tensor << 40
    if any(x != base + i for i, x in enumerate(got)):
        sys.exit('wrong bytes')


if __name__ == '__main__':
    if sys.argv[1] == '--verify':
        verify(int(sys.argv[2]), sys.argv[3])
    elif sys.argv[1] == '--columns':
        make(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        make(sys.argv[1], *map(int, sys.argv[2:]))
