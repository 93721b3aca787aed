#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes every kind of checkpoint that tests/fixtures has, with 1, 2, 3, 4 and 8 ranks, mounts each, and compares it with memory.

    worlds.py CKPTFS [--worlds N]... [--only NAME]...

Kinds are those of ranked.py, files.py and hub.py, and recipes of make.py: DCP, without collectives, in safetensors
serialization, Megatron's. raw/, full/, local/ and objects/ must have the values that the ranks had before saving,
.ckptfs/status the kind, and .ckptfs/damage and `ckptfs check` no damage. Kinds of a single process are made once. The result
is TAP.
"""
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

import live                                                             # also finds the modules of tests/fixtures
import files
import hub                                                              # that of tests/fixtures
import interop
import make
import ranked

# Recipes that any number of ranks can build.
RECIPES = ("alone_4", "alone_threads", "blobs_3", "blobs_items", "blobs_alone", "megatron", "dtensor", "dtensor_columns",
           "optimizer", "fsdp2", "fsdp1_sharded", "fsdp1_dtensor", "fsdp1_full", "strides_sharded", "threads",
           "file_per_item", "zstd")


def made(name, size, out, save, describe):
    out.mkdir()
    describe(out, save(out))


def recipe(name, size, out):
    import recipes
    make.make(name, recipes.RECIPES[name]._replace(world=size), out.parent)


def kinds(size):
    """The kind of each name in .ckptfs/status, and a function that fills a directory."""
    several = "ranks" if size > 1 else "torch"
    for name, fill in ranked.KINDS.items():
        kind = "dcp" if name == "dcp_flat" else several
        yield name, kind, functools.partial(made, save=ranked.ranked(size, fill), describe=ranked.describe)
    yield "files_ranks", several, functools.partial(
        made, save=functools.partial(files.files_ranks, size=size), describe=files.describe)
    yield "hub_shards", "safetensors", functools.partial(
        made, save=functools.partial(hub.hub_shards, size=size), describe=hub.describe)
    for name in RECIPES:
        yield name, "dcp", recipe
    for script, kind in ((files, "torch"), (hub, "safetensors")):
        for name, save in script.FIXTURES.items():
            if size == 1 and name not in ("files_ranks", "hub_shards"):
                yield name, kind, functools.partial(made, save=save, describe=script.describe)


# ---- the comparison -------------------------------------------------------------------------------------------------

def is_part(path):
    return path.startswith(b"local/")


def local_problems(top, sums):
    """Compares the parts of each rank, if the files beside the checkpoint have them."""
    parts = set(filter(is_part, sums))
    listed = {b"local/%s/%s" % (rank, name) for rank in os.listdir(top + b"/local") for name in os.listdir(top + b"/local/" + rank)
              if name.endswith(b".npy")} if parts else set()
    found = [f"local/ lists {len(listed)} parts, expected {len(parts)}: {sorted(listed ^ parts)[:5]}"] if listed != parts else []
    for path in parts & listed:
        found += [f"{path.decode()}: {problem}" for problem in interop.compare_bytes(os.path.join(top, path), sums[path])]
    return found


def object_problems(top, home):
    lines = home.with_name(home.name + ".objects.jsonl")
    for entry in map(json.loads, lines.read_text().splitlines() if lines.exists() else ()):
        path = pathlib.Path(os.fsdecode(top), "objects", f"{entry['stem']}.json")
        if path.read_text() != entry["json"]:
            yield f"{path.name}: {path.read_text()[:100]!r}, expected {entry['json'][:100]!r}"


def problems_of(ckptfs, home, kind):
    table, sums = interop.read_expected(home), interop.read_sums(home.with_name(home.name + ".sha256"))
    with interop.Mount(ckptfs, home) as top:
        found = [*interop.differences(top, table), *local_problems(top, sums), *object_problems(top, home)]
        missed = interop.canary(top, table)
        missed += ["a part"] if any(map(is_part, sums)) and not local_problems(
            top, {path: "0" * 64 if is_part(path) else digest for path, digest in sums.items()}) else []
        found += [f"canary missed: {what}" for what in missed]
        control = pathlib.Path(os.fsdecode(top), ".ckptfs")
        status, damage = (control / "status").read_text(), (control / "damage").read_text()
    if f"\nkind: {kind}" not in status:
        found.append(f"kind {kind} is not in {status.splitlines()[:4]}")
    check = subprocess.run([ckptfs, "check", home], capture_output=True, text=True, timeout=120)
    found += [line for line in damage.splitlines() if line.startswith("E")]
    return found + (check.stdout.splitlines() if check.returncode else []), len(table)


def main():
    options = live.arguments(__doc__, worlds=[], only=[])
    import world
    tap, count = interop.Tap(), 0
    with tempfile.TemporaryDirectory(prefix="worlds-") as scratch:
        world.CHECKPOINTS = f"{scratch}/ckpt"
        for size in map(int, options.worlds or ranked.WORLDS):
            directory = pathlib.Path(scratch, str(size))
            directory.mkdir()
            for name, kind, fill in kinds(size):
                if options.only and name not in options.only:
                    continue
                tensors = 0
                try:
                    fill(name, size, directory / name)
                    found, tensors = problems_of(options.ckptfs, directory / name, kind)
                except Exception as error:
                    found = [f"{error}", *traceback.format_exc().splitlines()[-3:]]
                tap.line(not found, f"{size} ranks, {name}: {tensors} tensors", found)
                count += tensors
    print(f"# {count} tensors")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
