#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checkpoints that OLMo-core, Megatron-core and jobs with torchao write, and arrays of ml_dtypes.

    producers.py CKPTFS [--only NAME]...
    producers.py --save|--load NAME HOME        what runs with the package of NAME

Each package is installed by pip into a temporary directory, with those of its dependencies that are needed and no others;
where pip cannot, it is skipped. Two processes save, each a part. ckptfs must show the bytes that they saved, list the
classes that are not PyTorch's, and replace one tensor through a mount for writing, without keep_unknown. Then the
package's own reader, in two processes, and dcp.load must load the result. The result is TAP.
"""
import gc
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import types

import interop
import live                                                             # finds the modules of tests/fixtures, too
import oracle
import spawn
from tap import Tap

RANKS = 2


# ---- OLMo-core ------------------------------------------------------------------------------------------------------

class Olmo:
    """A model and its optimizer under FSDP2: 5 rows of a weight in two processes."""
    replaced = "model.0.weight"

    @staticmethod
    def trained(seed):
        import torch
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Linear(5, 3))
        for layer in model:
            fully_shard(layer, mesh=init_device_mesh("cpu", (RANKS,)))
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(2, 7)).sum().backward()
        optimizer.step()
        return model, optimizer

    @staticmethod
    def tensors(model, optimizer):
        from torch.distributed.checkpoint._nested_dict import flatten_state_dict
        from torch.distributed.checkpoint.state_dict import get_state_dict
        state = dict(zip(("model", "optim"), get_state_dict(model, optimizer)))
        return {key: value.full_tensor() if hasattr(value, "full_tensor") else value
                for key, value in flatten_state_dict(state)[0].items() if hasattr(value, "dtype")}

    @staticmethod
    def without_clouds():
        """Stands in for cached_path, which needs the libraries of three clouds to read URLs; of a path it returns it."""
        client = type("Client", (), {"recoverable_errors": ()})
        for name, content in (("cached_path", {"cached_path": lambda path, **_: pathlib.Path(path)}), (
                "cached_path.schemes", {"S3Client": client, "SchemeClient": client, "add_scheme_client": print})):
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__dict__.update(content)

    @classmethod
    def save(cls, rank, home):
        cls.without_clouds()
        from olmo_core.distributed.checkpoint import save_model_and_optim_state
        trained = cls.trained(1)
        save_model_and_optim_state(home, *trained)
        return cls.tensors(*trained)

    @classmethod
    def load(cls, rank, home):
        cls.without_clouds()
        from olmo_core.distributed.checkpoint import load_model_and_optim_state
        trained = cls.trained(2)
        load_model_and_optim_state(home, *trained)
        return cls.tensors(*trained)

    @classmethod
    def reader(cls, home):
        """PyTorch's own fails: the records have no transform_descriptors."""
        cls.without_clouds()
        from olmo_core.distributed.checkpoint.filesystem import RemoteFileSystemReader
        return RemoteFileSystemReader(home)


# ---- Megatron-core --------------------------------------------------------------------------------------------------

