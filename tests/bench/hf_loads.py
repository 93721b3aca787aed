#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loads or converts a checkpoint in one way, in a process of its own, and prints "SECONDS BYTES".

    hf_loads.py safe_open|fastsafetensors|runai FILE    all tensors of a safetensors file, in memory of this process
    hf_loads.py dcp.load DIR                            the same of a DCP checkpoint
    hf_loads.py convert DIR PT OUT                      dcp_to_torch_save, torch.load, safetensors' save_file

Imports are not counted. A tensor counts as loaded when each page of it is in memory that belongs to the process: what
safe_open returns is a mapping of the file, so it is cloned; the other loaders copy already. `convert` removes PT when it is
loaded, so that no more than two copies are in memory at once.
"""
import os
import sys
import time


def bytes_of(tensors):
    return sum(t.nbytes for t in tensors)


def flat(tree, prefix=""):
    """name -> tensor of nested dicts"""
    if not isinstance(tree, dict):
        return {prefix: tree}
    return {name: t for key, value in tree.items() for name, t in flat(value, f"{prefix}.{key}" if prefix else key).items()}


def safe_open(path):
    import torch                                                                                # noqa: F401
    from safetensors import safe_open as opened

    def load():
        with opened(path, framework="pt") as file:
            return [file.get_tensor(name).clone() for name in file.keys()]
    return load


def fastsafetensors(path):
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    def load():
        loader = SafeTensorsFileLoader(SingleGroup(), "cpu", nogds=True)
        loader.add_filenames({0: [path]})
        files = loader.copy_files_to_device()
        return [files.get_tensor(name) for name in files.key_to_rank_lidx]
    return load


def runai(path):
    from runai_model_streamer import SafetensorsStreamer

    def load():
        with SafetensorsStreamer() as streamer:
            streamer.stream_file(path)
            return [tensor.clone() for _, tensor in streamer.get_tensors()]
    return load


def dcp_load(path):
    import torch
    import torch.distributed.checkpoint as dcp
    tensors = dcp.FileSystemReader(path).read_metadata().state_dict_metadata

    def load():
        state = {name: torch.empty(t.size, dtype=t.properties.dtype) for name, t in tensors.items()}
        dcp.load(state, checkpoint_id=path, no_dist=True)
        return list(state.values())
    return load


def convert(path, between, out):
    import torch
    from safetensors.torch import save_file
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    def load():
        dcp_to_torch_save(path, between)
        state = torch.load(between, weights_only=False)
        os.unlink(between)
        tensors = flat(state["model"])
        save_file(tensors, out, metadata={"format": "pt"})
        return list(tensors.values())
    return load


WAYS = {"safe_open": safe_open, "fastsafetensors": fastsafetensors, "runai": runai, "dcp.load": dcp_load, "convert": convert}


def main():
    load = WAYS[sys.argv[1]](*sys.argv[2:])
    start = time.monotonic()
    tensors = load()
    print(time.monotonic() - start, bytes_of(tensors))


if __name__ == "__main__":
    main()
