# SPDX-License-Identifier: MIT
"""Judges a checkpoint after a fault.

    before = look(path)                      then the writer runs, then
    problems = verdict(before, wanted, look(path), reported_success)

A problem is (kind, text). The caller passes which leftover files are allowed:

    unreadable  no complete checkpoint
    mixed       a tensor or an entry that is neither old nor new, or old and
                new parts of one commit
    lost        the writer reported success, but its commit is not on the disk
    foreign     a file that the writer did not make was changed or removed
    leak        an unreferenced file of the writer
    owner       new files have another mode, owner or group than .metadata had
"""
import collections
import hashlib
import os
import re
import stat

import reader

# Names of the files that the writer under test creates.
OURS = re.compile(r"^(__(\d+_)?ckptfs-\d+-[0-9a-f]{16}\.distcp"
                  r"|\.metadata\.(tmp|ckptfs-[\w.-]+))$")

# contents: of reader.read; or None, with the reason in `broken`
# files: path below -> (kind, mode, owner, group, digest)
Snapshot = collections.namedtuple("Snapshot", "contents broken files")


def describe(path):
    status = os.lstat(path)
    if stat.S_ISREG(status.st_mode):
        try:
            with open(path, "rb") as f:
                content = hashlib.sha256(f.read()).hexdigest()
        except OSError as problem:
            content = str(problem)
    elif stat.S_ISLNK(status.st_mode):
        content = os.readlink(path)
    else:
        content = ""
    return (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode),
            status.st_uid, status.st_gid, content)


def files_of(path):
    found = {}
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            full = os.path.join(folder, name)
            found[os.path.relpath(full, path)] = describe(full)
    return found


def look(path):
    try:
        contents, broken = reader.read(path), None
    except reader.Broken as problem:
        contents, broken = None, str(problem)
    return Snapshot(contents, broken, files_of(path))


def changed(contents, change):
    """`wanted`: contents in which tensors have other bytes."""
    tensors = dict(contents.tensors)
    for fqn, data in change.items():
        dtype, shape, _ = tensors[fqn]
        tensors[fqn] = dtype, shape, hashlib.sha256(data).hexdigest()
    return contents._replace(tensors=tensors)


def values_of(contents):
    return {**contents.tensors, **contents.objects}


def judge_values(before, wanted, after, reported, atomic):
    old, new, got = (values_of(c) for c in (before, wanted, after))
    if got == new:
        return
    if got == old:
        if reported:
            yield "lost", "success was reported, and all is as before"
        return
    bad = False
    for name in sorted(set(old) | set(new) | set(got)):
        if got.get(name) not in (old.get(name), new.get(name)):
            bad = True
            yield "mixed", f"{name} is neither old nor new"
    if bad:
        return
    if atomic:
        yield "mixed", "some tensors are old, some new"
    elif reported:
        yield "lost", "success was reported, and some tensors are old"


def judge_files(before, after, ours, may_leak):
    named = after.contents.files if after.contents else None
    for name, was in before.files.items():
        if name == ".metadata" or ours.match(name):
            continue
        now = after.files.get(name)
        if now is None:
            yield "foreign", f"{name} is gone"
        elif now != was:
            yield "foreign", f"{name} was changed"
    for name in sorted(after.files):
        if name in before.files and not ours.match(name) or \
                name == ".metadata":
            continue
        if not ours.match(name):
            yield "leak", f"{name} is new, and has no name of a new file"
        elif named is not None and name not in named and not may_leak:
            yield "leak", f"{name} is left, and .metadata does not name it"


def judge_owners(before, after):
    """The new .metadata has the type, mode, owner and group of the old one, and
    so have new shards."""
    was, named = before.files[".metadata"], ()
    if after.contents:
        named = after.contents.files - before.files.keys()
    for name in [".metadata", *sorted(named)]:
        now = after.files.get(name)
        if now and now[:4] != was[:4]:
            yield "owner", f"{name}: type, mode, owner, group are " \
                           f"{now[:4]}, of .metadata they were {was[:4]}"


def verdict(before, wanted, after, reported_success, *, atomic=True,
            may_leak=True, ours=OURS):
    """before, after: Snapshots; wanted: Contents, or None where the writer
    must not change anything. atomic: one commit changes all tensors, so that
    all are old or all new. may_leak: unreferenced files of the writer are
    allowed; the next mount for writing removes them."""
    problems = []
    wanted = before.contents if wanted is None else wanted
    if after.contents is None:
        problems.append(("unreadable", after.broken))
    else:
        problems += judge_values(before.contents, wanted, after.contents,
                                 reported_success, atomic)
    problems += judge_files(before, after, ours, may_leak)
    return problems + list(judge_owners(before, after))
