#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ckptfs.torch: dcp.load with StorageReader, and load().

    client-load.py PACKAGE LIBRARY

PACKAGE is the directory that has `ckptfs`. dcp.load with StorageReader gives tensors with the digests that PyTorch made, and of
DCP fixtures the same as with FileSystemReader. load() gives the same as torch.load of torch/checkpoint.pt. A job of two
processes loads DTensors and a ShardedTensor with both readers. Each fifth fixture is taken; in the long run each, which is mounted
too, jobs of 1 to 4 processes, and 1,000 opens that must leave neither memory nor descriptors. The result is TAP.
"""
import concurrent.futures
import errno
import fractions
import hashlib
import io
import multiprocessing
import os
import pathlib
import pickle
import shutil
import sys
import tempfile
import warnings

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / part) for part in ("fixtures", "lib")]
FIXTURES = HERE.parent / "fixtures"
os.environ["CKPTFS_LIBRARY"] = sys.argv[2]
os.environ["PATH"] = f"{pathlib.Path(sys.argv[2]).parent.parent}/mount-helpers:{os.environ['PATH']}"
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")
import spawn                                                            # noqa: E402
import torch                                                            # noqa: E402
import torch.distributed.checkpoint as dcp                              # noqa: E402
import ckptfs                                                           # noqa: E402
from tap import Tap, is_long                                            # noqa: E402
from torch.distributed.checkpoint import DefaultLoadPlanner             # noqa: E402
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner     # noqa: E402
from torch.distributed.checkpoint.metadata import TensorStorageMetadata                 # noqa: E402
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict             # noqa: E402

WQ, NORM = "model.layers.0.attention.wq.weight", "model.norm.weight"


def raises(kind, function, *arguments, **more):
    try:
        function(*arguments, **more)
    except kind as e:
        return e
    return None


def raw_of(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def same(a, b):
    """Equal values of equal types, in equal order, tensors by their bits."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return (a.dtype, a.shape) == (b.dtype, b.shape) and raw_of(a) == raw_of(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or a != a and b != b


def loaded(state, reader, **planner):
    dcp.load(state, storage_reader=reader, planner=DefaultLoadPlanner(**planner), no_dist=True)
    return state


