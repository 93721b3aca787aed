#!/bin/sh
# SPDX-License-Identifier: MIT
#
# PyTorch 2.15.0: a job that saved each rank's FSDP2 state dict by torch.save() with 2.14.1 or
# earlier cannot resume. torch.load() succeeds, and load_state_dict() raises an AttributeError.
#
# A DTensor is pickled with its DeviceMesh. In 2.15 a mesh has a new attribute,
# `_preserve_rank_order`, which its comparison and its hash read. A mesh of an older file lacks
# it, because DeviceMesh.__setstate__() only restores the pickled attributes. The reverse works:
# 2.14.1 loads the files that 2.15.0 saved.
#
# Cost: after an update of PyTorch no job resumes from such files, which verl and many scripts
# write. full_tensor() and all other operations of the loaded tensors can fail in the same way.
# Known: the same happened with `_dim_group_names` between 2.7 and later releases,
# https://github.com/verl-project/verl/issues/4208, open. Of `_preserve_rank_order` no issue was
# found.
# Remedy: set DeviceMesh._preserve_rank_order = False before load_state_dict(), or take
# to_local() of each tensor, or save by dcp.save(), which stores no mesh.
#
# ckptfs takes the placements from the pickle, and shows files of both releases.
#
# Output seen:
#	2.14.1 saves, 2.14.1 loads    loaded
#	2.14.1 saves, 2.15.0 loads    'DeviceMesh' object has no attribute '_preserve_rank_order'
#	with the remedy               loaded
#	2.15.0 saves, 2.14.1 loads    loaded
#	2.15.0 saves, 2.15.0 loads    loaded
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for release in 2.14.1 2.15.0; do
	python3 -m venv $release && $release/bin/pip install -q torch==$release numpy==2.4.6 >&2 || exit 2
done

cat >job.py <<'END'
"""job.py save|load|remedy DIRECTORY: two ranks. The last line of the output is the result."""
import re
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard


def result(model, state):
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        return re.search(r"'DeviceMesh' object has no attribute '\w+'|$", f"{error}")[0] or f"{error}"
    return "loaded" if model.weight.full_tensor()[5, 3] == 23 else "other values"


def rank_main(rank, what, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/{what}", rank=rank, world_size=2)
    model = torch.nn.Linear(4, 6, bias=False)
    if what == "save":
        model.weight.data.copy_(torch.arange(24.).view(6, 4))
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    path = f"{directory}/rank_{rank}.pt"
    if what == "save":
        torch.save(model.state_dict(), path)
    else:
        state = torch.load(path, weights_only=False)
        if what == "remedy":
            DeviceMesh._preserve_rank_order = False
        text = result(model, state)
        if rank == 0:
            print(text)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(rank_main, args=sys.argv[1:], nprocs=2)
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
	rm -f "$5/$4"
}
missing="'DeviceMesh' object has no attribute '_preserve_rank_order'"
for saver in 2.14.1 2.15.0; do
	mkdir "of-$saver"
	"$saver/bin/python" job.py save "$work/of-$saver" 2>>errors
	for loader in 2.14.1 2.15.0; do
		expected=loaded
		[ "$saver $loader" != '2.14.1 2.15.0' ] || expected=$missing
		show "$saver saves, $loader loads" "$expected" "$loader" load "$work/of-$saver"
		[ "$expected" = loaded ] ||
			show 'with the remedy' loaded "$loader" remedy "$work/of-$saver"
	done
done
[ $changed = 0 ] || cat errors >&2
exit $changed
