#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads hf/ with its usual clients, and compares every tensor with its values in memory.

    hf-clients.py CKPTFS [--cases N]

Random models are saved by torch.distributed.checkpoint in 1 to 4 processes, by torch.save and by the safetensors package,
beside an optimizer's state; each is mounted, with a random hf_shard_size=. safe_open must list the model's names and give
its tensors, whole and by slices; safetensors' loader of whole files, and 8 threads that read files in blocks, as vLLM does,
must get the same. Two processes, in the long run four, train two models of transformers under FSDP2, a llama and a GPT-2
with tied weights, and save them by DCP, the llama beside its optimizer. from_pretrained makes both from hf/, in one file, in several, and with a
template: the logits are those of the training model, bit for bit. CKPTFS_SEED repeats a run. The result is TAP.
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

RANKS = 4 if live.is_long() else 2
LAYERS = {"llama": "model.layers", "gpt2": "transformer.h"}


def tiny(name, seed=7):
    import torch
    import transformers
    torch.manual_seed(seed)
    if name == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=97, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=32)).eval()
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=97, n_embd=16, n_layer=2, n_head=4, n_positions=32)).eval()


def batch():
    import torch
    return torch.arange(20).reshape(2, 10) % 97


def logits(model):
    import torch
    with torch.no_grad():
        return model(batch()).logits


def train(rank, size, scratch):
    """One step under FSDP2. The llama is saved below app.model, beside its optimizer; the GPT-2 with its own names."""
    import torch
    import torch.distributed.checkpoint as dcp
    import models
    import world
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict
    mesh = world.init_device_mesh("cpu", (size,))
    for name, layers in LAYERS.items():
        model = tiny(name)
        for layer in model.get_submodule(layers):
            models.fully_shard(layer, mesh=mesh)
        models.fully_shard(model, mesh=mesh)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        model(batch(), labels=batch()).loss.backward()
        optimizer.step()
        state = get_model_state_dict(model)
        whole = {key: value.full_tensor() for key, value in state.items()}
        if name == "llama":
            state = {"app": dict(zip(("model", "optim"), get_state_dict(model, optimizer))), "step": 1}
        dcp.save(state, checkpoint_id=f"{scratch}/{name}")
        result = logits(model)
        if rank == 0:
            torch.save((whole, result), f"{scratch}/{name}.pt")


def template_of(name, folder):
    """What save_pretrained writes of the model before the training: config.json, and files with other values."""
    model = tiny(name)
    model.save_pretrained(folder, max_shard_size="8KB")
    return model


def from_hf(folder):
    """The logits of the model, and whether its tied weights are one tensor."""
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    result = logits(model), model.get_input_embeddings().weight is model.get_output_embeddings().weight
    del model
    gc.collect()                                                         # its weights are the file's pages
    return result


def pretrained(tap, ckptfs, scratch, name):
    """A model in all forms of hf/."""
    import torch
    home, template, plain = scratch / name, scratch / f"{name}-template", scratch / f"{name}-plain"
    whole_state, expected = torch.load(scratch / f"{name}.pt")
    first = template_of(name, template)
    plain.mkdir()
    beside = home if name == "llama" else plain                          # the llama has its config.json in SRC
    (beside / "config.json").write_bytes((template / "config.json").read_bytes())
    config = [] if beside is home else ["-o", f"hf_template={plain}"]
    for what, options in (("one file", config), ("several", [*config, "-o", "hf_shard_size=5K"]),
                          ("a template", ["-o", f"hf_template={template}"])):
        with interop.Mount(ckptfs, home, *options) as top:
            folder = os.fsdecode(top) + "/hf"
            made, tied = from_hf(folder)
            files = [path.name for path in files_of(folder)]
            found = wrong(whole_state, whole(folder), "hf/") if what != "a template" else []
        same = torch.equal(made, expected) and tied == (name == "gpt2")
        good = same and not found and (len(files) == 1) == (what == "one file")
        tap.line(good, f"from_pretrained: {name}, {what}", [str(files), *found])
    tap.line(files == [path.name for path in files_of(template)], f"{name}: the files of the template", [str(files)])
    tap.line(not torch.equal(made, logits(first)), f"canary: {name} before its training has other logits", [])


# Names of torchtitan and of transformers, of the layers and of the rest.
TITAN = {"layers.{}.attention.wq": "model.layers.{}.self_attn.q_proj", "layers.{}.attention.wk": "model.layers.{}.self_attn.k_proj",
         "layers.{}.attention.wv": "model.layers.{}.self_attn.v_proj", "layers.{}.attention.wo": "model.layers.{}.self_attn.o_proj",
         "layers.{}.feed_forward.w1": "model.layers.{}.mlp.gate_proj", "layers.{}.feed_forward.w2": "model.layers.{}.mlp.down_proj",
         "layers.{}.feed_forward.w3": "model.layers.{}.mlp.up_proj", "layers.{}.attention_norm": "model.layers.{}.input_layernorm",
         "layers.{}.ffn_norm": "model.layers.{}.post_attention_layernorm"}
