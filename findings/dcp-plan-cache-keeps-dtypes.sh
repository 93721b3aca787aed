#!/bin/sh
# SPDX-License-Identifier: MIT
#
# PyTorch 2.13.0: with DefaultSavePlanner(enable_plan_caching=True), a second save of the same
# names and shapes in other dtypes writes the dtypes of the first save into `.metadata`. The data
# files have the new dtypes. dcp.save() and dcp.load() return without an error or a warning.
#
# The planner reuses the plan and the metadata of the last save if the new plan equals the last.
# _compare_save_plans() of torch/distributed/checkpoint/planner_helpers.py compares names, offsets
# and sizes, but not dtypes. The cache belongs to the class: another planner and another directory
# share it.
#
# Cost: dcp_to_torch_save(), and each loader that allocates tensors by `.metadata`, converts the
# values. A job that saves a bfloat16 copy of its weights first, and then the float32 weights, gets
# a converted checkpoint of bfloat16 weights, and a counter of 257 becomes 256. dcp.load() into
# tensors of the right dtype has the right values.
# Known: no issue was found.
# Remedy: set planner._cached_plans_key to a string of its own for each kind of save, or use no
# caching. To convert such a checkpoint, use dcp.load() into tensors of the right dtype.
#
# ckptfs shows the dtype of `.metadata`, and a read of such a tensor is EIO. `ckptfs check` says
# "its item has another dtype".
#
# Output seen (each save by a planner of its own, into a directory of its own):
#	                          .metadata, w    w converted         count converted
#	bfloat16, saved first     torch.bfloat16  [1.0, 2.703125]     256.0
#	float32 and int64, second torch.bfloat16  [1.0, 2.703125]     256.0
#	the same, no caching      torch.float32   [1.0, 2.7000000477] 257
#	second, by dcp.load()     -               [1.0, 2.7000000477] 257
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q torch==2.13.0 numpy==2.4.6 >&2 || exit 2

cat >show.py <<'END'
import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

warnings.simplefilter("ignore")
changed = False


def show(what, dtype, state, *expected):
    global changed
    values = [round(value, 10) for value in state["w"].tolist()]
    found = (str(dtype), str(values), str(state["count"].item()))
    changed |= found != expected
    print(f"{what:25} {found[0]:15} {found[1]:19} {found[2]}"
          + ("" if found == expected else f"  CHANGED, was {expected}"))


def save(state, folder, caching=True):
    planner = dcp.DefaultSavePlanner(enable_plan_caching=caching)
    dcp.save(state, checkpoint_id=folder, planner=planner)


def converted(folder):
    """Returns the dtype of `w` in the metadata, and the state dict that PyTorch's converter makes."""
    metadata = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    dcp_to_torch_save(folder, f"{folder}.pt")
    return metadata["w"].properties.dtype, torch.load(f"{folder}.pt")


print(f"{'':25} {'.metadata, w':15} {'w converted':19} count converted")
state = {"w": torch.tensor([1.0, 2.7]), "count": torch.tensor(257)}
save({name: tensor.bfloat16() for name, tensor in state.items()}, "first")
show("bfloat16, saved first", *converted("first"), "torch.bfloat16", "[1.0, 2.703125]", "256.0")
save(state, "second")
show("float32 and int64, second", *converted("second"), "torch.bfloat16", "[1.0, 2.703125]", "256.0")
save(state, "third", caching=False)
show("the same, no caching", *converted("third"), "torch.float32", "[1.0, 2.7000000477]", "257")
loaded = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
dcp.load(loaded, checkpoint_id="second")
show("second, by dcp.load()", "-", loaded, "-", "[1.0, 2.7000000477]", "257")
sys.exit(changed)
END
venv/bin/python show.py 2>errors && exit 0
cat errors >&2
exit 1
