# SPDX-License-Identifier: MIT
"""The step `kinds` of tests/gpu/run: checkpoints of each kind, and a directory of steps, with
their tensors exported to the device, and read through the device (gather=gpu). The expected values
are those stored by PyTorch and safetensors: digests, dtypes and shapes beside the fixtures, and
the bytes that the host backend reads, which have these digests."""
import collections
import concurrent.futures
import contextlib
import ctypes
import csv
import hashlib
import json
import os
import shutil
import struct
import time

import ckptfs_gpu
import fixtures
import gpu_client
import python_reader
from lines import rounded
from offer import Offer

AT_ONCE = 4    # mounts at a time: the start of a mount takes longer than all of its requests
LOCALS = 12    # boxes of ranks for each fixture
PINNED = 1 << 20
OPTIONS = ",pinned=16M"
VIEWS = "raw", "full", "local"


class Device:
    """Reads memory of the device, into pinned memory that is reused."""

    def __init__(self):
        self.driver = gpu_client.Driver()
        self.pinned = self.driver.pinned(PINNED)

    def piece(self, at, size):
        self.driver.call("cuMemcpyDtoHAsync", self.pinned, ctypes.c_uint64(at),
                         ctypes.c_size_t(size), self.driver.stream)
        self.driver.call("cuStreamSynchronize", self.driver.stream)
        return ctypes.string_at(self.pinned.value, size)

    def bytes(self, at, size):
        return b"".join(self.piece(at + n, min(PINNED, size - n)) for n in range(0, size, PINNED))


# --- expected values, without a GPU -----------------------------------------------------------


def is_local(path):
    return path.startswith("local/")