ENDS = {"tok_embeddings.weight": "model.embed_tokens.weight", "norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}


def renamed(tap, ckptfs, scratch):
    """A Llama under torchtitan's names; q and k are not permuted, since a map of names cannot do that. PyTorch loads a tensor
    that was written under a new name under its old name."""
    import torch
    import torch.distributed.checkpoint as dcp
    model, home, names = tiny("llama"), scratch / "titan", scratch / "names"
    lines = {f"{old.format(i)}.weight": f"{new.format(i)}.weight" for i in range(2) for old, new in TITAN.items()} | ENDS
    names.write_text("".join(f"{old}\t{new}\n" for old, new in lines.items()), encoding="utf-8")
    state = {old: model.state_dict()[new] for old, new in lines.items()}
    dcp.save(state | {"optimizer.state.step": torch.tensor(1.0), "train_state": {"step": 7}}, checkpoint_id=str(home))
    model.config.save_pretrained(home)
    with interop.Mount(ckptfs, home, "-o", f"rename={names}") as top:
        folder = os.fsdecode(top) + "/hf"
        tap.line(not wrong(model.state_dict(), whole(folder), "renamed"), "renamed: the names of transformers", [])
        made, _ = from_hf(folder)
    tap.line(torch.equal(made, logits(model)), "renamed: from_pretrained", [])
    template = scratch / "llama-template"
    with interop.Mount(ckptfs, home, "-o", f"rename={names},hf_template={template}") as top:
        folder = os.fsdecode(top) + "/hf"
        good = [path.name for path in files_of(folder)] == [path.name for path in files_of(template)]
        tap.line(good and not wrong(model.state_dict(), whole(folder), "template"), "renamed: in the files of a template", [])
    with interop.Mount(ckptfs, home) as top:
        tap.line(sorted(whole(os.fsdecode(top) + "/hf")) == sorted(state), "canary: without the map it has the old names", [])
    new = torch.full_like(state["layers.1.attention.wo.weight"], 0.5)
    with interop.Mount(ckptfs, home, "-o", f"write,rename={names}") as top:
        pathlib.Path(os.fsdecode(top), "raw", lines["layers.1.attention.wo.weight"]).write_bytes(oracle.raw_bytes(new))
    want = state | {"layers.1.attention.wo.weight": new}
    got = {name: torch.zeros_like(t) for name, t in state.items()}
    dcp.load(got, checkpoint_id=str(home))
    tap.line(not wrong(want, got, "dcp.load"), "renamed: dcp.load after a write", wrong(want, got, "dcp.load"))


def copied(tap, ckptfs, scratch):
    """A copy of hf/ is a checkpoint of its own, without FUSE."""
    import torch
    target = scratch / "copy"
    done = subprocess.run([ckptfs, "cp", "-r", str(scratch / "llama"), "hf/", str(target)], capture_output=True, text=True,
                          check=False)
    want, expected = torch.load(scratch / "llama.pt")
    good = done.returncode == 0 and not wrong(want, whole(target), "copy") and torch.equal(from_hf(str(target))[0], expected)
    tap.line(good, "cp of hf/ without a mount", [done.stderr])


def exported(tap, ckptfs, scratch):
    """An export into several files, of which the first run may not write the largest."""
    import resource
    import torch
    target = scratch / "export"
    command = [ckptfs, "cp", "-r", "-o", "hf_shard_size=5K"], [str(scratch / "llama"), "hf", str(target)]
    first = subprocess.run(command[0] + command[1], capture_output=True, text=True, check=False,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)))
    complete = len(files_of(target))
    done = subprocess.run(command[0] + ["--resume"] + command[1], capture_output=True, text=True, check=False)
    count, files = len(list(target.iterdir())), len(files_of(target))
    _, expected = torch.load(scratch / "llama.pt")
    tap.line(first.returncode == 2 and done.returncode == 0 and 0 < complete < files and
             f"skipped {count - files + complete} files of {count} " in done.stderr and torch.equal(from_hf(str(target))[0], expected),
             "from_pretrained: an export, interrupted and resumed", [first.stderr, done.stderr, f"{complete} of {count}"])


def without_model(tap, ckptfs, scratch):
    import torch
    import torch.distributed.checkpoint as dcp
    dcp.save({"optimizer": {"exp_avg": torch.ones(2)}}, checkpoint_id=str(scratch / "optimizer"))
    with interop.Mount(ckptfs, scratch / "optimizer") as top:
        shown = os.listdir(top)
        os.path.exists(top + b"/hf")
        log = pathlib.Path(os.fsdecode(top), ".ckptfs/log").read_text(encoding="utf-8")
    tap.line(b"hf" not in shown and log.count("hf: absent: no tensor for hf/; root=NAME selects those below NAME, and root= all") == 1,
             "without a model: no hf/, and the log has the reason", [str(shown), log])


def models_of_transformers(tap, ckptfs, scratch):
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in LAYERS:
        tiny(name)                                                       # imports the model before the forks
    spawn.run(train, RANKS, scratch)
    for name in LAYERS:
        pretrained(tap, ckptfs, scratch, name)
    copied(tap, ckptfs, scratch)
    exported(tap, ckptfs, scratch)
    renamed(tap, ckptfs, scratch)
    without_model(tap, ckptfs, scratch)


def main():
    options = live.arguments(__doc__, cases=(3, 30))
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
        models_of_transformers(tap, options.ckptfs, pathlib.Path(scratch))
    print(f"# {count} tensors")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
