#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tensors written into checkpoints of PyTorch 2.1 to 2.15 load in the release that saved them,
and in other releases.

    written.py CKPTFS           every installed release (see README.md) reads all fixtures
    written.py --load JOBS      the part that runs in one release; prints JSON

Copies of the fixtures are mounted, and some of their tensors replaced, one by one or in one commit. A release that can load
the original must load the copy by dcp.load, new bytes and old ones. The release that saved it can, and so can the newest
release unless it is older. Each new item is cut out of its file by the offset and length in `.metadata`, and loaded by
torch.load(weights_only=True). So is each non-tensor entry from `objects/`. CKPTFS_SEED repeats a run. The result is TAP.
"""
import argparse
import glob
import hashlib
import io
import json
import os
import pathlib
import pickle
import random
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures"
sys.path.insert(0, str(FIXTURES))
import interop                                                                              # noqa: E402
import live                                                                                 # noqa: E402
import make                                                                                 # noqa: E402
import oracle                                                                               # noqa: E402
import write                                                                                # noqa: E402

MOST = 40                                                               # tensors replaced in one fixture


# ---- in one release -------------------------------------------------------------------------------------------------

def outcome(function):
    """The value of a function, or the name of its exception: torch's CheckpointException is
    not an Exception."""
    try:
        return function()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:300]


def load_all(path, keys):
    """SHA-256 of the bytes of each tensor, by dcp.load; or the error."""
    import torch
    from torch.distributed.checkpoint import FileSystemReader
    import world

    def load():
        entries = FileSystemReader(path).read_metadata().state_dict_metadata
        wanted = {key: torch.empty(entry.size, dtype=entry.properties.dtype) for key, entry in entries.items()
                  if oracle.percent(oracle.key_bytes(key)).decode() in keys}
        world.load(path, wanted)
        return {oracle.percent(oracle.key_bytes(key)).decode(): hashlib.sha256(oracle.raw_bytes(tensor)).hexdigest()
                for key, tensor in wanted.items()}
    return outcome(load)


def item_of(path, place):
    with open(f"{path}/{place.relative_path}", "rb") as file:
        file.seek(place.offset)
        return file.read(place.length)


def load_item(path, place):
    """dtype and shape of a single item."""
    import torch

    def load():
        tensor = torch.load(io.BytesIO(item_of(path, place)), weights_only=True)
        return [str(tensor.dtype), list(tensor.shape), tensor.is_contiguous()]
    return outcome(load)


def check_items(original, written):
    """(number of loaded new items, errors). A new item equals the original one, but in C
    order."""
    from torch.distributed.checkpoint import FileSystemReader
    before, after = (FileSystemReader(path).read_metadata().storage_data for path in (original, written))
    count, problems = 0, []
    for index, place in after.items():
        if "ckptfs-" not in place.relative_path:
            continue
        if getattr(before[index], "transform_descriptors", None):
            wanted = "unknown"                          # the original item is compressed, unreadable for torch.load
        else:
            wanted = load_item(original, before[index])
        found = load_item(written, place)
        count += not isinstance(found, str)
        if not isinstance(wanted, str) and (isinstance(found, str) or found != [*wanted[:2], True]):
            problems.append(f"{index}: {found}, of the original {wanted}")
    return count, problems


def check_objects(folder):
    """(number of loaded objects, errors). Objects that need code are not supported."""
    import torch
    count, problems = 0, []
    for path in sorted(pathlib.Path(os.fsdecode(folder)).glob("*.pt")):
        try:
            torch.load(path, weights_only=True)
            count += 1
        except Exception as error:
            if not isinstance(error, pickle.UnpicklingError) or "nsupported" not in str(error):
                problems.append(f"{path.name}: {error}")
    return count, problems


def load_main(file):
    """One line of JSON for each fixture."""
    make.quiet()
    for job in json.loads(pathlib.Path(file).read_text()):
        original = load_all(job["original"], job["old"])
        answer = {"name": job["name"], "readable": not isinstance(original, str), "problems": [], "items": 0,
                  "objects": 0}
        if answer["readable"]:
            written = load_all(job["written"], job["old"])
            wrong = [written] if isinstance(written, str) else [
                key for key, digest in written.items() if digest != job["new"].get(key, original[key])]
            answer["items"], wrong_items = check_items(job["original"], job["written"])
            answer["objects"], wrong_objects = check_objects(job["objects"])
            answer["problems"] = wrong + wrong_items + wrong_objects
        else:
            answer["why"] = original
        print(json.dumps(answer), flush=True)


# ---- all releases ---------------------------------------------------------------------------------------------------

def pythons():
    """Release -> its Python: releases that tests/fixtures/make.py installed, or else the
    running one."""
    home = os.environ.get("CKPTFS_VENVS")
    prefix = f"{home}/" if home else f"{make.TOP}/.venv-torch-"
    found = {path[len(prefix):-len("/ready")]: path[:-len("ready")] + "bin/python"
             for path in glob.glob(prefix + "*/ready")}
    if make.installed():
        found.setdefault(make.installed(), sys.executable)
    return dict(sorted(found.items(), key=lambda item: number(item[0])))


def number(release):
    return tuple(map(int, release.split(".")))


def release_of(name):
    """The release of PyTorch that saved a fixture."""
    base, _, release = name.rpartition("-")
    return release if base and release[0].isdigit() else "2.13.0"


def tensors_of(name):
    """Key in the form of the tables -> (stem, dtype, size), for tensors that can be loaded."""
    wrong = FIXTURES / f"{name}.errors.tsv"
    refused = {line.split(b"\t")[0] for line in wrong.read_bytes().splitlines()} if wrong.exists() else set()
    table = {}
    for line in (FIXTURES / f"{name}.tensors.tsv").read_bytes().split(b"\n")[:-1]:
        stem, dtype, _, size, _, key = line.split(b"\t")
        if name == "megatron" and key.startswith(b"common."):           # from common.pt, which cannot be written
            continue
        if stem not in refused and dtype.decode() not in make.NOT_LOADABLE + make.NO_WHOLE_BYTES:
            table[key.decode()] = (stem, dtype.decode(), int(size))
    return table


def other_bytes(rng, dtype, size):
    return bytes(rng.choices((0, 1), k=size)) if dtype == "bool" else rng.randbytes(size)


def prepare(options, name, scratch, rng):
    """A copy of a fixture with replaced tensors, and the job to load it."""
    table, new = tensors_of(name), {}
    original, written, objects = FIXTURES / name, scratch / name, scratch / f"{name}.objects"
    shutil.copytree(original, written)
    for path in (written, *written.iterdir()):
        path.chmod(path.stat().st_mode | 0o200)
    chosen = [key for key, (_, _, size) in table.items() if size]
    together = rng.random() < 0.5
    commit = "manual" if together else "close"
    with interop.Mount(options.ckptfs, written, "-o", f"write,keep_unknown,commit={commit}") as top:
        for key in rng.sample(chosen, min(MOST, len(chosen) * 3 // 4 + 1, len(chosen))):
            stem, dtype, size = table[key]
            content = other_bytes(rng, dtype, size)
            write.put(os.path.join(top, b"raw", stem), content, 1 << 20)
            new[key] = hashlib.sha256(content).hexdigest()
        if together:
            subprocess.run([options.ckptfs, "commit", top], check=True, stdout=subprocess.DEVNULL)
        shutil.copytree(os.path.join(top, b"objects"), os.fsencode(objects))
    return {"name": name, "original": str(original), "written": str(written), "objects": str(objects),
            "old": list(table), "new": new}


def load_in(tap, release, python, jobs, newest):
    """Runs the jobs in one release and prints the results."""
    scratch = pathlib.Path(jobs[0]["written"]).parent
    (scratch / "jobs").write_text(json.dumps(jobs))
    out = subprocess.run([python, str(HERE / "written.py"), "--load", str(scratch / "jobs")], capture_output=True,
                         check=False, text=True, timeout=600)
    answers = [json.loads(line) for line in out.stdout.splitlines()]
    tap.line(out.returncode == 0 and len(answers) == len(jobs), f"{release}: it ran", out.stderr.splitlines()[-5:])
    readable = [answer for answer in answers if answer["readable"]]
    print(f"# {release}: {len(readable)} of {len(jobs)} originals are readable, {sum(a['items'] for a in answers)} new "
          f"items and {sum(a['objects'] for a in answers)} objects loaded by torch.load(weights_only=True)")
    for answer in answers:
        own = number(release_of(answer["name"]))
        if not answer["readable"] and (own == number(release) or number(release) == newest >= own):
            tap.line(False, f"{release}: {answer['name']}: the original loads", [answer["why"]])
    wrong = [f"{a['name']}: {problem}" for a in readable for problem in a["problems"]]
    tap.line(not wrong and readable, f"{release}: {len(readable)} checkpoints load", wrong)
    return answers


def canary(tap, release, python, jobs):
    """Canary: a wrong digest, a truncated item and a truncated object."""
    job = dict(next(job for job in jobs if job["name"] == "sample"))
    broken = pathlib.Path(job["written"] + "-broken")
    shutil.copytree(job["written"], broken)
    largest = max(broken.glob("*ckptfs-*"), key=lambda path: path.stat().st_size)
    os.truncate(largest, largest.stat().st_size - 9)
    objects = pathlib.Path(job["objects"] + "-broken")
    shutil.copytree(job["objects"], objects)
    os.truncate(next(objects.glob("*.pt")), 100)
    wrong = ({**job, "new": dict.fromkeys(job["new"], "0" * 64)}, {**job, "written": str(broken)},
             {**job, "objects": str(objects)})
    (broken / "jobs").write_text(json.dumps(wrong))
    out = subprocess.run([python, str(HERE / "written.py"), "--load", str(broken / "jobs")], capture_output=True,
                         check=False, text=True, timeout=600)
    missed = [answer for answer in map(json.loads, out.stdout.splitlines()) if not answer["problems"]]
    tap.line(not missed and len(out.stdout.splitlines()) == 3, f"canary: {release} finds faults", missed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ckptfs", nargs="?", help="the built program")
    parser.add_argument("--load", metavar="JOBS")
    options = parser.parse_args()
    if options.load:
        return load_main(options.load)
    options.ckptfs = str(pathlib.Path(options.ckptfs).resolve())
    found = pythons()
    if not found:
        interop.skip("no PyTorch is installed")
    if not os.path.exists("/dev/fuse"):
        interop.skip("no /dev/fuse")
    tap, rng = interop.Tap(), random.Random(live.seed())
    with tempfile.TemporaryDirectory(prefix="written-") as scratch:
        names = sorted(path.name[:-len(".tensors.tsv")] for path in FIXTURES.glob("*.tensors.tsv"))
        names = [name for name in names if (FIXTURES / name / ".metadata").exists()       # others cannot be written;
                 and not name.startswith("blobs_")]                                # PyTorch itself cannot read blobs
        jobs = [prepare(options, name, pathlib.Path(scratch), rng) for name in names]
        count = sum(len(job["new"]) for job in jobs)
        tap.line(count > 300, f"{count} tensors replaced in {len(jobs)} checkpoints")
        newest = number(list(found)[-1])
        for release, python in found.items():
            load_in(tap, release, python, jobs, newest)
        canary(tap, *list(found.items())[-1], jobs)
        missing = sorted({release_of(name) for name in names} - found.keys(), key=number)
        if missing:
            print(f"# not installed: {', '.join(missing)}")
    return sys.exit(tap.finish())


if __name__ == "__main__":
    main()
