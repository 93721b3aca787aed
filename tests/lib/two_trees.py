# SPDX-License-Identifier: MIT
"""Compares the tree of a mounted checkpoint with the output of the commands that
need no mount.

    tree = seen(MOUNT)          of a fresh mount without reads
    bare = Bare("SOURCE")       runs `ckptfs ls SOURCE` and others
    list(differences(tree, bare)) == []

Each comparison yields a line of text for each difference.
"""
import base64
import errno
import json
import os
import shutil
import stat
import subprocess

CKPTFS = os.environ.get("CKPTFS", "ckptfs")
PREFIX = "user.ckptfs."
# Reports that depend on earlier reads, or on the reporting process.
LIVE = {".ckptfs/status", ".ckptfs/damage", ".ckptfs/log", ".ckptfs/stats"}
UNKNOWN = object    # an attribute `error` that may not be read
DAMAGED = {errno.EIO, errno.ENODATA, errno.EBADMSG, errno.ESTALE}
AT_ONCE = 60000    # bytes of names in one call of a command


class File:
    """The bytes before the first unreadable one, and its errno."""

    def __init__(self, data, error):
        self.data, self.error = data, error


class Tree:
    def __init__(self):
        self.rows = []      # in the form of `ls -lR --json`
        self.unlisted = {}  # path without a row: errno of its stat
        self.faults = {}    # path: value of the attribute `error`
        self.files = {}     # path: File
        self.roots = None   # the tree as root sees it


# --- a mount ---------------------------------------------------------------------

def as_json(value):
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"$str": base64.b64encode(value).decode()}


def value_of(path, name):
    """Returns None if only the name may be known to this user."""
    try:
        return as_json(os.getxattr(path, name))
    except PermissionError:
        return None


def seconds(ns):
    return "%d.%09d" % divmod(ns, 10**9)


def row_of(path, shown):
    s = os.lstat(path)
    kind = {stat.S_IFDIR: "dir", stat.S_IFREG: "file",
            stat.S_IFLNK: "link"}[stat.S_IFMT(s.st_mode)]
    attributes = {name: value_of(path, name) for name in os.listxattr(path)}
    return {"path": shown, "type": kind,
            "size": None if kind == "dir" else s.st_size,
            "mode": "%04o" % stat.S_IMODE(s.st_mode), "uid": s.st_uid,
            "gid": s.st_gid, "mtime": seconds(s.st_mtime_ns),
            "xattrs": attributes}


def walk(tree, mount, below=""):
    """The rows of a directory, then of its subdirectories; not of files/."""
    rows = []
    for e in os.scandir(os.path.join(mount, below)):
        if e.name == "files" and os.path.exists(f"{mount}/{below}.ckptfs"):
            continue
        try:
            rows.append(row_of(e.path, below + e.name))
        except PermissionError as error:
            tree.unlisted[below + e.name] = error.errno
    tree.rows += rows
    for row in rows:
        if row["type"] == "dir":
            walk(tree, mount, row["path"] + "/")


def readable(fd, end):
    try:
        return len(os.pread(fd, end, 0)) == end
    except OSError:
        return False


def first_lost(fd, size):
    """Reads of a file with a known fault fail only if they touch a lost byte."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if readable(fd, middle + 1):
            low = middle + 1
        else:
            high = middle
    return low


def file_of(path):
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as e:
        return File(b"", e.errno)
    try:
        size = os.fstat(fd).st_size
        try:
            with open(fd, "rb", closefd=False) as f:
                return File(f.read(), 0)
        except OSError as e:
            return File(os.pread(fd, first_lost(fd, size), 0), e.errno)
    finally:
        os.close(fd)


def fault_of(path):
    try:
        return as_json(os.getxattr(path, PREFIX + "error"))
    except OSError as e:
        if e.errno == errno.EACCES:
            return UNKNOWN
        if e.errno != errno.ENODATA:
            raise
        return None


def seen(mount):
    tree = Tree()
    walk(tree, mount)
    names = [row["path"] for row in tree.rows if row["type"] == "file"]
    tree.faults = {row["path"]: fault_of(f"{mount}/{row['path']}")
                   for row in tree.rows}
    tree.files = {name: file_of(f"{mount}/{name}") for name in names}
    return tree


# --- without a mount ----------------------------------------------------------------

class Bare:
    """Runs the commands, each as an argument of the command line `through`."""

    def __init__(self, source, through=()):
        self.source, self.through = source, list(through)

    def run(self, command, *args, options=()):
        return subprocess.run(
            [*self.through, CKPTFS, command, *options, self.source, *args],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=120)


def pairs(text):
    """A JSON object; a repeated name is an error."""
    names = [name for name, _ in text]
    assert len(set(names)) == len(names), names
    return dict(text)


def loads(line):
    return json.loads(line, object_pairs_hook=pairs)


def trouble(got, status=0):
    """Yields an unexpected exit status or message of a command."""
    if got.returncode != status or (status == 0 and got.stderr):
        yield f"exit {got.returncode}, expected {status}: {got.stderr!r}"


def lines_differ(errors, got):
    """Each path must have one message: the path, and the text of the mount's errno."""
    lines = got.stderr.decode().splitlines()
    for (path, error), line in zip(errors.items(), lines):
        if not line.startswith(f"ckptfs: {path}: {os.strerror(error)}") or \
                not line.isprintable():
            yield f"{path}: {os.strerror(error)}: said is {line!r}"
    if len(lines) != len(errors):
        yield f"{len(errors)} lines expected: {got.stderr!r}"


