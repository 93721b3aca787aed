#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the large checkpoints of the benchmarks. Not in the repository: 2.2 GB, 0.2 GB, 0.2 GB, 0.1 GB, 2.1 GB for
`kinds`, and 0.04 to 0.6 GB for each of the others.

    make_big.py [--torch RELEASE] model OUTDIR [--only NAME]...     2.1 GiB of bf16 saved by 8 ranks with dcp.save
    make_big.py [--torch RELEASE] chunks OUTDIR [--no-data]         .metadata of 1000 tensors x 1024 ranks, sparse data
    make_big.py [--torch RELEASE] tensors OUTDIR [--count N]        100,000 tensors in one file
    make_big.py [--torch RELEASE] hundred OUTDIR                    100 tensors of 1 MiB, in 8 boxes each
    make_big.py [--torch RELEASE] ranks OUTDIR [--count N]          64 files of torch.save, a rank each, with N DTensors
    make_big.py [--torch RELEASE] kinds OUTDIR                      512 MiB of bf16, as each kind of checkpoint
    make_big.py [--torch RELEASE] torch|safe OUTDIR [--count N]     a million tensors in one file, or in 10
    make_big.py [--torch RELEASE] items OUTDIR                      the same 2.1 GiB by 8 ranks with torch_checkpointing
    make_big.py [--torch RELEASE] hf OUTDIR                         1.1 GiB of the same, by DCP's HuggingFaceStorageWriter
    make_big.py [--torch RELEASE] boxes OUTDIR                      a million boxes in safetensors files of 64 ranks
    make_big.py [--torch RELEASE] steps OUTDIR [--count N]          a run directory of 1,000 steps of one small tensor

`model` is a llama under FSDP: DTensors with Shard(0) on 8 ranks, `tok_embeddings.weight` of 1 GiB among them, and
`output.weight`, 256 MiB, Shard(1) with rows of 1 KiB in each rank. --only saves just these tensors.

`chunks` has 1,024,000 boxes made of PyTorch's own metadata classes, pickled as dcp.save does it. Its data files have the
sizes stored in .metadata and are sparse. Only the items of the first tensor are real: every other tensor is a
malformed item when read. --no-data skips the data files.

`items` is the model of `model`, saved by the same ranks with torch_checkpointing: OUTDIR/step is a save with metadata.pkl.

`hf` has the first tensor and the first layer of `model`, a safetensors file for each of the 8 ranks.

`hundred` is what 8 ranks would save of 100 matrices of float32 (512,512), each of one number.

`tensors` is one file of torch.save items of float32 (4,), with .metadata of PyTorch's own classes. Element j of tensor
i is 4*i + j.

`ranks` is what 64 processes save of their state dicts under FSDP2: N (1,000) DTensors of float32 (64,4), of which each rank
has a row, made in one process over PyTorch's fake group. A row of tensor i on rank r is i + r / 64.

`kinds` is one tensor, `model.tok_embeddings.weight` with Shard(0) on 8 ranks, in OUTDIR/dcp by dcp.save, in OUTDIR/ranks by
torch.save of each rank, and whole in OUTDIR/safetensors and OUTDIR/torch.

`torch`, `safe` and `boxes` have tensors of float32 (4,), or (64,4) of which each rank has a row. The bytes of the latter two
are holes, and DCP_SHARDING_INFO is what PyTorch's HuggingFaceStorageWriter writes.

