#!/bin/sh
# SPDX-License-Identifier: MIT
#
# PyTorch 2.13.0: after two saves of HuggingFaceStorageWriter into one directory,
# HuggingFaceStorageReader can load the first one, without an error or a warning.
#
# The writer names files `model-NUMBER-of-COUNT.safetensors`, and writes an index of them. It
# removes no files of an earlier save. If the second save has another COUNT, both sets of files
# are there. The reader ignores the index: it takes all `*.safetensors` of the directory, and of
# each tensor the file that sorts last. transformers reads the index, and so the second save.
#
# Cost: a job that saves in more files at first, and in fewer later, resumes from the old
# weights by dcp.load(), while an evaluation with transformers has the new ones.
# Known: no issue was found.
# Remedy: remove `*.safetensors` before saving, or save each step into a new directory.
#
# ckptfs follows the index: its mount has the second save, and `status` lists the files that are
# not shown.
#
# Output seen (first save: all weights 1, two files; second save: all weights 2, one file):
#	files                    model-00001-of-00001.safetensors,
#	                         model-00001-of-00002.safetensors, model-00002-of-00002.safetensors
#	index                    model-00001-of-00001.safetensors
#	dcp.load                 weights 1.0
#	from_pretrained          weights 2.0
#	dcp.load, old files gone weights 2.0
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q torch==2.13.0 safetensors==0.8.0 \
	transformers==5.24.0 numpy==2.4.6 >&2 || exit 2

cat >show.py <<'END'
import glob
import json
import os
import pathlib
import sys

import torch
import torch.distributed.checkpoint as dcp
from transformers import LlamaConfig, LlamaForCausalLM

changed = False


def show(what, found, expected):
    global changed
    changed |= found != expected
    print(f"{what:24} {found}" + ("" if found == expected else f"  CHANGED, was {expected}"))


def save(model, value, mapping=None):
    """All weights are `value`. mapping: name -> number of the file."""
    for parameter in model.parameters():
        parameter.data.fill_(value)
    dcp.save(model.state_dict(),
             storage_writer=dcp.HuggingFaceStorageWriter("hf", fqn_to_index_mapping=mapping))


def weights(tensors):
    return "weights " + ", ".join(map(str, sorted({tensor.max().item() for tensor in tensors})))


def loaded(model):
    state = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}
    dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader("hf"))
    return weights(state.values())


config = LlamaConfig(vocab_size=8, hidden_size=4, intermediate_size=4, num_hidden_layers=1,
                     num_attention_heads=1)
model = LlamaForCausalLM(config)
save(model, 1., {name: 1 + number % 2 for number, name in enumerate(model.state_dict())})
save(model, 2.)
config.save_pretrained("hf")
files = [f"model-{name}.safetensors" for name in
         ("00001-of-00001", "00001-of-00002", "00002-of-00002")]
index = json.loads(pathlib.Path("hf/model.safetensors.index.json").read_text())
show("files", ", ".join(sorted(glob.glob("*.safetensors", root_dir="hf"))), ", ".join(files))
show("index", ", ".join(sorted(set(index["weight_map"].values()))), files[0])
show("dcp.load", loaded(model), "weights 1.0")
show("from_pretrained", weights(LlamaForCausalLM.from_pretrained("hf").parameters()), "weights 2.0")
for name in files[1:]:
    os.remove(f"hf/{name}")
show("dcp.load, old files gone", loaded(model), "weights 2.0")
sys.exit(changed)
END
venv/bin/python show.py 2>errors && exit 0
cat errors >&2
exit 1
