# SPDX-License-Identifier: MIT
"""The part of tests/suites/run inside its namespaces: mounts, runs the suite, unmounts.

    inside.py SPEC      a file of run
"""
import importlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from image import Trouble, output
from outcome import Outcome
from processes import daemons, device_for_all, end_others, enter_user_namespace

MODULES = {"pjdfstest": "pjdfstest", "pjdfstest-user": "pjdfstest", "xfstests": "xfstests", "fsx": "programs",
           "fsstress": "stress", "fio": "programs", "stress-ng": "programs", "fio-tensors": "tensors",
           "fsx-tensors": "tensors", "fio-kill": "kill"}
END_SECONDS = 30


class Place:
    """Where a suite runs. `area` is its directory: MNT/files/t, or with --control the same directory without ckptfs."""

    def __init__(self, spec):
        self.__dict__.update(spec)
        self.folder = pathlib.Path(self.folder)
        self.logs = pathlib.Path(self.logs)
        self.built = pathlib.Path(self.built)
        self.images = sorted(self.folder.glob("image-*"))
        self.bases = [self.folder / f"base-{n}" for n in range(len(self.images))]
        self.source = self.bases[0] / "checkpoint"
        self.mnt = self.folder / "mnt"
        self.area = (self.source if self.control else self.mnt / "files") / "t"

    def attach(self):
        for image, base in zip(self.images, self.bases):
            base.mkdir()
            output("mount", "-o", "loop", image, base)
        self.mnt.mkdir()

    def mount(self):
        """Mounts ckptfs, unless this is a control, and makes the suite's directory."""
        if not self.control:
            output(self.program, "mount", self.source, self.mnt, "-o", self.options)
        try:
            self.area.mkdir(exist_ok=True)
            os.chmod(self.area, 0o755)
        except OSError as e:
            raise Trouble(f"files/ cannot be written: {e}") from e

    def end(self):
        """Unmounts all, and ends all processes of these namespaces but this one and the first."""
        if os.path.ismount(self.mnt):
            with open(self.logs / "ckptfs.log", "wb") as file:
                subprocess.run([self.program, "log", self.mnt], stdout=file, stderr=file, timeout=END_SECONDS, check=False)
            subprocess.run(["umount", self.mnt], check=False, timeout=END_SECONDS)
            end = time.monotonic() + END_SECONDS
            while daemons(self.program) and time.monotonic() < end:
                time.sleep(0.05)
        end_others()
        for base in self.bases:
            subprocess.run(["umount", base], check=False, stderr=subprocess.DEVNULL)


def main(spec):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    spec = json.loads(pathlib.Path(spec).read_text())
    suite = importlib.import_module(MODULES[spec["name"]])
    place, outcome = Place(spec), Outcome()
    result = os.open(spec["result"], os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        place.attach()
        if spec["owner"]:
            os.chown(place.logs, spec["owner"], spec["owner"])
            device_for_all(place.folder / "fuse")
            enter_user_namespace(spec["owner"])
        suite.run(place, outcome)
    except KeyboardInterrupt:
        pass                                            # which run reports
    except Trouble as e:
        outcome.failed("run", e)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        place.end()
        os.write(result, outcome.text().encode())
    return 0


sys.exit(main(sys.argv[1]))