def everything(reader):
    state = {}
    _load_state_dict(state, reader, planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return state


def digests_of(path):
    lines = (line.split("  ", 1) for line in path.read_text(errors="surrogateescape").split("\n") if line)
    return {name.replace("\\\\", "\\") if digest[0] == "\\" else name: digest.lstrip("\\") for digest, name in lines}


def fixtures():
    """(name, path, digests) of each fixture, or of each fifth one."""
    for path in sorted(FIXTURES.glob("*.sha256"))[::1 if is_long() else 5]:
        yield path.name[:-7], FIXTURES / path.name[:-7], digests_of(path)


# ---- whole checkpoints ----------------------------------------------------------------------------------------------------


def by_digests(path, digests):
    """Tensors of a checkpoint by dcp.load, and how many there are."""
    ck = ckptfs.open(path)
    reader = ckptfs.torch.StorageReader(ck)
    entries = reader.read_metadata().state_dict_metadata
    stems = {key: ck._whole_at(number).stem for key, number in reader._tensors.items()}
    state = {key: torch.zeros(found.size, dtype=found.properties.dtype) for key, found in entries.items()
             if isinstance(found, TensorStorageMetadata) and f"raw/{stems[key]}" in digests}
    loaded(state, reader, flatten_state_dict=False)
    return len(state), [key for key, tensor in state.items()
                        if hashlib.sha256(raw_of(tensor)).hexdigest() != digests[f"raw/{stems[key]}"]]


def is_accepted(ck, name, stem):
    try:
        torch.load(io.BytesIO(ck.read(f"objects/{stem}.pt")), weights_only=True)
    except Exception:                                                   # of any type
        return False
    return True


def by_file_system_reader(path):
    """Whether both readers give equal tensors and other values; None if PyTorch cannot read the checkpoint."""
    theirs, ours = dcp.FileSystemReader(path), ckptfs.torch.StorageReader(path)
    try:
        entries = theirs.read_metadata().state_dict_metadata
    except (OSError, ValueError):                                       # alone_*; 2.15
        return None
    listed = ours.read_metadata().state_dict_metadata
    ck = ckptfs.open(path)
    refused = [key for key, (name, stem) in ours._objects.items() if not is_accepted(ck, name, os.fsdecode(stem))]

    def state():
        return {key: torch.empty(found.size, dtype=found.properties.dtype) if isinstance(found, TensorStorageMetadata) else None
                for key, found in entries.items() if key not in refused}
    for key in refused:
        e = raises(dcp.api.CheckpointException, loaded, {key: None}, ours, flatten_state_dict=False)
        if e is None or e.failures[0][0].fqn != ours._objects[key][0]:
            return False
    try:
        theirs = loaded(state(), theirs, flatten_state_dict=False)
    except dcp.api.CheckpointException:                                 # items of safetensors
        return None
    return entries.keys() <= listed.keys() and same(loaded(state(), ours, flatten_state_dict=False), theirs)


def whole(t):
    tensors, equal, wrong = 0, 0, []
    for name, path, digests in fixtures():
        try:
            kind = ckptfs.open(path).kind
        except ckptfs.Error:
            continue
        if name == "tp_fsdp2_bad":                                      # PyTorch stores boxes of wrong shapes
            continue
        n, bad = by_digests(path, digests)
        tensors += n
        wrong += [f"{name}: {key}" for key in bad]
        if kind == "dcp":
            good = by_file_system_reader(path)
            equal += good is True
            wrong += [name] * (good is False)
    t.check(not wrong and tensors > 300 and equal > 9,
            f"dcp.load: {tensors} tensors of fixtures, {equal} of DCP the same by FileSystemReader", wrong[:9])


def nested(t):
    """load() of every fixture."""
    wrong, n, plainly = [], 0, ckptfs._nested._load_plainly
    for name, path, _ in fixtures():
        if name in ("tp_fsdp2_bad", "values", "values-2.1.2"):         # a bad box; lists in lists without end
            continue
        try:
            ck = ckptfs.open(path)
        except ckptfs.Error:
            continue
        calls = []
        ckptfs._nested._load_plainly = lambda *words: calls.append(words) or plainly(*words)
        got = ckptfs.torch.load(ck)
        want = plainly(ck) if "torch" in ck.listdir() else {}
        ckptfs._nested._load_plainly = plainly
        n += 1
        if not same(got, want) or len(calls) > 1:
            wrong.append(f"{name}: {len(calls)} calls of torch.load")
    t.check(not wrong and n > 20, f"load() of {n} fixtures: as torch.load", wrong[:9])
    skip, torch.serialization.skip_data = torch.serialization.skip_data, None
    del torch.serialization.skip_data
    try:
        t.check(same(ckptfs.torch.load(FIXTURES / "optimizer"), everything(dcp.FileSystemReader(FIXTURES / "optimizer"))),
                "a PyTorch without skip_data; the nesting of DCP")
    finally:
        torch.serialization.skip_data = skip


def values(t, work):
    layer = torch.nn.Linear(300, 400)
    saved = {"model": {"a": layer.weight.detach(), "b": layer.weight.detach()}, "list": [1, {"x": torch.arange(5)}],
             3: "three", "empty": torch.zeros(0, 4), "half": torch.ones(2, 2).bfloat16()}
    torch.save(saved, work / "one.pt")
    got = ckptfs.torch.load(work / "one.pt")
    t.check(same(got, saved) and got["model"]["a"].data_ptr() == got["model"]["b"].data_ptr(), "nested, with an alias")
    t.check(same(ckptfs.torch.load(work / "one.pt", "root=model"), saved["model"])
            and list(ckptfs.torch.load(work / "one.pt", "exclude=model*")) == ["list", 3, "empty", "half"], "options")
    state = {"model.a": torch.zeros(400, 302)[:, 1:-1], "model.b": torch.zeros(300, 400).t(),
             "list.1.x": torch.zeros(5, dtype=torch.float64), "half": torch.zeros(2, 2)}
    loaded(state, ckptfs.torch.StorageReader(work / "one.pt"))
    t.check(torch.equal(state["model.a"], layer.weight) and torch.equal(state["model.b"], layer.weight)
            and state["list.1.x"].tolist() == [0, 1, 2, 3, 4] and state["half"].tolist() == [[1, 1], [1, 1]],
            "strided targets, and other dtypes")
    inside = {"model": {"a": torch.zeros(400, 300)}, "3": None}
    loaded(inside, ckptfs.torch.StorageReader(work / "one.pt"))
    t.check(torch.equal(inside["model"]["a"], layer.weight) and inside["3"] == "three", "a nested state dict, and an object")
    torch.save({"a": torch.full((1500, 1000), 1.), "b": torch.full((1500, 1000), 2.)}, work / "two.pt")
    tied = torch.zeros(1500, 1000)
    loaded({"a": tied, "b": tied}, ckptfs.torch.StorageReader(work / "two.pt"))
    t.check(torch.equal(tied, torch.full_like(tied, 2)), "two tensors into one memory: the later one")
    name = "a\ud800b"
    torch.save({name: torch.arange(3)}, work / "surrogate.pt")
    ck = ckptfs.open(work / "surrogate.pt")
    t.check(list(ck) == [name] and ck[name].torch().tolist() == [0, 1, 2] and "a\\ud800b" in repr(ck)
            and "a\\ud800b" in ck._repr_html_(), "a lone surrogate", repr(ck))
    state = loaded({name: torch.zeros(3, dtype=torch.int64)}, ckptfs.torch.StorageReader(ck))
    t.check(state[name].tolist() == [0, 1, 2], "by dcp.load, too")


def names(t):
    path = FIXTURES / "wrappers"
    reader = ckptfs.torch.StorageReader(path)
    entries = reader.read_metadata().state_dict_metadata
    shown = [name for name in ckptfs.open(path) if name not in set(entries)]
    state = {name: torch.zeros(entries[name].size, dtype=entries[name].properties.dtype) for name in shown}
    loaded(state, reader, flatten_state_dict=False)
    want = ckptfs.open(path).state_dict()
    t.check(shown and all(name in entries and torch.equal(state[name], want[name]) for name in shown)
            and len(pickle.loads(pickle.dumps(entries))) == len(entries), "shown names")
    sample = FIXTURES / "sample"
    state = {NORM: torch.zeros(16), "none": torch.ones(3)}
    loaded(state, ckptfs.torch.StorageReader(sample), allow_partial_load=True)
    e = raises(dcp.api.CheckpointException, loaded, dict(state), ckptfs.torch.StorageReader(sample))
    t.check(torch.equal(state[NORM], ckptfs.open(sample)[NORM].torch()) and state["none"].tolist() == [1] * 3
            and "Missing key" in str(e), "a partial load; a missing key")
    state = {NORM: torch.zeros(16)}
    reader = ckptfs.torch.StorageReader(FIXTURES / "plain")
    dcp.load(state, storage_reader=reader, checkpoint_id=sample, no_dist=True)
    t.check(state[NORM].any() and reader.checkpoint_id == str(sample)
            and raises(ckptfs.Error, reader.reset, "/nonexistent").errno == errno.ENOENT
            and raises(ckptfs.Error, ckptfs.torch.StorageReader, "/nonexistent").errno == errno.ENOENT
            and not reader.validate_checkpoint_id("/nonexistent"), "checkpoint_id")


def damage(t, work):
    """The shape in the first item of WQ differs, at byte 2575 of __0_0.distcp; __3_0.distcp is missing."""
    place = shutil.copytree(FIXTURES / "sample", work / "bad")
    with open(place / "__0_0.distcp", "r+b") as f:
        f.seek(2575)
        f.write(b"\5")
    want = ckptfs.open(FIXTURES / "sample").state_dict()
    for case, number, file in (("another shape", errno.EIO, "__0_0.distcp"), ("no file", errno.ENODATA, "__3_0.distcp")):
        state = {name: torch.zeros_like(tensor) for name, tensor in want.items()}
        e = raises(dcp.api.CheckpointException, loaded, state, ckptfs.torch.StorageReader(place))
        e = pickle.loads(pickle.dumps(e.failures[0][0]))
        bad = [name for name in want if not torch.equal(state[name], want[name])]
        t.check(isinstance(e, ckptfs.Error) and e.errno == number and e.file == file and e.fqn in bad
                and (case == "no file" or (e.expected, e.found, bad) == ("[4,16]", "[5,16]", [WQ])), f"{case}: the error", e, bad)
        whole = ckptfs.open(place)
        t.check(all(raises(ckptfs.Error, whole[name].torch) for name in bad), "the rest is loaded", bad)
        e = raises(ckptfs.Error, ckptfs.torch.load, place)
        t.check(e.errno == number and e.file == file, "load() raises it, too", e)
        if case == "another shape":
            rest = ckptfs.torch.load(place, f"exclude={WQ}")
            t.check(torch.equal(rest["model"]["norm.weight"], want[NORM]), "load() of the rest")
            (place / "__3_0.distcp").unlink()


def refused(t, work):
    torch.save({"w": torch.ones(2), "part": fractions.Fraction(1, 3)}, work / "part.pt")
    state = {"w": torch.zeros(2), "part": None}
    e = raises(dcp.api.CheckpointException, loaded, state, ckptfs.torch.StorageReader(work / "part.pt")).failures[0][0]
    t.check(e.fqn == "part" and "weights_only" in str(e) and "fractions" in str(e) and state["w"].tolist() == [1, 1]
            and state["part"] is None, "an object that is refused", e)
    with torch.serialization.safe_globals([fractions.Fraction]):
        loaded(state, ckptfs.torch.StorageReader(work / "part.pt"))
    t.check(state["part"] == fractions.Fraction(1, 3), "add_safe_globals() allows it")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        t.check(list(ckptfs.torch.load(work / "part.pt")) == ["w"] and "left out: part" in str(caught[-1].message),
                "load() names it")
    torch.save({"w": torch.ones(2), "evil": Evil(str(work / "ran"))}, work / "evil.pt")
    t.check(raises(ckptfs.Error, ckptfs.torch.load, work / "evil.pt").errno == errno.EBADMSG
            and raises(ckptfs.Error, ckptfs.torch.StorageReader, work / "evil.pt") and not (work / "ran").exists(),
            "a dangerous global: refused, and not executed")


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


# ---- threads, processes, mounts -------------------------------------------------------------------------------------------


def in_child(reader, pipe):
    torch.set_num_threads(1)
    state = {NORM: torch.zeros(16)}
    loaded(state, reader)
    pipe.send_bytes(raw_of(state[NORM]))
    os._exit(0)


def threads(t):
    source = FIXTURES / "sample"
    reader = ckptfs.torch.StorageReader(ckptfs.open(source))
    want = everything(reader)

    def load(_):
        return same(everything(ckptfs.torch.StorageReader(source)), want) and same(ckptfs.torch.load(source), want)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        t.check(all(pool.map(load, range(8))), "loads in the background, by 4 threads at a time")
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=in_child, args=(reader, there))
    child.start()
    t.check(here.poll(60) and here.recv_bytes() == raw_of(want["model"]["norm.weight"]), "in a child of fork()")
    child.join()


