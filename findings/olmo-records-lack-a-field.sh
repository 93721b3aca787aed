#!/bin/sh
# SPDX-License-Identifier: MIT
#
# OLMo-core 3.0.0 with PyTorch 2.13.0: dcp.load() and dcp_to_torch_save() cannot load a
# checkpoint that OLMo-core saved.
#
# OLMo-core writes data files and a .metadata in the format of torch.distributed.checkpoint,
# but the storage records in it are objects of a class of its own, a copy of PyTorch's
# _StorageInfo without the newer field `transform_descriptors`. PyTorch's reader takes that
# field of each record.
#
# Cost: PyTorch's converters and loaders fail with an AttributeError, also where OLMo-core is
# installed (without it .metadata cannot be unpickled). The checkpoint itself has no fault.
# Known: no issue was found.
# Remedy: storage_reader=RemoteFileSystemReader(directory) of
# olmo_core.distributed.checkpoint.filesystem, or give the class the field:
# _StorageInfo.transform_descriptors = None.
#
# Output seen:
#	load_state_dict of OLMo-core  [0.0, 1.0, 2.0]
#	dcp.load                      AttributeError
#	dcp_to_torch_save             AttributeError
#	dcp.load, with the field      [0.0, 1.0, 2.0]
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q torch==2.13.0 ai2-olmo-core==3.0.0 >&2 || exit 2

cat >show.py <<'END'
import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp
from olmo_core.distributed.checkpoint import filesystem, load_state_dict, save_state_dict
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

warnings.simplefilter("ignore")
changed = False


def show(what, load, expected):
    """load(state) fills state["x"]."""
    global changed
    state = {"x": torch.zeros(3)}
    try:
        load(state)
        found = str(state["x"].tolist())
    except CheckpointException as error:
        found = type(error.failures[0][0]).__name__
    except Exception as error:
        found = type(error).__name__
    changed |= found != expected
    print(f"{what:29} {found}" + ("" if found == expected else f"  CHANGED, was {expected}"))


right, failure = "[0.0, 1.0, 2.0]", "AttributeError"
save_state_dict("saved", {"x": torch.arange(3.)})
show("load_state_dict of OLMo-core", lambda state: load_state_dict("saved", state), right)
show("dcp.load", lambda state: dcp.load(state, checkpoint_id="saved"), failure)
show("dcp_to_torch_save", lambda _: dcp_to_torch_save("saved", "saved.pt"), failure)
filesystem._StorageInfo.transform_descriptors = None
show("dcp.load, with the field", lambda state: dcp.load(state, checkpoint_id="saved"), right)
sys.exit(changed)
END
venv/bin/python show.py 2>errors && exit 0
cat errors >&2
exit 1
