# SPDX-License-Identifier: MIT
"""What tests of writing share: when they are skipped, and mounts whose daemon can be killed."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / part) for part in ("fixtures", "lib")]
import interop                                                                              # noqa: E402
import make                                                                                 # noqa: E402
from tap import is_long, seed                                                               # noqa: E402, F401

WORLDS = (2, 3, 4) if is_long() else (2, 3)                             # processes of jobs


def arguments(doc, **more):
    """CKPTFS, and more options with their defaults; one whose default is a list may be given several times, and one that
    is a pair has the second in the long run, else the first. Skips where PyTorch or FUSE is missing."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("ckptfs", type=lambda path: str(pathlib.Path(path).resolve()), help="the built program")
    for name, default in more.items():
        default = default[is_long()] if isinstance(default, tuple) else default
        if isinstance(default, list):
            parser.add_argument(f"--{name}", action="append", default=default)
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    if not make.installed():
        interop.skip("torch, numpy, xxhash or zstandard is not installed")
    if not os.path.exists("/dev/fuse"):
        interop.skip("no /dev/fuse")
    make.quiet()
    import torch
    torch.set_num_threads(1)                                            # no pool of threads before the forks
    print(f"# torch {torch.__version__}", flush=True)
    return options


class Daemon:
    """A mount for writing in the foreground: its daemon is `process`."""

    def __init__(self, program, source, options="write"):
        self.program, self.source, self.options = program, str(source), options

    def __enter__(self):
        self.point = tempfile.mkdtemp(prefix="mnt-")
        self.process = subprocess.Popen([self.program, "mount", "-f", "-o", self.options, self.source, self.point])
        end = time.monotonic() + 60
        while not os.path.ismount(self.point):
            if self.process.poll() is not None or time.monotonic() > end:
                self.__exit__()
                raise RuntimeError("it does not mount")
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.point], check=False, capture_output=True)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.rmdir(self.point)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def path(self, view, stem):
        return f"{self.point}/{view}/{stem}" + ("" if view == "raw" else ".npy")

    def report(self, name):
        return pathlib.Path(self.point, ".ckptfs", name).read_text()


def by_world(save, worlds, cases, seed):
    """save(rank, world, home, seed, count) in so many processes, for each world: -> world, the directory of each case."""
    import spawn
    each = max(1, cases // len(worlds))
    for world in worlds:
        with tempfile.TemporaryDirectory(prefix="cases-") as scratch:
            home = pathlib.Path(scratch)
            spawn.run(save, world, home, seed, each)
            for number in range(each):
                yield world, home / f"case-{number}"


def content(path):
    """Every file of a checkpoint: name -> (bytes, mode)."""
    return {file.name: (file.read_bytes(), file.stat().st_mode) for file in pathlib.Path(path).iterdir()}
