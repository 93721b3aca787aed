#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of the oracle: it finds each planted fault, and no other one.

The reader's digests are compared with those that PyTorch computed when the
fixtures were made. Then small faults are planted in a checkpoint, each a
canary of one rule of the verdict.
"""
import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../lib")]
import injector  # noqa: E402
import made  # noqa: E402
import model  # noqa: E402
import oracle  # noqa: E402
import reader  # noqa: E402
from tap import Tap  # noqa: E402

FIXTURES = os.path.join(HERE, "..", "fixtures")
READ = """async_save dtensor dtensor-2.1.2 dtensor_columns file_per_item
 fsdp1_dtensor fsdp1_full fsdp1_sharded-2.4.1 fsdp2 fsdp2_hsdp hsdp keys many
 mesh2d mesh3d nested no_crc optimizer parameters plain-2.8.0 replicated sample
 shapes sharded_many stale strides_sharded threads tp_fsdp2_even
 tp_fsdp2_uneven unflattened wrappers""".split()
BROKEN = {"should-fail-cut-short": "truncated", "tp_fsdp2_bad": "shape",
          "should-fail-dangerous-global": "not of a checkpoint",
          "should-fail-empty": "EOFError", "zstd": "transform",
          "strides": "conjugated"}
tap = Tap()


def result(good, what, note=""):
    tap.result(good, what, [] if good else [str(note)])


def torch_digests(name):
    """SHA-256 of the bytes of every tensor, computed by PyTorch."""
    with open(f"{FIXTURES}/{name}.sha256", "rb") as lines:
        return sorted(line.lstrip(b"\\")[:64].decode() for line in lines
                      if line[64:].lstrip().startswith(b"raw/")
                      or line[65:].lstrip().startswith(b"raw/"))


def read_fixtures():
    for name in READ:
        contents = reader.read(f"{FIXTURES}/{name}")
        found = sorted(digest for _, _, digest in contents.tensors.values())
        result(found == torch_digests(name) and found,
               f"reads {name} as PyTorch does", found)
    for name, why in BROKEN.items():
        broken = oracle.look(f"{FIXTURES}/{name}").broken or ""
        result(why in broken, f"finds {name} broken", broken)


class Case:
    """A checkpoint before and after a commit, to be harmed."""

    def __init__(self, work, **plan):
        self.plan = made.Plan(7, columns=50, changed=2, **plan)
        self.path = f"{work}/old"
        self.plan.write_old(self.path)
        self.plan.write_new(f"{work}/plan")
        self.before = oracle.look(self.path)
        self.wanted = self.plan.wanted(self.before)
        self.new = f"{work}/plan/new"

    def commit(self):
        for name in sorted(os.listdir(self.new), reverse=True):
            shutil.copy(f"{self.new}/{name}", self.path)

    def kinds(self, reported=False, **rules):
        return {kind for kind, _ in oracle.verdict(
            self.before, self.wanted, oracle.look(self.path), reported,
            **rules)}


HARMS = []


def harm(what, *kinds, reported=False, **rules):
    def declare(function):
        HARMS.append((what, set(kinds), reported, rules, function))
        return function
    return declare


@harm("all old is fine")
def _(c):
    pass


@harm("all new is fine", reported=True, may_leak=False)
def _(c):
    c.commit()


@harm("success reported, all old", "lost", reported=True)
def _(c):
    pass


@harm("a tensor of old and new boxes", "mixed", reported=True)
def _(c):
    c.commit()
    change_item(c, "__0_ckptfs", c.plan.change["t0"][:400],
                c.plan.old["t0"][:400])


@harm("one tensor new, the other old", "mixed")
def _(c):
    c.commit()
    for rank in (0, 1):
        part = slice(rank * 400, rank * 400 + 400)
        change_item(c, f"__{rank}_ckptfs", c.plan.change["t0"][part],
                    c.plan.old["t0"][part])


@harm("the same, where tensors are committed one by one", atomic=False)
def _(c):
    HARMS[4][4](c)


@harm("the same, success reported", "lost", atomic=False, reported=True)
def _(c):
    HARMS[4][4](c)


@harm("a byte of a new tensor is another", "unreadable", reported=True)
def _(c):
    c.commit()
    flip(shard(c, "__0_ckptfs"), -1500)


@harm("a byte of a tensor that was not to change", "unreadable", "foreign")
def _(c):
    flip(f"{c.path}/__1_0.distcp", -1500)


@harm("a new shard is missing", "unreadable", reported=True)
def _(c):
    c.commit()
    os.unlink(shard(c, "__1_ckptfs"))


@harm("a new shard is short", "unreadable")
def _(c):
    c.commit()
    path = shard(c, "__1_ckptfs")
    os.truncate(path, os.path.getsize(path) - 1)


@harm("a new shard is zeros", "unreadable")
def _(c):
    c.commit()
    path = shard(c, "__1_ckptfs")
    made.put(path, bytes(os.path.getsize(path)))


@harm("no .metadata", "unreadable")
def _(c):
    os.unlink(f"{c.path}/.metadata")


@harm("an empty .metadata", "unreadable")
def _(c):
    os.truncate(f"{c.path}/.metadata", 0)


@harm("an old shard that is still named is gone", "unreadable", "foreign")
def _(c):
    c.commit()
    os.unlink(f"{c.path}/__0_0.distcp")


@harm("a shard that nobody names is gone", "foreign")
def _(c):
    os.unlink(f"{c.path}/__9_0.distcp")


@harm("a foreign file was changed", "foreign")
def _(c):
    made.put(f"{c.path}/logs/deep/train.log", b"other")


@harm("a foreign file has another mode", "foreign")
def _(c):
    os.chmod(f"{c.path}/notes.json", 0o600)


@harm("a foreign link points elsewhere", "foreign")
def _(c):
    os.unlink(f"{c.path}/latest")
    os.symlink("other", f"{c.path}/latest")


@harm(".metadata has another mode", "owner")
def _(c):
    c.commit()
    os.chmod(f"{c.path}/.metadata", 0o600)


@harm("a new shard has another mode", "owner")
def _(c):
    c.commit()
    os.chmod(shard(c, "__1_ckptfs"), 0o666)


@harm("a file of our own is left, and may be")
def _(c):
    made.put(f"{c.path}/__0_ckptfs-2-0123456789abcdef.distcp", b"x")


@harm("a file of our own is left, and may not be", "leak", may_leak=False)
def _(c):
    made.put(f"{c.path}/__0_ckptfs-2-0123456789abcdef.distcp", b"x")


@harm("a new file with a name of nobody", "leak")
def _(c):
    made.put(f"{c.path}/tmpfile", b"x")


def shard(case, start):
    return next(f"{case.path}/{name}" for name in os.listdir(case.path)
                if name.startswith(start))


def flip(path, at):
    with open(path, "rb+") as f:
        f.seek(at, os.SEEK_END)
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 1]))


def change_item(case, start, data, other):
    """Replaces a box in a shard by another valid archive."""
    path = shard(case, start)
    with open(path, "rb") as f:
        content = f.read()
    shape = 2, 50
    assert content.count(made.source.item(shape, data)) == 1
    made.put(path, content.replace(made.source.item(shape, data),
                                   made.source.item(shape, other)))


def do_harms():
    for what, kinds, reported, rules, function in HARMS:
        with tempfile.TemporaryDirectory() as work:
            case = Case(work)
            function(case)
            found = case.kinds(reported, **rules)
            wanted = " and ".join(sorted(kinds)) or "nothing"
            result(found == kinds, f"{what}: {wanted}", found)


def do_model():
    """A new file, written, half of it synced, another renamed."""
    with tempfile.TemporaryDirectory() as work:
        made.put(f"{work}/old", b"old")

        class Field:
            path = work
        watch = model.Watch(Field, 9)
        code = ("import os; f = os.open('new', os.O_CREAT | os.O_WRONLY);"
                "os.write(f, b'abc'); os.fsync(f); os.write(f, b'def');"
                "os.rename('old', 'older')")
        status, output = injector.Injector(
            [sys.executable, "-S", "-c", code], work, watch, cwd=work).wait()
        states = {tuple(sorted((n, s.data[i][0]) for n, i in s.names.items()))
                  for s in watch.states()}
        news = [(), *((("new", data),)
                      for data in (b"abc", b"abcdef", b"abc\0\0\0"))]
        want = {tuple(sorted((*new, (name, b"old"))))
                for new in news for name in ("old", "older")}
        result(states == want, "the model has all states and no others",
               f"{status} {output} {states ^ want}")


def do_both():
    """Calls of a mount are counted once it is mounted."""
    both = injector.Both(injector.Skip(1), injector.Kill(2))
    call = injector.Call(1, "fsync", 0, ("x",))
    replies = []
    for both.armed in (False, True, True):
        replies.append(both.before(call))
    result(replies == ["go", "return 0", "kill"],
           "two faults in one run count together", replies)


read_fixtures()
do_harms()
do_model()
do_both()
sys.exit(tap.finish())
