# SPDX-License-Identifier: MIT
"""Makes a checkpoint with the keys and file names that its caller wants, as
big.py makes a large one. Standard input is a JSON list of tensors: each has a
`key` (lone surrogates allowed) and may have `files` (one for each part),
`rows` (of a part) and `lost` (numbers of parts that storage_data lacks).

    odd.py DIR <SPEC
"""

import json
import os
import pickle
import sys

import big
from big import made, meta, size, storage, torch

COLUMNS = 8


def properties():
    return made(meta.TensorProperties, (
        torch.int64, big.Call(big.get_layout, 'torch.strided'), False,
        big.Call(big.memory_format, 0), False))


def add(path, number, spec, state, places):
    key, rows = spec['key'], spec.get('rows', 2)
    chunks = []
    for part, name in enumerate(spec.get('files', ['__0_0.distcp'])):
        place = os.path.join(path, name)
        data = big.elements(number, part * rows * COLUMNS, rows * COLUMNS)
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, 'ab') as f:
                start = f.tell()
                f.write(big.item(rows, COLUMNS, data))
                length = f.tell() - start
        except (OSError, ValueError):
            start, length = 0, 1000
        at = size(part * rows, 0)
        chunks.append(made(meta.ChunkStorageMetadata, {
            'offsets': at, 'sizes': size(rows, COLUMNS)}))
        index = made(meta.MetadataIndex, {
            'fqn': key, 'index': part, 'offset': at})
        if part not in spec.get('lost', []):
            places[index] = made(storage._StorageInfo, {
                'relative_path': name, 'offset': start, 'length': length})
    state[key] = made(meta.TensorStorageMetadata, {
        'properties': properties(), 'size': size(rows * len(chunks), COLUMNS),
        'chunks': chunks})


def make(path, specs):
    state, places = {}, {}
    os.makedirs(path, exist_ok=True)
    for number, spec in enumerate(specs):
        add(path, number, spec, state, places)
    with open(os.path.join(path, '.metadata'), 'wb') as f:
        pickle.dump(made(meta.Metadata, {
            'state_dict_metadata': state, 'planner_data': None,
            'storage_data': places, 'storage_meta': None}), f, protocol=4)


if __name__ == '__main__':
    make(sys.argv[1], json.load(sys.stdin))
