# SPDX-License-Identifier: MIT
"""Compares two trees of two_trees.seen(). Hosts, which only a tree over several hosts has, are
ignored.
"""
import json
import re

import two_trees

HOSTS = "user.ckptfs.hosts"


def plain(fault):
    """The text of a fault without its host."""
    return re.sub(r" on host h\d+", "", fault) \
        if isinstance(fault, str) else fault


def plain_faults(tree):
    return {path: plain(fault) for path, fault in tree.faults.items()}


def row_of(row):
    """The part of a row that must be equal: a single directory has no hosts."""
    live = row["path"] in two_trees.LIVE
    attributes = {name: plain(value) for name, value in row["xattrs"].items()
                  if name != HOSTS}
    return {**row, "xattrs": attributes, "size": live or row["size"],
            "mtime": live or row["mtime"]}


def rows_of(tree):
    return {row["path"]: row_of(row) for row in tree.rows}


def hosts_of(tree):
    return {host for row in tree.rows if HOSTS in row["xattrs"]
            for host in json.loads(row["xattrs"][HOSTS])}


def differ(one, other):
    """Yields a line for each difference; `other` is over several hosts."""
    rows, others = rows_of(one), rows_of(other)
    for path in sorted(rows.keys() | others.keys()):
        if rows.get(path) != others.get(path):
            yield f"{path}: {rows.get(path)} / {others.get(path)}"
    for path in sorted(one.files.keys() & other.files.keys()):
        a, b = one.files[path], other.files[path]
        if path not in two_trees.LIVE and \
                (a.data, a.error) != (b.data, b.error):
            yield f"{path}: {len(a.data)} bytes, error {a.error} / " \
                f"{len(b.data)} bytes, error {b.error}"
    if plain_faults(one) != plain_faults(other):
        yield f"errors: {one.faults} / {other.faults}"
    if one.unlisted != other.unlisted:
        yield f"unlisted: {one.unlisted} / {other.unlisted}"