class Megatron:
    """Even and uneven boxes, an axis on which layers are stacked, an object of each rank, and values that are equal
    on all ranks, which go into common.pt."""
    replaced = "uneven"
    WHOLE = {"even": (4, 3), "uneven": (5, 3), "stacked": (RANKS, 2, 3), "replicated": (6,)}

    @staticmethod
    def on_cpu():
        """Megatron-core waits for a GPU and makes one-element tensors on it, even without a GPU; 0.15.0 needs NumPy 1."""
        import numpy
        import torch
        numpy.product = numpy.prod
        torch.cuda.synchronize = lambda *_: None
        torch.cuda.current_device = lambda: "cpu"

    @classmethod
    def whole(cls, key):
        import world
        return world.values(key, cls.WHOLE[key])

    @classmethod
    def sharded(cls, rank, value):
        """value(key): the whole tensor."""
        from megatron.core.dist_checkpointing import ShardedObject, ShardedTensor
        rows = slice(0, 3) if rank == 0 else slice(3, 5)
        uneven = value("uneven")[rows].clone()
        return {
            "even": ShardedTensor.from_rank_offsets("even", value("even").chunk(RANKS)[rank].clone(), (0, rank, RANKS)),
            "uneven": ShardedTensor("uneven", uneven, uneven.dtype, tuple(uneven.shape), cls.WHOLE["uneven"],
                                    (rows.start, 0), None),
            "stacked": ShardedTensor.from_rank_offsets("stacked", value("stacked")[rank].clone(), (0, rank, RANKS),
                                                       prepend_axis_num=1),
            "replicated": ShardedTensor.from_rank_offsets("replicated", value("replicated"), replica_id=rank),
            "state": ShardedObject("state", {"rank": rank}, (RANKS,), (rank,)),
        }

    @classmethod
    def save(cls, rank, home):
        import torch
        from megatron.core import dist_checkpointing
        cls.on_cpu()
        pathlib.Path(home).mkdir(exist_ok=True)
        common = {"iteration": 7, "plain": torch.arange(3)}
        dist_checkpointing.save({**cls.sharded(rank, cls.whole), **common}, home)
        cls.stop_manager()
        return {**{key: cls.whole(key) for key in cls.WHOLE}, "common.plain": common["plain"]}

    @staticmethod
    def stop_manager():
        """The process that hands the results of writing on ends with its last proxy."""
        from megatron.core.dist_checkpointing.strategies import filesystem_async
        filesystem_async._results_queue = None
        gc.collect()

    @classmethod
    def load(cls, rank, home):
        import torch
        from megatron.core import dist_checkpointing
        cls.on_cpu()
        state = dist_checkpointing.load(cls.sharded(rank, lambda key: torch.zeros(cls.WHOLE[key])), home)
        if state["iteration"] != 7 or state["state"] != {"rank": rank}:
            raise ValueError(f"rank {rank}: {state['iteration']}, {state['state']}")
        parts = [None] * RANKS
        torch.distributed.all_gather_object(parts, {key: state[key] for key in cls.WHOLE})
        tensors = {key: torch.cat([part[key].reshape(-1) for part in parts]) for key in cls.WHOLE}
        return {**tensors, "replicated": state["replicated"], "common.plain": state["plain"]}

    @staticmethod
    def reader(home):
        from torch.distributed.checkpoint import FileSystemReader
        return FileSystemReader(home)


class FlatMegatron(Megatron):
    """The release that cuts a flattened tensor anywhere, and keeps its shape in a Metadata of its own."""
    WHOLE = {**Megatron.WHOLE, "flat": (1, 1, 12)}
    SPLIT = 5

    @classmethod
    def sharded(cls, rank, value):
        from megatron.core.dist_checkpointing import ShardedTensor
        part = slice(0, cls.SPLIT) if rank == 0 else slice(cls.SPLIT, 12)
        flat = ShardedTensor.from_rank_offsets_flat("flat", value("flat").reshape(-1)[part].clone(), (4, 3),
                                                    flattened_range=part)
        return {**super().sharded(rank, value), "flat": flat}


# ---- torchao --------------------------------------------------------------------------------------------------------

class Float8:
    """A model that is trained with float8 under FSDP2, whose weights are gathered as float8, and its optimizer."""
    replaced = "model.0.weight"

    @staticmethod
    def trained(seed):
        import torch
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from torchao.float8 import (Float8LinearConfig, convert_to_float8_training,
                                    precompute_float8_dynamic_scale_for_fsdp)
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.Linear(48, 16))
        convert_to_float8_training(model, config=Float8LinearConfig(enable_fsdp_float8_all_gather=True, emulate=True))
        for layer in model:
            fully_shard(layer, mesh=init_device_mesh("cpu", (RANKS,)))
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(16, 32)).sum().backward()
        optimizer.step()
        precompute_float8_dynamic_scale_for_fsdp(model)
        return model, optimizer

    @staticmethod
    def states(model, optimizer):
        from torch.distributed.checkpoint.state_dict import get_state_dict
        return dict(zip(("model", "optim"), get_state_dict(model, optimizer)))

    @classmethod
    def tensors(cls, model, optimizer):
        """A wrapped weight is gathered by its rows, as tensors without the wrapper."""
        import torch
        from torch.distributed.checkpoint._nested_dict import flatten_state_dict
        tensors = {}
        for key, value in flatten_state_dict(cls.states(model, optimizer))[0].items():
            local = value.to_local() if hasattr(value, "to_local") else value
            if hasattr(local, "_tensor"):
                parts = [None] * RANKS
                torch.distributed.all_gather_object(parts, local._tensor.detach().clone())
                tensors[key] = torch.cat(parts)
            elif hasattr(value, "dtype"):
                tensors[key] = value.full_tensor() if hasattr(value, "full_tensor") else value
        return tensors

    @classmethod
    def save(cls, rank, home):
        import torch.distributed.checkpoint as dcp
        trained = cls.trained(1)
        dcp.save(cls.states(*trained), checkpoint_id=home)
        return cls.tensors(*trained)

    @classmethod
    def load(cls, rank, home):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import set_state_dict
        trained = cls.trained(2)
        states = cls.states(*trained)
        dcp.load(states, checkpoint_id=home)
        set_state_dict(*trained, model_state_dict=states["model"], optim_state_dict=states["optim"])
        return cls.tensors(*trained)

    @staticmethod
    def reader(home):
        """The classes of torchao are safe to load once they are imported."""
        import torchao.float8                                                       # noqa: F401
        from torch.distributed.checkpoint import FileSystemReader
        return FileSystemReader(home)


