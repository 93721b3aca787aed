#!/bin/sh
# SPDX-License-Identifier: MIT
#
# PyTorch 2.13.0: set_model_state_dict() with full_state_dict=True accepts a state dict that lacks
# parameters of the model, although `strict` is True by default. It returns <All keys matched
# successfully>, and the parameters that are missing keep their random values.
#
# _load_model_state_dict() of torch/distributed/checkpoint/state_dict.py makes a dictionary of all
# parameters of the model, replaces those that the state dict has, and adds the result to the
# caller's state dict. load_state_dict() then finds every name; a missing one is the parameter
# itself, copied onto itself. Only the branch of broadcast_from_rank0=True removes missing names.
# With strict=False, `missing_keys` is empty for the same reason, in both branches.
#
# Cost: a job starts from a partly random model. A state dict that was saved with
# ignore_frozen_params=True is such an input: a new model loads it without an error, and its
# frozen layers are random. The caller's state dict changes, too: it gains the missing names, with
# the live parameters of the model as values. If the caller saves it as a checkpoint, it looks
# complete.
# Known: https://github.com/pytorch/pytorch/issues/126285, closed, reports that `strict` is ignored.
# Remedy: compare the names with those of model.state_dict() before the call, and pass a copy of
# the dictionary.
#
# ckptfs does not know the model, and so cannot report parameters that a checkpoint lacks.
#
# Output seen (layer 0 is frozen; the state dict has layer 1 only):
#	one process, default options      RuntimeError, Missing key(s) in state_dict: "0.weight".
#	one process, full_state_dict      <All keys matched successfully>, layer 0 loaded: False
#	FSDP2, full_state_dict            <All keys matched successfully>, layer 0 loaded: False
#	FSDP2, the same, strict=False     <All keys matched successfully>, layer 0 loaded: False
#	FSDP2, broadcast_from_rank0       RuntimeError, Missing key(s) in state_dict: "0.weight".
#	names in the state dict           ['1.weight']
#	names in it after the call        ['0.weight', '1.weight']
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
import torch.multiprocessing
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict,
                                                     set_model_state_dict)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor


def new_model(value, sharded):
    """Returns two layers whose weights are `value`."""
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4, bias=False) for _ in range(2)))
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, value)
    return fully_shard(model, mesh=init_device_mesh("cpu", (2,))) if sharded else model


def load(state, sharded, **options):
    model = new_model(0, sharded)
    try:
        result = set_model_state_dict(model, state, options=StateDictOptions(**options))
    except RuntimeError as error:
        return "RuntimeError, " + str(error).split("\n")[1].strip()
    weight = model[0].weight
    weight = weight.full_tensor() if isinstance(weight, DTensor) else weight
    return f"{result}, layer 0 loaded: {bool((weight == 1).all())}"


def rank_main(rank, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=2)
    trained = new_model(1, False)
    trained[0].requires_grad_(False)
    state = get_model_state_dict(trained, options=StateDictOptions(ignore_frozen_params=True))
    after = dict(state)
    found = [
        ("one process, default options", load(dict(state), False)),
        ("one process, full_state_dict", load(dict(state), False, full_state_dict=True)),
        ("FSDP2, full_state_dict", load(after, True, full_state_dict=True)),
        ("FSDP2, the same, strict=False", load(dict(state), True, full_state_dict=True, strict=False)),
        ("FSDP2, broadcast_from_rank0", load(dict(state) if rank == 0 else {}, True,
                                             full_state_dict=True, broadcast_from_rank0=True)),
        ("names in the state dict", str(sorted(state))),
        ("names in it after the call", str(sorted(after))),
    ]
    if rank == 0:
        torch.save(found, f"{directory}/found")
    dist.destroy_process_group()


if __name__ == "__main__":
    refused = 'RuntimeError, Missing key(s) in state_dict: "0.weight".'
    hidden, changed = "<All keys matched successfully>, layer 0 loaded: False", False
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.spawn(rank_main, args=(directory,), nprocs=2)
        for (what, found), expected in zip(torch.load(f"{directory}/found"),
                                           (refused, hidden, hidden, hidden, refused,
                                            "['1.weight']", "['0.weight', '1.weight']")):
            changed |= found != expected
            print(f"{what:33} {found}" + ("" if found == expected else f"  CHANGED, was {expected}"))
    sys.exit(changed)
END
venv/bin/python show.py 2>errors && exit 0
cat errors >&2
exit 1
