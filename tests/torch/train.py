#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A training job as users have it: a model under FSDP, AdamW, resumed from a checkpoint and saved to one.

    torchrun --nproc-per-node 4 train.py [--load DIR] [--set NAME=FILE.npy]... [--steps N] [--save DIR] [--report FILE]

Model and optimizer go in and out by get_state_dict, set_state_dict, dcp.load and dcp.save. One batch is the same
however many processes share it, so that jobs can be compared. The report is JSON: SHA-256 of every whole tensor as it
was loaded (after --set, which puts an array where a parameter is) and as it was trained, and the losses.
"""
import argparse
import hashlib
import json
import os
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fixtures"))

ROWS = 4                                                                # of a batch; the processes share them evenly


def make_model(options):
    import torch
    import models
    torch.manual_seed(options.seed)
    model = models.Llama(64, 16, 48) if options.model == "even" else models.Odd()
    if options.model == "uneven":
        model.running = torch.full((3,), float(options.seed))
    return model


def wrap(model, options, rank, size):
    from world import init_device_mesh
    import models
    import torch
    mesh = init_device_mesh("cpu", (size,))
    if options.fsdp == 1:
        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
        return FSDP(model, device_mesh=mesh, device_id=torch.device("cpu"), use_orig_params=True)
    for layer in getattr(model, "layers", []):
        models.fully_shard(layer, mesh=mesh)
    return models.fully_shard(model, mesh=mesh)


def batch(number, model, rank, size):
    import torch
    random = torch.Generator().manual_seed(number)
    rows = (torch.randint(64, (ROWS, 6), generator=random) if model == "even" else
            torch.randn(ROWS, 5, generator=random))
    return rows[rank * ROWS // size:(rank + 1) * ROWS // size]


class Job:
    """One rank of it."""

    def __init__(self, options, rank, size):
        import torch
        from torch.distributed.checkpoint.state_dict import StateDictOptions
        self.options, self.rank, self.size, self.done = options, rank, size, 0
        self.model = wrap(make_model(options), options, rank, size)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.how = StateDictOptions(cpu_offload=options.offload)

    def state(self):
        from torch.distributed.checkpoint.state_dict import get_state_dict
        weights, optim = get_state_dict(self.model, self.optimizer, options=self.how)
        return {"model": weights, "optim": optim, "step": self.done}

    def train(self):
        """One step; returns the loss of the whole batch. A buffer changes, too."""
        import torch
        import torch.distributed as dist
        self.done += 1
        self.optimizer.zero_grad()
        loss = self.model(batch(self.done, self.options.model, self.rank, self.size)).float().pow(2).mean()
        loss.backward()
        self.optimizer.step()
        for _, buffer in self.model.named_buffers():
            buffer.add_(1)
        loss = loss.detach() / self.size
        dist.all_reduce(loss)
        return torch.as_tensor(loss).item()

    def save(self, path):
        import torch.distributed.checkpoint as dcp
        dcp.save(self.state(), checkpoint_id=str(path))

    def load(self, path):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import set_state_dict
        state = self.state()
        dcp.load(state, checkpoint_id=str(path))
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
        self.done = state["step"]

    def put(self, name, array):
        """In place of a parameter, what the array has."""
        import torch
        from world import distribute_tensor
        parameter = dict(self.model.named_parameters())[name]
        whole = distribute_tensor(torch.from_numpy(array), parameter.device_mesh, parameter.placements)
        with torch.no_grad():
            parameter.copy_(whole)

    def digests(self):
        """Every whole tensor of model and optimizer: its flat key, kind, dtype, shape, and the
        digest of its bytes."""
        import oracle
        state = self.state()
        entries = {f"model.{name}": value for name, value in state["model"].items()}
        entries |= {f"optim.state.{name}.{field}": value for name, fields in state["optim"]["state"].items()
                    for field, value in fields.items()}
        out = {}
        for key, value in entries.items():
            kind = f"DTensor{tuple(value.placements)}" if hasattr(value, "placements") else "Tensor"
            whole = value.full_tensor() if hasattr(value, "placements") else value
            out[key] = [kind, str(whole.dtype), list(whole.shape), hashlib.sha256(oracle.raw_bytes(whole)).hexdigest()]
        return out


def run(rank, size, options):
    """The whole job, in one of its processes."""
    import numpy
    job = Job(options, rank, size)
    if options.load:
        job.load(options.load)
    for assignment in options.set:
        name, _, file = assignment.partition("=")
        job.put(name, numpy.load(file))
    report = {"loaded": job.digests(), "losses": [job.train() for _ in range(options.steps)]}
    report["trained"] = job.digests()
    if options.save:
        job.save(options.save)
    if rank == 0 and options.report:
        pathlib.Path(options.report).write_text(json.dumps(report))
    if rank == 0:
        print(f"# {size} processes, step {job.done}, losses {report['losses']}", flush=True)


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=("even", "uneven"), default="even")
    parser.add_argument("--fsdp", type=int, choices=(1, 2), default=2)
    parser.add_argument("--seed", type=int, default=1, help="of the first weights")
    parser.add_argument("--offload", action="store_true")
    parser.add_argument("--load", metavar="DIR")
    parser.add_argument("--set", metavar="NAME=FILE.npy", action="append", default=[])
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--save", metavar="DIR")
    parser.add_argument("--report", metavar="FILE")
    return parser.parse_args(words)


def main():
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    run(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), arguments())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
