#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch reads the directory while a mount commits to it.

    readers.py CKPTFS [--commits N] [--mounts N]

Commit c fills tensor c % n with c, so the numbers identify every state. A load must be one of these states, and not an older
one than the last commit before it began. Three processes load: one by dcp.load, one with the `.metadata` that it read ten
commits ago, and one that reads items with torch.load(weights_only=True) by their positions in `.metadata`. The same holds for
commits of several tensors at once (-o commit=manual), which a load has completely or not at all; commit c then fills two or
more random tensors. A load may fail for one reason: the checkpoint was mounted for writing again meanwhile, which removes
files that only older states use. The result is TAP.
"""
import collections
import io
import itertools
import logging
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback

import live                                                             # also finds the modules of tests/fixtures
import interop
import spawn

fork = multiprocessing.get_context("fork")
TENSORS, SHAPE, RANKS = 6, (32, 33), 2
MOST = 20000                                            # commits of one part of the test
FILE_NOT_FOUND = "No such file or directory"
LOADS = "by_dcp", "by_old_metadata", "by_items"
HANG = 120                                              # seconds; only a fault takes so long
Load = collections.namedtuple("Load", "least most numbers problem mounts")


def save(rank, size, path):
    import torch
    from world import Shard, distribute_tensor, dcp, init_device_mesh
    mesh = init_device_mesh("cpu", (size,))
    state = {f"t{i}": distribute_tensor(torch.full(SHAPE, float(i)), mesh, [Shard(i % 2)]) for i in range(TENSORS)}
    dcp.save({**state, "step": 7}, checkpoint_id=path)


def state_of(commit):
    """The numbers of the tensors after this commit; the first TENSORS commits are the save."""
    return [commit - (commit - i) % TENSORS for i in range(TENSORS)]


def drawn(commit):
    """The tensors that a commit of several tensors fills."""
    lot = random.Random(commit)
    return lot.sample(range(TENSORS), lot.randrange(2, TENSORS + 1))


def states_of_batches(first, count):
    """Number of the commit -> numbers of the tensors; the state before is state_of(first -
    1)."""
    states = {first - 1: state_of(first - 1)}
    for number in range(first, first + count):
        states[number] = [number if i in drawn(number) else old for i, old in enumerate(states[number - 1])]
    return states


def fault(load, states=None):
    """The error of a load, or None. states: for commits of several tensors."""
    if load.problem:
        return None if FILE_NOT_FOUND in load.problem and load.mounts else load.problem
    last = max(load.numbers)
    if load.numbers != (states.get(last) if states else state_of(last)):
        return f"a state that never was: {load.numbers}"
    if not load.least <= last <= load.most:
        return f"commit {last}, expected {load.least} to {load.most}"
    return None


# ---- loads: each takes a path and returns the tensors ---------------------------------------------------------------

def by_dcp(path, _):
    import torch
    import world
    state = {f"t{i}": torch.full(SHAPE, -1.0) for i in range(TENSORS)}
    world.load(path, state)
    return state.values()


def by_old_metadata(path, wait):
    import torch
    import torch.distributed.checkpoint as dcp
    reader = dcp.FileSystemReader(path)
    metadata = reader.read_metadata()
    wait(10)
    reader.read_metadata = lambda *_, **__: metadata
    state = {f"t{i}": torch.full(SHAPE, -1.0) for i in range(TENSORS)}
    dcp.load(state, storage_reader=reader, no_dist=True)
    return state.values()


def by_items(path, _):
    import torch
    import torch.distributed.checkpoint as dcp
    metadata = dcp.FileSystemReader(path).read_metadata()
    wholes = {f"t{i}": torch.full(SHAPE, -1.0) for i in range(TENSORS)}
    for index, place in metadata.storage_data.items():
        if index.fqn not in wholes:
            continue
        with open(f"{path}/{place.relative_path}", "rb") as file:
            file.seek(place.offset)
            box = torch.load(io.BytesIO(file.read(place.length)), weights_only=True)
        wholes[index.fqn][tuple(slice(o, o + n) for o, n in zip(index.offset, box.shape))] = box
    return wholes.values()


# ---- processes ------------------------------------------------------------------------------------------------------

class Shared:
    """State shared by the writer and the readers."""

    def __init__(self):
        self.begun, self.committed = fork.Value("l", TENSORS - 1), fork.Value("l", TENSORS - 1)
        self.mounts, self.ended = fork.Value("l", 0), fork.Event()
        self.good = {name: fork.Value("l", 0) for name in LOADS}

    def after(self):
        """A copy for new readers, with the same commits."""
        shared = Shared()
        shared.begun.value, shared.committed.value = self.begun.value, self.committed.value
        return shared

    def wait(self, commits):
        """Waits for so many more commits, or for the last commit."""
        goal, end = self.committed.value + commits, time.monotonic() + HANG
        while self.committed.value < goal and not self.ended.is_set() and time.monotonic() < end:
            time.sleep(0.002)

    def numbers(self, first, count, least):
        """Yields numbers of commits: at least so many, until each named loader has seen so
        many states."""
        end = time.monotonic() + HANG
        for number in itertools.count(first):
            enough = all(self.good[name].value >= want for name, want in least.items())
            if number >= first + count and (enough or time.monotonic() > end or number >= first + MOST):
                return
            yield number


def one_load(how, path, shared):
    least, mounts = shared.committed.value, shared.mounts.value
    most, numbers, problem = None, [], None

    def wait(commits):
        nonlocal most
        most = shared.begun.value
        shared.wait(commits)
    try:
        for tensor in how(path, wait):
            values = set(tensor.flatten().tolist())
            if len(values) != 1:
                problem = f"a mixture of {sorted(values)[:5]}"
            numbers.append(int(values.pop()))
    except BaseException as error:                      # torch's CheckpointException is not an Exception
        problem = f"{type(error).__name__}: {error}"
    return Load(least, shared.begun.value if most is None else most, numbers, problem, shared.mounts.value - mounts)


def read_on(how, path, shared, results, known):
    logging.disable()                                   # torch logs missing files
    loads, failed, faults, seen = 0, 0, [], set()
    while not shared.ended.is_set():
        load = one_load(how, path, shared)
        loads, failed = loads + 1, failed + bool(load.problem)
        seen.add(tuple(load.numbers))
        shared.good[how.__name__].value = min(loads - failed, len(seen))
        wrong = fault(load, known)
        faults += [wrong] if wrong else []
    results.put((how.__name__, loads, failed, len(seen), faults[:5], len(faults)))


class Readers:
    """The three processes, for the time of a `with`; `seen` has their results."""

    def __init__(self, path, shared, states=None):
        self.shared, self.results = shared, fork.Queue()
        self.processes = [fork.Process(target=read_on, args=(how, path, shared, self.results, states), daemon=True)
                          for how in (by_dcp, by_old_metadata, by_items)]

    def __enter__(self):
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, *_):
        self.shared.ended.set()
        self.seen = [self.results.get(timeout=60) for _ in self.processes]
        for process in self.processes:
            process.join()


def fill(top, tensor, number):
    """Writes a tensor in one of several ways."""
    import numpy
    stem, array = f"t{tensor}", numpy.full(SHAPE, number, "f4")
    if number % 3:
        with open(os.path.join(top, b"raw", stem.encode()), "wb") as file:
            file.write(array.tobytes())
    else:
        numpy.save(os.fsdecode(os.path.join(top, b"full", f"{stem}.npy".encode())), array)


def commit(top, shared, number):
    shared.begun.value = number
    fill(top, number % TENSORS, number)
    shared.committed.value = number


def commit_several(options, top, shared, number):
    shared.begun.value = number
    for tensor in drawn(number):
        fill(top, tensor, number)
    subprocess.run([options.ckptfs, "commit", top], check=True, stdout=subprocess.DEVNULL)
    shared.committed.value = number


def tell(tap, what, seen, shared, least):
    for name, loads, failed, states, faults, count in sorted(seen):
        print(f"# {what}: {name}: {loads} loads, {failed} failed, {states} different states, "
              f"{shared.committed.value} commits")
        tap.line(not count, f"{what}: {name}: every load is one state", faults)
        tap.line(min(loads - failed, states) >= least.get(name, 0), f"{what}: {name}: enough of them")


# ---- parts ----------------------------------------------------------------------------------------------------------

def canaries(tap):
    good = Load(8, 9, state_of(9), None, 0)
    mixed = list(good.numbers)
    mixed[3], mixed[0] = 9, 0
    wrong = {"a mixture of commits": good._replace(numbers=mixed), "too old": good._replace(least=10),
             "too new": good._replace(most=8), "an error": good._replace(problem="RuntimeError: bad zip"),
             "a file that is gone": good._replace(problem=FILE_NOT_FOUND)}
    missed = [name for name, load in wrong.items() if not fault(load)]
    tap.line(not missed and not fault(good), "canary: a fault is found", missed)
    states = states_of_batches(12, 30)
    parts = [[new if i == drawn(number)[0] else old for i, (old, new) in enumerate(zip(states[number - 1], state))]
             for number, state in states.items() if number > 12]
    missed = [part for part in parts if not fault(Load(0, 99, part, None, 0), states)]
    tap.line(not missed and not fault(Load(0, 99, states[30], None, 0), states),
             "canary: a part of a commit of several is found", missed)


def one_mount(tap, options, path):
    shared, least = Shared(), dict.fromkeys(LOADS, max(2, options.commits // 40))
    with interop.Mount(options.ckptfs, path, "-o", "write") as top, Readers(path, shared) as readers:
        for number in shared.numbers(TENSORS, options.commits, least):
            commit(top, shared, number)
    tell(tap, "one mount", readers.seen, shared, least)
    return shared


def several_at_once(tap, options, path, before):
    shared, least = before.after(), dict.fromkeys(LOADS, max(2, options.commits // 80))
    first = shared.committed.value + 1
    states = states_of_batches(first, MOST)
    with (interop.Mount(options.ckptfs, path, "-o", "write,commit=manual") as top,
          Readers(path, shared, states) as readers):
        for number in shared.numbers(first, options.commits // 2, least):
            commit_several(options, top, shared, number)
    tell(tap, "several at once", readers.seen, shared, least)


def several_mounts(tap, options, path, before):
    """Each mount removes files that only older states use, so the loads with an old .metadata
    may all fail."""
    shared, rng, least = before.after(), random.Random(1), dict.fromkeys(("by_dcp", "by_items"), 2)
    with Readers(path, shared) as readers:
        for turn in range(options.mounts):
            shared.mounts.value += 1
            wanted = least if turn == options.mounts - 1 else {}
            with interop.Mount(options.ckptfs, path, "-o", "write") as top:
                for number in shared.numbers(shared.committed.value + 1, rng.randrange(5, 15), wanted):
                    commit(top, shared, number)
    tell(tap, f"{options.mounts} mounts", readers.seen, shared, least)
    return shared


def dcp_saves(tap, path):
    """The control: PyTorch repeatedly overwrites its checkpoint, with the same readers."""
    shared = Shared()
    spawn.run(save, 1, path)
    with Readers(path, shared) as readers:
        spawn.run(save_over, 0, path, shared)
    faults = sum(entry[-1] for entry in readers.seen)
    print(f"# control: {faults} of {sum(entry[1] for entry in readers.seen)} loads are wrong")
    tap.line(faults > 0, "control: dcp.save over a checkpoint is caught")


def save_over(rank, size, path, shared):
    import torch
    from world import dcp
    end = time.monotonic() + 3
    while time.monotonic() < end:
        number = shared.committed.value + 1
        shared.begun.value = number
        dcp.save({f"t{i}": torch.full(SHAPE, float(n)) for i, n in enumerate(state_of(number))},
                 checkpoint_id=path, no_dist=True)
        shared.committed.value = number


def main():
    options = live.arguments(__doc__, commits=(20, 300), mounts=(2, 10))
    tap = interop.Tap()
    canaries(tap)
    with tempfile.TemporaryDirectory(prefix="readers-") as scratch:
        try:
            spawn.run(save, RANKS, f"{scratch}/ckpt")
            shared = one_mount(tap, options, f"{scratch}/ckpt")
            shared = several_mounts(tap, options, f"{scratch}/ckpt", shared)
            several_at_once(tap, options, f"{scratch}/ckpt", shared)
            if live.is_long():
                dcp_saves(tap, f"{scratch}/saves")
        except Exception:
            tap.line(False, "it ran", traceback.format_exc().splitlines())
    sys.exit(tap.finish())


if __name__ == "__main__":
    main()
