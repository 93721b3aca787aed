# SPDX-License-Identifier: MIT
"""Images of ext4 with a checkpoint each, and the checks of these after a suite."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

FIXTURE = pathlib.Path(__file__).resolve().parent.parent / "fixtures/sample"
SIZE = 4 << 30
DETACH_SECONDS = 60


class Trouble(Exception):
    """A run that cannot begin; the text is for people."""


def output(*command):
    """What a command printed, both streams; Trouble if it failed."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode:
        raise Trouble(f"{command[0]}: exit status {done.returncode}: {done.stdout.strip()[-1000:]}")
    return done.stdout


class Images:
    """A temporary directory with image-0, image-1... Each has the directory `checkpoint`, a copy of a fixture."""

    def __init__(self, program, count, owner=0):
        self.program, self.count, self.owner = program, count, owner
        self.folder = None

    def __enter__(self):
        self.digests = output(self.program, "digest", FIXTURE)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ckptfs-suites-"))
        try:
            os.chmod(self.folder, 0o755)
            tree = self.folder / "tree"
            shutil.copytree(FIXTURE, tree / "checkpoint")
            output("chown", "-R", f"{self.owner}:{self.owner}", tree)
            for n in range(self.count):
                image = self.folder / f"image-{n}"
                with open(image, "wb") as file:
                    file.truncate(SIZE)
                output("mkfs.ext4", "-q", "-F", "-d", tree, image)
            shutil.rmtree(tree)
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        return self

    def __exit__(self, *_):
        for device in self.devices():
            subprocess.run(["losetup", "-d", device], check=False)
        shutil.rmtree(self.folder)

    def devices(self):
        """Loop devices of files in the directory."""
        lines = output("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE").splitlines()
        return [line.split()[0] for line in lines if f" {self.folder}/" in line]

    def attached(self):
        """Loop devices that are left, after a time in which the kernel detaches them."""
        end = time.monotonic() + DETACH_SECONDS
        while (found := self.devices()) and time.monotonic() < end:
            time.sleep(0.1)
        return found

    def problems(self):
        """Texts: what a suite left, and what it changed in the checkpoints."""
        found = [f"{device} is still attached" for device in self.attached()]
        mounts = pathlib.Path("/proc/self/mounts").read_text().splitlines()
        found += [f"still mounted: {line}" for line in mounts if f" {self.folder}/" in line]
        if found:
            return found
        for n in range(self.count):
            try:
                found += self.changes(self.folder / f"image-{n}")
            except Trouble as e:
                found.append(str(e))
        found += [f"{device} is still attached" for device in self.attached()]
        return found

    def changes(self, image):
        """Compares the tensors of an image, mounted in a namespace that ends with this call."""
        place = self.folder / "looked-at"
        place.mkdir(exist_ok=True)
        script = 'mount -o loop "$1" "$2" && "$3" check --full "$2/checkpoint" >&2 && exec "$3" digest "$2/checkpoint"'
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", image, place, self.program],
                              capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            return [f"ckptfs check --full: {(done.stderr + done.stdout).strip()[-1000:]}"]
        return [] if done.stdout == self.digests else ["tensors changed"]