MEGATRON = "megatron.core.dist_checkpointing.strategies.torch"
# Name: what runs, the requirements of pip, and the classes that are listed. Megatron-core does not require psutil, but
# its processes that write need it, and it waits for them for ever.
PRODUCERS = {
    "olmo-core-3.0.0": (Olmo, ["ai2-olmo-core==3.0.0", "bettermap==1.3.1", "dill==0.4.1", "dataclass-extensions==0.5.0",
                               "requests==2.34.2", "urllib3==2.8.0", "idna==3.20", "certifi==2026.10.19.post1",
                               "charset-normalizer==3.5.3"],
                        ["olmo_core.distributed.checkpoint.filesystem._StorageInfo"]),
    "megatron-core-0.15.0": (FlatMegatron, ["megatron-core==0.15.0", "psutil==7.2.2"],
                             [f"{MEGATRON}.MCoreMetadata", f"{MEGATRON}.MCoreSavePlan"]),
    "megatron-core-0.16.1": (Megatron, ["megatron-core==0.16.1", "psutil==7.2.2"], []),
    "torchao-0.18.0": (Float8, ["torchao==0.18.0"], []),
}


# ---- with the package -----------------------------------------------------------------------------------------------

def in_rank(rank, _, call, home):
    """What rank 0 returns, as bytes, goes beside the checkpoint."""
    tensors = call(rank, home)
    if rank == 0:
        with open(f"{home}.tensors", "wb") as file:
            pickle.dump({key: oracle.raw_bytes(tensor) for key, tensor in tensors.items()}, file)


def dcp_loads(producer, home):
    """All tensors of .metadata, by dcp.load in one process."""
    import torch
    import torch.distributed.checkpoint as dcp
    reader = producer.reader(home)
    state = {key: torch.zeros(entry.size, dtype=entry.properties.dtype)
             for key, entry in reader.read_metadata().state_dict_metadata.items() if hasattr(entry, "chunks")}
    dcp.load(state, storage_reader=reader, no_dist=True)
    with open(f"{home}.dcp", "wb") as file:
        pickle.dump({key: oracle.raw_bytes(tensor) for key, tensor in state.items()}, file)


def package_main(how, name, home):
    live.make.quiet()
    producer = PRODUCERS[name][0]
    spawn.run(in_rank, RANKS, getattr(producer, how), home)
    if how == "load":
        spawn.run(lambda *_: dcp_loads(producer, home), 0)


# ---- without it -----------------------------------------------------------------------------------------------------

class Package:
    """Installed for as long as it is used."""

    def __init__(self, requirements):
        self.requirements = requirements

    def __enter__(self):
        """Returns None, or why pip cannot install it."""
        self.directory = tempfile.TemporaryDirectory(prefix="package-")
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--retries", "1",
                               "--timeout", "15", "--target", self.directory.name, *self.requirements], check=False,
                              capture_output=True, text=True)
        if done.returncode == 0:
            return None
        return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]

    def __exit__(self, *_):
        self.directory.cleanup()

    def run(self, *arguments):
        environment = {**os.environ, "PYTHONPATH": self.directory.name, "OMP_NUM_THREADS": "1"}
        return subprocess.run([sys.executable, *arguments], check=False, capture_output=True, text=True, env=environment,
                              timeout=600)


def shown(top, tensors):
    """The tensors whose bytes the mount does not show."""
    stems = oracle.stems([oracle.key_bytes(key) for key in tensors])
    return [key for key, content in tensors.items()
            if pathlib.Path(os.fsdecode(os.path.join(top, b"raw", stems[oracle.key_bytes(key)]))).read_bytes() != content]


