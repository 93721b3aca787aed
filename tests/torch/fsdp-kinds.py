#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains one model under FSDP1 and saves it in every form of its state dict: the mounts must show the same tensors.

    fsdp-kinds.py CKPTFS [--cases N]

The models are those of PyTorch's test_fsdp_dtensor_state_dict.py, with sizes that divide and sizes that do not, after a step
of Adam, with and without a device mesh. The forms are SHARDED_STATE_DICT of ShardedTensors and of DTensors, model and
optimizer, each as DCP and as a torch.save of each rank, and FULL_STATE_DICT as one file. In all of them raw/ and full/ must
be the parameters as gathered by FSDP. local/ of ShardedTensors and of DTensors has the same bytes, except that only DTensors
have empty parts. Kinds are those of the save. Each of the N cases is a job of 2, 3, 4, 8 processes, in this order. The
result is TAP.
"""
import os
import pathlib
import sys
import tempfile

import hub
import live                                                             # also finds the modules of tests/fixtures
import interop
import nested
import oracle
import spawn

WORLDS = 2, 3, 4, 8
SIZES = {"even": (8, 16, 32, 64, 8), "uneven": (5, 10, 15, 30, 5)}


def model_of(sizes):
    import torch
    torch.manual_seed(0)
    layers = []
    for inner, outer in zip(sizes, sizes[1:]):
        layers += [torch.nn.Sequential(torch.nn.Linear(inner, outer), torch.nn.ReLU())]
    layers[-1] = layers[-1][0]
    net = torch.nn.Module()
    for i, layer in enumerate(layers):
        net.add_module(f"net{i + 1}", layer)
    net.register_buffer("running", torch.arange(3.))
    net.forward = lambda x: [x := layer(x) for layer in layers][-1]
    return net


def trained(sizes, mesh):
    """The same with and without a mesh."""
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    model = FSDP(model_of(sizes), device_id=torch.device("cpu"), use_orig_params=sizes[0] == 8, device_mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(4, sizes[0])).sum().backward()
    optimizer.step()
    return model, optimizer


def states(model, optimizer, kind, config, optim_config):
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    with FSDP.state_dict_type(model, kind, config, optim_config):
        return {"model": model.state_dict(), "optim": FSDP.optim_state_dict(model, optimizer)}


def save(rank, world, home):
    import warnings
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed import fsdp
    from torch.distributed.device_mesh import init_device_mesh
    warnings.simplefilter("ignore")
    for name, sizes in SIZES.items():
        for mesh in (None, init_device_mesh("cpu", (world,))):
            how = f"{name} {'DTensor' if mesh else 'ShardedTensor'}"
            model, optimizer = trained(sizes, mesh)
            state = states(model, optimizer, fsdp.StateDictType.SHARDED_STATE_DICT, fsdp.ShardedStateDictConfig(),
                           fsdp.ShardedOptimStateDictConfig())
            dcp.save(state, storage_writer=dcp.FileSystemWriter(home / f"{how} dcp"))
            (home / f"{how} ranks").mkdir(exist_ok=True)
            torch.save(state, home / f"{how} ranks" / f"rank_{rank}.pt")
            # Offloading to the CPU would reuse the buffers of existing tensors.
            full = states(model, optimizer, fsdp.StateDictType.FULL_STATE_DICT, fsdp.FullStateDictConfig(),
                          fsdp.FullOptimStateDictConfig(offload_to_cpu=False))
            if rank == 0:
                torch.save(full, home / f"{how} full.pt")


def attribute(path, name):
    try:
        return os.getxattr(path, f"user.ckptfs.{name}").decode()
    except OSError:
        return None


def held(top, world):
    """Returns (rank, file) -> bytes of the sharded parts with elements, and the set of the empty parts. Of replicated
    tensors DCP keeps one replica, of any rank."""
    some, empty = {}, set()
    for rank in range(world):
        home = pathlib.Path(os.fsdecode(top), "local", f"rank-{rank}")
        for file in sorted(home.iterdir()) if home.exists() else ():
            if file.name.endswith((".step.npy", ".running.npy")):
                continue
            data = file.read_bytes()
            if b"(0," in data[:128] or b" 0," in data[:128]:
                empty.add((rank, file.name))
            else:
                some[rank, file.name] = data
    return some, empty


def kinds(top, table, how):
    """Checks the kind of each tensor: all except the steps and the buffer are sharded."""
    found = []
    for stem in table:
        kind = attribute(os.path.join(top, b"raw", stem), "kind")
        whole = stem.endswith(b".step") or stem.endswith(b".running")
        wanted = "tensor" if whole or "ranks" not in how else "dtensor" if "DTensor" in how else "sharded_tensor"
        if kind != wanted:
            found.append(f"{stem.decode()}: kind {kind}, expected {wanted}")
    return found


def problems_of(ckptfs, home, name, world):
    import torch
    found, parts, tables = [], {}, {}
    for tensor in "ShardedTensor", "DTensor":
        full = torch.load(home / f"{name} {tensor} full.pt", weights_only=False)
        tensors = {key: value for key, value in nested.entries(full).items() if isinstance(value, torch.Tensor)}
        tables[tensor] = table = hub.expected(tensors)
        with interop.Mount(ckptfs, home / f"{name} {tensor} full.pt") as top:
            found += [f"full: {problem}" for problem in interop.differences(top, table)]
            found += [f"canary missed: {what}" for what in interop.canary(top, table)] if name == "uneven" else []
        for form in "ranks", "dcp":
            how = f"{name} {tensor} {form}"
            with interop.Mount(ckptfs, home / how) as top:
                found += [f"{how}: {problem}" for problem in interop.differences(top, table) + kinds(top, table, how)]
                parts[tensor, form] = held(top, world)
    if tables["ShardedTensor"] != tables["DTensor"]:
        found.append(f"{name}: FSDP gathers other values")
    for form in "ranks", "dcp":
        (sharded, none), (dtensor, empty) = parts["ShardedTensor", form], parts["DTensor", form]
        if sharded != dtensor:
            found.append(f"{name} {form}: local/ differs: {sorted(k for k in sharded | dtensor if sharded.get(k) != dtensor.get(k))[:4]}")
        if none:
            found.append(f"{name} {form}: empty ShardedTensors {sorted(none)[:4]}")
        if form == "ranks" and empty != set(none_of(tensors, world)):
            found.append(f"{name} {form}: empty DTensors {sorted(empty ^ set(none_of(tensors, world)))[:4]}")
    return found, len(table)


def none_of(tensors, world):
    """The parts without elements: torch.chunk splits dimension 0."""
    stems = oracle.stems([oracle.key_bytes(key) for key in tensors])
    for key, tensor in tensors.items():
        for rank in range(world):
            if tensor.dim() and not key.endswith("running") and rank >= len(tensor.chunk(world)):
                yield rank, os.fsdecode(stems[oracle.key_bytes(key)]) + ".npy"


def main():
    options, tap, count = live.arguments(__doc__, cases=(1, 2)), interop.Tap(), 0
    for world in WORLDS[:options.cases]:
        with tempfile.TemporaryDirectory(prefix="kinds-") as scratch:
            home = pathlib.Path(scratch)
            spawn.run(save, world, home)
            for name in SIZES:
                found, tensors = problems_of(options.ckptfs, home, name, world)
                tap.line(not found, f"{world} ranks, {name}: {tensors} tensors", found)
                count += tensors
    print(f"# {count} tensors")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
