#!/bin/sh
# SPDX-License-Identifier: MIT
#
# transformers 5.24.0: the state dict of a mixture-of-experts model has other names and shapes
# than the file that save_pretrained() writes of the same model. The file has three matrices
# for each expert, as on the hub. The model has two tensors for all experts: `down_proj`, and
# `gate_up_proj` of two matrices in one. Only from_pretrained() and save_pretrained() convert.
#
# Everything that uses state_dict() sees the fused form: FSDP, torch.distributed.checkpoint
# (DCP), torch.save. HuggingFaceStorageReader of PyTorch 2.13.0 therefore refuses the hub's file,
# and with allow_partial_load=True it loads all but the experts, without a warning.
# HuggingFaceStorageWriter writes the fused names; transformers 5 loads such a file.
#
# Cost: with a partial load a job trains with random experts. A DCP checkpoint that is converted
# to safetensors name by name is not the model in the hub's layout.
# Remedy: load with from_pretrained(), and export with save_pretrained(state_dict=...).
#
# Output seen:
#	only in save_pretrained()  0.down_proj.weight [16, 8]
#	only in save_pretrained()  0.gate_proj.weight [8, 16]
#	only in save_pretrained()  0.up_proj.weight [8, 16]
#	only in save_pretrained()  1.down_proj.weight [16, 8]
#	only in save_pretrained()  1.gate_proj.weight [8, 16]
#	only in save_pretrained()  1.up_proj.weight [8, 16]
#	only in state_dict()       down_proj [2, 16, 8]
#	only in state_dict()       gate_up_proj [2, 16, 16]
#	dcp.load of the file       Missing key in checkpoint state_dict
#	the same, partial          attention loaded: True, experts loaded: False
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q torch==2.13.0 transformers==5.24.0 \
	safetensors==0.8.0 numpy==2.4.6 >&2 || exit 2

cat >show.py <<'END'
import sys

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

LAYER = "model.layers.0."
EXPERTS = LAYER + "mlp.experts."
EXPECTED = """\
only in save_pretrained()  0.down_proj.weight [16, 8]
only in save_pretrained()  0.gate_proj.weight [8, 16]
only in save_pretrained()  0.up_proj.weight [8, 16]
only in save_pretrained()  1.down_proj.weight [16, 8]
only in save_pretrained()  1.gate_proj.weight [8, 16]
only in save_pretrained()  1.up_proj.weight [8, 16]
only in state_dict()       down_proj [2, 16, 8]
only in state_dict()       gate_up_proj [2, 16, 16]
dcp.load of the file       Missing key in checkpoint state_dict
the same, partial          attention loaded: True, experts loaded: False
"""
found = ""


def show(what, text):
    global found
    found += f"{what:26} {text}\n"


def new_model():
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(
        vocab_size=16, hidden_size=16, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, head_dim=8, num_experts=2,
        num_experts_per_tok=1, moe_intermediate_size=8))


def only_in(what, tensors, others):
    for name in sorted(set(tensors) - set(others)):
        show(what, f"{name.removeprefix(EXPERTS)} {list(tensors[name].shape)}")


model = new_model()
model.save_pretrained("hub")
state, file = model.state_dict(), load_file("hub/model.safetensors")
only_in("only in save_pretrained()", file, state)
only_in("only in state_dict()", state, file)
try:
    dcp.load(new_model().state_dict(), storage_reader=dcp.HuggingFaceStorageReader("hub"))
    show("dcp.load of the file", "no error")
except dcp.CheckpointException as error:
    missing = "Missing key in checkpoint state_dict"
    show("dcp.load of the file", missing if missing in str(error) else error)
loaded = new_model().state_dict()
dcp.load(loaded, storage_reader=dcp.HuggingFaceStorageReader("hub"),
         planner=DefaultLoadPlanner(allow_partial_load=True))
attention, experts = (torch.equal(loaded[name], state[name]) for name in
                      (LAYER + "self_attn.q_proj.weight", EXPERTS + "down_proj"))
show("the same, partial", f"attention loaded: {attention}, experts loaded: {experts}")
print(found, end="")
if found != EXPECTED:
    print("CHANGED, was\n" + EXPECTED, end="")
sys.exit(found != EXPECTED)
END
venv/bin/python show.py 2>errors && exit 0
cat errors >&2
exit 1
