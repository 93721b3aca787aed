#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hf/ and hub models, read by loaders that pip installs.

    hf-loaders.py CKPTFS [--only NAME]...
    hf-loaders.py --load NAME FOLDER            what runs with the package of NAME

Four processes save a model of large and odd tensors by DCP. fastsafetensors and runai-model-streamer, both with O_DIRECT,
and accelerate must load it from hf/ with the bytes that were in memory, in one file and in several. huggingface_hub
downloads a model from a server on the loopback interface into its cache, and its snapshot is mounted, by itself and in its run directory.
Where pip cannot install a package, it is skipped. The result is TAP.
"""
import functools
import hashlib
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

import interop
import live                                                             # finds the modules of tests/fixtures, too
import oracle
import producers
import spawn
from tap import Tap

RANKS = 4
# More than one block of each loader, ends that are no multiple of a sector, and elements of each size.
TENSORS = {
    "model.embed.weight": ((1031, 997), "float32"), "model.layers.0.weight": ((513, 4099), "bfloat16"),
    "model.layers.0.bias": ((4099,), "float64"), "model.layers.1.weight": ((7, 3, 5), "float16"),
    "model.mask": ((11, 13), "bool"), "model.steps": ((3,), "int64"), "model.scale": ((), "float32"),
    "model.quantized": ((641, 1023), "float8_e4m3fn"), "model.bytes": ((2, 5), "uint8"),
}
SCATTERED = "float32", "float64", "float16", "int64", "uint8"           # that gloo has


def tensors():
    import torch
    import world
    return {name: world.values(name, shape, getattr(torch, dtype)) for name, (shape, dtype) in TENSORS.items()}


def save(rank, size, home):
    import torch.distributed.checkpoint as dcp
    import world
    mesh = world.init_device_mesh("cpu", (size,))
    state = {name: world.distribute_tensor(tensor, mesh, [world.Shard(0)])
             if tensor.dim() and TENSORS[name][1] in SCATTERED else tensor for name, tensor in tensors().items()}
    dcp.save({"model": state, "optim": {"exp_avg": state}}, checkpoint_id=home)


def described(found):
    return {name: [str(tensor.dtype), list(tensor.shape), hashlib.sha256(oracle.raw_bytes(tensor)).hexdigest()]
            for name, tensor in found.items()}


# ---- loaders: each gives name -> tensor of a folder -----------------------------------------------------------------

def files_of(folder):
    return sorted(str(path) for path in pathlib.Path(folder).glob("*.safetensors"))


def fastsafetensors(folder):
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup
    loader = SafeTensorsFileLoader(SingleGroup(), "cpu", nogds=True)
    loader.add_filenames({0: files_of(folder)})
    buffers = loader.copy_files_to_device()
    found = {name: buffers.get_tensor(name).clone() for name in loader.get_keys()}
    buffers.close()
    loader.close()
    return found


def runai(folder):
    from runai_model_streamer import SafetensorsStreamer
    with SafetensorsStreamer() as streamer:
        streamer.stream_files(files_of(folder))
        return {name: tensor.clone() for name, tensor in streamer.get_tensors()}


def accelerate(folder):
    """Into a model that is on the device meta before, as big models are."""
    import torch
    from accelerate import init_empty_weights, load_checkpoint_and_dispatch
    shapes = tensors()
    with init_empty_weights(include_buffers=True):
        model = torch.nn.Module()
        for name, tensor in shapes.items():
            at = model
            *parts, last = name.split(".")
            for part in parts:
                if not hasattr(at, part):
                    at.add_module(part, torch.nn.Module())
                at = getattr(at, part)
            at.register_buffer(last, torch.empty_like(tensor))
    files = files_of(folder)
    load_checkpoint_and_dispatch(model, files[0] if len(files) == 1 else folder, device_map={"": "cpu"}, strict=True)
    return dict(model.state_dict())


LOADERS = {
    "fastsafetensors-0.5.0": (fastsafetensors, ["fastsafetensors==0.5.0"]),
    "runai-model-streamer-0.17.0": (runai, ["runai-model-streamer==0.17.0", "humanize==4.17.0"]),
    "accelerate-1.15.0": (accelerate, ["accelerate==1.15.0", "psutil==7.2.2"]),
}


def check(tap, program, name, package, home):
    expected = described(tensors())
    for what, options in ("one file", []), ("several", ["-o", "hf_shard_size=3M"]):
        with interop.Mount(program, home, *options) as top:
            done = package.run(__file__, "--load", name, os.fsdecode(top) + "/hf")
        found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
        notes = [f"{key}: {found.get(key)}, expected {value}" for key, value in expected.items() if found.get(key) != value]
        tap.check(found == expected, f"{name}: {what}", *notes, *done.stderr.splitlines()[-8:])
    expected["model.scale"][2] = expected["model.steps"][2]
    tap.check(found and found != expected, f"canary: {name}, another scalar")


# ---- huggingface_hub ------------------------------------------------------------------------------------------------

class Hub(http.server.SimpleHTTPRequestHandler):
    """Answers /owner/model/resolve/REVISION/FILE as a hub does: by the hash of the file and the commit."""
    commit = "0123456789abcdef0123456789abcdef01234567"

    def translate_path(self, path):
        return super().translate_path(path.rsplit("/", 1)[-1])

    def end_headers(self):
        file = pathlib.Path(self.translate_path(self.path))
        if file.is_file():
            self.send_header("ETag", f'"{hashlib.sha256(file.read_bytes()).hexdigest()}"')
            self.send_header("X-Repo-Commit", self.commit)
        super().end_headers()

    def log_message(self, *_):
        pass


DOWNLOAD = """
import sys
from huggingface_hub import hf_hub_download
for file in sys.argv[2:]:
    print(hf_hub_download("owner/model", file, cache_dir=sys.argv[1]))
