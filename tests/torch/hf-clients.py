#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hf/ as its clients read it: every tensor is compared with what was in memory.

    hf-clients.py CKPTFS [--cases N]

Random models are saved by torch.distributed.checkpoint in 1 to 4 processes, by torch.save and by the safetensors package,
beside an optimizer's state; each is mounted, with a random hf_shard_size=. safe_open must list the model's names and give
its tensors, whole and by slices; safetensors' loader of whole files, and 8 threads that read files in blocks, as vLLM does,
must get the same. A tiny model of transformers is saved by DCP and made from hf/ by from_pretrained, in one file, in several,
and with a template: its logits are equal. CKPTFS_SEED repeats a run. The result is TAP.
"""
import concurrent.futures
import gc
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import live                                                             # finds the modules of tests/fixtures, too
import interop
import oracle
import spawn

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64",
          "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2")
SCATTERED = "float32", "float64", "float16", "int8", "uint8", "int32", "int64"             # that gloo has
NAMES = ("weight", "layers.0.bias", "a b", "é😀", "norm.weight", "q/k", "\x01\"\\", "x" * 220)
BLOCK = 16 << 20


def drawn(lot, count):
    """name -> tensor, uneven and empty ones among them"""
    import torch
    import world
    tensors = {}
    for i in range(count):
        name = f"{lot.choice(NAMES)}.{i}"
        shape = [lot.choice((0, 1, 2, 3, 5, 8, 13)) for _ in range(lot.randrange(4))]
        tensors[name] = world.values(name, shape, getattr(torch, lot.choice(DTYPES)))
    return tensors


def nested(tensors):
    import torch
    return {"model": tensors, "optim": {"state": {name: {"step": torch.tensor(1.0)} for name in tensors}},
            "step": 7}


# ---- savers: what must be in hf/ ---------------------------------------------------------------------------------

def save_dcp(rank, world_size, home, seed):
    import torch.distributed.checkpoint as dcp
    import world
    lot = random.Random(seed)
    tensors = drawn(lot, lot.randrange(1, 12))
    mesh = world.init_device_mesh("cpu", (world_size,))
    for name, tensor in tensors.items():
        dim = lot.randrange(tensor.dim()) if tensor.dim() else None
        if dim is not None and lot.random() < 0.8 and oracle.dtype_name(tensor.dtype) in SCATTERED:
            tensors[name] = world.distribute_tensor(tensor, mesh, [world.Shard(dim)])
    dcp.save(nested(tensors), checkpoint_id=str(home))


def by_dcp(lot, home):
    seed = lot.randrange(1 << 30)
    spawn.run(save_dcp, lot.randrange(1, 5), home, seed)
    again = random.Random(seed)
    return drawn(again, again.randrange(1, 12))


def by_torch(lot, home):
    import torch
    tensors = drawn(lot, lot.randrange(1, 12))
    torch.save(nested(tensors), home / "checkpoint.pt")
    return tensors


def by_safetensors(lot, home):
    from safetensors.torch import save_file
    tensors = drawn(lot, lot.randrange(1, 20))
    for i in range(2):
        save_file({name: t for k, (name, t) in enumerate(tensors.items()) if k % 2 == i}, home / f"part-{i}.safetensors")
    return tensors


SAVERS = by_dcp, by_torch, by_safetensors


# ---- clients ------------------------------------------------------------------------------------------------------

def files_of(folder):
    return sorted(pathlib.Path(folder).glob("*.safetensors"))


def wrong(tensors, got, who):
    """Names of which the bytes, dtype or shape are others."""
    if sorted(got) != sorted(tensors):
        return [f"{who}: names {sorted(got)}, expected {sorted(tensors)}"]
    return [f"{who}: {name}" for name, want in tensors.items()
            if (got[name].dtype, got[name].shape) != (want.dtype, want.shape) or
            oracle.raw_bytes(got[name]) != oracle.raw_bytes(want)]


def whole(folder):
    from safetensors import safe_open
    got = {}
    for path in files_of(folder):
        with safe_open(path, framework="pt") as f:
            got.update((name, f.get_tensor(name)) for name in f.keys())
    return got


def loaded(folder):
    from safetensors.torch import load_file
    return {name: t for path in files_of(folder) for name, t in load_file(path).items()}


def read_blocks(path):
    """As vLLM's loader does before it parses: all of the file, by several threads."""
    from safetensors.torch import load
    size = path.stat().st_size

    def block(at):
        with open(path, "rb", buffering=0) as f:
            return os.pread(f.fileno(), BLOCK, at)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return load(b"".join(pool.map(block, range(0, size, BLOCK))))


def blocks(folder):
    return {name: t for path in files_of(folder) for name, t in read_blocks(path).items()}


def slices(lot, folder, tensors):
    from safetensors import safe_open
    for path in files_of(folder):
        with safe_open(path, framework="pt") as f:
            for name in f.keys():
                want = tensors[name]
                if want.dim() == 0 or want.numel() == 0:
                    continue
                cut = tuple(slice(*sorted((lot.randrange(size + 1), lot.randrange(size + 1)))) for size in want.shape)
                if oracle.raw_bytes(f.get_slice(name)[cut].contiguous()) != oracle.raw_bytes(want[cut].contiguous()):
                    yield f"get_slice: {name} {cut}"


def index_problems(folder, tensors):
    index = pathlib.Path(folder, "model.safetensors.index.json")
    if len(files_of(folder)) == 1:
        return ["an index of one file"] if index.exists() else []
    said = json.loads(index.read_text(encoding="utf-8"))
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    good = sorted(said["weight_map"]) == sorted(tensors) and said["metadata"]["total_size"] == size
    return [] if good else [f"index: {said}"]


