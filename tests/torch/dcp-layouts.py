#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch reads dcp/<spec>/ of a mount.

    dcp-layouts.py CKPTFS
    dcp-layouts.py --read DIR KEYS      the part that runs in one release; prints JSON

The tensors of fixtures of all kinds are loaded from dcp/3 by dcp.load, in the long run also by each installed release
(see written.py), and compared with the digests of the fixtures. dcp_to_torch_save must give the nested state dict of the
source. Jobs of 1 and 2 processes, in the long run of 3 and 4, load DTensors and objects from the layouts of 1 to 4 ranks and of
a mesh, their own among them, compare them with the source, and save them again: a mount of that shows the same. Each rank of a job of the same
layout must read its own file alone. A job of one rank, in the long run of four, (train.py: FSDP2, AdamW) is resumed by two from
dcp/2 and from its own checkpoint: both go on bit by bit the same. The result is TAP.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import live                                                             # also finds the modules of tests/fixtures
import interop
import spawn
import train
from tap import Tap
from written import load_all, number, pythons, tensors_of

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
# A fixture of each kind and of each form of items.
FEW = ("fsdp2", "dtypes", "shapes", "strides_sharded", "hub_tied", "hub_index", "files_zip", "ranks_fsdp2_3", "ranks_shards_4",
       "items_4", "megatron", "alone_2", "keys")
# The first releases that load these dtypes; older ones pass over a fixture that has them.
NEWER = {"uint16": (2, 3), "uint32": (2, 3), "uint64": (2, 3), "float8_e8m0fnu": (2, 7), "float4_e2m1fn_x2": (2, 13)}
# The layouts that a job of so many processes loads: its own, and others.
SPECS = {1: ("4", "1"), 2: ("2", "3", "dp=2,cp=2")}
if live.is_long():
    SPECS = {size: ("1", "2", "3", "4", "dp=2,cp=2", "64", str(size)) for size in (1, 2, 3, 4)}
ROWS = (8, 7, 1, 3, 0)


def names():
    return [path.name[:-len(".tensors.tsv")] for path in sorted(FIXTURES.glob("*.tensors.tsv"))]


def digests_of(name):
    """SHA-256 of the bytes of each tensor, by its key."""
    lines = (FIXTURES / f"{name}.sha256").read_bytes().splitlines()
    found = {line[66:]: line[:64].decode() for line in lines}
    return {key: found[b"raw/" + stem] for key, (stem, _, _) in tensors_of(name).items() if b"raw/" + stem in found}


def missing(got, want):
    """The differences of digests that were read."""
    if isinstance(got, str):
        return [got]
    return [key for key in want if got.get(key) != want[key]]


# ---- whole tensors ------------------------------------------------------------------------------------------------------

def read_main(path, keys):
    print(json.dumps(load_all(path, json.loads(keys))))


