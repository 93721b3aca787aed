#!/bin/sh
# SPDX-License-Identifier: MIT
#
# schedulefree 1.4.1 with PyTorch 2.13.0: get_state_dict(), dcp.load() and set_state_dict() restore
# the step count of a Schedule-Free optimizer, but not its tensors `z` and `exp_avg_sq`, although
# the checkpoint has them. There is no error and no warning.
#
# dcp.load() loads only the names that the given state dict has. So that a new optimizer has names,
# _init_optim_state() of torch/distributed/checkpoint/state_dict.py makes a step with gradients of
# zero, but only if `optimizer.state` is empty. Schedule-Free's train() reads state[p] of each
# parameter; `state` is a defaultdict, and gains an empty entry. So there is no such step, and the
# state dict has no tensors. Without train() the same step raises an exception, which demands it.
#
# Cost: training goes on with `z` equal to the weight and an average of squares that begins at
# zero, but with the step count of the checkpoint, for which AdamWScheduleFree corrects the average.
# In this example the first update of `z` is 19 times too large. SGDScheduleFree and
# RAdamScheduleFree lose their tensors in the same way.
# Known: https://github.com/pytorch/pytorch/issues/192202, open, for optimizers that have the state
# of some parameters only. Of Schedule-Free no issue was found.
# Remedy: optimizer.state.clear() after train() and before get_state_dict().
#
# ckptfs shows `z` and `exp_avg_sq` of the checkpoint.
#
# Output seen (one weight, saved after 20 steps):
#	                       steps  z        exp_avg_sq  next update of z  weight after it
#	without interruption   20     -0.3135  0.0261      -0.0242           0.1111
#	dcp.load()             20     absent   absent      -0.4560           0.0708
#	the same, with clear() 20     -0.3135  0.0261      -0.0242           0.1111
#	torch.save()           20     -0.3135  0.0261      -0.0242           0.1111
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q torch==2.13.0 schedulefree==1.4.1 \
	numpy==2.4.6 >&2 || exit 2

cat >show.py <<'END'
import sys

import torch
import torch.distributed.checkpoint as dcp
from schedulefree import AdamWScheduleFree
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

changed = False


def show(what, model, optimizer, *expected):
    """Prints the optimizer's state, and what one more step does."""
    global changed
    state, weight = optimizer.state[model.weight], model.weight.item()
    before = state["z"].item() if "z" in state else weight
    found = (str(optimizer.param_groups[0]["k"]),
             *(f"{state[name].item():.4f}" if name in state else "absent"
               for name in ("z", "exp_avg_sq")))
    step(model, optimizer)
    found += (f"{state['z'].item() - before:.4f}", f"{model.weight.item():.4f}")
    changed |= found != expected
    print(f"{what:22} {found[0]:6} {found[1]:8} {found[2]:11} {found[3]:17} {found[4]}"
          + ("" if found == expected else f"  CHANGED, was {expected}"))


def new():
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    optimizer = AdamWScheduleFree(model.parameters(), lr=0.1)
    optimizer.train()
    return model, optimizer


def step(model, optimizer):
    model(torch.ones(1, 1)).pow(2).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def states(model, optimizer):
    return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))


def load(model, optimizer):
    state = states(model, optimizer)
    dcp.load(state, checkpoint_id="checkpoint")
    set_state_dict(model, optimizer, model_state_dict=state["model"],
                   optim_state_dict=state["optimizer"])
    return model, optimizer


trained = new()
for _ in range(20):
    step(*trained)
dcp.save(states(*trained), checkpoint_id="checkpoint")
torch.save([part.state_dict() for part in trained], "file")

right = ("20", "-0.3135", "0.0261", "-0.0242", "0.1111")
print(f"{'':22} {'steps':6} {'z':8} {'exp_avg_sq':11} {'next update of z':17} weight after it")
show("without interruption", *trained, *right)
show("dcp.load()", *load(*new()), "20", "absent", "absent", "-0.4560", "0.0708")
model, optimizer = new()
optimizer.state.clear()
show("the same, with clear()", *load(model, optimizer), *right)
resumed = new()
for part, state in zip(resumed, torch.load("file")):
    part.load_state_dict(state)
show("torch.save()", *resumed, *right)
sys.exit(changed)
END
venv/bin/python show.py 2>errors && exit 0
cat errors >&2
exit 1
