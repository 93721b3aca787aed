#!/bin/sh
# SPDX-License-Identifier: MIT
#
# PyTorch 2.13.0: HuggingFaceStorageWriter(enable_consolidation=True) writes 0 for each tensor
# without dimensions. dcp.save() returns without an error or a warning.
#
# The consolidation reserves the bytes of the tensor and copies the parts of its shards into
# them, but returns before the copy if the shape is empty. `sharded/` beside the consolidated
# file has the right value, and so has a save without consolidation.
#
# Cost: `logit_scale` of CLIP and SigLIP has no dimensions; it becomes 0. The model loads, and
# its similarities are divided by 14.3. Integers without dimensions, such as counters of batches,
# are not affected: the consolidation refuses all integers with a TypeError.
# Known: no issue was found.
# Remedy: copy the scalars from `sharded/` before it is deleted, or give them one dimension,
# or save with save_pretrained().
#
# ckptfs shows the bytes of the file that it is given: 0 in the consolidated directory, with a
# warning of `ckptfs check` if `sharded/` is there, and the right value in a mount of `sharded/`.
# hf/ of a DCP checkpoint has the right value.
#
# Output seen:
#	logit_scale of the model      2.6592
#	written by dcp.save()         0.0000
#	sharded/                      2.6592
#	a tensor of one element       2.6592
#	without consolidation         2.6592
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q torch==2.13.0 safetensors==0.8.0 \
	transformers==5.24.0 numpy==2.4.6 >&2 || exit 2

cat >show.py <<'END'
import glob
import sys

import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from transformers import CLIPConfig, CLIPModel

changed = False


def show(what, tensor, expected):
    global changed
    found = f"{tensor.item():.4f}"
    changed |= found != expected
    print(f"{what:29} {found}" + ("" if found == expected else f"  CHANGED, was {expected}"))


def save(state, folder, **options):
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(folder, **options))


def loaded(folder):
    path, = glob.glob(f"{folder}/*.safetensors")
    return load_file(path)


small = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
         "num_attention_heads": 2}
model = CLIPModel(CLIPConfig(text_config={"vocab_size": 8, **small}, projection_dim=4,
                             vision_config={"image_size": 4, "patch_size": 2, **small}))
state = {name: tensor for name, tensor in model.state_dict().items() if tensor.is_floating_point()}
state["of one element"] = state["logit_scale"].reshape(1).clone()
show("logit_scale of the model", state["logit_scale"], "2.6592")
save(state, "hf", save_distributed=True, enable_consolidation=True)
show("written by dcp.save()", loaded("hf")["logit_scale"], "0.0000")
show("sharded/", loaded("hf/sharded")["logit_scale"], "2.6592")
show("a tensor of one element", loaded("hf")["of one element"], "2.6592")
save(state, "plain")
show("without consolidation", loaded("plain")["logit_scale"], "2.6592")
sys.exit(changed)
END
venv/bin/python show.py 2>errors && exit 0
cat errors >&2
exit 1
