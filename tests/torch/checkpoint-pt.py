#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loads torch/checkpoint.pt of a mount with torch.load, and compares it with the value that was saved.

    checkpoint-pt.py CKPTFS [--cases N]

Random nested state dicts (nested.py) are saved as one file of torch.save, in both containers, as several files, with DCP, or as
safetensors. torch.load(weights_only=True) must give the same value, with and without mmap=True, with offsets that PyTorch
computes, and on the device meta: dicts with keys of their types in their order, lists, tensors with their bits, aliases that
share one storage, and everything else. `left_out` must have exactly the entries that PyTorch itself refuses, that contain
tensors, or that have a key of another type; that of dcp/ those that PyTorch refuses. Optimizers have ints as ids, also from DCP. CKPTFS_SEED repeats a run. The result is
TAP.
"""
import contextlib
import io
import json
import os
import pathlib
import random
import struct
import sys
import tempfile
import zipfile

import live                                                             # also finds the modules of tests/fixtures
import interop
import nested
import oracle
from tap import Tap

KEYS = str, int, float, bool, type(None)
RECORDS = ["data.pkl", "byteorder"], ["version", ".data/serialization_id"]


# ---- the saved value ----------------------------------------------------------------------------------------------------------------

def walk(value, path=()):
    """(path, value) for each entry; a part of a path is a key, or (position,) in a list."""
    if isinstance(value, dict) and (value or not path):
        for key, inside in value.items():
            yield from walk(inside, (*path, [key]))
    elif type(value) is list and nested.is_open(value):
        for number, inside in enumerate(value):
            yield from walk(inside, (*path, number))
    else:
        yield path, value


def named(state):
    """{name of an entry: (path, value)}"""
    found = {}
    for path, value in walk(state):
        key = ".".join(nested.key_text(part[0]) if type(part) is list else str(part) for part in path)
        number, name = 2, key
        while name in found:
            name, number = f"{key}~{number}", number + 1
        found[name] = path, value
    return found


def place(top, path, value):
    """Sets a value in nested dicts and lists, which are made."""
    for part, inside in zip(path, [*path[1:], None]):
        if inside is not None:
            made = {} if type(inside) is list else []
        else:
            made = value
        if type(part) is list:
            top = top.setdefault(part[0], made)
            continue
        top.extend([None] * (part + 1 - len(top)))
        if top[part] is None:
            top[part] = made
        top = top[part]


def extend(top, path):
    """Makes the lists long enough for an entry that is left out, as far as its path exists."""
    for part in path:
        if type(part) is int and isinstance(top, list):
            top.extend([None] * (part + 1 - len(top)))
        try:
            top = top[part[0] if type(part) is list else part]
        except (LookupError, TypeError):
            return


def has_tensors(value):
    import torch
    if isinstance(value, dict):
        return any(map(has_tensors, value.values()))
    return isinstance(value, torch.Tensor) or isinstance(value, (list, tuple, set)) and any(map(has_tensors, value))


def is_refused(path, value):
    """True if an entry cannot be in the file."""
    if any(type(part) is list and (type(part[0]) not in KEYS or type(part[0]) is int and part[0].bit_length() > 63) for part in path):
        return True
    return not nested.is_tensor(value) and (has_tensors(value) or is_unsafe(value))


def is_unsafe(value):
    """True if torch.load(weights_only=True) refuses it."""
    import torch
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    try:
        torch.load(file, weights_only=True)
    except Exception:                                                   # pylint: disable=broad-except
        return True
    return False


# ---- the file -----------------------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def offsets_computed():
    from torch.utils.serialization import config
    config.load.calculate_storage_offsets = True
    try:
        yield
    finally:
        config.load.calculate_storage_offsets = False


def loaded(path):
    """The value, and the differences of other ways to load it."""
    import torch
    value = torch.load(path, weights_only=True)
    wrong = [] if same(value, torch.load(path, weights_only=True, mmap=True)) is None else ["mmap=True differs"]
    with offsets_computed():
        for mmap in (False, True):
            other = torch.load(path, weights_only=True, mmap=mmap)
            wrong += [] if same(value, other) is None else [f"calculate_storage_offsets, mmap={mmap} differs"]
    if same(value, torch.load(path, weights_only=True, map_location="meta"), meta=True) is not None:
        wrong.append("map_location='meta' differs")
    return value, wrong


def archive_problems(path):
    """Records in their order, with data at multiples of 64, and without CRCs."""
    wrong, data = [], path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
    names = [info.filename for info in infos]
    count = len(names) - 4
    want = [f"checkpoint/{name}" for name in [*RECORDS[0], *(f"data/{i}" for i in range(count)), *RECORDS[1]]]
    if names != want:
        wrong.append(f"records {names}")
    for info in infos:
        name, extra = struct.unpack_from("<HH", data, info.header_offset + 26)
        if (info.header_offset + 30 + name + extra) % 64 or info.CRC or info.compress_type:
            wrong.append(f"{info.filename}: not aligned, with a CRC, or compressed")
    if path.stat().st_size != len(data):
        wrong.append(f"size {path.stat().st_size} at the first stat, not {len(data)}")
    return wrong


def same(a, b, at="", meta=False):
    """None, or where two values differ. A mapping of any class equals a dict. meta: b has no elements."""
    import torch
    if nested.is_tensor(a) and nested.is_tensor(b):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{at}: {b.dtype} {tuple(b.shape)}"
        a = a.detach().resolve_conj().resolve_neg()
        if not meta and oracle.raw_bytes(a) != oracle.raw_bytes(b):
            return f"{at}: other elements"
        return None
    if isinstance(a, dict) and isinstance(b, dict):
        if [(type(key), repr(key)) for key in a] != [(type(key), repr(key)) for key in b]:
            return f"{at}: keys {list(b)}, not {list(a)}"
        found = (same(a[key], other, f"{at}.{key}", meta) for key, other in zip(a, b.values()))
        return next((why for why in found if why), None)
    if type(a) is list and type(b) is list and len(a) == len(b):
        return next((why for why in (same(x, y, f"{at}.{i}", meta) for i, (x, y) in enumerate(zip(a, b))) if why), None)
    if type(a) is not type(b) or isinstance(a, torch.Tensor) or repr(a) != repr(b):
        return f"{at}: {b!r}, not {a!r}"
    return None


def tensors_of(value, path=()):
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from tensors_of(inside, (*path, key))
    elif type(value) is list:
        for number, inside in enumerate(value):
            yield from tensors_of(inside, (*path, number))
    elif nested.is_tensor(value):
        yield path, value


def groups(value, key):
    """Sets of paths of tensors with elements that have one key."""
    found = {}
    for path, tensor in tensors_of(value):
        if tensor.numel():
            found.setdefault(key(tensor), []).append(path)
    return sorted(map(repr, found.values()))


def storage_problems(saved, value):
    def alike(t):
        strides = [stride for stride, size in zip(t.stride(), t.shape) if size > 1]
        return t.untyped_storage().data_ptr(), t.storage_offset(), t.shape, str(strides), t.dtype, t.is_conj(), t.is_neg()
    wrong = []
    want, have = groups(saved, alike), groups(value, lambda t: t.untyped_storage().data_ptr())
    if want != have:
        wrong.append(f"aliases {set(have) - set(want)}, not {set(want) - set(have)}: {[(p, alike(t)) for p, t in tensors_of(saved)]}")
    for path, t in tensors_of(value):
        if (type(t).__name__, t.storage_offset(), t.is_contiguous(), t.requires_grad) != ("Tensor", 0, True, False) \
                or t.untyped_storage().nbytes() != t.numel() * t.element_size():
            wrong.append(f"{path}: no plain tensor of its own")
    return wrong


# ---- savers: each returns the path to mount, the saved value, and whether aliases are known -----------------------------------------

def one(lot, home):
    state = nested.state_of(lot, odd=True)
    nested.save(lot, state, home / "x.pt")
    return home / "x.pt", state


def new_dtypes(lot, home):
    import torch
    state = nested.Drawn(lot, nested.DTYPES + nested.NEW_DTYPES, True).mapping(4, least=1)
    torch.save(state, home / "x.pt")
    return home / "x.pt", state


def beside(lot, home):
    state = {}
    for name in sorted(lot.sample(("model", "optimizer", "scheduler", "x.y"), 2)):
        state[name] = nested.state_of(lot)
        nested.save(lot, state[name], home / f"{name}.pt")
    return home, state


def is_for_dcp(state):
    """False if dcp.save refuses the state, or has no names for its entries."""
    try:
        flat = nested.as_dcp(state)
    except ValueError:                                                  # two entries with one key
        return False
    return not any(map(nested.is_sparse, flat.values())) and len(named(state)) == len(flat) and not any("~2" in name for name in named(state))


def with_dcp(lot, home):
    """The value is that which PyTorch reads."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
    from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
    drawn = nested.Drawn(lot, nested.DTYPES, False)
    state = drawn.mapping(3, least=1)
    while not is_for_dcp(state):
        state = drawn.mapping(3, least=1)
    state["list"] = [{"a.b": drawn.tensor()}, 5, [drawn.tensor()]]
    dcp.save(state, storage_writer=dcp.FileSystemWriter(home / "x"), no_dist=True)
    value = {}
    _load_state_dict(value, storage_reader=dcp.FileSystemReader(home / "x"), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return home / "x", value


def safetensors(lot, home):
    from safetensors.torch import save_file
    drawn = nested.Drawn(lot, nested.DTYPES[:-1], False)
    state = {f"{i}.weight": drawn.tensor().detach().resolve_conj().resolve_neg().clone().contiguous() for i in range(lot.randrange(1, 12))}
    save_file(state, home / "model.safetensors")
    data = (home / "model.safetensors").read_bytes()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    return home, {name: state[name] for name in sorted(header, key=lambda name: header[name]["data_offsets"])}


SAVERS = one, with_dcp, new_dtypes, beside, safetensors


def problems_of(ckptfs, lot, saver, home):
    source, state = saver(lot, home)
    found, want, left = named(state), {}, []
    for name, (path, value) in found.items():
        if is_refused(path, value):
            left.append(name)
        else:
            place(want, path, value)
    for name in left:
        extend(want, found[name][0])
    with interop.Mount(ckptfs, source) as mnt:
        path = pathlib.Path(os.fsdecode(mnt), "torch/checkpoint.pt")
        if not path.exists():
            return [] if not want else ["no file"], 0, len(left)
        out = json.loads(os.getxattr(path, "user.ckptfs.left_out"))
        wrong = archive_problems(path)
        value, more = loaded(path)
        why = same(want, value)
        wrong += more + ([why] if why else [])
        if sorted(out) != sorted(left):
            wrong.append(f"left_out {sorted(set(out) ^ set(left))}: {[found[n] for n in set(out) ^ set(left) if n in found]!r:.400}")
        out = json.loads(os.getxattr(path.parent.parent / "dcp/1/__0_0.distcp", "user.ckptfs.left_out"))
        left_dcp = [name for name, (_, value) in found.items() if not nested.is_tensor(value) and is_unsafe(value)]
        if sorted(out) != sorted(left_dcp if saver is not with_dcp else []):
            wrong.append(f"dcp/: left_out {out}, not {left_dcp}")
        if saver is not with_dcp and saver is not safetensors:
            wrong += storage_problems(want, value)
        if value and same({**want, "more": 0}, value) is None:
            wrong.append("canary missed")
        if os.getxattr(path, "user.ckptfs.kind") != b"torch" or int(os.getxattr(path, "user.ckptfs.tensors")) != len(list(tensors_of(value))):
            wrong.append("attributes `kind` or `tensors`")
    return wrong, len(found) - len(left), len(left)


# ---- optimizers ----------------------------------------------------------------------------------------------------------------------

def trained(make):
    import torch
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    optimizer = make(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "optimizers": [optimizer.state_dict()]}


def optimizers(ckptfs, tap, home):
    """Ids are ints and `state` is there, which dcp.save changes; a new optimizer loads the part below root=."""
    import torch
    import torch.distributed.checkpoint as dcp
    for name, make in (("AdamW", torch.optim.AdamW), ("SGD", lambda p: torch.optim.SGD(p, lr=0.1))):
        state = trained(make)
        dcp.save(state, storage_writer=dcp.FileSystemWriter(home / name), no_dist=True)
        torch.save(state, home / f"{name}.pt")
        for source in (home / name, home / f"{name}.pt"):
            with interop.Mount(ckptfs, source) as mnt:
                why = same(state, torch.load(os.fsdecode(mnt) + "/torch/checkpoint.pt", weights_only=True))
            tap.check(why is None, f"{name} from {source.name}", why)
            with interop.Mount(ckptfs, source, "-o", "root=optimizer") as mnt:
                value = torch.load(os.fsdecode(mnt) + "/torch/checkpoint.pt", weights_only=True)
            fresh = make([torch.nn.Parameter(torch.zeros(n)) for n in ((4, 3), 4, (2, 4), 2)])
            fresh.load_state_dict(value)
            why = same(state["optimizer"], value) or same(state["optimizer"], fresh.state_dict())
            tap.check(why is None, f"{name} from {source.name}, below root=", why)
    for root in "optimizer.state", "optimizers.0.state":
        for source in home / "AdamW", home / "AdamW.pt":
            with interop.Mount(ckptfs, source, "-o", f"root={root}") as mnt:
                value = torch.load(os.fsdecode(mnt) + "/torch/checkpoint.pt", weights_only=True)
            why = same(trained(torch.optim.AdamW)["optimizer"]["state"], value)
            tap.check(why is None, f"{root} of {source.name} alone", why)
    with interop.Mount(ckptfs, home / "AdamW", "-o", "root=model") as mnt:
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
        model.load_state_dict(torch.load(os.fsdecode(mnt) + "/torch/checkpoint.pt", weights_only=True, mmap=True), assign=True)
        why = same(dict(trained(torch.optim.AdamW)["model"]), dict(model.state_dict()))
        del model                                                       # it maps the file
    tap.check(why is None, "a model alone, by mmap", why)


def damaged(ckptfs, tap, home):
    """Half of the tensors are lost: all others load by mmap, and all shapes on meta."""
    import torch
    import torch.distributed.checkpoint as dcp
    state = {f"w{i:02}": torch.full((2500 + i,), float(i)) for i in range(20)}
    dcp.save(state, storage_writer=dcp.FileSystemWriter(home / "half", thread_count=2), no_dist=True)
    places = dcp.FileSystemReader(home / "half").read_metadata().storage_data
    lost = min(place.relative_path for place in places.values())
    good = sorted(index.fqn for index, place in places.items() if place.relative_path != lost)
    (home / "half" / lost).unlink()
    with interop.Mount(ckptfs, home / "half") as mnt:
        file = os.fsdecode(mnt) + "/torch/checkpoint.pt"
        shapes = {key: value.shape for key, value in torch.load(file, weights_only=True, map_location="meta").items()}
        loaded = torch.load(file, weights_only=True, mmap=True)
        # A page that a lost tensor shares cannot be mapped.
        whole = [key for key in good if torch.equal(loaded[key][1100:1200], state[key][1100:1200])]
        del loaded
    tap.check(shapes == {key: value.shape for key, value in state.items()}, "half is lost: shapes on meta", shapes)
    tap.check(whole == good and len(good) == 10, "half is lost: the others by mmap", whole)


def main():
    options = live.arguments(__doc__, cases=(7, 300))
    lot, tap, sums = random.Random(live.seed(40)), Tap(), [0, 0]
    for case in range(options.cases):
        saver = SAVERS[case % len(SAVERS)]
        with tempfile.TemporaryDirectory(prefix="checkpoint-") as scratch:
            wrong, shown, left = problems_of(options.ckptfs, lot, saver, pathlib.Path(scratch))
        sums = [sums[0] + shown, sums[1] + left]
        tap.check(not wrong, f"{saver.__name__}: {shown} entries, {left} left out", *wrong)
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as scratch:
        optimizers(options.ckptfs, tap, pathlib.Path(scratch))
        damaged(options.ckptfs, tap, pathlib.Path(scratch))
    print(f"# {sums[0]} entries, {sums[1]} left out")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
