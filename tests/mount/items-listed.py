#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes checkpoints of torch_checkpointing whose metadata.pkl is unusual, without the package.

    items-listed.py DIRECTORY

All tensors are of float32 with one dimension. Each directory is a case of items-listed.sh.
"""
import json
import os
import pathlib
import pickle
import struct
import sys

SHARD, REPLICATE = {"type": "Shard", "dim": 0}, {"type": "Replicate"}


def listed(size, mesh, placement):
    """The groups of a tensor on a mesh of one dimension."""
    data = {"global_shape": [size], "dtype": "torch.float32", "stride": [1], "placements": [placement],
            "mesh_spec": {"device_type": "cpu", "mesh_shape": (len(mesh),), "mesh_data": mesh, "mesh_dim_names": None}}
    return [{"ranks": tuple(sorted(mesh)), "sharding_metadata": {"type": "DTensorShardingMetadata", "data": data}}]


def write(path, tensors):
    """A safetensors file of lists of numbers."""
    header, data = {}, b""
    for name, numbers in tensors.items():
        content = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": [len(numbers)], "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def make(home, ranks, items, form="{item}_{rank}.safetensors"):
    """items: name -> (paths, tensors of each rank; None without a file)."""
    metadata = {}
    for item, (paths, tensors) in items.items():
        files = {rank: {"file_path": form.format(item=item, rank=rank),
                        "serialization_format": {"type": "SafetensorsSerialization"}} for rank in range(ranks)}
        metadata[item] = {"nested_path_to_metadata": paths, "rank_to_layout_info": files}
        for rank, held in enumerate(tensors):
            if held is not None:
                write(home / files[rank]["file_path"], held)
    home.mkdir(parents=True, exist_ok=True)
    (home / "metadata.pkl").write_bytes(pickle.dumps({"version": "2.0", "world_size": ranks, "metadata": metadata}))


def main():
    home = pathlib.Path(sys.argv[1])
    halves = [{"x": [0, 1]}, {"x": [2, 3]}]
    make(home / "differ", 2, {"m": ({'["x"]': listed(2, (0, 1), REPLICATE)}, halves)})
    make(home / "names", 2, {
        "a": ({'["b","c"]': listed(4, (1, 0), SHARD)}, [{"b.c": [2, 3]}, {"b.c": [0, 1]}]),
        "a.b": ({'["c"]': listed(4, (0, 1), SHARD)}, [{"c": [10, 11]}, {"c": [12, 13]}])})
    make(home / "stages", 4, {"m": ({'["x"]': listed(4, (0, 1), SHARD) + listed(4, (2, 3), SHARD)}, 2 * halves)})
    make(home / "outside", 3, {"m": ({'["x"]': listed(4, (0, 1), SHARD)}, [*halves, {"x": []}])})
    make(home / "bare", 2, {"u": ({"[]": listed(4, (0, 1), SHARD)}, [{"": [0, 1]}, {"": [2, 3]}])})
    make(home / "below", 2, {"m": ({'["x"]': listed(4, (0, 1), SHARD)}, [halves[0], None])}, "rank_{rank}/{item}.safetensors")
    make(home / "some", 2, {"m": ({'["x"]': listed(4, (0, 1), SHARD)}, halves)})
    metadata = pickle.loads((home / "some/metadata.pkl").read_bytes())
    metadata["metadata"]["head"] = {"nested_path_to_metadata": {'["w"]': listed(2, (1,), SHARD)},
                                    "rank_to_layout_info": {0: None, 1: {
                                        "file_path": "head.safetensors",
                                        "serialization_format": {"type": "SafetensorsSerialization"}}}}
    write(home / "some/head.safetensors", {"w": [7, 8]})
    (home / "some/metadata.pkl").write_bytes(pickle.dumps(metadata))
    for rank in range(2):
        write(home / f"run/step-1/rank_{rank}/m.safetensors", halves[rank])
    write(home / "run/tmp_step-2/model.safetensors", halves[0])
    sharding = {"type": "x", "data": {}}
    groups = [{"ranks": tuple(range(at, at + 50000)), "sharding_metadata": sharding} for at in (5, 6)] * 30000
    make(home / "long", 1, {"m": ({f'["{i}"]': groups for i in range(4)}, [{str(i): [1] for i in range(4)}])})


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    os.umask(0o022)
    main()
