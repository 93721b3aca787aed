# SPDX-License-Identifier: MIT
"""Tensors of sharded PyTorch checkpoints, read without a mount.

    import ckptfs

    ck = ckptfs.open("step-1000")            # a mapping of names to tensors
    w = ck["model.norm.weight"].torch()      # or .numpy(), or torch.from_dlpack(ck[...])
    rows = ck["model.output.weight"][10:20, ::2].numpy()     # reads only these elements
    model.load_state_dict(ck.state_dict(prefix="model."))
    lr = ck.objects["optim.param_groups.0.lr"]
    state = ckptfs.torch.load("step-1000")   # nested, as torch.load of one file
    dcp.load(state, storage_reader=ckptfs.torch.StorageReader("step-1000"))
    mine = ck.sharded(8, rank=3)             # tensors that rank 3 of 8 would hold; ck.local(3) has those it saved

Any checkpoint that ckptfs mounts can be opened: DCP, safetensors, torch.save, one file per rank,
torch_checkpointing. Nothing in a checkpoint is executed. The package needs the shared library
libckptfs.so.1, and NumPy, ml_dtypes or PyTorch only for the methods that return their arrays.

Shapes and offsets are in elements, sizes in bytes. All functions may be called by any thread. An
open checkpoint works in a child of fork(), and can be pickled: it is opened again then.

Errors: KeyError for a name that is not there; ckptfs.Error, an OSError, if the checkpoint cannot
be read. A damaged box fails only the reads that touch it.
"""
from __future__ import annotations

import os

from ._checkpoint import Checkpoint
from ._library import Error, version as _version
from ._mount import mount
from ._parts import Parts
from ._tensor import Tensor

__all__ = ["Checkpoint", "Error", "Parts", "Tensor", "mount", "open"]


def open(source: str | os.PathLike, options: str = "") -> Checkpoint:  # noqa: A001
    """Opens a checkpoint: a directory or file that can be mounted.

    options: as in `ckptfs mount -o`, such as "kind=dcp,rename=FILE"; a comma in a value is
    escaped by a backslash. Reads the metadata; damage of single tensors is no error.
    Raises ckptfs.Error: ENOENT if there is no checkpoint; EBADMSG if its metadata is malformed;
    EISDIR for a run directory, the message names its steps; EINVAL for a wrong option.
    """
    return Checkpoint(source, options)


def __getattr__(name: str):
    if name == "__version__":
        return _version()
    if name == "torch":
        import importlib
        return importlib.import_module(".torch", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