def refusal_differs(path, error, got):
    yield from trouble(got, 2)
    yield from lines_differ({path: error}, got)


def by_directory(rows):
    """Merges rows; the order of each list is kept."""
    out = {}
    for row in rows:
        out.setdefault(os.path.dirname(row["path"]), []).append(row["path"])
    return out


def rows_differ(path, want, got):
    for field in sorted(want.keys() | got.keys()):
        if field == "size" and path in LIVE:
            continue
        one, other = want.get(field), got.get(field)
        if field == "xattrs" and None not in (one, other):
            one = list(one.items())
            other = list(masked(dict(one), other).items())
        if one != other:
            yield f"{path}: {field}: mount {one!r}, ls {other!r}"


def masked(want, got):
    """got, without values that the mount did not show."""
    return {name: value if want.get(name, "") is not None else None
            for name, value in got.items()}


def listing_differs(tree, bare):
    got = bare.run("ls", options=("-lR", "--json"))
    yield from trouble(got, 2 if tree.unlisted else 0)
    yield from lines_differ(tree.unlisted, got)
    rows = [loads(line) for line in got.stdout.splitlines()]
    if by_directory(rows) != by_directory(tree.rows):
        yield "names or their order"
    have = {row["path"]: row for row in rows}
    if len(have) != len(rows):
        yield "a path is listed twice"
    for row in tree.rows:
        if row["path"] not in have:
            yield f"{row['path']}: is not listed"
        else:
            yield from rows_differ(row["path"], row, have[row["path"]])


def row_in(tree, path):
    rows = tree.rows if tree else []
    return next((row for row in rows if row["path"] == path), {"xattrs": {}})


def needs_nothing(tree, path):
    """True if a tensor without elements is refused only because of its mode. Without
    a mount no file has to be read for it."""
    attributes = row_in(tree.roots, path)["xattrs"]
    return 0 in json.loads(attributes.get(PREFIX + "shape", "[]"))


def file_in(tree, path):
    f = tree.files[path]
    if f.error == errno.EACCES and needs_nothing(tree, path):
        return tree.roots.files[path]
    return f


def attributes_of(tree, path, error):
    """The expected output of getfattr, and the known part of `error`."""
    fault = tree.faults[path]
    if fault is not UNKNOWN:
        return {**row_in(tree, path)["xattrs"],
                **({} if fault is None else {PREFIX + "error": fault})}
    # The command reads .metadata; a mount checks the mode of the data file.
    want = dict(row_in(tree.roots, path)["xattrs"])
    if not needs_nothing(tree, path):
        want[PREFIX + "error"] = \
            error if error.startswith("EACCES: ") or ": EACCES: " in error else "EACCES: "
    return want


def attributes_differ(tree, bare, paths):
    for path in paths:
        got = bare.run("getfattr", path)
        yield from trouble(got)
        if got.returncode:
            continue
        have = loads(got.stdout)
        want = attributes_of(tree, path, have.get(PREFIX + "error", ""))
        if tree.faults[path] is UNKNOWN and "torch" in path.split("/")[:2]:
            # Objects that a user may not read are left out for him.
            want[PREFIX + "left_out"] = have.get(PREFIX + "left_out")
        if have != want:
            yield f"{path}: mount {want!r}, getfattr {have!r}"


def groups(paths):
    """Groups of paths that fit into one command line."""
    group, size = [], 0
    for path in paths:
        if group and size + len(path) > AT_ONCE:
            yield group
            group, size = [], 0
        group.append(path)
        size += len(path) + 1
    if group:
        yield group