Element i of a tensor of `model`, in C order, has the bit pattern (i * 40503 + i // 65536 * 9973 + crc32(name)) mod 65536
(without NaNs: bit 14 cleared), so that misplaced pieces show.
"""
import argparse
import json
import os
import pathlib
import shutil
import sys
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fixtures"))
import make                                                                                 # noqa: E402

RANKS = 8
DIM, HIDDEN, LAYERS = 2048, 5632, 9


# ---- model ----------------------------------------------------------------------------------------------------------

def model_tensors():
    """Name -> (shape, dimension that is sharded)."""
    tensors = {"tok_embeddings.weight": ((131072, 4096), 0)}
    for layer in range(LAYERS):
        for name, shape in (("attention.wq", (DIM, DIM)), ("attention.wk", (DIM, DIM)), ("attention.wv", (DIM, DIM)),
                            ("attention.wo", (DIM, DIM)), ("feed_forward.w1", (HIDDEN, DIM)),
                            ("feed_forward.w2", (DIM, HIDDEN)), ("feed_forward.w3", (HIDDEN, DIM)),
                            ("attention_norm", (DIM,)), ("ffn_norm", (DIM,))):
            tensors[f"layers.{layer}.{name}.weight"] = (shape, 0)
    tensors["norm.weight"] = ((DIM,), 0)
    tensors["output.weight"] = ((32768, 4096), 1)
    return tensors


def piece(name, shape, dim, rank):
    """This rank's part of a tensor, computed from the positions its elements have in the whole."""
    import torch
    rows, columns = shape[0], shape[1] if len(shape) > 1 else 1
    low = [rank * rows // RANKS, 0] if dim == 0 else [0, rank * columns // RANKS]
    extent = [rows // RANKS, columns] if dim == 0 else [rows, columns // RANKS]
    result = torch.empty(extent, dtype=torch.int16)
    across = torch.arange(low[1], low[1] + extent[1], dtype=torch.int64)
    step = max(1, 2 ** 20 // extent[1])
    for row in range(0, extent[0], step):
        down = torch.arange(low[0] + row, low[0] + min(row + step, extent[0]), dtype=torch.int64)
        place = down[:, None] * columns + across
        pattern = (place * 40503 + place // 65536 * 9973 + zlib.crc32(name.encode())) & 0xBFFF
        result[row:row + step] = (pattern - (pattern >> 15) * 65536).to(torch.int16)
    return result.view(torch.bfloat16).reshape(extent if len(shape) > 1 else extent[:1])


def save_model(rank, world, out, only):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    mesh, state = init_device_mesh("cpu", (world,)), {}
    for name, (shape, dim) in model_tensors().items():
        if not only or name in only:
            state[name] = DTensor.from_local(piece(name, shape, dim, rank), mesh, [Shard(dim)], run_check=False)
    dcp.save({"model": state}, storage_writer=dcp.FileSystemWriter(out, sync_files=False))


def make_model(options):
    import spawn
    spawn.run(save_model, RANKS, options.outdir, options.only, timeout=1800)


def save_hf(rank, world, out):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    mesh = init_device_mesh("cpu", (world,))
    state = {name: DTensor.from_local(piece(name, shape, dim, rank), mesh, [Shard(dim)], run_check=False)
             for name, (shape, dim) in model_tensors().items() if name.startswith(("tok_", "layers.0."))}
    dcp.save({"model": state}, storage_writer=dcp.HuggingFaceStorageWriter(str(out), save_distributed=True))


def make_hf(options):
    import spawn
    options.outdir.mkdir(parents=True)
    spawn.run(save_hf, RANKS, options.outdir, timeout=1800)


def save_items(rank, world, out):
    import torch_checkpointing
    import torch_items
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    mesh = init_device_mesh("cpu", (world,))
    items = {"model": {name: DTensor.from_local(piece(name, shape, dim, rank), mesh, [Shard(dim)], run_check=False)
                       for name, (shape, dim) in model_tensors().items()}}
    with torch_items.manager(torch_checkpointing, items) as saver:
        saver.save(str(out / "step"), items)


def make_items(options):
    import spawn
    options.outdir.mkdir(parents=True)
    spawn.run(save_items, RANKS, options.outdir, timeout=1800)


# ---- chunks ---------------------------------------------------------------------------------------------------------

CHUNK_TENSORS, CHUNK_RANKS, CHUNK_SHAPE = 1000, 1024, (8, 16)           # the shape of one box


def chunk_metadata(item_length):
    import torch
    from torch.distributed.checkpoint.filesystem import _StorageInfo
    from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties,
                                                       TensorStorageMetadata)
    rows, columns = CHUNK_SHAPE
    names = [f"model.layers.{n // 10}.part{n % 10}.weight" for n in range(CHUNK_TENSORS)]
    tensors = {name: TensorStorageMetadata(
        TensorProperties(dtype=torch.bfloat16), torch.Size((rows * CHUNK_RANKS, columns)),
        [ChunkStorageMetadata(torch.Size((rank * rows, 0)), torch.Size(CHUNK_SHAPE)) for rank in range(CHUNK_RANKS)])
        for name in names}
    storage = {}
    for rank in range(CHUNK_RANKS):
        for number, name in enumerate(names):
            index = MetadataIndex(name, torch.Size((rank * rows, 0)), rank)
            storage[index] = _StorageInfo(f"__{rank}_0.distcp", number * item_length, item_length)
    return Metadata(tensors, {name: (name,) for name in names}, storage)


def make_chunks(options):
    import gc
    import torch
    import assemble
    from world import values
    gc.disable()
    options.outdir.mkdir(parents=True)
    whole = values("first", (CHUNK_SHAPE[0] * CHUNK_RANKS, CHUNK_SHAPE[1]), torch.bfloat16)
    pieces = whole.split(CHUNK_SHAPE[0])
    length = len(assemble.item(pieces[0].clone()))
    for rank in range(0 if options.no_data else CHUNK_RANKS):
        with open(options.outdir / f"__{rank}_0.distcp", "wb") as data:
            data.write(assemble.item(pieces[rank].clone()))
            data.truncate(CHUNK_TENSORS * length)
    assemble.publish(options.outdir, chunk_metadata(length))


# ---- hundred --------------------------------------------------------------------------------------------------------

def make_hundred(options):
    import torch
    from torch.distributed.checkpoint.filesystem import _StorageInfo
    from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties,
                                                       TensorStorageMetadata)
    import assemble
    side, rows = 512, 512 // RANKS
    names = [f"layers.{number}.weight" for number in range(100)]
    chunks = [ChunkStorageMetadata(torch.Size((rank * rows, 0)), torch.Size((rows, side))) for rank in range(RANKS)]
    tensors = {name: TensorStorageMetadata(TensorProperties(dtype=torch.float32), torch.Size((side, side)),
                                           list(chunks)) for name in names}
    storage = {}
    options.outdir.mkdir(parents=True)
    for rank in range(RANKS):
        file, position = f"__{rank}_0.distcp", 0
        with open(options.outdir / file, "wb") as data:
            for number, name in enumerate(names):
                item = assemble.item(torch.full((rows, side), float(number)))
                index = MetadataIndex(name, torch.Size((rank * rows, 0)), rank)
                storage[index] = _StorageInfo(file, position, len(item))
                position += data.write(item)
    assemble.publish(options.outdir, Metadata(tensors, {name: (name,) for name in names}, storage))


# ---- tensors --------------------------------------------------------------------------------------------------------

def make_tensors(options):
    import torch
    import assemble

    def entries():
        for number in range(options.count):
            tensor = torch.arange(4.0) + 4 * number
            key = f"model.layers.{number // 1000}.mlp.experts.{number // 4 % 250}.w{number % 4}.weight"
            yield key, (4,), [((0,), tensor)]
    assemble.write(options.outdir, entries())


# ---- ranks ----------------------------------------------------------------------------------------------------------

def make_ranks(options):
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore
    world = 64
    names = [f"model.layers.{number // 10}.part{number % 10}.weight" for number in range(options.count)]
    options.outdir.mkdir(parents=True)
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("fsdp",))
    state = {name: DTensor.from_local(torch.full((1, 4), float(number)), mesh, [Shard(0)], run_check=False)
             for number, name in enumerate(names)}
    for rank in range(world):       # only the mesh differs
        mesh._coordinate_on_dim = (rank,)
        if hasattr(mesh, "_rank"):
            mesh._rank = rank
        for number, tensor in enumerate(state.values()):
            tensor._local_tensor.fill_(number + rank / world)
        torch.save({"model": state, "step": 1000}, options.outdir / f"model_world_size_{world}_rank_{rank}.pt")
    dist.destroy_process_group()


# ---- kinds ----------------------------------------------------------------------------------------------------------

KINDS_NAME, KINDS_SHAPE = "tok_embeddings.weight", (65536, 4096)


def save_kinds(rank, world, out):
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    local = piece(KINDS_NAME, KINDS_SHAPE, 0, rank)
    tensor = DTensor.from_local(local, init_device_mesh("cpu", (world,)), [Shard(0)], run_check=False)
    state = {"model": {KINDS_NAME: tensor}}
    dcp.save(state, storage_writer=dcp.FileSystemWriter(out / "dcp", sync_files=False))
    torch.save(state, out / f"ranks/model_world_size_{world}_rank_{rank}.pt")
    whole = tensor.full_tensor()
    if rank:
        return
    torch.save({"model": {KINDS_NAME: whole}}, out / "torch/model.pt")
    write_safe(out / "safetensors/model.safetensors",
               {f"model.{KINDS_NAME}": {"dtype": "BF16", "shape": KINDS_SHAPE, "data_offsets": [0, whole.nbytes]}},
               whole.view(torch.int16).numpy())


def make_kinds(options):
    import spawn
    for kind in "safetensors", "torch", "ranks":
        (options.outdir / kind).mkdir(parents=True)
    spawn.run(save_kinds, RANKS, options.outdir, timeout=1800)


# ---- steps ----------------------------------------------------------------------------------------------------------

def make_steps(options):
    import torch
    import torch.distributed.checkpoint as dcp
    for number in range(options.count):
        dcp.save({"weight": torch.full((4,), float(number))}, checkpoint_id=options.outdir / f"step-{number}",
                 no_dist=True)


# ---- a million ------------------------------------------------------------------------------------------------------

MILLION = 1000000


def million_name(number):
    return f"model.layers.{number // 1000}.mlp.experts.{number // 4 % 250}.w{number % 4}.weight"


def make_torch(options):
    import torch
    options.outdir.mkdir(parents=True)
    torch.save({million_name(number): torch.full((4,), float(number)) for number in range(options.count)},
               options.outdir / "million.pt")


def write_safe(path, header, values=None):
    """Without values elements are holes, 16 bytes for each tensor."""
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as data:
        data.write(len(head).to_bytes(8, "little") + head)
        if values is None:
            data.truncate(8 + len(head) + 16 * sum(name != "__metadata__" for name in header))
        else:
            values.tofile(data)


def make_safe(options):
    options.outdir.mkdir(parents=True)
    count = options.count // 10
    for file in range(10):
        write_safe(options.outdir / f"model-{file + 1:05}-of-00010.safetensors", {
            million_name(count * file + i): {"dtype": "F32", "shape": [4], "data_offsets": [16 * i, 16 * i + 16]}
            for i in range(count)})


def make_boxes(options):
    options.outdir.mkdir(parents=True)
    names = [f"model.layers.{number // 10}.part{number % 10}.weight" for number in range(MILLION // 64)]
    for rank in range(64):
        header = {name: {"dtype": "F32", "shape": [1, 4], "data_offsets": [16 * i, 16 * i + 16]}
                  for i, name in enumerate(names)}
        sharding = json.dumps({name: {"saved_offsets": [rank, 0]} for name in names})
        header["__metadata__"] = {"format": "pt", "DCP_VERSION": "1.0", "DCP_SHARDING_INFO": sharding}
        write_safe(options.outdir / f"shard-{rank + 1:05}-model-00001-of-00064.safetensors", header)


# ---- the program ----------------------------------------------------------------------------------------------------

def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--torch", metavar="RELEASE", help="PyTorch release to install if another or none is there")
    parser.add_argument("--force", action="store_true", help="replace OUTDIR")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in (("model", make_model), ("chunks", make_chunks), ("tensors", make_tensors),
                           ("hundred", make_hundred), ("ranks", make_ranks), ("torch", make_torch), ("safe", make_safe),
                           ("boxes", make_boxes), ("kinds", make_kinds), ("items", make_items), ("steps", make_steps),
                           ("hf", make_hf)):
        command = commands.add_parser(name)
        command.add_argument("outdir", type=pathlib.Path, metavar="OUTDIR")
        command.set_defaults(function=function)
    commands.choices["model"].add_argument("--only", action="append", metavar="NAME", choices=list(model_tensors()))
    commands.choices["chunks"].add_argument("--no-data", action="store_true")
    for name, count in (("tensors", 100000), ("ranks", 1000), ("torch", MILLION), ("safe", MILLION), ("steps", 1000)):
        commands.choices[name].add_argument("--count", type=int, default=count)
    return parser.parse_args()


def main():
    options = arguments()
    release = make.installed()
    if not release or options.torch and release != options.torch:
        make.restart_with(options.torch or "2.13.0")
    if options.outdir.exists():
        if not options.force:
            sys.exit(f"make_big.py: {options.outdir}: exists; --force replaces it")
        shutil.rmtree(options.outdir)
    make.quiet()
    options.function(options)
    size = sum(file.stat().st_blocks * 512 for file in options.outdir.rglob("*") if file.is_file())
    metadata = options.outdir / ".metadata"
    said = f", .metadata {metadata.stat().st_size:,} bytes" if metadata.exists() else ""
    print(f"{options.outdir}: {size / 2 ** 20:,.0f} MiB on disk{said}")


if __name__ == "__main__":
    main()
