#!/bin/sh
# SPDX-License-Identifier: MIT
#
# torch_checkpointing 0.1.1 (0.1.0 too), torch 2.13.0: a job with gloo on CPUs cannot save an
# item that has a resharder. Without a resharder the same job saves.
#
# To collect the metadata of all ranks, DefaultMetadataManager pickles it and gathers it as a
# tensor. The device of that tensor is "cuda" in the code, whatever the backend of the process
# group and the device of the model are.
#
# Cost: CPU jobs, tests without a GPU, and jobs on other accelerators fail at the first save with
# "Torch not compiled with CUDA enabled". Such a job can save only without resharders, and then
# there is no metadata.pkl: the checkpoint cannot be loaded by another number of ranks.
# Remedy: none in the package. Gathering by torch.distributed.all_gather_object() works.
#
# Output seen:
#	with a resharder      AssertionError: Torch not compiled with CUDA enabled
#	without a resharder   saved
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q torch==2.13.0 numpy==2.4.6 \
	torch_checkpointing==0.1.1 >&2 || exit 2

cat >show.py <<'END'
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch_checkpointing import CheckpointManager, ItemSpec
from torch_checkpointing.default_resharder import DefaultResharder
from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig


def save(rank, store, directory, resharder, results):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    config = CheckpointManager.Config.with_sync_save()
    config.items = {"model": ItemSpec(resharder=DefaultResharder() if resharder else None)}
    config.storage_config = LocalFileSystemStorageConfig(use_direct_io=False)
    try:
        CheckpointManager(config).save(directory, {"model": {"weight": torch.ones(3)}})
        results[rank] = "saved"
    except (AssertionError, RuntimeError) as error:
        results[rank] = f"{type(error).__name__}: {error}".splitlines()[0]


if __name__ == "__main__":
    changed = False
    for name, resharder in (("with a resharder", True), ("without a resharder", False)):
        results = mp.get_context("spawn").Manager().dict()
        mp.spawn(save, (f"{os.getcwd()}/store-{resharder}", f"out-{resharder}", resharder, results), nprocs=2)
        as_expected = "CUDA" in results[0] if resharder else results[0] == "saved"
        changed |= not as_expected
        print(f"{name:21} {results[0]}" + ("" if as_expected else "  CHANGED"))
    sys.exit(changed)
END
CUDA_VISIBLE_DEVICES='' venv/bin/python show.py 2>errors && exit 0
cat errors >&2
exit 1
