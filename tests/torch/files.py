#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch and safetensors read the files of a checkpoint in files/ of its mount, and a copy that `cp -a` made of it.

    files.py CKPTFS

Each tensor and object must equal that of the source. The result is TAP.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import live                                                             # also finds the modules of tests/fixtures
import interop
from tap import Tap

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
DCP = ("sample", "nested", "fsdp2", "zstd")


def loaded_dcp(path):
    from torch.distributed.checkpoint import FileSystemReader
    from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
    from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
    state = {}
    _load_state_dict(state, FileSystemReader(path), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return state


def loaded_safetensors(path):
    """Through shared mappings."""
    from safetensors import safe_open
    state = {}
    for file in sorted(pathlib.Path(path).glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            state.update({name: opened.get_tensor(name) for name in opened.keys()})
    return state


def loaded_torch(path):
    import torch
    return {file.name: torch.load(file, weights_only=True, mmap=mapped)
            for mapped in (False, True) for file in sorted(pathlib.Path(path).glob("*.bin"))}


def flat(value, name=""):
    """Each leaf by its path; tensors as dtype, shape and bytes."""
    import torch
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in flat(item, f"{name}/{key}").items()}
    if isinstance(value, (list, tuple)):
        return {k: v for at, item in enumerate(value) for k, v in flat(item, f"{name}/{at}").items()}
    if isinstance(value, torch.Tensor):
        return {name: (value.dtype, tuple(value.shape),
                       value.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes() if value.numel() else b"")}
    return {name: repr(value)}


def compare(tap, options, home, load, name):
    """Returns the number of leaves."""
    source = home / name
    shutil.copytree(FIXTURES / name, source)
    want = flat(load(source))
    with interop.Mount(options.ckptfs, str(source)) as mnt:
        shown = pathlib.Path(os.fsdecode(mnt)) / "files"
        tap.check(flat(load(shown)) == want, f"{name}: loaded from files/")
        subprocess.run(["cp", "-a", f"{shown}/.", home / f"{name}-copy"], check=True)
    tap.check(flat(load(home / f"{name}-copy")) == want, f"{name}: loaded from a copy of files/")
    return len(want)


def main():
    options = live.arguments(__doc__)
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="files-") as home:
        home = pathlib.Path(home)
        leaves = sum(compare(tap, options, home, loaded_dcp, name) for name in DCP)
        leaves += compare(tap, options, home, loaded_safetensors, "hub_shards")
        leaves += compare(tap, options, home, loaded_torch, "files_pieces")
        tap.check(leaves > 100, f"canary: {leaves} tensors and objects were compared")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
