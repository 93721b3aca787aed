# SPDX-License-Identifier: MIT
"""Directories of several hosts, of which tests/mount/hosts_program.c makes one
checkpoint.

    hosts = Hosts(PROGRAM, ["a", "b"])
    put("checkpoint", "__1_0.distcp", "b")
    hosts.run("ls", options=("-lR",))
"""
import os
import shutil
import subprocess


class Hosts:
    """names: of hosts, in the order of ranks; a host may have several."""

    def __init__(self, program, dirs, names=None, **env):
        self.program, self.dirs = program, dirs
        self.names = names or [chr(ord("a") + i) for i in range(len(dirs))]
        self.env, self.through = env, []
        self.source = dirs[0]

    def run(self, command, *args, options=(), **more):
        hosts = ":".join(f"{name}={path or ''}"
                         for name, path in zip(self.names, self.dirs))
        return subprocess.run(
            [*self.through, self.program, command, *options, self.source, *args],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
            env={**os.environ, "CKPTFS_HOSTS": hosts, **self.env, **more})


def names_below(source):
    """Relative paths of all that is no directory, and of empty ones."""
    out = []
    for place, dirs, files in os.walk(source):
        links = [d for d in dirs if os.path.islink(os.path.join(place, d))]
        out += [os.path.relpath(os.path.join(place, name), source)
                for name in files + links]
        if not dirs and not files and place != source:
            out.append(os.path.relpath(place, source))
    return sorted(out)


def put(source, name, to):
    """One file, with the directories above it."""
    path = os.path.join(to, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.isdir(os.path.join(source, name)) and \
            not os.path.islink(os.path.join(source, name)):
        os.makedirs(path, exist_ok=True)
    else:
        shutil.copy2(os.path.join(source, name), path, follow_symlinks=False)
