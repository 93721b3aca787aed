# SPDX-License-Identifier: MIT
"""Checkpoints of each kind that the program knows (tests/fixtures), which `kinds` puts on the
device: small ones, since the archive of tests/gpu/pack has them. Knows no other module."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))
PLACE = os.path.join(HERE, "../../fixtures")
OF_KIND = {
    "safetensors": ["hub_one", "hub_index", "hub_shards", "hub_tied"],
    "torch": ["files_zip", "files_legacy", "files_protocol5", "files_index", "files_several",
              "files_pieces", "ranks_fsdp2_1"],
    "ranks": ["files_ranks", "ranks_fsdp2_2", "ranks_fsdp2_3", "ranks_columns_4", "ranks_hsdp",
              "ranks_tp", "ranks_slices", "ranks_shards_3", "ranks_fsdp1_2", "ranks_flat_3"],
    "dcp": ["dtensor_columns", "dtypes_sharded", "mesh2d", "strides_sharded", "zstd", "alone_3",
            "alone_threads", "blobs_3", "blobs_items", "blobs_alone", "megatron"],
}
ALL = [name for names in OF_KIND.values() for name in names]
# Steps of one directory, of several kinds.
STEPS = ["hub_index", "files_zip", "ranks_fsdp2_2", "alone_3", "blobs_3", "mesh2d"]
DAMAGED = "hub_one"  # without checksums, and its last byte is a tensor's
BESIDE = [".sha256", ".tensors.tsv"]


def files():
    """What of tests/fixtures is needed, as paths in it."""
    for name in ALL:
        yield from (name + ending for ending in BESIDE)
        for directory, _, names in sorted(os.walk(os.path.join(PLACE, name))):
            for one in sorted(names):
                yield os.path.relpath(os.path.join(directory, one), PLACE)
