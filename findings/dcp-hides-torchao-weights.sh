#!/bin/sh
# SPDX-License-Identifier: MIT
#
# torchao 0.18.0, torch 2.13.0: dcp.save() of a model with weights of torchao writes a .metadata
# that describes plain float32 tensors. The items are pickled tensor subclasses, and readers that
# trust .metadata fail:
#
# - float8 training under FSDP2 (enable_fsdp_float8_all_gather): dcp_to_torch_save(), and
#   dcp.load() into plain tensors, fail with "Unsupported global" unless the program has imported
#   torchao.float8. Nothing in .metadata says so.
# - int8 weights (Int8WeightOnlyConfig): both fail with torchao imported, too, with an
#   AttributeError from inside torchao. Only a model that was quantized in the same way can load.
#
# Cost: a tool without torchao, or a conversion for a server, cannot read checkpoints of float8
# training though their weights are ordinary float32; and the sizes that .metadata gives for
# quantized weights are four times those of the files.
# Remedy: import torchao.float8 before the conversion. For int8 weights: save dequantize()d ones.
#
# Output seen:
#	float8, .metadata                   torch.float32 [16, 32]
#	float8, conversion                  Unsupported global
#	float8, conversion with torchao     read
#	int8, .metadata                     torch.float32 [16, 32]
#	int8, conversion                    Unsupported global
#	int8, conversion with torchao       AttributeError
#	int8, into a model quantized alike  read
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q torch==2.13.0 numpy==2.4.6 torchao==0.18.0 >&2 || exit 2

cat >show.py <<'END'
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save


def model(kind):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 16, bias=False))
    if kind == "float8":
        from torch.distributed.fsdp import fully_shard
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
        convert_to_float8_training(model, config=Float8LinearConfig(enable_fsdp_float8_all_gather=True, emulate=True))
        fully_shard(model, mesh=dist.init_device_mesh("cpu", (1,)))
    elif kind == "int8":
        from torchao.quantization import Int8WeightOnlyConfig, quantize_
        quantize_(model, Int8WeightOnlyConfig())
    return model


def save(kind):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dcp.save(model(kind).state_dict(), checkpoint_id=kind)
    dist.destroy_process_group()


def alike(kind):
    dcp.load(model(kind).state_dict(), checkpoint_id=kind)


def attempt(call, *arguments):
    try:
        call(*arguments)
        return "read"
    except BaseException as error:
        text = str(error)
        return next((word for word in ("Unsupported global", "AttributeError") if word in text), text)


if __name__ == "__main__":
    what, kind = sys.argv[1:3]
    if what == "save":
        save(kind)
    elif what == "metadata":
        entry = dcp.FileSystemReader(kind).read_metadata().state_dict_metadata["0.weight"]
        print(entry.properties.dtype, list(entry.size))
    elif what == "alike":
        print(attempt(alike, kind))
    else:
        if what == "with":
            import torchao.float8
            import torchao.quantization
        print(attempt(dcp_to_torch_save, kind, f"{kind}.pt"))
END
changed=0
row() {
	text=$1
	want=$2
	shift 2
	got=$(venv/bin/python show.py "$@" 2>>errors | tail -n 1)
	printf '%-35s %s' "$text" "$got"
	[ "$got" = "$want" ] || { changed=1 && printf '  CHANGED'; }
	echo
}
for kind in float8 int8; do
	venv/bin/python show.py save $kind >>errors 2>&1 || { cat errors >&2 && exit 1; }
	row "$kind, .metadata" 'torch.float32 [16, 32]' metadata $kind
	row "$kind, conversion" 'Unsupported global' without $kind
	case $kind in
	float8) row "$kind, conversion with torchao" read with $kind ;;
	int8)
		row "$kind, conversion with torchao" AttributeError with $kind
		row "$kind, into a model quantized alike" read alike $kind
		;;
	esac
done
exit $changed
