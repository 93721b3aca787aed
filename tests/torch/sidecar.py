#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the positions of parameters in the sidecar of ckptfs_sidecar.py with FSDP1.

    sidecar.py [--cases N] [--world N]

Random models (shapes, tied weights, dtypes, wrapped modules), use_orig_params, mixed precision and optimizers run in 1 to 3
processes, in the long run also in 4, which are started once for all cases. describe() must return the same for FSDP's model and for the model on the
device meta. The concatenated shards of LOCAL_STATE_DICT, split by the sidecar, must equal the parameters and FULL_STATE_DICT.
The optimizer state must equal that of FSDP.optim_state_dict, which has it by name. In a single process FSDP makes no
LOCAL_STATE_DICT: its flat parameters are used instead. CKPTFS_SEED repeats a run. The result is TAP.
"""
import argparse
import copy
import importlib.util
import json
import os
import pathlib
import random
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / part) for part in ("fixtures", "lib")] + [str(ROOT / "mount-helpers" / "python")]
import spawn                                                                                # noqa: E402
from tap import Tap, cases, is_long, seed                                                   # noqa: E402

WORLDS = (1, 2, 3, 4) if is_long() else (1, 2, 3)
DTYPES = "float32", "float32", "float32", "bfloat16", "float64"


# ---- models -------------------------------------------------------------------------------------------------

def bag_class():
    import torch

    class Bag(torch.nn.Module):
        """A module with parameters of any shape, perhaps a buffer, and other bags. Its output
        depends on every parameter."""

        def forward(self, x):
            for param in self.parameters(recurse=False):
                x = x + param.double().pow(2).sum()
            for child in self.children():
                x = child(x)
            return x

    return Bag


def drawn_shape(lot):
    shape = [lot.choice((1, 1, 2, 3, 5, 7, 8)) for _ in range(lot.choice((1, 1, 2, 2, 2, 3, 4, 5)))]
    return [0, *shape] if lot.random() < 0.02 else shape


def drawn_plan(lot, depth=0):
    """A random plan of a bag: shapes of parameters, children."""
    params = {f"{lot.choice('wbn')}{i}": drawn_shape(lot) for i in range(lot.choice((0, 1, 1, 2, 3)))}
    count = 0 if depth == 3 else lot.choice((0, 1, 2, 3) if depth else (1, 2, 3, 4))
    children = {lot.choice(("", "layer", "x_")) + str(i): drawn_plan(lot, depth + 1) for i in range(count)}
    return {"params": params, "buffer": lot.random() < 0.2, "children": children}


def build(plan, dtype):
    import torch
    bag = bag_class()()
    for i, (name, shape) in enumerate(plan["params"].items()):
        bag.register_parameter(name, torch.nn.Parameter(torch.randn(shape, dtype=dtype)))
        if i == 0 and plan["buffer"]:
            bag.register_buffer("running", torch.zeros(2, dtype=dtype))
    for name, child in plan["children"].items():
        bag.add_module(name, build(child, dtype))
    return bag


def modules_of(plan, prefix=""):
    """Names of modules and their plans, in the order of the model."""
    yield prefix, plan
    for name, child in plan["children"].items():
        yield from modules_of(child, f"{prefix}.{name}" if prefix else name)


def unit_of(module, units):
    """The innermost wrapped module around a module."""
    return max((unit for unit in units if not unit or f"{module}.".startswith(f"{unit}.")), key=len, default=None)


def without_empty_units(plan, units):
    """Replaces empty shapes if a module would have no elements, which FSDP refuses."""
    counts, shapes = {}, []
    for name, bag in modules_of(plan):
        for shape in bag["params"].values():
            unit = unit_of(name, units)
            counts[unit] = counts.get(unit, 0) + numel(shape)
            shapes.append(shape)
    if not set(counts) & set(units):                                    # no wrapped module has parameters
        units.insert(0, "")
    if 0 in counts.values():
        for shape in shapes:
            shape[:] = [size or 1 for size in shape]


def tie(model, case):
    for target, source in case["ties"]:
        owner, _, name = target.rpartition(".")
        setattr(model.get_submodule(owner), name, model.get_parameter(source))


def drawn_ties(lot, plan, units):
    """Ties pairs of parameters of one unit with equal shapes: the second becomes the first."""
    import torch
    with torch.device("meta"):
        params = dict(build(plan, torch.float32).named_parameters())
    names, ties, gone = list(params), [], set()
    for _ in range(lot.choice((0, 0, 1, 2, 4)) if len(names) > 1 else 0):
        source, target = lot.sample(names, 2)
        same = unit_of(source.rpartition(".")[0], units) == unit_of(target.rpartition(".")[0], units)
        if same and not {source, target} & gone:
            ties.append((target, source))
            gone.add(target)
    return ties


def drawn(lot, number):
    """A case; the same in every process."""
    plan = drawn_plan(lot)
    while not any(bag["params"] for _, bag in modules_of(plan)):
        plan = drawn_plan(lot)
    units = [name for name, _ in modules_of(plan) if lot.random() < 0.4]
    if lot.random() < 0.85 or not units:
        units = ["", *[name for name in units if name]]
    without_empty_units(plan, units)
    low = lot.choice((None, None, "bfloat16", "float16"))
    case = {"number": number, "plan": plan, "units": units, "dtype": lot.choice(DTYPES), "low": low,
            "orig": lot.random() < 0.5, "groups": lot.choice((1, 1, 2)), "optimizer": lot.choice(("AdamW", "SGD", "Adagrad")),
            "strategy": lot.choice(("FULL_SHARD", "SHARD_GRAD_OP")), "seed": lot.randrange(1 << 30)}
    case["ties"] = drawn_ties(lot, plan, units)
    return case


def made(case):
    import torch
    torch.manual_seed(case["seed"])
    model = build(case["plan"], getattr(torch, case["dtype"]))
    tie(model, case)
    return model


# ---- the job ----------------------------------------------------------------------------------------------

def wrap(model, case):
    """Wraps each unit in FSDP, the innermost first, like auto_wrap_policy."""
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision, ShardingStrategy
    low = case["low"] and getattr(torch, case["low"])
    options = {"use_orig_params": case["orig"], "device_id": torch.device("cpu"),
               "sharding_strategy": ShardingStrategy[case["strategy"]],
               "mixed_precision": MixedPrecision(param_dtype=low, reduce_dtype=torch.float32) if low else None}
    for name in sorted(case["units"], key=lambda unit: (not unit, -unit.count("."))):
        if not name:
            return FSDP(model, **options)
        owner, _, last = name.rpartition(".")
        setattr(model.get_submodule(owner), last, FSDP(model.get_submodule(name), **options))
    return model


def groups_of(params, case):
    """The groups of an optimizer: a single one, or parameters with even and with odd
    indices."""
    params = list(params)
    if case["groups"] == 1 or len(params) < 2:
        return params
    return [{"params": params[0::2]}, {"params": params[1::2], "lr": 0.5}]


def optimizer_of(params, case):
    import torch
    options = {"momentum": 0.9} if case["optimizer"] == "SGD" else {}
    return getattr(torch.optim, case["optimizer"])(groups_of(params, case), lr=0.01, **options)


def gathered(value, world):
    """The values of all ranks, on every rank."""
    import torch.distributed as dist
    out = [None] * world
    dist.all_gather_object(out, value)
    return out


def shards_of(model, case, world):
    """For each rank: name -> (offset, tensor), and its plain tensors."""
    from torch.distributed._shard.sharded_tensor import ShardedTensor
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, StateDictType
    shards, pieces = {}, {}
    with FSDP.state_dict_type(model, StateDictType.LOCAL_STATE_DICT):
        state = model.state_dict()
    for name, value in state.items():
        if isinstance(value, ShardedTensor):
            shards[name] = value.size()[0], [(shard.metadata.shard_offsets[0], shard.tensor.clone())
                                             for shard in value.local_shards()]
        else:
            pieces[name] = value.detach().clone()
    return gathered((shards, pieces), world)


def full_of(model):
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, FullStateDictConfig, StateDictType
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=False)):
        return {name: value.detach().clone() for name, value in model.state_dict().items()}


# ---- use of the sidecar, as by ckptfs -----------------------------------------------------

def flat_of(unit, of_ranks):
    """A flat parameter from the shards of all ranks."""
    import torch
    size = {shards[unit["flat_param"]][0] for shards, _ in of_ranks}
    assert size == {unit["numel"]}, (unit["flat_param"], size, unit["numel"])
    flat = torch.empty(unit["numel"], dtype=getattr(torch, unit["dtype"]))
    for shards, _ in of_ranks:
        for offset, shard in shards[unit["flat_param"]][1]:
            assert shard.dtype == flat.dtype, (shard.dtype, flat.dtype)
            flat[offset:offset + len(shard)] = shard
    return flat


def cut(unit, flat):
    """FQN -> tensor, shared parameters included."""
    out = {}
    for param in unit["params"]:
        shape, at = param["shape"], param["offset"]
        count = numel(shape)
        out[param["fqn"]] = flat[at:at + count].reshape(shape)
    for alias in unit["shared"]:
        out[alias["fqn"]] = out[alias["of"]]
    return out


def numel(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def piece_range(unit, param, rank, world):
    """The range of elements of a parameter on each rank."""
    chunk = -(-unit["numel"] // world)
    begin, end = param["offset"], param["offset"] + numel(param["shape"])
    low, high = (min(max(at, begin), end) - begin for at in (rank * chunk, (rank + 1) * chunk))
    return low, high


def cut_state(side, states, world):
    """FQN -> name -> value, from optimizer.state_dict() of each rank."""
    units = {unit["flat_param"]: unit for unit in side["units"]}
    owners = {param["fqn"]: (unit, param) for unit in side["units"] for param in unit["params"]}
    out = {}
    for number, name in enumerate(side["optimizers"][0]):
        of_ranks = [state["state"].get(number, {}) for state in states]
        for field in {field for state in of_ranks for field in state}:
            values = [state.get(field) for state in of_ranks]
            if name in units:
                put_flat(out, units[name], field, values, world)
            elif name in owners:
                put_pieces(out, *owners[name], field, values, world)
            else:
                out.setdefault(name, {})[field] = values[0]
    return out


def put_flat(out, unit, field, values, world):
    import torch
    chunk = -(-unit["numel"] // world)
    if all(getattr(value, "shape", None) == (chunk,) for value in values):
        whole = cut(unit, torch.cat(values)[:unit["numel"]])
        for param in unit["params"]:
            out.setdefault(param["fqn"], {})[field] = whole[param["fqn"]]
        return
    for param in unit["params"]:
        out.setdefault(param["fqn"], {})[field] = values[0]


def put_pieces(out, unit, param, field, values, world):
    import torch
    ranges = [piece_range(unit, param, rank, world) for rank in range(world)]
    shapes = [getattr(value, "shape", None) for value in values]
    if all(shape == (high - low,) or shape is None and high == low for shape, (low, high) in zip(shapes, ranges)):
        whole = [value for value in values if value is not None]
        out.setdefault(param["fqn"], {})[field] = torch.cat(whole).reshape(param["shape"]) if whole else None
        return
    out.setdefault(param["fqn"], {})[field] = next(        # the value of a rank without elements may be outdated
        (value for value, (low, high) in zip(values, ranges) if value is not None and low < high), None)


# ---- a case -----------------------------------------------------------------------------------------------

def same(a, b):
    import torch
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor) and a == b
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


def differing(what, expected, found):
    """Yields a line for each difference."""
    for name in sorted(expected.keys() | found.keys()):
        if name not in expected or name not in found:
            yield f"{what}: {name} is in {'one' if name in expected else 'the other'} only"
        elif not same(expected[name], found[name]):
            yield f"{what}: {name} differs"


def broken(side):
    """The canary: moves the largest parameter. A parameter of one element in bfloat16 might
    equal its neighbour."""
    side = copy.deepcopy(side)
    found = [(numel(param["shape"]), unit, param) for unit in side["units"] for param in unit["params"]
             if 0 < numel(param["shape"]) < unit["numel"]]
    if not found:
        return None
    count, unit, param = max(found, key=lambda one: one[0])
    param["offset"] += 1 if param["offset"] + count < unit["numel"] else -1
    return side


def check_parameters(side, of_ranks, truth, full):
    """Yields errors of the parameters that the sidecar splits."""
    for unit in side["units"]:
        found = cut(unit, flat_of(unit, of_ranks))
        yield from differing(unit["flat_param"], {name: truth[name] for name in found}, found)
        yield from differing(f"FULL_STATE_DICT, {unit['flat_param']}", {name: full[name] for name in found}, found)


def check_pieces(side, of_ranks, truth, world):
    """Plain tensors next to flat parameters must be the pieces of the ranks."""
    for unit in side["units"]:
        for param in unit["params"]:
            for rank, (_, pieces) in enumerate(of_ranks):
                low, high = piece_range(unit, param, rank, world)
                if not same(truth[param["fqn"]].reshape(-1)[low:high], pieces[param["fqn"]]):
                    yield f"the piece of {param['fqn']} of rank {rank} is not [{low}, {high})"


def check_state(side, states, full, world):
    """Yields errors of the state of an optimizer."""
    found = cut_state(side, states, world)
    for fqn in sorted(found.keys() | full.keys()):
        if fqn not in found or fqn not in full:
            yield f"the state of {fqn} is in {'one' if fqn in found else 'the other'} only"
            continue
        yield from differing(f"state of {fqn}", full[fqn], found[fqn])


def meta_side(case, world, sidecar):
    import torch
    with torch.device("meta"):
        plain = made(case)
    params = list(plain.parameters())
    return sidecar.describe(plain, units=case["units"], world_size=world, use_orig_params=case["orig"],
                            low_precision_dtype=case["low"] and getattr(torch, case["low"]),
                            optimizers=[optimizer_of(params, case)] if grouped_alike(case) else [])


def grouped_alike(case):
    """True if groups of parameters are also groups of flat parameters."""
    return case["orig"] or case["groups"] == 1


def local_of(model, case, world):
    """Like shards_of(); in a single process from its flat parameters."""
    if world > 1:
        return shards_of(model, case, world)
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    import ckptfs_sidecar
    shards = {}
    for path, module in model.named_modules():
        if isinstance(module, FSDP) and module._handle:
            flat = module._handle.flat_param.detach().clone()
            shards[ckptfs_sidecar._join(ckptfs_sidecar._clean_module(path), "_flat_param")] = len(flat), [(0, flat)]
    return [(shards, {})]


def train(model, optimizer):
    import torch
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(1, dtype=torch.float64)).sum().backward()
        optimizer.step()


def run_case(case, world, sidecar):
    """Returns the errors of a case, and whether the canaries were detected, None for a case
    without a canary."""
    from torch.distributed.fsdp import (FullOptimStateDictConfig, FullStateDictConfig, FullyShardedDataParallel as FSDP,
                                        StateDictType)
    plain = made(case)
    truth = {name: value.detach().clone() for name, value in plain.state_dict().items()}
    model = wrap(plain, case)
    optimizer = optimizer_of(model.parameters(), case)
    live = sidecar.describe(model, optimizers=[optimizer] if grouped_alike(case) else [])
    meta = meta_side(case, world, sidecar)
    wrong = [] if live == meta else [f"live {json.dumps(live)}", f"meta {json.dumps(meta)}"]
    live["optimizers"] = sidecar.describe(model, optimizers=[optimizer])["optimizers"]
    of_ranks, full = local_of(model, case, world), full_of(model)
    wrong += check_parameters(live, of_ranks, truth, full)
    if case["orig"] and world > 1:
        wrong += check_pieces(live, of_ranks, truth, world)
    other = broken(live)
    seen = other and [any(check_parameters(other, of_ranks, truth, full)), None]
    if not all(value.numel() for value in truth.values()):              # FSDP refuses the state of empty parameters
        return wrong, seen
    train(model, optimizer)
    states = gathered(optimizer.state_dict(), world)
    # With offloading from CPU to CPU all states share one buffer, and show the last state.
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=False),
                              FullOptimStateDictConfig(offload_to_cpu=False, rank0_only=False)):
        by_name = FSDP.optim_state_dict(model, optimizer)["state"]
    wrong += check_state(live, states, by_name, world)
    # With use_orig_params the state of a parameter that one rank has whole does not depend on its offset.
    if seen and not case["orig"]:
        seen[1] = any(check_state(other, states, by_name, world))
    return wrong, seen


def run_cases(rank, world, seed, count, out):
    import warnings
    import ckptfs_sidecar
    warnings.simplefilter("ignore")
    lot, results = random.Random(f"{seed} {world}"), []
    for number in range(count):
        case = drawn(lot, number)
        wrong, seen = run_case(case, world, ckptfs_sidecar)
        results.append({"case": case, "wrong": wrong[:8], "seen": seen})
    if rank == 0:
        pathlib.Path(out).write_text(json.dumps(results))


# ---- all cases --------------------------------------------------------------------------------------------

def described(case, world):
    return (f"case {case['number']} in {world}: {case['dtype']}, low {case['low']}, use_orig_params {case['orig']}, "
            f"{case['optimizer']}, units {case['units']}, ties {case['ties']}, plan {json.dumps(case['plan'])}")


def check_world(tap, world, seed, count, scratch):
    out = pathlib.Path(scratch, str(world))
    spawn.run(run_cases, world, seed, count, out, timeout=600)
    results = json.loads(out.read_text())
    bad = [result for result in results if result["wrong"]]
    notes = [line for result in bad[:3] for line in (described(result["case"], world), *result["wrong"])]
    tap.result(not bad and len(results) == count, f"{count} models in {world} processes", notes)
    seen = [result["seen"] for result in results if result["seen"]]
    states = [state for _, state in seen if state is not None]
    tap.result(seen and all(parameters for parameters, _ in seen) and (any(states) or not states),
               f"a wrong offset is seen in {world} processes, {len(seen)} times", [seen])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=cases("CKPTFS_CASES", 9, 20), help="of all worlds together; the full run has 200")
    parser.add_argument("--world", type=int, action="append", help="only these")
    options = parser.parse_args()
    if not importlib.util.find_spec("torch"):
        print("1..0 # SKIP torch is not installed")
        return 1 if os.environ.get("CI") == "true" else 0
    import torch
    torch.set_num_threads(1)
    print(f"# torch {torch.__version__}", flush=True)
    tap, worlds, first = Tap(), options.world or WORLDS, seed()
    with tempfile.TemporaryDirectory() as scratch:
        for world in worlds:
            check_world(tap, world, first, -(-options.cases // len(worlds)), scratch)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
