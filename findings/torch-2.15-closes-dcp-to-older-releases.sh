#!/bin/sh
# SPDX-License-Identifier: MIT
#
# PyTorch 2.15.0: 2.14.1 and earlier releases cannot read a checkpoint that its dcp.save() wrote,
# not even one of plain contiguous tensors. The message does not name a release.
#
# `.metadata` has a TensorProperties for each tensor. 2.15 pickles six values of it, the last one
# is the tensor's strides; the older __setstate__() unpacks exactly five. 2.15 itself reads five
# or six. The older dcp.load() takes any error of `.metadata` for a checkpoint without one, and
# also reports that `__0.metadata` is missing, as if the checkpoint were incomplete. The
# ShardedTensors of FSDP1 have the same six values, also in files of torch.save().
#
# Cost: after an update of the trainer, evaluations and exports with an older PyTorch fail, and
# the job itself cannot go back to the release before.
# Known: the change is https://github.com/pytorch/pytorch/pull/194251, which is about reading
# older checkpoints. No issue about older readers was found.
# Remedy: in the older release replace TensorProperties.__setstate__ by one that passes the first
# five values on, or save by torch.save() or safetensors.
#
# ckptfs reads both.
#
# Output seen:
#	2.14.1 saves, 2.15.0 loads    weight 11.0, step 7
#	2.15.0 saves, 2.15.0 loads    weight 11.0, step 7
#	2.15.0 saves, 2.14.1 loads    metadata is None; global metadata read failed: too many values to
#	                              unpack (expected 5)
#	dcp_to_torch_save of 2.14.1   the same
#	with the remedy               weight 11.0, step 7
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for release in 2.14.1 2.15.0; do
	python3 -m venv $release && $release/bin/pip install -q torch==$release numpy==2.4.6 >&2 || exit 2
done

cat >job.py <<'END'
"""job.py save|load|convert|remedy DIRECTORY: the last line of the output is the result."""
import sys

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.metadata import TensorProperties

what, directory = sys.argv[1:]
if what == "save":
    dcp.save({"weight": torch.arange(12.).view(3, 4), "step": 7}, checkpoint_id=directory)
    sys.exit()
if what == "remedy":
    five = TensorProperties.__setstate__
    TensorProperties.__setstate__ = lambda self, state: five(self, state[:5])
state = {"weight": torch.zeros(3, 4), "step": 0}
try:
    if what == "convert":
        dcp_to_torch_save(directory, "whole.pt")
        state = torch.load("whole.pt")
    else:
        dcp.load(state, checkpoint_id=directory)
    print(f"weight {state['weight'][2, 3]}, step {state['step']}")
except CheckpointException as errors:
    print(f"{errors.failures[0][0]}".partition("; rank local metadata")[0])
END

changed=0
# show WHAT EXPECTED RELEASE STEP DIRECTORY
show() {
	found=$("$3/bin/python" job.py "$4" "$5" 2>>errors | tail -n 1)
	if [ "$found" = "$2" ]; then
		printf '%-29s %s\n' "$1" "$found"
	else
		printf '%-29s %s  CHANGED, was %s\n' "$1" "$found" "$2"
		changed=1
	fi
}
right='weight 11.0, step 7'
refused='metadata is None; global metadata read failed: too many values to unpack (expected 5)'
for saver in 2.14.1 2.15.0; do
	"$saver/bin/python" job.py save "of-$saver" 2>>errors
	show "$saver saves, 2.15.0 loads" "$right" 2.15.0 load "of-$saver"
done
show '2.15.0 saves, 2.14.1 loads' "$refused" 2.14.1 load of-2.15.0
show 'dcp_to_torch_save of 2.14.1' "$refused" 2.14.1 convert of-2.15.0
show 'with the remedy' "$right" 2.14.1 remedy of-2.15.0
[ $changed = 0 ] || cat errors >&2
exit $changed
