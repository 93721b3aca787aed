# SPDX-License-Identifier: MIT
"""PyTorch's own ways to load a checkpoint, for every checkpoint that ckptfs.open() takes.

    import ckptfs
    import torch.distributed.checkpoint as dcp

    dcp.load(state, storage_reader=ckptfs.torch.StorageReader("step-1000"))
    state = ckptfs.torch.load("step-1000")      # nested, as torch.load of one file

Nothing in a checkpoint is executed: entries that are no tensors are loaded by the rules of
torch.load(weights_only=True), which torch.serialization.add_safe_globals() extends.
"""
from __future__ import annotations

from ._nested import load
from ._reader import StorageReader

__all__ = ["StorageReader", "load"]
