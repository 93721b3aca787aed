#!/bin/sh
# SPDX-License-Identifier: MIT
#
# torch 2.13.0, torchao 0.18.0: dcp.async_save() of a model that trains with float8
# (enable_fsdp_float8_all_gather) stores other bytes than the weights, without an error.
# dcp.save() of the same state dict is right.
#
# Such a weight is a wrapper: a tensor subclass without memory of its own, which holds the
# float32 weight in an attribute. async_save() first copies the state dict. From the wrapper it
# makes a plain tensor of the right shape and dtype, whose bytes are those of some memory. These
# go to disk, dcp.load() reads them back, and nothing fails. The same with FSDP2, in one process
# and in two; on CPUs, GPUs were not tried.
#
# Cost: the checkpoint has its biases, norms and optimizer state, and no weights of linear
# layers. It is noticed when a job resumes.
# Remedy: dcp.save(), or give async_save() the tensors in the wrappers.
#
# Output seen:
#	without FSDP, save         equal
#	without FSDP, async_save   weight differs, bias equal
#	FSDP2, save                equal
#	FSDP2, async_save          weight differs, bias equal
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q torch==2.13.0 numpy==2.4.6 torchao==0.18.0 >&2 || exit 2

cat >show.py <<'END'
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import fully_shard
from torchao.float8 import Float8LinearConfig, convert_to_float8_training

WANT = {"save": "equal", "async_save": "weight differs, bias equal"}


def compared(got, want):
    if all(torch.equal(got[key], want[key]) for key in want):
        return "equal"
    return ", ".join(f"{key[2:]} {'equal' if torch.equal(got[key], want[key]) else 'differs'}" for key in sorted(want)[::-1])


if __name__ == "__main__":
    changed = False
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    for name in "without FSDP", "FSDP2":
        model = torch.nn.Sequential(torch.nn.Linear(32, 16))
        want = {key: value.detach().clone() for key, value in model.state_dict().items()}
        convert_to_float8_training(model, config=Float8LinearConfig(enable_fsdp_float8_all_gather=True, emulate=True))
        if name == "FSDP2":
            fully_shard(model, mesh=dist.init_device_mesh("cpu", (1,)))
        for how in "save", "async_save":
            path = f"{name}-{how}"
            saving = getattr(dcp, how)(model.state_dict(), checkpoint_id=path)
            if how == "async_save":
                saving.result()
            got = {key: torch.zeros_like(value) for key, value in want.items()}
            dcp.load(got, checkpoint_id=path)
            result = compared(got, want)
            changed |= result != WANT[how]
            print(f"{name + ', ' + how:26} {result}" + ("" if result == WANT[how] else "  CHANGED"))
    sys.exit(changed)
END
venv/bin/python show.py 2>errors && exit 0
cat errors >&2
exit 1
