#!/bin/sh
# SPDX-License-Identifier: MIT
#
# PyTorch 2.13.0: HuggingFaceStorageWriter writes an unreadable model file if the state dict has
# a value that is not a tensor, such as a step number. dcp.save() returns without an error.
#
# The writer puts the value, as an archive of torch.save(), at the beginning of the file, and
# the safetensors header and data behind it. A safetensors file begins with the size of its
# header: safetensors 0.8.0 refuses the file, and with it HuggingFaceStorageReader.
#
# Cost: a job that saves {"model": ..., "step": 3} in this format cannot load it again. The
# tensors are in the file, but no loader finds them.
# Known: no issue was found.
# Remedy: save tensors only; a number as torch.tensor([3]). Load each file after saving.
#
# ckptfs refuses such a file, too: "begins with an archive of torch.save, not with the size of a
# header".
#
# Output seen:
#	tensors only             loaded [1.0, 2.0], first bytes b'\xa8\x00'
#	with a step number       SafetensorError, first bytes b'PK'
#	dcp.load                 CheckpointException
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q torch==2.13.0 safetensors==0.8.0 numpy==2.4.6 >&2 || exit 2

cat >show.py <<'END'
import glob
import sys

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file

changed = False


def show(what, found, expected):
    global changed
    changed |= found != expected
    print(f"{what:24} {found}" + ("" if found == expected else f"  CHANGED, was {expected}"))


def saved(state, folder):
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(folder))
    path, = glob.glob(f"{folder}/*.safetensors")
    try:
        found = f"loaded {load_file(path)['w'].tolist()}"
    except Exception as error:
        found = type(error).__name__
    with open(path, "rb") as file:
        return f"{found}, first bytes {file.read(2)}"


weights = {"w": torch.tensor([1., 2.])}
show("tensors only", saved(weights, "tensors"), "loaded [1.0, 2.0], first bytes b'\\xa8\\x00'")
show("with a step number", saved({**weights, "step": 3}, "mixed"),
     "SafetensorError, first bytes b'PK'")
try:
    dcp.load({"w": torch.zeros(2)}, storage_reader=dcp.HuggingFaceStorageReader("mixed"))
    found = "no error"
except dcp.CheckpointException as error:
    found = type(error).__name__
except Exception as error:
    found = type(error).__name__
show("dcp.load", found, "CheckpointException")
sys.exit(changed)
END
venv/bin/python show.py 2>errors && exit 0
cat errors >&2
exit 1
