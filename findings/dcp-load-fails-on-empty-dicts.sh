#!/bin/sh
# SPDX-License-Identifier: MIT
#
# PyTorch 2.13.0: torch.distributed.checkpoint.save() accepts a list in which an empty dict stands
# before another item. dcp.load() into a state dict of the same form then fails, and so does
# dcp_to_torch_save(). Such a job saves checkpoints, but cannot resume from them. An empty dict at
# the end of a list can be loaded, but the converter makes the list shorter.
#
# save() flattens a state dict to one entry for each leaf; an empty dict has no leaf. Before
# dcp.load() flattens the state dict that it is given, _flatten_sharded_tensors() copies it leaf by
# leaf, and set_element() (torch/distributed/checkpoint/_traverse.py) fills the gap in the list
# with None. None is a leaf, so the load expects an entry for it. The converter builds its lists in
# the same way.
#
# Cost: lists of this form are the states of several optimizers of which one has no state (SGD), or
# of data loader workers of which one has not begun.
# Known: https://github.com/pytorch/pytorch/issues/137327, open, for lists that grow between save()
# and load(). Of empty dicts no issue was found.
# Remedy: DefaultLoadPlanner(flatten_sharded_tensors=False) for state dicts of DTensors and plain
# tensors; or allow_partial_load=True, which hides keys that are really missing.
#
# ckptfs shows None for an empty dict before another item in torch/checkpoint.pt.
#
# Output seen:
#	saved                 dcp.load              not flattened         dcp_to_torch_save
#	[{'a': 1}, {}]        [{'a': 1}, {}]        [{'a': 1}, {}]        [{'a': 1}]
#	[{}, {'a': 1}]        Missing key: l.0.     [{}, {'a': 1}]        Missing key: l.0.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q torch==2.13.0 numpy==2.4.6 >&2 || exit 2

cat >show.py <<'END'
import sys

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save


def reason(error):
    return "Missing key: " + str(error.failures[0][0]).rpartition(": ")[2]


def loaded(path, saved, **settings):
    """The list after dcp.load() into a list of the same form."""
    state = {"l": [dict.fromkeys(item, 0) for item in saved], "w": torch.zeros(2)}
    try:
        dcp.load(state, checkpoint_id=path, planner=dcp.DefaultLoadPlanner(**settings))
        return repr(state["l"])
    except dcp.api.CheckpointException as error:
        return reason(error)


def converted(path):
    try:
        dcp_to_torch_save(path, "converted")
        return repr(torch.load("converted")["l"])
    except dcp.api.CheckpointException as error:
        return reason(error)


CASES = (([{"a": 1}, {}], ("[{'a': 1}, {}]", "[{'a': 1}, {}]", "[{'a': 1}]")),
         ([{}, {"a": 1}], ("Missing key: l.0.", "[{}, {'a': 1}]", "Missing key: l.0.")))
changed = False
print(f"{'saved':21} {'dcp.load':21} {'not flattened':21} dcp_to_torch_save")
for number, (saved, expected) in enumerate(CASES):
    path = f"checkpoint-{number}"
    dcp.save({"l": saved, "w": torch.ones(2)}, checkpoint_id=path)
    found = loaded(path, saved), loaded(path, saved, flatten_sharded_tensors=False), converted(path)
    print(f"{saved!r:21} {found[0]:21} {found[1]:21} {found[2]}"
          + ("" if found == expected else f"  CHANGED, was {expected}"))
    changed |= found != expected
sys.exit(changed)
END
venv/bin/python show.py 2>errors && exit 0
cat errors >&2
exit 1