def problems_of(ckptfs, lot, saver, home):
    tensors = saver(lot, home)
    size = lot.choice((0, 0, 1, 100, 1000, 100000))
    with interop.Mount(ckptfs, home, *(["-o", f"hf_shard_size={size}"] if size else [])) as top:
        folder = pathlib.Path(os.fsdecode(top), "hf")
        found = wrong(tensors, whole(folder), "safe_open") + wrong(tensors, loaded(folder), "load_file")
        found += wrong(tensors, blocks(folder), "blocks") + list(slices(lot, folder, tensors))
        found += index_problems(folder, tensors)
        if lot.random() < 0.2:
            other = {name: t.clone() for name, t in tensors.items()}
            name = next((name for name, t in other.items() if t.numel() and t.dtype.is_floating_point and t.itemsize > 1), None)
            if name:
                other[name].view(-1)[0] = 0 if other[name].view(-1)[0] else 1
                found += [] if wrong(other, whole(folder), "") else ["canary missed"]
    return found, len(tensors)


# ---- transformers -------------------------------------------------------------------------------------------------

def tiny():
    import torch
    import transformers
    torch.manual_seed(7)
    config = transformers.LlamaConfig(vocab_size=97, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32)
    return transformers.LlamaForCausalLM(config).eval()


def logits(model):
    import torch
    with torch.no_grad():
        return model(torch.arange(20).reshape(2, 10) % 97).logits


def pretrained(tap, ckptfs, scratch):
    import torch
    import torch.distributed.checkpoint as dcp
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model, home, template = tiny(), scratch / "saved", scratch / "template"
    dcp.save({"app": {"model": {f"module.{name}": t for name, t in model.state_dict().items()}, "optim": {"lr": torch.ones(3)}}},
             checkpoint_id=str(home))
    model.save_pretrained(template, max_shard_size="8KB")
    (home / "config.json").write_bytes((template / "config.json").read_bytes())
    for what, options in ("one file", []), ("several", ["-o", "hf_shard_size=5K"]), ("a template", ["-o", f"hf_template={template}"]):
        with interop.Mount(ckptfs, home, *options) as top:
            made = logits(transformers.AutoModelForCausalLM.from_pretrained(os.fsdecode(top) + "/hf").eval())
            gc.collect()                                                 # its weights are the file's pages
            same = torch.equal(made, logits(model))
            files = [path.name for path in files_of(os.fsdecode(top) + "/hf")]
        tap.line(same, f"from_pretrained: {what}", [str(files)])
    tap.line(files == [path.name for path in files_of(template)], "the files of the template", [str(files)])
    with torch.no_grad():
        model.model.norm.weight[0] += 1
    tap.line(not torch.equal(made, logits(model)), "canary: another weight has other logits", [])


def copied(tap, ckptfs, scratch):
    """A copy of hf/ is a checkpoint of its own, without FUSE."""
    target = scratch / "copy"
    done = subprocess.run([ckptfs, "cp", "-r", str(scratch / "saved"), "hf/", str(target)], capture_output=True, text=True,
                          check=False)
    want = {name: t for name, t in tiny().state_dict().items()}
    tap.line(done.returncode == 0 and not wrong(want, whole(target), "copy"), "cp of hf/ without a mount", [done.stderr])


def exported(tap, ckptfs, scratch):
    """An export into several files, of which the first run may not write the largest one."""
    import resource
    import torch
    import transformers
    target = scratch / "export"
    command = [ckptfs, "cp", "-r", "-o", "hf_shard_size=5K"], [str(scratch / "saved"), "hf", str(target)]
    first = subprocess.run(command[0] + command[1], capture_output=True, text=True, check=False,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)))
    complete = len(files_of(target))
    done = subprocess.run(command[0] + ["--resume"] + command[1], capture_output=True, text=True, check=False)
    made = logits(transformers.AutoModelForCausalLM.from_pretrained(target).eval())
    count = len(list(target.iterdir()))
    tap.line(first.returncode == 2 and done.returncode == 0 and 0 < complete < len(files_of(target)) and
             done.stderr.endswith(f"skipped {complete + 2} files of {count} that an earlier run completed\n") and
             torch.equal(made, logits(tiny())), "from_pretrained: an export, interrupted and resumed",
             [first.stderr, done.stderr, f"{complete} of {count}"])


def main():
    options = live.arguments(__doc__, cases=(6, 30))
    try:
        import safetensors                                                          # noqa: F401
        import transformers                                                         # noqa: F401
    except ImportError as missing:
        interop.skip(f"{missing.name} is not installed")
    seed = live.seed()
    tap, lot, count = interop.Tap(), random.Random(seed), 0
    for case in range(options.cases):
        saver = SAVERS[case % len(SAVERS)]
        with tempfile.TemporaryDirectory(prefix="hf-") as scratch:
            found, tensors = problems_of(options.ckptfs, lot, saver, pathlib.Path(scratch))
        count += tensors
        tap.line(not found, f"{saver.__name__}: {tensors} tensors", found)
    with tempfile.TemporaryDirectory(prefix="hf-") as scratch:
        pretrained(tap, options.ckptfs, pathlib.Path(scratch))
        copied(tap, options.ckptfs, pathlib.Path(scratch))
        exported(tap, options.ckptfs, pathlib.Path(scratch))
    print(f"# {count} tensors")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
