# SPDX-License-Identifier: MIT
"""A mount for the length of a block."""
from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator

from ._library import Error


def _program() -> str:
    """The command ckptfs: inside this package (in a wheel), of PATH, of this Python, or of the prefix of this package."""
    import shutil
    here = os.path.dirname(os.path.abspath(__file__))
    prefix = os.path.normpath(os.path.join(here, *[".."] * 4))
    for place in (os.path.join(here, "bin", "ckptfs"), shutil.which("ckptfs"), os.path.join(sys.prefix, "bin", "ckptfs"),
                  os.path.join(prefix, "bin", "ckptfs")):
        if place and os.access(place, os.X_OK):
            return place
    raise Error(errno.ENOENT, "the command ckptfs is not installed")


def _run(*arguments: str) -> None:
    import subprocess
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, errors="backslashreplace", check=False)
    if done.returncode:
        raise Error(errno.EIO, done.stderr.strip() or f"{arguments[1]}: exit status {done.returncode}")


@contextlib.contextmanager
def mount(source: str | os.PathLike, options: str = "") -> Iterator[str]:
    """`with ckptfs.mount(src) as path`: mounts a checkpoint on a new directory, and unmounts it after the block.

    options: as in `ckptfs mount -o`. Needs /dev/fuse, and fusermount3 for users other than root. Raises ckptfs.Error with
    the message of the command. Files of the mount must be closed at the end of the block.
    """
    import tempfile
    program = _program()
    path = tempfile.mkdtemp(prefix="ckptfs-")
    try:
        _run(program, "mount", *(["-o", options] if options else []), "--", os.fspath(source), path)
        try:
            yield path
        finally:
            _run(program, "umount", path)
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(path)
