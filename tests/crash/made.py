# SPDX-License-Identifier: MIT
"""Makes checkpoints for the writers without PyTorch, and the change as files.

    plan = Plan(seed=1)
    plan.write_old(path)            a checkpoint with foreign files beside it
    plan.write_new(folder)          the input of a writer:
        raw/<tensor>                the new bytes
        full/<tensor>.npy           the same for a mount
        new/                        shards and .metadata for `reference`
    plan.wanted(before)             the contents that a reader must find

Tensors `t0`, `t1` ... are cut into rows, one box in each rank's file.
"""
import copy
import itertools
import os
import pickle
import random
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "damage"))
import oracle  # noqa: E402
import source  # noqa: E402
from source import d  # noqa: E402


def npy(shape, data):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': %r, }" % (shape,)
    head += " " * (-(11 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() \
        + data


class Plan:
    """columns: of float32, so that a box has 4 * columns * rows bytes.
    changed: how many tensors the commit replaces. in_place: the new shards
    have the names of old ones, and the commit writes every tensor.
    other_shape: these are longer by that many columns. crowded: on ext4 the
    directory has no room for one more name, and the inode of .metadata has no
    room for its ACL."""

    def __init__(self, seed=1, tensors=3, columns=5000, rows=4, ranks=2,
                 changed=1, in_place=False, other_shape=0, crowded=False):
        self.rng = random.Random(seed)
        self.tensors = [f"t{n}" for n in range(tensors)]
        self.rows, self.ranks, self.in_place = rows, ranks, in_place
        self.crowded = crowded
        self.columns = {False: columns, True: columns + other_shape}
        self.old = {t: self.bytes_of(columns) for t in self.tensors}
        self.changed = self.tensors if in_place else self.tensors[:changed]
        self.change = {t: self.bytes_of(self.columns[True])
                       for t in self.changed}
        self.ready = {}
        self.tag = "%016x" % self.rng.getrandbits(64)

    def bytes_of(self, columns):
        return self.rng.randbytes(self.rows * columns * 4)

    def item(self, name, rank, new):
        columns = self.columns[new and self.in_place]
        share = self.rows // self.ranks
        data = self.change[name] if new else self.old[name]
        part = data[rank * share * columns * 4:][:share * columns * 4]
        return source.item((share, columns), part)

    def files(self, new):
        """Items, by file: (tensor, rank) -> bytes."""
        found = {}
        for rank in range(self.ranks):
            name = f"__{rank}_0.distcp"
            if new and not self.in_place:
                name = f"__{rank}_ckptfs-2-{self.tag}.distcp"
            names = self.changed if new else self.tensors
            found[name] = {(t, rank): self.item(t, rank, new) for t in names}
        return found

    def metadata(self, new):
        place = {}
        for files in [self.files(False)] + [self.files(True)] * new:
            for name, items in files.items():
                at = 0
                for key, data in items.items():
                    place[key] = name, at, len(data)
                    at += len(data)
        share = self.rows // self.ranks
        columns = self.columns[bool(new and self.in_place)]
        entries = {t: d.tensor(
            (self.rows, columns),
            [((r * share, 0), (share, columns)) for r in range(self.ranks)])
            for t in self.tensors}
        rows = {d.index(t, (r * share, 0)): d.info(*where)
                for (t, r), where in place.items()}
        return pickle.dumps(d.checkpoint(entries, rows), 4)

    def write_old(self, path):
        if not self.ready:      # cached: write_old() is called very often
            self.ready = {name: b"".join(items.values())
                          for name, items in self.files(False).items()}
            self.ready[".metadata"] = self.metadata(False)
        os.makedirs(path)
        for name, data in self.ready.items():
            put(f"{path}/{name}", data)
        put(f"{path}/notes.json", b'{"step": 7}\n')
        put(f"{path}/__9_0.distcp", b"of a save with more ranks")
        os.makedirs(f"{path}/logs/deep")
        put(f"{path}/logs/deep/train.log", b"loss 1.0\n" * 900)
        os.symlink("notes.json", f"{path}/latest")
        if self.crowded:
            crowd(path)
            os.setxattr(f"{path}/.metadata", "system.posix_acl_access",
                        acl(range(1000, 1040)))

    def write_new(self, folder):
        for name in ("raw", "full", "new"):
            os.makedirs(f"{folder}/{name}")
        shape = self.rows, self.columns[self.in_place]
        for name, data in self.change.items():
            put(f"{folder}/raw/{name}", data)
            put(f"{folder}/full/{name}.npy", npy(shape, data))
        for name, items in self.files(True).items():
            put(f"{folder}/new/{name}", b"".join(items.values()))
        put(f"{folder}/new/.metadata", self.metadata(True))

    def save_over(self, path, whole=True):
        """Another program saves other values, in the order of dcp.save. If not
        whole, it has not written .metadata yet."""
        other = copy.copy(self)
        other.old = {name: data[::-1] for name, data in self.old.items()}
        for name, items in other.files(False).items():
            put(f"{path}/{name}", b"".join(items.values()))
        if whole:
            put(f"{path}/.metadata.tmp", other.metadata(False))
            os.rename(f"{path}/.metadata.tmp", f"{path}/.metadata")

    def wanted(self, before):
        """The expected contents, derived from the bytes, not from files of
        `new`."""
        wanted = oracle.changed(before.contents, self.change)
        if not self.in_place:
            return wanted
        shape = self.rows, self.columns[True]
        return wanted._replace(tensors={
            t: (dtype, shape, digest)
            for t, (dtype, _, digest) in wanted.tensors.items()})


def put(path, data):
    with open(path, "wb") as out:
        out.write(data)


def crowd(path):
    """Names that fill one block of an ext4 directory. Each takes 8 bytes and its
    length, rounded up to 4; `.`, `..` and a checksum take 36 bytes."""
    def bytes_of(name):
        return 8 + (len(name) + 3) // 4 * 4
    room = 4096 - 36 - sum(map(bytes_of, os.listdir(path)))
    for number in itertools.count():
        if room < 32:
            return
        name = f"{number:02}".ljust(min(240, room - 8), "x")
        put(f"{path}/{name}", b"")
        room -= bytes_of(name)


def acl(users):
    """An ACL for setxattr(2): owner, these users, group, mask, others."""
    rows = [(1, 6, -1), *((2, 4, user) for user in users), (4, 4, -1),
            (16, 4, -1), (32, 4, -1)]
    return struct.pack("<I", 2) + b"".join(
        struct.pack("<HHi", *row) for row in rows)