def mounted(t):
    for name in [name for name, _, _ in fixtures()] if is_long() else ["sample"]:
        try:
            ck = ckptfs.open(FIXTURES / name)
        except ckptfs.Error:
            continue
        with ckptfs.mount(FIXTURES / name) as path:
            wrong = []
            for key, tensor in ck.items():
                try:
                    data = pathlib.Path(path, "raw", tensor.stem).read_bytes()
                except OSError as e:
                    if raises(ckptfs.Error, tensor._bytes).errno != e.errno:
                        wrong.append(key)
                    continue
                wrong += [key] * (bytes(tensor._bytes())[:tensor.nbytes] != data)
            file = pathlib.Path(path, "torch/checkpoint.pt")
            if file.exists() and name not in ("values", "values-2.1.2", "tp_fsdp2_bad"):
                wrong += [file] * (not same(ckptfs.torch.load(ck), torch.load(file, weights_only=True)))
        t.check(not wrong, f"{name}: as its mount", wrong[:9])


def opens(t):
    def resident():
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096

    def load():
        ckptfs.torch.load(FIXTURES / "sample")
        loaded({NORM: torch.zeros(16)}, ckptfs.torch.StorageReader(FIXTURES / "sample"))
    for _ in range(200):
        load()
    before, files = resident(), len(os.listdir("/proc/self/fd"))
    for _ in range(800):
        load()
    t.check(resident() - before < 8 << 20 and len(os.listdir("/proc/self/fd")) == files, "1,000 opens leave nothing",
            resident() - before)