def whole_differ(tree, bare, paths):
    """Compares the concatenated bytes of all readable files."""
    for group in groups(paths):
        got = bare.run("cat", *group)
        yield from trouble(got)
        at = 0
        for path in group:
            data = tree.files[path].data
            if got.stdout[at:at + len(data)] != data:
                yield f"{path}: other bytes"
                break
            at += len(data)
        else:
            if at != len(got.stdout):
                yield f"{len(got.stdout) - at} bytes behind the last"


def single_differs(tree, bare, path):
    """Compares the readable part of one file, and the error of the rest."""
    want = file_in(tree, path)
    got = bare.run("cat", path)
    if want.error:
        yield from refusal_differs(path, want.error, got)
        if not want.data.startswith(got.stdout):
            yield f"{path}: bytes behind a lost one, or other bytes"
        return
    yield from trouble(got)
    if got.stdout != want.data:
        yield f"{path}: other bytes"


def bytes_differ(tree, bare, single=()):
    good = [path for path, f in tree.files.items()
            if not f.error and path not in LIVE]
    bad = [path for path, f in tree.files.items() if f.error]
    yield from whole_differ(tree, bare, good)
    for path in [*bad, *single]:
        yield from single_differs(tree, bare, path)


def copied_differs(path, row, want):
    s = os.lstat(path)
    have = "%04o" % stat.S_IMODE(s.st_mode), seconds(s.st_mtime_ns)
    if have != (row["mode"], row["mtime"]):
        yield f"{path}: copied with {have}, mount {row['mode'], row['mtime']}"
    with open(path, "rb") as f:
        if row["path"] not in LIVE and f.read() != want.data:
            yield f"{path}: other bytes"


def is_copied(path):
    """sharded/, torch/, dcp/, optim/ and f32/, of the checkpoint or of a step, are copied only if a path names them."""
    return not {"sharded", "torch", "dcp", "optim", "f32"} & set(path.split("/")[:2])


def copy_differs(tree, bare, to):
    """Copies all readable files to a new directory and compares them."""
    bad = {path: file_in(tree, path).error for path in tree.files if is_copied(path)}
    bad = {path: error for path, error in bad.items() if error}
    bad.update({path: error for path, error in tree.unlisted.items() if is_copied(path)})
    got = bare.run("cp", ".", to, options=("-r",))
    barred = {error for error in bad.values() if error not in DAMAGED}
    yield from trouble(got, 2 if barred else 1 if bad else 0)
    said = got.stderr.decode().splitlines()
    for path, error in bad.items():
        start = f"ckptfs: {path}: {os.strerror(error)}"
        if not any(line.startswith(start) for line in said):
            yield f"{path}: not said: {start!r} in {said!r}"
    there = {os.path.relpath(os.path.join(place, name), to)
             for place, dirs, files in os.walk(to) for name in dirs + files}
    marks = {name for name in there if name.startswith(".ckptfs-copy-")}
    there -= marks
    if len(marks) != bool(bad):
        yield f"marks of a copy that is not complete: {sorted(marks)!r}"
    wanted = {row["path"] for row in tree.rows if is_copied(row["path"])} - bad.keys()
    if there != wanted:
        yield f"copied are {sorted(there ^ wanted)!r} too much or not"
    for row in tree.rows:
        if row["path"] in tree.files and row["path"] in there & wanted:
            yield from copied_differs(os.path.join(to, row["path"]), row,
                                      file_in(tree, row["path"]))


def remove_copy(to):
    """Makes the copied directories writable, so that they can be removed."""
    for place, _, _ in os.walk(to):
        os.chmod(place, 0o700)
    shutil.rmtree(to)


def sample(tree, count):
    """Paths from all parts of the tree, and the root."""
    paths = [row["path"] for row in tree.rows]
    return paths[::max(1, len(paths) // count)]


def differences(tree, bare, count=0):
    """All differences. Only `count` good files and attributes are read by a separate
    call each; 0: all of them."""
    some = sample(tree, count) if count else [r["path"] for r in tree.rows]
    bad = [path for path, fault in tree.faults.items() if fault is not None]
    files = [path for path in some if path in tree.files
             and path not in LIVE and not tree.files[path].error]
    yield from listing_differs(tree, bare)
    yield from attributes_differ(tree, bare, sorted({*some, *bad}))
    yield from bytes_differ(tree, bare, files)
