# SPDX-License-Identifier: MIT
"""Runs fsstress in files/ while tensors are committed and read."""
import pathlib
import subprocess
import threading

from outcome import excluded
from programs import first, tried

PROCESSES = 8
ROUND = 20000               # operations in one tree: the costs of some grow with it
READERS = 2
COMMIT_SECONDS = 0.2        # between commits
READ_SECONDS = 0.005        # between reads, which leaves processors for fsstress


class Beside:
    """Threads that use tensors of the mount until stop(). Each commit replaces a tensor by equal bytes."""

    def __init__(self, place):
        self.place = place
        self.end = threading.Event()
        self.commits = self.reads = 0
        self.problems = []
        self.bytes = {path.relative_to(place.mnt): path.read_bytes()
                      for view in ("raw", "full") for path in sorted((place.mnt / view).iterdir())}
        self.threads = [threading.Thread(target=self.guarded, args=(self.write,))]
        self.threads += [threading.Thread(target=self.guarded, args=(self.read,)) for _ in range(READERS)]
        for thread in self.threads:
            thread.start()

    def guarded(self, function):
        try:
            while not self.end.is_set():
                function()
        except OSError as e:
            self.problems.append(f"{function.__name__} of a tensor: {e}")

    def write(self):
        for path, expected in self.bytes.items():
            if self.end.is_set():
                return
            if path.parts[0] == "raw":
                (self.place.mnt / path).write_bytes(expected)
                self.commits += 1
                self.end.wait(COMMIT_SECONDS)

    def read(self):
        for path, expected in self.bytes.items():
            if self.end.is_set():
                return
            if (self.place.mnt / path).read_bytes() != expected:
                self.problems.append(f"{path}: wrong bytes")
            self.reads += 1
            self.end.wait(READ_SECONDS)

    def stop(self):
        self.end.set()
        for thread in self.threads:
            thread.join()


def judge(beside, outcome):
    print(f"# {beside.commits} commits, {beside.reads} reads of whole tensors", flush=True)
    for what, number in (("commits", beside.commits), ("reads", beside.reads)):
        if number:
            outcome.add("ok")
        else:
            outcome.failed(what, "there was not one")
    for problem in beside.problems[:1]:
        outcome.failed("tensors", problem, len(beside.problems))


def run(place, outcome):
    place.mount()
    if reason := excluded("fsstress").get("fsstress"):
        outcome.not_run("fsstress", reason)
        return
    beside = None if place.control else Beside(place)
    try:
        for number in range(-(-place.operations // ROUND)):
            tree(place, number, min(ROUND, place.operations - number * ROUND), outcome)
    finally:
        if beside:
            beside.stop()
    if beside:
        judge(beside, outcome)


def tree(place, number, operations, outcome):
    """fsstress in a directory of its own. All files that it leaves can be listed, read and removed."""
    top = place.area / str(number)
    top.mkdir()
    status, text = tried(place, f"fsstress-{number}", [
        place.built / "ltp/fsstress", "-d", top, "-p", PROCESSES, "-s", place.seed + number * PROCESSES ** 2, "-n",
        operations // PROCESSES])
    if status:
        outcome.failed(f"fsstress {number}", first(text, "error", "fail"))
    else:
        outcome.add("ok")
    for name, command in (("find", ["find", top, "-printf", "%p %s %n %m\\n"]),
                          ("read", ["find", top, "-type", "f", "-exec", "cat", "{}", "+"]),
                          ("remove", ["find", top, "-delete"])):
        with open(place.logs / f"{name}-{number}.log", "wb") as log:
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=log, check=False)
        if done.returncode:
            outcome.failed(f"{name} {number}", first(pathlib.Path(log.name).read_text(errors="replace"), ":"))
        else:
            outcome.add("ok")
