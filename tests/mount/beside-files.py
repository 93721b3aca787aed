#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fills a directory with the state of a training job as Trainer saves it beside a model, without torch.

    beside-files.py DIRECTORY

The job's arguments are an object of a class that calls `touch DIRECTORY.canary` if something unpickles it.
"""
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "damage"))
import source as s                                                      # noqa: E402


class Touch:
    def __reduce__(self):
        return os.system, (f"touch {sys.argv[1]}.canary",)


def file(value, **storages):
    rows = [("data.pkl", s.dumps(value)), ("byteorder", b"little")]
    return s.archive(rows + [(f"data/{key}", s.values(key)) for key in storages] + [("version", b"3\n")], "archive/")


def main():
    home = pathlib.Path(sys.argv[1])
    moments = {"step": 7, "exp_avg": s.Tensor((4, 3), key="a"), "exp_avg_sq": s.Tensor((2, 3), key="b")}
    state = {"state": {0: moments}, "param_groups": [{"lr": 0.5, "params": [0]}]}
    (home / "optimizer.pt").write_bytes(file(state, a=1, b=1))
    (home / "scheduler.pt").write_bytes(file({"last_epoch": 3}))
    for rank in range(2):
        (home / f"rng_state_{rank}.pth").write_bytes(file({"cpu": s.Tensor((3,), key="c")}, c=1))
    (home / "training_args.bin").write_bytes(file({"args": Touch()}))


if __name__ == "__main__":
    main()
