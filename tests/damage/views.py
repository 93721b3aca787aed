# SPDX-License-Identifier: MIT
"""What damage does to the views that have other layouts than the source.

The checkpoint before the damage is mounted once. If a file of a view has the same size in the
damaged mount, each of its bytes must be the same there, or fail with an errno of the damage. Bytes
fail only if a tensor or object is damaged, and no more than are lost in all. Sizes at the first stat are those of all bytes."""
import errno
import os

from want import ALL

VIEWS = ("hf", "torch", "dcp/2", "sharded/3", "f32")
# Kinds that change the metadata, of which views print what they read.
OTHER = ("another dtype", "a wider dtype", "entry: nested too deep", "entry: two equal keys")
good = {}		# by base: {path: bytes} of a mount without damage


def files_of(mnt):
    for view in VIEWS:
        for top, _, names in os.walk(f"{mnt}/{view}"):
            for name in names:
                path = os.path.join(top, name)
                if not os.path.islink(path):
                    yield os.path.relpath(path, mnt), os.path.getsize(path)


def read_all(mnt):
    found = {}
    for path, size in files_of(mnt):
        with open(f"{mnt}/{path}", "rb") as file:
            found[path] = file.read()
        assert len(found[path]) == size, path
    return found


def verify_file(path, want, expected):
    """Problems of one file, whose bytes without damage are `expected`, if they are as many."""
    errnos = {e for ranges in want.lost.values() for _, _, e in ranges} | set(want.objects.values())
    most = sum((to or ALL[name]) - (begin or 0) for name, ranges in want.lost.items() for begin, to, _ in ranges)
    failed = 0
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as e:
        if errno.errorcode[e.errno] not in errnos:
            yield f"open: {e}, expected {errnos or 'success'}"
        return
    try:
        size = os.fstat(fd).st_size
        for at in range(size):
            try:
                got = os.pread(fd, 1, at)
                if len(expected) == size and got != expected[at:at + 1]:
                    yield f"at {at}: {got!r}, expected {expected[at:at + 1]!r}"
            except OSError as e:
                failed += 1
                if errno.errorcode[e.errno] not in errnos:
                    yield f"at {at}: {e}, expected {errnos or 'data'}"
    finally:
        os.close(fd)
    if not want.objects and failed > most:
        yield f"{failed} bytes fail, {most} are lost"


def verify_views(mnt, want, before):
    """before: the files of a mount without damage."""
    if want.unsure or want.full or want.gone:
        return			# other bytes than before are no fault
    found = 0
    for path, _ in files_of(mnt):
        found += 1
        for problem in verify_file(f"{mnt}/{path}", want, before.get(path, b"")):
            yield f"{path}: {problem}"
    if not want.lost and not want.objects and not want.lines and found != len(before):
        yield f"{found} files in views, {len(before)} without damage"
