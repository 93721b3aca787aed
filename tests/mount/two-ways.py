# SPDX-License-Identifier: MIT
"""The tree without a mount is the tree of the mount: names, sizes, modes, times,
owners, attributes and bytes, of every fixture and of damaged checkpoints.
Prints TAP.

    two-ways.py WORK FIXTURES
    two-ways.py --damage WORK           CKPTFS_DAMAGE=all: every kind
    two-ways.py --take MOUNT FILE       keeps what a mount shows
    two-ways.py --compare SOURCE FILE [ROOT'S]  with what the commands show
"""
import copy
import os
import pickle
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", name) for name in ("damage", "lib")]
import containers  # noqa: E402,F401
import kinds  # noqa: E402,F401
import two_trees as t  # noqa: E402
from source import Checkpoint  # noqa: E402
from tap import Tap, cases, is_long, seed  # noqa: E402
from want import KINDS  # noqa: E402

# Each kind of place where damage is found, and each errno, is here.
DAMAGE = (
    "shard missing", "shard empty", "shard cut in its first item",
    "shard is a directory", "shard is a link out of it",
    "shard short by one byte", "shard of zeros", "shard longer than its items",
    "shards swapped", "path with ..", "path with control characters",
    "entry: nested too deep", "entry: cut short", "entry: a dangerous call",
    "zip: local name length", "zip: entry crc", "zip: end count",
    "no storage", "compressed", "item cut short", "item at another place",
    "the item of another tensor", "a bit of the data flipped",
    "item: another shape", "item: another dtype", "item: an unknown class",
    "item: calls os.system", "item: cut short", "boxes that overlap",
    "a box outside", "a negative dimension", "dimensions that overflow",
    "a dimension of 70 bits", "a dtype of the future",
    "a dtype without whole bytes", "65 dimensions", "no size", "a hole",
    "boxes of other shapes than their items", "a wider dtype",
    "no row for a box", "two boxes of one item", "an unknown transform",
    "an unknown class in a field", "an empty box without a file")


def command(*args):
    got = subprocess.run([t.CKPTFS, *args], capture_output=True, text=True,
                         errors="replace")
    if got.returncode:
        sys.exit(f"{args}: exit {got.returncode}: {got.stderr}")


def seen(source, mount):
    command("mount", source, mount)
    try:
        return t.seen(mount)
    finally:
        command("umount", mount)


def fixtures(folder):
    """Each CKPTFS_NTH-th, from the first one on; in `tests/run --all` all of them, or with CKPTFS_NTH from a random one on."""
    nth = cases("CKPTFS_NTH", 7, 1)
    at = seed() % nth if is_long() else 0
    names = [name for name in sorted(os.listdir(folder))
             if os.path.isfile(os.path.join(folder, name, ".metadata"))][at::nth]
    if nth > 1:
        print(f"# each {nth}-th fixture, from number {at} on")
    bad = [name for name in names if name.startswith("should-fail-")]
    return [name for name in names if name not in bad], bad


def made(work, name):
    """A damaged checkpoint."""
    path = os.path.join(work, "damaged", name.replace("/", "_"), "source")
    change = next(change for key, change in KINDS.items() if key[1] == name)
    checkpoint = Checkpoint()
    want = change(checkpoint)
    os.makedirs(os.path.dirname(path))
    checkpoint.write(path)
    return path, want


def all_differ(tree, source, work, count):
    bare, to = t.Bare(source), os.path.join(work, "copy")
    yield from t.differences(tree, bare, count)
    if "-2." in os.path.basename(source):
        return  # of another release of PyTorch: copies have nothing new
    yield from t.copy_differs(tree, bare, to)
    t.remove_copy(to)


def compare(tap, what, source, work, count):
    tree = seen(source, os.path.join(work, "mnt"))
    problems = list(all_differ(tree, source, work, count))
    tap.result(not problems, what, problems[:8])


def refused_differs(source, mount):
    """A checkpoint that cannot be mounted: the commands print the same message."""
    want = subprocess.run([t.CKPTFS, "mount", source, mount],
                          capture_output=True)
    if want.returncode != 2:
        yield f"mount: exit {want.returncode}"
    for name, *args in (("ls",), ("cat", "/"), ("getfattr", "/")):
        got = t.Bare(source).run(name, *args)
        yield from t.trouble(got, 2)
        if got.stdout or got.stderr != want.stderr:
            yield f"{name}: {got.stderr!r}, mount: {want.stderr!r}"


def which():
    everything = os.environ.get("CKPTFS_DAMAGE") == "all"
    return [name for _, name in KINDS] if everything else DAMAGE[::1 if is_long() else 3]


def damaged(tap, work, mount):
    errors = set()
    names = which()
    for name in names:
        source, want = made(work, name)
        if want.refused:
            problems = list(refused_differs(source, mount))
        else:
            tree = seen(source, mount)
            errors |= {f.error for f in tree.files.values()}
            problems = list(all_differ(tree, source, work, 2))
        tap.result(not problems, f"damage: {name}", problems[:8])
    missed = {"EIO", "ENODATA", "EBADMSG"} - {
        t.errno.errorcode.get(e) for e in errors}
    tap.result(not missed, "damage: each errno was met", missed)


# --- what differs must be seen -----------------------------------------------------

def first(tree, good):
    """The path of a file that has bytes, or that cannot be read."""
    return next(path for path, f in tree.files.items()
                if bool(f.error) != good and path not in t.LIVE
                and (f.data or not good))