class Fixture:
    """The expected values of a fixture. `wrong`: files that the host backend reads with other
    bytes than were stored."""

    def __init__(self, s, name, path=None):
        self.name, self.beside = name, os.path.join(fixtures.PLACE, name)
        self.path = path or self.beside
        self.files = self.read(s, s.place("files." + os.path.basename(self.path)))
        with open(self.beside + ".tensors.tsv", newline="") as file:
            rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        self.tensors = {row[0]: (row[1], tuple(json.loads(row[2]))) for row in rows}
        self.kind = json.loads(s.programs.run("ckptfs", "inspect", self.path,
                                              "--json").stdout)["kind"]
        self.wrong = list(self.unlike())

    def read(self, s, place):
        """{path: bytes} of its views, by the host backend."""
        os.mkdir(place)
        done = s.programs.run("ckptfs", "cp", "-r", self.path, *VIEWS, place)
        if done.returncode:
            raise RuntimeError(f"ckptfs cp {self.path}: {done.stderr.strip()[-300:]}")
        files = {}
        for directory, _, names in os.walk(place):
            for name in names:
                path = os.path.join(directory, name)
                with open(path, "rb") as file:
                    files[os.path.relpath(path, place)] = file.read()
        shutil.rmtree(place)
        return files

    def unlike(self):
        with open(self.beside + ".sha256") as file:
            digests = {line.rstrip("\n")[66:]: line[:64] for line in file}
        for path, digest in digests.items():
            if hashlib.sha256(self.files.get(path, b"")).hexdigest() != digest:
                yield f"{self.name}/{path}: not as it was stored"
        for view, ending in ("raw", ""), ("full", ".npy"):
            there = {path for path in self.files if path.startswith(view + "/")}
            if there != {f"{view}/{stem}{ending}" for stem in self.tensors}:
                yield f"{self.name}/{view}: other tensors"

    def locals(self):
        """A sample of the ranks' tensors, from the first to the last ones."""
        names = sorted(path for path in self.files if is_local(path) and path.endswith(".npy"))
        return names[::-(-len(names) // LOCALS) or 1]

    def asked(self):
        """The paths to read: locals(), and all files of the other views."""
        return [path for path in self.files if not is_local(path)] + self.locals()


def counted(all_fixtures):
    shapes = [shape for f in all_fixtures for _, shape in f.tensors.values()]
    return {"tensors": len(shapes), "empty": sum(0 in shape for shape in shapes),
            "zero_dim": shapes.count(())}


# --- on the device --------------------------------------------------------------------------------


def by_python(device, tensor):
    taken = python_reader.Taken(tensor.__dlpack__())
    try:
        return device.bytes(taken.data, taken.size())
    finally:
        taken.end()


def by_client(device, path, flags):
    export = gpu_client.Export(device.driver, path, flags)
    try:
        at = export.open()
        return device.bytes(at, export.bytes) if at else b""
    finally:
        export.close()


def bytes_of_npy(data):
    """The number of bytes after the header."""
    long = data[6] > 1
    size, = struct.unpack_from("<I" if long else "<H", data, 8)
    return len(data) - size - (12 if long else 10)


def full_wrong(device, offer, below, fixture):
    """Exports all tensors at once, so that they are adjacent in memory; returns the wrong ones."""
    with contextlib.ExitStack() as stack:
        held = {}
        for stem in fixture.tensors:
            try:
                held[stem] = ckptfs_gpu.open(offer.path(f"{below}full/{stem}.npy"))
                stack.callback(held[stem].close)
            except (OSError, RuntimeError) as error:
                yield stem, str(error)
        for stem, tensor in held.items():
            if (tensor.dtype, tensor.shape) != fixture.tensors[stem]:
                yield stem, f"{tensor.dtype} {tensor.shape}"
            elif by_python(device, tensor) != fixture.files["raw/" + stem]:
                yield stem, "other bytes"


def local_wrong(device, offer, below, fixture):
    for i, path in enumerate(fixture.locals()):
        flags = (0, gpu_client.PRIVATE, gpu_client.FD | gpu_client.PRIVATE)[i % 3]
        want = fixture.files[path]
        try:
            got = by_client(device, offer.path(below + path), flags)
        except (OSError, RuntimeError) as error:
            yield path, str(error)
            continue
        if not want.endswith(got) or len(got) != bytes_of_npy(want):
            yield path, "other bytes"


def gathered_wrong(offer, below, fixture):
    """Reads all tensors; every byte of raw/ must come from the device."""
    for path in fixture.asked():
        want = fixture.files[path]
        err, got, by_gpu = offer.bytes(below + path)
        if err:
            yield path, os.strerror(err)
        elif got != want:
            yield path, "other bytes"
        elif by_gpu > len(want) or by_gpu < len(want) and path.startswith("raw/"):
            yield path, f"{by_gpu} of {len(want)} bytes were there"


Found = collections.namedtuple("Found", "exported gathered")


def compare(device, offer, fixture, below=""):
    """The faults: {path: reason}, of exports and of reads."""
    exported = {f"{below}{stem}": why for stem, why in full_wrong(device, offer, below, fixture)}
    exported.update((below + path, why)
                    for path, why in local_wrong(device, offer, below, fixture))
    return Found(exported, {below + path: why
                            for path, why in gathered_wrong(offer, below, fixture)})


# --- mounts ---------------------------------------------------------------------------------------


def begin(s, checkpoint):
    name = os.path.basename(checkpoint)
    return Offer(s.programs, checkpoint, s.place("offer." + name), OPTIONS, gpu="auto")


def offers(s, checkpoints):
    """Mounts one after the other; the next ones start in the meantime."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = collections.deque()
        for checkpoint in checkpoints:
            waiting.append(pool.submit(begin, s, checkpoint))
            if len(waiting) == AT_ONCE:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def make_run(s, names):
    """Makes a directory of steps."""
    place = s.place("run")
    for number, name in enumerate(names):
        shutil.copytree(os.path.join(fixtures.PLACE, name), step_of(place, number))
    return place


def step_of(place, number):
    return os.path.join(place, f"step-{100 * (number + 1)}")


def make_damaged(s):
    """Copies a fixture and changes one byte of its last tensor."""
    place = s.place("damaged")
    shutil.copytree(os.path.join(fixtures.PLACE, fixtures.DAMAGED), place)
    name, = (name for name in os.listdir(place) if name.endswith(".safetensors"))
    with open(os.path.join(place, name), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        byte, = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([byte ^ 1]))
    return place


# --- the step -------------------------------------------------------------------------------------


def say(s, begun, check, ok, **more):
    if not s.lines.standin:
        more["seconds"] = rounded(time.monotonic() - begun)
    s.lines.say(check, ok, **more)


def shown(wrong):
    return [f"{path}: {why}" for path, why in list(wrong.items())[:5]]


def alone(s, device, known, begun):
    """Mounts and checks each fixture separately."""
    exported, gathered = {}, {}
    for offer, fixture in zip(offers(s, [f.path for f in known]), known):
        with offer:
            found = compare(device, offer, fixture)
        for wrong, to in (found.exported, exported), (found.gathered, gathered):
            to.update((f"{fixture.name}/{path}", why) for path, why in wrong.items())
    kinds = collections.Counter(f.kind for f in known)
    stored = [why for f in known for why in f.wrong]
    right = dict(kinds) == {kind: len(names) for kind, names in fixtures.OF_KIND.items()}
    say(s, begun, "kinds_export", right and not exported and not stored, kinds=kinds,
        **counted(known), boxes=sum(len(f.locals()) for f in known),
        wrong=shown(exported) + stored[:5])
    say(s, begun, "kinds_gather", not gathered, files=sum(len(f.asked()) for f in known),
        wrong=shown(gathered))


def steps(s, device, offer, known):
    begun, wrong = time.monotonic(), {}
    for number, fixture in enumerate(known):
        below = os.path.basename(step_of("", number)) + "/"
        for found in compare(device, offer, fixture, below):
            wrong.update(found)
    say(s, begun, "kinds_steps", not wrong, steps=len(known), **counted(known),
        wrong=shown(wrong))


def canary(s, device, offer, fixture):
    """Canary: exports, reads and the host backend each detect the changed byte, in this tensor
    only."""
    begun, found = time.monotonic(), compare(device, offer, fixture)
    read = Fixture(s, fixture.name, offer.checkpoint).wrong
    stems = [path for path in found.exported if not is_local(path)]
    views = {path for stem in stems for path in (f"raw/{stem}", f"full/{stem}.npy")}
    gathered = {path for path in found.gathered if not is_local(path)}
    stored = {why.partition(":")[0] for why in read}
    say(s, begun, "kinds_canary", len(stems) == 1 and gathered == views and
        stored == {f"{fixture.name}/{path}" for path in views}, exported=shown(found.exported),
        gathered=shown(found.gathered), read=read[:5])


def check(s):
    begun = time.monotonic()
    device = Device()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        known = list(pool.map(lambda name: Fixture(s, name), fixtures.ALL))
    by_name = {f.name: f for f in known}
    alone(s, device, known, begun)
    some = [by_name[name] for name in fixtures.STEPS]
    run, damaged = offers(s, [make_run(s, fixtures.STEPS), make_damaged(s)])
    with run:
        steps(s, device, run, some)
    with damaged:
        canary(s, device, damaged, by_name[fixtures.DAMAGED])