# ---- jobs ---------------------------------------------------------------------------------------------------------------


def job_save(rank, size, path):
    from world import Replicate, Shard, distribute_tensor, init_device_mesh
    mesh = init_device_mesh("cpu", (size,))
    state = {f"w{rows}": distribute_tensor(torch.arange(float(rows * 5)).reshape(rows, 5), mesh, [Shard(0)])
             for rows in (8, 7, 1, 3)}
    state["columns"] = distribute_tensor(torch.arange(33.).reshape(3, 11), mesh, [Shard(1)])
    state["whole"] = distribute_tensor(torch.arange(9).to(torch.bfloat16), mesh, [Replicate()])
    dcp.save({"model": state, "plain": torch.arange(6.), "step": 7}, checkpoint_id=path)


def job_state(size):
    from torch.distributed._shard import sharded_tensor
    from torch.distributed._shard.sharding_spec import ChunkShardingSpec
    from world import Replicate, Shard, distribute_tensor, init_device_mesh
    mesh = init_device_mesh("cpu", (size,))

    def spread(shape, place, dtype=torch.float32):
        return distribute_tensor(torch.full(shape, 99, dtype=dtype), mesh, [place])
    spec = ChunkShardingSpec(dim=0, placements=[f"rank:{rank}/cpu" for rank in range(size)])
    return {"model": {"w8": spread((8, 5), Shard(1)), "w7": spread((7, 5), Shard(0)), "w1": spread((1, 5), Shard(0)),
                      "w3": sharded_tensor.full(spec, (3, 5), 99.), "columns": spread((3, 11), Shard(0)),
                      "whole": spread((9,), Replicate(), torch.bfloat16)},
            "plain": torch.zeros(6), "step": 0}