def set_row(**fields):
    return lambda tree: tree.rows[-1].update(fields)


def set_file(good, **fields):
    return lambda tree: tree.files[first(tree, good)].__dict__.update(fields)


def flip(tree):
    f = tree.files[first(tree, True)]
    f.data = f.data[:-1] + bytes([f.data[-1] ^ 1])


def more(tree):
    tree.files[first(tree, True)].data += b"x"


def swap_rows(tree):
    tree.rows[0], tree.rows[1] = tree.rows[1], tree.rows[0]


def attributes_of(tree):
    return next(row["xattrs"] for row in tree.rows if row["xattrs"])


def swap_attributes(tree):
    values = attributes_of(tree)
    name = next(iter(values))
    values[name] = values.pop(name)


def set_attribute(tree):
    attributes_of(tree)[t.PREFIX + "shape"] = "[]"


def forget_fault(tree):
    tree.faults = {**tree.faults,
                   **{path: None for path in tree.faults}}


def add_fault(tree):
    tree.faults = {path: fault or "EIO"
                   for path, fault in tree.faults.items()}


def listing(tree, bare):
    return t.listing_differs(tree, bare)


def attributes(tree, bare):
    return t.attributes_differ(tree, bare, t.sample(tree, 99))


def contents(tree, bare):
    return t.bytes_differ(tree, bare, [first(tree, True)])


def copies(tree, bare):
    to = os.path.join(os.path.dirname(bare.source), "copy")
    yield from t.copy_differs(tree, bare, to)
    t.remove_copy(to)


def single(tree, bare):
    return t.single_differs(tree, bare, first(tree, True))


CANARIES = (
    (listing, "a name", set_row(path="x")),
    (listing, "a type", set_row(type="link")),
    (listing, "a size", lambda tree: tree.rows[5].update(size=1)),
    (listing, "a mode", set_row(mode="0400")),
    (listing, "an owner", set_row(uid=7)),
    (listing, "a group", set_row(gid=7)),
    (listing, "a time", set_row(mtime="1.000000000")),
    (listing, "one less", lambda tree: tree.rows.pop()),
    (listing, "the order of names", swap_rows),
    (listing, "the order of attributes", swap_attributes),
    (listing, "a value", set_attribute),
    (attributes, "a value of getfattr", set_attribute),
    (attributes, "no fault", forget_fault),
    (attributes, "a fault where none is", add_fault),
    (contents, "a byte", flip),
    (contents, "a byte more", more),
    (single, "a byte of one file", flip),
    (contents, "another errno", set_file(False, error=t.errno.EPERM)),
    (contents, "an errno where none is", set_file(True, error=t.errno.EIO)),
    (contents, "none where one is", set_file(False, error=0, data=b"x")),
    (copies, "a byte of a copy", flip),
    (copies, "a mode of a copy", set_row(mode="0400")),
    (copies, "a time of a copy", set_row(mtime="1.000000000")),
    (copies, "a copy too much", lambda tree: tree.rows.pop()),
    (copies, "a copy that is not there", set_row(path="x")),
    (copies, "a copy's errno", set_file(False, error=t.errno.EPERM)),
    (copies, "a copy of what is damaged", set_file(False, error=0)),
    (copies, "no copy of what is not", set_file(True, error=t.errno.EIO)),
)


def canaries(tap, work, mount):
    source, _ = made(work, "item: a cycle")
    tree, bare = seen(source, mount), t.Bare(source)
    for differs in listing, attributes, contents, single, copies:
        problems = list(differs(tree, bare))
        tap.result(not problems, f"canary: {differs.__name__}", problems)
    for differs, what, change in CANARIES:
        other = copy.deepcopy(tree)
        change(other)
        problems = list(differs(other, bare))
        tap.result(problems, f"canary: {what} that differs is found")


def of_fixtures(work, folder):
    tap, mount = Tap(), os.path.join(work, "mnt")
    good, bad = fixtures(folder)
    for name in good:
        compare(tap, name, os.path.join(folder, name), work, 2)
    for name in bad:
        problems = list(refused_differs(os.path.join(folder, name), mount))
        tap.result(not problems, name, problems)
    return tap.finish()


def of_damaged(work):
    tap, mount = Tap(), os.path.join(work, "mnt")
    os.environ["CANARY"] = work + "/canary"
    damaged(tap, work, mount)
    tap.result(not os.path.exists(os.environ["CANARY"]),
               "damage: nothing was run")
    canaries(tap, work, mount)
    return tap.finish()


def take(mount, path):
    with open(path, "wb") as out:
        pickle.dump(t.seen(mount), out)


def load(path):
    with open(path, "rb") as f:
        return pickle.load(f)


def compare_taken(source, path, roots=None):
    tree = load(path)
    tree.roots = roots and load(roots)
    work = os.path.dirname(path)
    problems = list(all_differ(tree, source, work, 0))
    for problem in problems:
        print(problem)
    return bool(problems)


if __name__ == "__main__":
    if sys.argv[1] == "--take":
        sys.exit(take(*sys.argv[2:]))
    if sys.argv[1] == "--compare":
        sys.exit(compare_taken(*sys.argv[2:]))
    if sys.argv[1] == "--damage":
        sys.exit(of_damaged(*sys.argv[2:]))
    sys.exit(of_fixtures(*sys.argv[1:]))