def read_by(python, path, keys):
    done = subprocess.run([python, __file__, "--read", path, json.dumps([*keys])], check=False, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done.stderr[-300:]


def left_out(mnt):
    """Shown names, by the program's own list; the test of the mount compares that with the rules."""
    return json.loads(os.getxattr(f"{mnt}/dcp/1/__0_0.distcp", "user.ckptfs.left_out"))


def find_faults(mnt, name):
    """Reads the tensors that cannot be read: from then on the files that hold them are not read through the page cache,
    where the whole page of a lost byte fails."""
    errors = FIXTURES / f"{name}.errors.tsv"
    for line in errors.read_bytes().splitlines() if errors.exists() else ():
        try:
            pathlib.Path(mnt, "raw", os.fsdecode(line.split(b"\t")[0])).read_bytes()
        except OSError:
            pass


def compare(tap, options, name):
    want = digests_of(name)
    with interop.Mount(options.ckptfs, FIXTURES / name) as mnt:
        mnt = os.fsdecode(mnt)
        if not os.path.isdir(f"{mnt}/dcp"):
            return 0
        want = {key: digest for key, digest in want.items() if key not in left_out(mnt)}
        find_faults(mnt, name)
        wrong = missing(load_all(f"{mnt}/dcp/3", want), want)
        tap.check(not wrong, f"{name}: {len(want)} tensors of dcp/3", wrong[:8])
        for release, python in pythons().items() if live.is_long() else ():
            if python == sys.executable or any(word in name for word in ("dtypes", "shapes")) or (
                    any(number(release) < NEWER.get(dtype, ()) for _, dtype, _ in tensors_of(name).values())):
                continue                                                # dtypes that older releases do not know
            wrong = missing(read_by(python, f"{mnt}/dcp/3", want), want)
            tap.check(not wrong, f"{name}: by PyTorch {release}", wrong[:8])
    return len(want)


def flat(value, path=()):
    """(path, leaf) of a nested state dict."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    else:
        for key, below in items:
            yield from flat(below, (*path, key))


def same(a, b):
    import torch
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    return a == b


def nested(tap, options, name, home):
    """dcp_to_torch_save of the source and of the mount."""
    import torch
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    with interop.Mount(options.ckptfs, FIXTURES / name) as mnt:
        dcp_to_torch_save(str(FIXTURES / name), f"{home}/source.pt")
        dcp_to_torch_save(f"{os.fsdecode(mnt)}/dcp/2", f"{home}/mount.pt")
    source, mount = (dict(flat(torch.load(f"{home}/{file}.pt", weights_only=False))) for file in ("source", "mount"))
    tap.check(source.keys() == mount.keys() and all(same(source[key], mount[key]) for key in source),
              f"{name}: dcp_to_torch_save, {len(source)} entries", [key for key in source if key not in mount][:8])


# ---- jobs ------------------------------------------------------------------------------------------------------------------

def saving(rank, size, path):
    """A state dict of DTensors, plain tensors and objects."""
    import torch
    import torch.distributed.checkpoint as dcp
    from world import Replicate, Shard, distribute_tensor, init_device_mesh
    mesh = init_device_mesh("cpu", (size,))
    state = {f"w{rows}": distribute_tensor(torch.arange(float(rows * 5)).reshape(rows, 5), mesh, [Shard(0)]) for rows in ROWS}
    state["columns"] = distribute_tensor(torch.arange(33.).reshape(3, 11), mesh, [Shard(1)])
    state["whole"] = distribute_tensor(torch.arange(9).to(torch.bfloat16), mesh, [Replicate()])
    dcp.save({"model": state, "scalar": torch.tensor(2.5), "step": 7, "list": [{"lr": 0.1}, {"lr": 0.2}]}, checkpoint_id=path)


def own_file(rank, size, mnt, model):
    """A rank of the same layout reads no other file for divided tensors, and its own front to back."""
    from torch.distributed.checkpoint import DefaultLoadPlanner, FileSystemReader
    state = {f"model.w{rows}": model[f"w{rows}"] for rows in ROWS}
    metadata, planner = FileSystemReader(f"{mnt}/dcp/{size}").read_metadata(), DefaultLoadPlanner()
    planner.set_up_planner(state, metadata, rank == 0)
    places = [metadata.storage_data[item.storage_index] for item in planner.create_local_plan().items]
    files = {place.relative_path for place in places}
    assert files <= {f"__{rank}_0.distcp"}, files
    assert places == sorted(places, key=lambda place: place.offset), places


def loading(rank, size, mnt, out):
    """Loads each layout into DTensors of this job, and saves the last one again."""
    import torch
    import torch.distributed.checkpoint as dcp
    from world import Shard, distribute_tensor, init_device_mesh
    mesh = init_device_mesh("cpu", (size,))
    want = {f"w{rows}": torch.arange(float(rows * 5)).reshape(rows, 5) for rows in ROWS}
    want["columns"] = torch.arange(33.).reshape(3, 11)
    want["whole"] = torch.arange(9).to(torch.bfloat16)
    for spec in SPECS[size]:
        model = {name: distribute_tensor(torch.full_like(tensor, 99), mesh, [Shard(0)]) for name, tensor in want.items()}
        state = {"model": model, "scalar": torch.tensor(0.), "step": 0, "list": [{"lr": 0}, {"lr": 0}]}
        if spec == str(size):
            own_file(rank, size, mnt, model)
        dcp.load(state, checkpoint_id=f"{mnt}/dcp/{spec}")
        for name, tensor in want.items():
            local = distribute_tensor(tensor, mesh, [Shard(0)], src_data_rank=None).to_local()
            assert torch.equal(state["model"][name].to_local(), local), (spec, name)
        assert (state["scalar"].item(), state["step"], state["list"]) == (2.5, 7, [{"lr": 0.1}, {"lr": 0.2}]), spec
    dcp.save(state, checkpoint_id=out)


def spawned(tap, what, function, size, *words):
    try:
        spawn.run(function, size, *words)
        why = None
    except RuntimeError as error:
        why = error
    tap.check(why is None, what, why)


def full_of(options, path):
    """Each file of full/."""
    with interop.Mount(options.ckptfs, path) as mnt:
        return {file.name: file.read_bytes() for file in (pathlib.Path(os.fsdecode(mnt)) / "full").iterdir()}


def jobs(tap, options, home):
    spawned(tap, "a job of 4 processes saves", saving, 4, f"{home}/saved")
    shown = full_of(options, f"{home}/saved")
    with interop.Mount(options.ckptfs, f"{home}/saved") as mnt:
        mnt = os.fsdecode(mnt)
        for size, specs in SPECS.items():
            out = f"{home}/again-{size}"
            spawned(tap, f"{size} processes load {len(specs)} layouts", loading, size, mnt, out)
            tap.check(full_of(options, out) == shown, f"{size} processes: saved again, it is the same")


def loading_main(rank, size, words):
    train.run(rank, size, train.arguments(words))


def resumed(tap, options, home):
    """The reports of jobs that resume from the checkpoint, and from dcp/2 of a mount."""
    def job(size, *words):
        spawn.run(loading_main, size, [f"--report={home}/report", *words])
        return json.loads(pathlib.Path(home, "report").read_text(encoding="utf-8"))
    saved = job(4 if live.is_long() else 1, "--steps=2", f"--save={home}/trained")
    with interop.Mount(options.ckptfs, f"{home}/trained") as mnt:
        paths = {"source": f"{home}/trained", "mount": f"{os.fsdecode(mnt)}/dcp/2"}
        found = {name: job(2, f"--load={path}", "--seed=7", "--steps=1") for name, path in paths.items()}
    tap.check(found["source"] == found["mount"], "resumed from dcp/2, the next step is that from the source, bit by bit",
              found["source"]["losses"], found["mount"]["losses"])
    tap.check(found["mount"]["loaded"] == saved["trained"] != found["mount"]["trained"], "it begins where the job ended")


def main():
    options = live.arguments(__doc__)
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="dcp-layouts-") as home:
        jobs(tap, options, home)
        resumed(tap, options, home)
        nested(tap, options, "optimizer", home)
        tensors = sum(compare(tap, options, name) for name in (names() if live.is_long() else FEW))
        tap.check(tensors > 100, f"{tensors} tensors were compared")
        wrong = missing({"a": hashlib.sha256(b"a").hexdigest()}, {"a": hashlib.sha256(b"b").hexdigest()})
        tap.check(wrong, "canary: another digest")
    return tap.finish()


if __name__ == "__main__":
    if "--read" in sys.argv[1:2]:
        read_main(*sys.argv[2:4])
    else:
        sys.exit(main())