def locals_of(state):
    for key, value in state["model"].items():
        shards = value.local_shards() if hasattr(value, "local_shards") else [None]
        for shard in shards:
            yield key, (shard.tensor if shard else value.to_local())


def job_load(rank, size, path):
    ours, theirs = job_state(size), job_state(size)
    dcp.load(ours, storage_reader=ckptfs.torch.StorageReader(path))
    dcp.load(theirs, checkpoint_id=path)
    pairs = list(zip(locals_of(ours), locals_of(theirs)))
    assert pairs and all(a[0] == b[0] and same(a[1], b[1]) for a, b in pairs), pairs
    assert same(ours["plain"], theirs["plain"]) and ours["plain"].any() and ours["step"] == theirs["step"] == 7


def jobs(t, work):
    for saving, sizes in ((4, (1, 2, 3, 4)), (3, (2, 4))) if is_long() else ((2, (2,)),):
        path = str(work / f"job-{saving}")
        for function, size in [(job_save, saving)] + [(job_load, size) for size in sizes]:
            try:
                spawn.run(function, size, path)
                why = None
            except RuntimeError as e:
                why = e
            t.check(why is None, f"{function.__name__} of {size} processes", why)


def main():
    t = Tap()
    torch.set_num_threads(1)                                            # no pool of threads before the forks
    with tempfile.TemporaryDirectory(prefix="ckptfs-client.") as work:
        work = pathlib.Path(work)
        jobs(t, work)
        for test in (whole, nested, names, threads, mounted):
            test(t)
        values(t, work)
        damage(t, work)
        refused(t, work)
        if is_long():
            opens(t)
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
