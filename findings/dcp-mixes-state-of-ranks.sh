#!/bin/sh
# SPDX-License-Identifier: MIT
#
# PyTorch 2.13.0: a state dict for torch.distributed.checkpoint.save() has values that are not
# DTensors and differ from rank to rank, such as the states of random number generators or the
# position of a data loader. The checkpoint keeps one value of each key, without a warning, and the
# values of different keys are of different ranks. After dcp.load() every rank has the CPU generator
# of one rank, the CUDA generator of another, and the position of a third: a state that no rank had.
#
# dedup_save_plans() (torch/distributed/checkpoint/_dedup_save_plans.py) gives each value that
# several ranks have to the rank with the fewest bytes so far. Which rank that is depends on the
# sizes of the keys before it, so another number of ranks, or one more key, changes the mixture.
#
# Cost: all ranks resume with the same random numbers and the same part of the data; the state of
# one rank cannot be put together from the checkpoint, since it was not saved.
# Known: https://github.com/pytorch/pytorch/issues/146566, open, and 120356, closed, ask for tensors
# that differ between ranks. That the kept values are of different ranks is in no issue that was
# found.
# Remedy: put the number of the rank into the keys of such values; or
# DefaultSavePlanner(dedup_save_to_lowest_rank=True), which keeps all values of rank 0.
#
# ckptfs shows the value that the checkpoint has; `ckptfs inspect --chunks` names its file, and so
# the rank that saved it.
#
# Output seen, where each value is the number of the rank that had it:
#	ranks  planner         cpu_rng  cuda_rng  position  epoch
#	2      default         0        1         1         1
#	4      default         0        1         2         3
#	4      to lowest rank  0        0         0         0
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q torch==2.13.0 numpy==2.4.6 >&2 || exit 2

cat >show.py <<'END'
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp

KEYS = "cpu_rng", "cuda_rng", "position", "epoch"


def state_of(value):
    """A generator of the CPU has 5,056 bytes, one of CUDA 16."""
    return {"cpu_rng": torch.full((5056,), value, dtype=torch.uint8), "cuda_rng": torch.full((16,), value, dtype=torch.uint8),
            "position": torch.tensor(value), "epoch": value}


def work(rank, size, path, lowest):
    dist.init_process_group("gloo", init_method=f"file://{path}.ranks", rank=rank, world_size=size)
    dcp.save(state_of(rank), checkpoint_id=path, planner=dcp.DefaultSavePlanner(dedup_save_to_lowest_rank=lowest))
    state = state_of(99)
    dcp.load(state, checkpoint_id=path)
    torch.save([int(torch.as_tensor(state[key]).flatten()[0]) for key in KEYS], f"{path}.of-{rank}")
    dist.destroy_process_group()


def main():
    changed = False
    print("ranks  planner         " + "  ".join(KEYS))
    for size, lowest, expected in (2, False, [0, 1, 1, 1]), (4, False, [0, 1, 2, 3]), (4, True, [0, 0, 0, 0]):
        path = f"{sys.argv[1]}/checkpoint-{size}-{lowest}"
        mp.spawn(work, args=(size, path, lowest), nprocs=size)
        found = [torch.load(f"{path}.of-{rank}") for rank in range(size)]
        same = found == [expected] * size
        cells = [f"{size:<5}", f"{'to lowest rank' if lowest else 'default':14}",
                 *(f"{value:<{len(key)}}" for key, value in zip(KEYS, found[0]))]
        print("  ".join(cells).rstrip()
              + ("" if same else f"  CHANGED, was {expected} on each rank, is {found}"))
        changed |= not same
    sys.exit(changed)


if __name__ == "__main__":
    main()
END
venv/bin/python show.py "$work" 2>errors && exit 0
cat errors >&2
exit 1
