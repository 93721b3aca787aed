#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch saves into a directory that is mounted for writing: the save stays unchanged, and the mount returns ESTALE.

    foreign.py CKPTFS

Tensors are written through the mount in seven ways. Before the last call of each way dcp.save saves into the directory:
other shapes, the same shapes, or only its data files so far. The long run combines all, otherwise each way gets one kind.
The last call must fail with ESTALE without a change in the directory. The save can be finished and loads; the next mount
shows it and can write to it. The result is TAP.
"""
import contextlib
import errno
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import live                                                             # also finds the modules of tests/fixtures
import interop
import spawn

fork = multiprocessing.get_context("fork")
OURS, OTHERS = (8, 6), (5, 4)
STEMS = ("t0", "t1", "t2")


def save(rank, size, path, shape, number, held=None):
    """held: two events, `reached` (before .metadata is replaced) and `go`."""
    import torch
    from world import Shard, distribute_tensor, dcp, init_device_mesh, no_dist

    class Writer(dcp.FileSystemWriter):
        def finish(self, *args, **kwargs):
            if held:
                held[0].set()
                held[1].wait(60)
            super().finish(*args, **kwargs)
    state = {stem: torch.full(shape, float(number)) for stem in STEMS}
    if size:
        mesh = init_device_mesh("cpu", (size,))
        state = {stem: distribute_tensor(tensor, mesh, [Shard(0)]) for stem, tensor in state.items()}
    dcp.save(state, storage_writer=Writer(path), **no_dist(dcp.save, size == 0))


class Save:
    """dcp.save, which can stop before the end until go() is called."""

    def __init__(self, path, shape, stops):
        self.held = (fork.Event(), fork.Event()) if stops else None
        self.process = fork.Process(target=spawn.run, args=(save, 2 if stops else 0, path, shape, 50, self.held))
        self.process.start()
        if stops and not self.held[0].wait(60):
            raise RuntimeError("dcp.save does not get so far")
        if not stops:
            self.finish()

    def finish(self):
        if self.held:
            self.held[1].set()
        self.process.join(60)
        if self.process.exitcode:
            raise RuntimeError("dcp.save failed")


def filled(number, shape=OURS):
    import numpy
    return numpy.full(shape, number, "f4").tobytes()


# ---- ways to write: generators that pause where the other program saves ---------------------------------------------

def put(path, data=filled(9)):
    with open(path, "wb") as file:
        file.write(data)


def close_when_complete(top, _):
    with open(f"{top}/raw/t0", "wb", buffering=0) as file:
        file.write(filled(9))
        yield


def close_after_a_part(top, _):
    with open(f"{top}/raw/t0", "wb", buffering=0) as file:
        file.write(filled(9)[:50])
        yield
        file.write(filled(9)[50:])


def fsync(top, _):
    fd = os.open(f"{top}/raw/t0", os.O_WRONLY | os.O_TRUNC)
    os.write(fd, filled(9))
    yield
    try:
        os.fsync(fd)
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)


def rename_onto(top, _):
    put(f"{top}/raw/.t0.tmp")
    yield
    os.rename(f"{top}/raw/.t0.tmp", f"{top}/raw/t0")


def open_afterwards(top, _):
    yield
    put(f"{top}/raw/t0")


def after_a_commit(top, _):
    put(f"{top}/raw/t0")
    put(f"{top}/raw/t1")
    with open(f"{top}/raw/t0", "wb", buffering=0) as file:
        file.write(filled(10))
        yield


def several_at_once(top, program):
    """With -o commit=manual."""
    put(f"{top}/raw/t0")
    put(f"{top}/raw/t1")
    yield
    done = subprocess.run([program, "commit", top], check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(errno.ESTALE if "changed by somebody else" in done.stderr else errno.EPROTO, done.stderr)


WAYS = (close_when_complete, close_after_a_part, fsync, rename_onto, open_afterwards, after_a_commit,
        several_at_once)


# ---- the test -------------------------------------------------------------------------------------------------------

def writing(program, path, way):
    """A mount for a way to write."""
    return interop.Mount(program, path, "-o", "write" + (",commit=manual" if way is several_at_once else ""))


def outcome(way):
    """Runs the rest of a way. Returns its errno, or 0."""
    try:
        for _ in way:
            pass
    except OSError as error:
        return error.errno
    return 0


def loads(path, shape, numbers):
    """True if dcp.load returns these tensors."""
    import torch
    import world
    state = {stem: torch.full(shape, -1.0) for stem in STEMS}
    world.load(path, state)
    return [set(tensor.flatten().tolist()) for tensor in state.values()] == [{float(n)} for n in numbers]


def try_way(tap, program, path, way, kind):
    """kind: (shape of the other save, whether it stops before it replaces .metadata, its name)."""
    shape, stops, name = kind
    name = f"{way.__name__}, {name}"
    with writing(program, path, way) as top:
        top = os.fsdecode(top)
        steps = way(top, program)
        next(steps)
        other = Save(path, shape, stops)
        saved = live.content(path)
        found = outcome(steps)
        tap.line(found == errno.ESTALE, f"{name}: ESTALE", [errno.errorcode.get(found, "success")])
        tap.line(live.content(path) == saved, f"{name}: nothing is added, changed or removed",
                 sorted(set(live.content(path)) ^ set(saved)))
        if stops:
            other.finish()
        tap.line(loads(path, shape, (50, 50, 50)), f"{name}: the save loads")
        log = pathlib.Path(top, ".ckptfs/log").read_text()
        tap.line("changed by somebody else" in log, f"{name}: the log says why", log.splitlines()[-3:])
        found = outcome((way if way is several_at_once else open_afterwards)(top, program))
        tap.line(found == errno.ESTALE, f"{name}: the next write, too", [errno.errorcode.get(found, "success")])
        if way is several_at_once:
            subprocess.run([program, "abort", top], check=True, stdout=subprocess.DEVNULL)
    again(tap, program, path, shape, name)


def again(tap, program, path, shape, name):
    with interop.Mount(program, path, "-o", "write") as top:
        top = os.fsdecode(top)
        shown = [pathlib.Path(top, "raw", stem).read_bytes() == filled(50, shape) for stem in STEMS]
        left = [file for file in os.listdir(path) if "ckptfs" in file]
        tap.line(all(shown) and not left, f"{name}: the next mount shows the save, and nothing of ours is left", left)
        put(f"{top}/raw/t1", filled(60, shape))
    tap.line(loads(path, shape, (50, 60, 50)), f"{name}: and writes to it")


def nobody_saves(tap, program, path, way):
    """The control: without a save each way succeeds."""
    with writing(program, path, way) as top:
        steps = way(os.fsdecode(top), program)
        next(steps)
        found = outcome(steps)
    numbers = {after_a_commit: (10, 9, 1), several_at_once: (9, 9, 1)}.get(way, (9, 1, 1))
    tap.line(found == 0 and loads(path, OURS, numbers),
             f"control: {way.__name__} ends well alone", [errno.errorcode.get(found, "success")])


def main():
    options = live.arguments(__doc__)
    tap = interop.Tap()
    kinds = ((OTHERS, False, "other shapes"), (OURS, False, "the same shapes"), (OTHERS, True, "not yet complete"))
    with tempfile.TemporaryDirectory(prefix="foreign-") as scratch:
        first = f"{scratch}/first"
        spawn.run(save, 2, first, OURS, 1)
        for turn, way in enumerate(WAYS):
            for number, kind in enumerate(kinds):
                if not live.is_long() and number != turn % len(kinds):
                    continue
                path = shutil.copytree(first, f"{scratch}/{way.__name__}{number}")
                try_way(tap, options.ckptfs, path, way, kind)
            nobody_saves(tap, options.ckptfs, shutil.copytree(first, f"{scratch}/{way.__name__}"), way)
    sys.exit(tap.finish())


if __name__ == "__main__":
    main()
