#!/bin/sh
# SPDX-License-Identifier: MIT
#
# PyTorch 2.13.0: if the ranks of a mesh do not ascend, dcp.save() of an FSDP2 model stores the
# rows in another order than the model has. Save and load return without an error or a warning.
#
# DeviceMesh("cuda", [3, 1, 0, 2]) is a valid mesh, used for topologies. FSDP2, distribute_tensor()
# and full_tensor() move shards by a process group, which sorts its ranks: rank 0 has the first
# rows. DCP computes the offset of a shard from the rank's place in the mesh, where rank 0 is the
# third. A load into the same mesh reverses the error, and hides it.
#
# Cost: a load into a single process, another mesh or another number of ranks, and each export of
# the checkpoint, has permuted weights. init_device_mesh() makes ascending meshes only, and so is
# not affected.
# Known: since 2.15.0 DeviceMesh has an option, preserve_rank_order=True, with which both orders
# are the same (https://github.com/pytorch/pytorch/pull/193224); the default of 2.15.0 still
# differs. No issue about checkpoints was found.
# Remedy: that option, or init_device_mesh(). To repair a checkpoint, load it into the same mesh
# and save the full state dict.
#
# ckptfs shows the order that `.metadata` states, which is that of dcp.load(), and of files of
# ranks the same order: the place of each rank in its mesh.
#
# Output seen (rows 0 to 7 in two rows a rank):
#	mesh 0 1 2 3, the model           0 1 2 3 4 5 6 7
#	loaded by one process             0 1 2 3 4 5 6 7
#	mesh 3 1 0 2, the model           0 1 2 3 4 5 6 7
#	loaded by one process             6 7 2 3 0 1 4 5
#	loaded into the same mesh         0 1 2 3 4 5 6 7
#	full state dict                   0 1 2 3 4 5 6 7
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q torch==2.13.0 numpy==2.4.6 >&2 || exit 2

cat >show.py <<'END'
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard


def rows(tensor):
    return " ".join(f"{value:.0f}" for value in tensor.flatten().tolist())


def sharded(ranks, fill):
    model = torch.nn.Linear(1, 8, bias=False)
    model.weight.data.copy_(torch.arange(8.).view(8, 1) if fill else torch.zeros(8, 1))
    fully_shard(model, mesh=DeviceMesh("cpu", ranks))
    return model


def rank_main(rank, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=4)
    found = []
    for ranks in ([0, 1, 2, 3], [3, 1, 0, 2]):
        model, path = sharded(ranks, True), f"{directory}/{ranks[0]}"
        found.append((f"mesh {rows(torch.tensor(ranks))}, the model", rows(model.weight.full_tensor())))
        dcp.save(model.state_dict(), checkpoint_id=path)
        if rank == 0:
            state = {"weight": torch.zeros(8, 1)}
            dcp.load(state, checkpoint_id=path, no_dist=True)
            found.append(("loaded by one process", rows(state["weight"])))
        dist.barrier()
    again = sharded(ranks, False)
    state = again.state_dict()
    dcp.load(state, checkpoint_id=path)
    found.append(("loaded into the same mesh", rows(state["weight"].full_tensor())))
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    if rank == 0:
        found.append(("full state dict", rows(full["weight"])))
        torch.save(found, f"{directory}/found")
    dist.destroy_process_group()


if __name__ == "__main__":
    right, permuted, changed = "0 1 2 3 4 5 6 7", "6 7 2 3 0 1 4 5", False
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.spawn(rank_main, args=(directory,), nprocs=4)
        for (what, found), expected in zip(torch.load(f"{directory}/found"),
                                           (right, right, right, permuted, right, right)):
            changed |= found != expected
            print(f"{what:33} {found}" + ("" if found == expected else f"  CHANGED, was {expected}"))
    sys.exit(changed)
END
venv/bin/python show.py 2>errors && exit 0
cat errors >&2
exit 1
