#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What ckptfs says of directories that are no checkpoint, or not the one that their user expects.

    messages.py CKPTFS

Small directories in the form that DCP, accelerate, DeepSpeed and Orbax leave them, with files of torch.save and dcp.save.
Each command must name what it found and the next step; check and status must have the same warnings. The result is TAP.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import live                                                             # finds the modules of tests/fixtures, too
from tap import Tap


class Bench:
    """One program, and directories of a test."""

    def __init__(self, tap, program, home):
        self.tap, self.program, self.home = tap, program, pathlib.Path(home)

    def run(self, *words):
        """Exit status and lines of both streams."""
        done = subprocess.run([self.program, *words], cwd=self.home, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr.splitlines() + done.stdout.splitlines()

    def says(self, what, status, line, *words):
        """The command ends so, and one of its lines is that."""
        got, lines = self.run(*words)
        self.tap.check(got == status and line in lines, what, f"status {got}, expected {status}: {line}", *lines)

    def status(self, source, *lines):
        """Lines of the status of a mount, each of which must be there; all of them."""
        with live.Daemon(self.program, self.home / source, "ro") as mount:
            got = mount.report("status").splitlines()
        for line in lines:
            self.tap.check(line in got, f"{source}: status: {line}", *got)
        return got

    def directory(self, name):
        made = self.home / name
        made.mkdir(parents=True)
        return made


def dcp_save(state, home):
    import torch.distributed.checkpoint as dcp
    dcp.save(state, checkpoint_id=str(home), no_dist=True)


# ---- what only items have ----------------------------------------------------------------------------------------------------

def packed(bench):
    import torch
    if not hasattr(torch, "float4_e2m1fn_x2"):
        bench.tap.skip("two values in an element", "this PyTorch has no float4")
        return
    values = torch.arange(16, dtype=torch.uint8).reshape(4, 4).view(torch.float4_e2m1fn_x2)
    dcp_save({"w": values}, bench.home / "packed")
    _, lines = bench.run("inspect", "packed", "--summary")
    bench.tap.check(lines and lines[0].startswith("32 parameters (16 elements of 1 tensor), 16 bytes"),
                    "two values in an element", *lines)


def main():
    options, tap = live.arguments(__doc__), Tap()
    os.umask(0o022)
    with tempfile.TemporaryDirectory() as home:
        packed(Bench(tap, options.ckptfs, home))
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