def unknown(top):
    lines = pathlib.Path(os.fsdecode(top), ".ckptfs/status").read_text().splitlines()
    at = [number for number, line in enumerate(lines) if line.startswith("unknown classes: ")]
    count = int(lines[at[0]].split(": ")[1]) if at else 0
    return [line.strip() for line in lines[at[0] + 1:at[0] + 1 + count]] if at else []


def unpickled(path):
    with open(path, "rb") as file:
        return pickle.load(file)


def replace(tap, program, name, home, tensors):
    """Through a mount for writing: the elements of one tensor, of 4 bytes each, in another order."""
    producer, _, classes = PRODUCERS[name]
    with interop.Mount(program, home, "-o", "write") as top:
        tap.check(not shown(top, tensors), f"{name}: tensors", *shown(top, tensors))
        tap.check(unknown(top) == classes, f"{name}: classes", *unknown(top))
        old = tensors[producer.replaced]
        tensors[producer.replaced] = b"".join(old[at:at + 4] for at in range(len(old) - 4, -1, -4))
        with open(os.path.join(top, b"raw", os.fsencode(producer.replaced)), "wb") as file:
            file.write(tensors[producer.replaced])
        tap.check(not shown(top, tensors), f"{name}: tensors after a commit", *shown(top, tensors))
        tap.check(unknown(top) == classes, f"{name}: classes after a commit", *unknown(top))


def ran(tap, package, name, how, home):
    done = package.run(__file__, f"--{how}", name, home)
    tap.check(done.returncode == 0, f"{name}: it {how}s", *done.stderr.splitlines()[-8:])
    return done.returncode == 0


def check(tap, program, name, package, scratch):
    home = f"{scratch}/checkpoint"
    if not ran(tap, package, name, "save", home):
        return
    tensors = unpickled(f"{home}.tensors")
    replace(tap, program, name, home, tensors)
    if not ran(tap, package, name, "load", home):
        return
    for what, found in ("the package's own reader", unpickled(f"{home}.tensors")), ("dcp.load", unpickled(f"{home}.dcp")):
        wanted = tensors if what != "dcp.load" else {key: tensors[key] for key in tensors if not key.startswith("common.")}
        wrong = [key for key in {**wanted, **found} if found.get(key) != wanted.get(key)]
        tap.check(not wrong, f"{name}: {what} has the new values", *wrong)


def check_ml_dtypes(tap, program, name, package, scratch):
    """numpy.save() of its arrays onto tensors, and numpy.load() of what the mount shows, viewed as its types."""
    import torch
    import torch.distributed.checkpoint as dcp
    names = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32")
    dcp.save({key: torch.zeros(2, 3).to(getattr(torch, key)) for key in names}, checkpoint_id=scratch)
    with interop.Mount(program, scratch, "-o", "write") as top:
        for key in names:
            done = package.run("-c", ML_DTYPES, os.fsdecode(top), key)
            tap.check(done.returncode == 0, f"{name}: {key}", *done.stderr.splitlines()[-4:])


ML_DTYPES = """
import sys
import ml_dtypes, numpy
top, key = sys.argv[1:]
array = numpy.array([[1, 2, 4], [0.5, 0.25, 8]]).astype(getattr(ml_dtypes, key))
numpy.save(f"{top}/full/{key}.npy", array)
assert open(f"{top}/raw/{key}", "rb").read() == array.tobytes(), "other bytes"
assert (numpy.load(f"{top}/full/{key}.npy").view(array.dtype) == array).all(), "other values"
"""


def main():
    if sys.argv[1] in ("--save", "--load"):
        return package_main(sys.argv[1].lstrip("-"), *sys.argv[2:])
    options, tap = live.arguments(__doc__, only=[]), Tap()
    tests = {**{name: (requirements, check) for name, (_, requirements, _) in PRODUCERS.items()},
             "ml_dtypes-0.6.0": (["ml_dtypes==0.6.0"], check_ml_dtypes)}
    for name, (requirements, test) in tests.items():
        if options.only and name not in options.only:
            continue
        package = Package(requirements)
        with package as failure, tempfile.TemporaryDirectory(prefix="produced-") as scratch:
            if failure:
                tap.skip(name, f"pip cannot install it: {failure}")
            else:
                test(tap, options.ckptfs, name, package, scratch)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
