# SPDX-License-Identifier: MIT
"""A saver in a run directory beside eight readers of its mount: RUN MNT SAMPLE.

Steps come by a rename, or in place with .metadata last; some are never finished, old ones
are removed, `latest` moves. A reader that finds a step must find all of it, with the bytes
of the sample. CKPTFS_SAVES: how many steps.
"""
import errno
import os
import shutil
import sys
import threading
import time

sys.path.insert(0, f"{os.path.dirname(os.path.abspath(__file__))}/../lib")
sys.dont_write_bytecode = True
from tap import cases, is_long  # noqa: E402

READERS = 8
GONE = (errno.ESTALE, errno.ENOENT)


def files_of(tree):
    return {name: open(f"{tree}/full/{name}", "rb").read() for name in os.listdir(f"{tree}/full")}


class Play:
    def __init__(self, run, mnt, sample):
        self.run, self.mnt, self.sample = run, mnt, sample
        self.want = files_of(f"{mnt}/latest")
        self.live, self.lock = set(), threading.Lock()
        self.faults, self.reads, self.stale, self.slowest = [], 0, 0, 0.0
        self.ended = False

    def copy(self, to, names):
        os.makedirs(to, exist_ok=True)
        for name in names:
            shutil.copyfile(f"{self.sample}/{name}", f"{to}/{name}")

    def save(self, number):
        names = sorted(os.listdir(self.sample), key=lambda name: name == ".metadata")
        step = f"{self.run}/step-{number}"
        with self.lock:
            self.live.add(f"step-{number}")
        if number % 3 == 0:
            self.copy(step, names)
        else:
            self.copy(f"{self.run}/.saving", names)
            os.rename(f"{self.run}/.saving", step)
        begun = time.monotonic()
        while not os.path.isdir(f"{self.mnt}/step-{number}/full"):
            time.sleep(0.01)
        self.slowest = max(self.slowest, time.monotonic() - begun)

    def torn(self, number):
        names = [name for name in os.listdir(self.sample) if name != ".metadata"]
        self.copy(f"{self.run}/torn-{number}", names[: number % len(names)])
        with open(f"{self.run}/torn-{number}/.metadata", "wb") as f:
            f.write(open(f"{self.sample}/.metadata", "rb").read(1000))

    def remove(self, number):
        name = f"step-{number}"
        os.rename(f"{self.run}/{name}", f"{self.run}/.old")
        shutil.rmtree(f"{self.run}/.old")
        with self.lock:
            self.live.discard(name)

    def saver(self, saves):
        for number in range(100, 100 + saves):
            self.save(number)
            self.torn(number)
            with open(f"{self.run}/latest", "w") as f:
                f.write(f"step-{number - number % 2}")
            if number >= 103:
                self.remove(number - 3)
        self.ended = True

    def read(self, step):
        tree = f"{self.mnt}/{step}"
        got = files_of(tree)
        if got != self.want:
            self.faults.append(f"{step}: not what was saved")
        self.reads += 1

    def reader(self):
        while not self.ended or not self.reads:
            for step in os.listdir(self.mnt):
                if step.startswith("torn"):
                    self.faults.append(f"{step} is shown")
                if step == ".ckptfs":
                    continue
                try:
                    self.read(step)
                except OSError as e:
                    self.stale += 1
                    if e.errno not in GONE or step in ("step-2", "step-10"):
                        self.faults.append(f"{step}: {e}")

    def play(self, saves):
        threads = [threading.Thread(target=self.reader) for _ in range(READERS)]
        for thread in threads:
            thread.start()
        try:
            self.saver(saves)
        finally:
            self.ended = True
        for thread in threads:
            thread.join()
        if is_long() and self.slowest >= 2:
            self.faults.append("a new step was seen too late")
        print(f"{self.reads} steps read, {self.stale} gone, the slowest new one {self.slowest:.2f} s")
        for fault in self.faults[:8]:
            print(fault)
        return bool(self.faults)


if __name__ == "__main__":
    sys.exit(Play(*sys.argv[1:4]).play(cases("CKPTFS_SAVES", 6, 60)))
