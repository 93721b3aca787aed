#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loads a checkpoint with PyTorch, and prints seconds without imports. Used by tests/bench/bench_views.py.

    loads.py dcp DIR [TIMES]            dcp.load of all tensors; one line each time
    loads.py shards DIR WORLD [TIMES]   the same in WORLD processes (gloo), each with its DTensors, sharded by rows
    loads.py file FILE NAME             torch.load(mmap=True), and the sum of one tensor
    loads.py converted DIR FILE NAME    dcp_to_torch_save to FILE, then the same

Tensors are allocated and touched before the clock starts.
"""
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, zeros


def listed(directory):
    """(name, size, dtype) of all tensors."""
    entries = dcp.FileSystemReader(directory).read_metadata().state_dict_metadata
    for name, entry in entries.items():
        if hasattr(entry, "size"):
            yield name, entry.size, entry.properties.dtype


def timed(state, directory, alone):
    start = time.monotonic()
    dcp.load(state, checkpoint_id=directory, no_dist=alone)
    return time.monotonic() - start


def load_dcp(directory, times=1):
    state = {name: torch.empty(size, dtype=dtype).fill_(0) for name, size, dtype in listed(directory)}
    for _ in range(int(times)):
        print(timed(state, directory, True), flush=True)


def rank(number, world, directory, times, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    state = {name: zeros(size, dtype=dtype, device_mesh=mesh, placements=[Shard(0) if size else Replicate()])
             for name, size, dtype in listed(directory)}
    for tensor in state.values():
        tensor.to_local().fill_(0)
    for _ in range(times):
        dist.barrier()
        seconds = timed(state, directory, False)
        if number == 0:
            print(seconds, flush=True)
    dist.destroy_process_group()


def load_shards(directory, world, times=1):
    with tempfile.TemporaryDirectory() as temporary:
        mp.spawn(rank, (int(world), directory, int(times), os.path.join(temporary, "store")), int(world))


def load_file(file, name):
    start = time.monotonic()
    state = torch.load(file, mmap=True)
    for part in name.split(":"):
        state = state[part]
    state.view(torch.uint8).sum()
    print(time.monotonic() - start)


def load_converted(directory, file, name):
    start = time.monotonic()
    dcp_to_torch_save(directory, file)
    print(time.monotonic() - start)
    load_file(file, name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    globals()["load_" + sys.argv[1]](*sys.argv[2:])
