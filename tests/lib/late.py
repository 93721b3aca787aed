# SPDX-License-Identifier: MIT
"""A mount of which some files are remote, see tests/mount/late.c.

    with Late(SOURCE, MOUNT, msec=3, LATE_REMOTE="odd"): ...
"""
import os
import subprocess

CKPTFS = os.environ.get("CKPTFS", "ckptfs")


class Late:
    def __init__(self, source, mount, msec=0, options="", **env):
        command = [os.environ["LATE_BIN"], str(msec), source, mount, options]
        self.mount, self.moves = mount, None
        self.process = subprocess.Popen(
            command, env={**os.environ, **env}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True)
        assert self.process.stdout.readline() == "ready\n", command

    def __enter__(self):
        return self

    def end(self):
        """How many moves its mover was asked for."""
        subprocess.run([CKPTFS, "umount", self.mount], check=True)
        rest = self.process.communicate(timeout=120)[0]
        assert self.process.returncode == 0, self.process.returncode
        self.moves = int(rest.split()[0])
        return self.moves

    def __exit__(self, kind, *_):
        if self.moves is None and kind is None:
            self.end()
        elif self.moves is None:
            self.process.kill()
            subprocess.run(["umount", "-l", self.mount], check=False)