"""


def downloaded(hub, cache):
    """The directory of the snapshot that the library made of the files of the directory `hub`."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Hub, directory=hub)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = {**os.environ, "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HUB_DISABLE_TELEMETRY": "1",
                       "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}
        done = subprocess.run([sys.executable, "-c", DOWNLOAD, cache, *sorted(os.listdir(hub))], env=environment,
                              capture_output=True, text=True, check=False, timeout=300)
        server.shutdown()
    if done.returncode:
        raise RuntimeError(done.stderr)
    return pathlib.Path(done.stdout.splitlines()[-1]).parent


def check_cache(tap, program, scratch):
    """A model in two files, each of them a link to a blob."""
    from safetensors.torch import save_file
    hub = pathlib.Path(scratch, "hub")
    hub.mkdir()
    everything = tensors()
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    of = {name: names[number % 2] for number, name in enumerate(everything)}
    for file in names:
        save_file({name: tensor for name, tensor in everything.items() if of[name] == file}, hub / file)
    (hub / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": of}))
    (hub / "config.json").write_text("{}")
    snapshot = downloaded(hub, f"{scratch}/cache")
    links = [path.is_symlink() and path.resolve().parent.name == "blobs" for path in snapshot.iterdir()]
    tap.check(len(links) == 4 and all(links), "huggingface_hub: four links to blobs", *snapshot.iterdir())
    home = snapshot.parent.parent
    for what, source, below in ("a snapshot", snapshot, "."), ("the directory of a model", home, f"snapshots/{snapshot.name}"):
        with interop.Mount(program, source) as top:
            folder = pathlib.Path(os.fsdecode(top), below)
            wrong = [name for name, tensor in everything.items() if
                     (folder / "raw" / name).read_bytes() != oracle.raw_bytes(tensor)]
            tap.check(not wrong, f"huggingface_hub: {what}, mounted", *wrong)
            tap.check((folder / "hf/config.json").read_text() == "{}", f"huggingface_hub: {what}: config.json in hf/")


def main():
    if sys.argv[1] == "--load":
        live.make.quiet()
        print(json.dumps(described(LOADERS[sys.argv[2]][0](sys.argv[3]))))
        return 0
    options, tap = live.arguments(__doc__, only=[]), Tap()
    with tempfile.TemporaryDirectory(prefix="hf-loaders-") as scratch:
        spawn.run(save, RANKS, f"{scratch}/saved")
        for name, (_, requirements) in LOADERS.items():
            if options.only and name not in options.only:
                continue
            package = producers.Package(requirements)
            with package as failure:
                if failure:
                    tap.skip(name, f"pip cannot install it: {failure}")
                else:
                    check(tap, options.ckptfs, name, package, f"{scratch}/saved")
        if not options.only or "huggingface_hub" in options.only:
            check_cache(tap, options.ckptfs, scratch)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
