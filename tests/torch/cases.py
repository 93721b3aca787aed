# SPDX-License-Identifier: MIT
"""Random checkpoints: a mesh, and many tensors of random shape, dtype and placement on it, in one save.

Every choice comes from one seeded generator that all ranks draw from alike, so that a run is repeated by its seed.
"""
import random

import torch
import torch.distributed as dist

from models import Recipe, fully_shard, seeded
from recipes import DTYPES as ALL_DTYPES
from world import Replicate, Shard

DTYPES = [name for name in ALL_DTYPES if name != "float4_e2m1fn_x2"]            # PyTorch cannot pad it: no fill_
MESHES = ((1,), (2,), (3,), (4,), (6,), (8,), (2, 2), (2, 3), (3, 2), (4, 2), (2, 4), (2, 2, 2))
TENSOR_PARALLEL = ((2, 2), (3, 2), (4, 2), (2, 3), (2, 4))
FEW_MESHES, FEW_TENSOR_PARALLEL = ((3,), (2, 2)), ((2, 2),)


def world_of(mesh):
    size = 1
    for extent in mesh:
        size *= extent
    return size


def random_shape(rng, dims):
    extents = [0] + [1, 2, 3, 5, 7] * 2 + [4, 6, 8, 9, 11, 12, 13, 16, 17]
    shape = [rng.choice(extents) for _ in range(dims)]
    if rng.random() < 0.1:
        shape[rng.randrange(dims)] = rng.randrange(30, 300)
    while torch.Size(shape).numel() > 20000:
        shape[rng.randrange(dims)] = rng.choice((1, 2, 3))
    return tuple(shape)


def add_dtensor(w, rng, mesh, key):
    """One tensor, distributed; one in four has local pieces that are not in C order."""
    shape = random_shape(rng, rng.choice((1, 2, 2, 3, 4)))
    dtype = getattr(torch, rng.choice(DTYPES))
    placements = [Shard(rng.randrange(len(shape))) if rng.random() < 0.8 else Replicate() for _ in range(mesh.ndim)]
    name = "{} {} {} {}".format(key, str(dtype)[6:], "x".join(map(str, shape)),
                                ",".join(f"S{p.dim}" if isinstance(p, Shard) else "R" for p in placements))
    w.dtensor(name, shape, placements, mesh, dtype)
    if rng.random() < 0.25:
        order = list(range(len(shape)))
        rng.shuffle(order)
        w.restride(name, order)


def add_plain(w, rng, key):
    shape = random_shape(rng, rng.choice((1, 2, 3))) if rng.random() < 0.7 else ()
    w.plain(f"{key} plain {shape}", shape, getattr(torch, rng.choice(DTYPES)))


def writer_options(rng):
    from torch.distributed.checkpoint._extension import ZStandard
    options = {"thread_count": rng.choice((1, 1, 2, 3)), "single_file_per_rank": rng.random() < 0.8}
    if rng.random() < 0.2:
        options["_extensions"] = [ZStandard()]
    return options


def random_dtensors(seed, extents, count):
    """Recipe: `count` tensors on one mesh."""
    def build(w):
        rng = random.Random(f"{seed} {extents}")
        mesh = w.mesh(*extents)
        for number in range(count):
            if rng.random() < 0.9:
                add_dtensor(w, rng, mesh, f"t{number}")
            else:
                add_plain(w, rng, f"t{number}")
        w.save(**writer_options(rng))
        return True
    return Recipe(build, world_of(extents), "random DTensors", "newest", (2, 6), None)


# ---- FSDP2 on tensor parallel ---------------------------------------------------------------------------------------

def boxes_of(tensor):
    """(offset, size that DCP will write, size that the rank holds) of every rank."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    size, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    mine = (tuple(offset), tuple(size), tuple(tensor.to_local().shape))
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    return everyone


def overlapping(boxes):
    """Whether dcp.save would refuse: two different boxes share an element, or they do not add up."""
    kept = {offset: size for offset, size, _ in reversed(boxes)}            # equal offsets: the first rank's
    items = [(offset, size) for offset, size in kept.items() if 0 not in size]
    for number, (a, sa) in enumerate(items):
        for b, sb in items[:number]:
            if all(x < y + t and y < x + s for x, s, y, t in zip(a, sa, b, sb)):
                return True
    return False


def covered(boxes):
    kept = {offset: size for offset, size, _ in reversed(boxes)}
    return sum(torch.Size(size).numel() for size in kept.values())


def random_tensor_parallel(seed, extents, count):
    """Recipe: linear layers of random sizes, tensor parallel and then FSDP2, as a trainer would have them.

    PyTorch saves wrong boxes for some uneven sizes. Where its boxes overlap it refuses the save, so those tensors are
    left out; where they do not, a piece differs from its box in size, and the tensor must be an error.
    """
    def build(w):
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        rng = random.Random(f"{seed} tp {extents}")
        mesh = w.mesh(*extents, names=("dp", "tp"))
        model, plan = torch.nn.Sequential(), {}
        for number in range(count):
            n, m, column = rng.randrange(1, 40), rng.randrange(1, 6), rng.random() < 0.7
            name = f"{'column' if column else 'row'}{number} {n}x{m}"
            layer = torch.nn.Linear(m, n, bias=False) if column else torch.nn.Linear(n, m, bias=False)
            model.add_module(name, layer.to(rng.choice((torch.float32, torch.bfloat16, torch.float64))))
            plan[name] = ColwiseParallel() if column else RowwiseParallel()
        wholes = {name: tensor.detach().clone() for name, tensor in seeded(model).state_dict().items()}
        parallelize_module(model, mesh["tp"], plan)
        for layer in model:
            fully_shard(layer, mesh=mesh["dp"])                                 # one dtype for each group
        refused = 0
        for name, tensor in model.state_dict().items():
            boxes = boxes_of(tensor)
            if overlapping(boxes) or covered(boxes) != tensor.numel():
                refused += 1
                continue
            w.state[name], w.originals[name] = tensor, wholes[name]
            if any(size != held and 0 not in size for _, size, held in boxes):
                w.wrong[name] = "EIO"
        if w.rank == 0:
            print(f"# {w.name}: {len(w.wrong)} saved wrongly by PyTorch, {refused} it would refuse", flush=True)
        w.plain("plain", (3,))
    return Recipe(build, world_of(extents), "random FSDP2 on tensor parallel", "newest", (2, 6), None)


def random_checkpoints(seed, wanted):
    """Names and recipes that have at least `wanted` tensors together; on few meshes where there are few tensors."""
    meshes, parallel = (MESHES, TENSOR_PARALLEL) if wanted > 200 else (FEW_MESHES, FEW_TENSOR_PARALLEL)
    each = -(-wanted // (len(meshes) + len(parallel) // 2))
    for extents in meshes:
        yield "random-" + "x".join(map(str, extents)), random_dtensors(seed, extents, each)
    for extents in parallel:
        yield "random-tp-" + "x".join(map(str, extents)), random_tensor_parallel(seed, extents, each // 2)
