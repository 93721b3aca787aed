#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One layer of a training job's checkpoint is replaced by cp, with a crash in between, and the job is resumed.

    fsdp2-resume.py CKPTFS

The job is train.py: FSDP2, AdamW, two processes, in the long run four, started by torchrun. Its checkpoint is mounted and layers
are replaced; then the daemon is killed, or the plug is pulled (see tests/crash/images.py; as root), in the middle of the
next copy, in the long run at any time, too. dcp.load in as many and in half as many processes, of which
outside of the long run each fault has one, has the layers whose cp ended well, nothing else is changed, and the
job goes on, bit by bit as one whose layers were set by PyTorch. The result is TAP.
"""
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import live                                                             # finds the modules of tests/fixtures, too
import interop
import spawn
import train

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "crash"))
import images                                                                               # noqa: E402

LAYER = "layers.0.attention.{}.weight"
WORLD = 4 if live.is_long() else 2
TURNS = 4 if live.is_long() else 0                                      # crashes at some time among copies
EMPTY = {"losses": [], "loaded": {}, "trained": {}}


def stem(name):
    return "model." + LAYER.format(name)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Trial:
    def __init__(self, tap, options, scratch):
        self.tap, self.options, self.scratch = tap, options, pathlib.Path(scratch)
        self.rng = random.Random(live.seed())
        self.arrays = 0

    def array(self, number):
        """A file with a layer's worth of numbers."""
        import numpy
        path = self.scratch / f"layer{number}.npy"
        values = numpy.random.default_rng(number).normal(0, 0.05, (16, 16))
        numpy.save(path, values.astype("f4"))
        return str(path)

    # ---- the job ----

    def job(self, world, *words, torchrun=False):
        """The report of one run of train.py."""
        report = self.scratch / "report"
        report.unlink(missing_ok=True)
        words = [f"--report={report}", *map(str, words)]
        try:
            if torchrun:
                subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(world),
                                "--master-addr", "127.0.0.1", "--master-port", str(free_port()),
                                pathlib.Path(train.__file__), *words], check=True, timeout=200, capture_output=True,
                               env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})
            else:
                spawn.run(train.run, world, train.arguments(words))
            return json.loads(report.read_text())
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            print(f"# {ascii(getattr(error, 'stderr', error))[-500:]}")
            return EMPTY

    def resumes(self, name, path, wanted):
        """The job goes on as `wanted`: by number of processes, the report of one that never met ckptfs."""
        for world, right in wanted.items():
            found = self.job(world, f"--load={path}", "--seed=7", "--steps=2")
            wrong = [key for key in right["loaded"] if found["loaded"].get(key) != right["loaded"][key]]
            self.tap.line(not wrong and found["loaded"].keys() == right["loaded"].keys(),
                          f"{name}: {world} processes load the new layers, and all else as it was", wrong)
            self.tap.line(found["losses"] == right["losses"] and found["trained"] == right["trained"],
                          f"{name}: {world} processes go on as they should", [f"{found['losses']}, {right['losses']}"])

    # ---- copies ----

    def copy(self, daemon, name, file):
        done = subprocess.run(["cp", file, daemon.path("full", stem(name))], check=False, capture_output=True)
        return done.returncode == 0

    def copies_until(self, daemon, name, crash):
        """cp after cp until the crash comes; returns the last file that was copied well, and the one after it."""
        timer = threading.Timer(self.rng.uniform(0.05, 0.5), crash)
        good = None
        timer.start()
        while True:
            file, self.arrays = self.array(100 + self.arrays), self.arrays + 1
            if not self.copy(daemon, name, file):
                timer.join()
                return good, file
            good = file

    def half_a_copy(self, daemon, name, file, crash):
        """A crash between two writes."""
        data = pathlib.Path(file).read_bytes()
        try:
            with open(daemon.path("full", stem(name)), "wb", buffering=0) as out:
                out.write(data[:len(data) // 2])
                crash()
                out.write(data[len(data) // 2:])
        except OSError:
            return
        self.tap.line(False, "what is half written cannot be closed after a crash")

    def holds(self, path, name):
        """The bytes of the layer, by dcp.load."""
        import numpy
        import torch
        import world
        state = {stem(name): torch.empty(16, 16)}
        world.load(path, state)
        return numpy.asarray(state[stem(name)]).tobytes()

    def one_of(self, path, name, before, pair):
        """Whether it has the last that was copied well, or the one during which the crash came."""
        found = self.holds(path, name)
        wanted = [pathlib.Path(file).read_bytes()[-1024:] if file else before for file in pair]
        return found in wanted

    def crashes(self, what, path, crash, ended):
        """One between two writes of a copy, and some at any time. crash(daemon) makes one, ended() repairs."""
        with live.Daemon(self.options.ckptfs, path) as daemon:
            self.tap.line(self.copy(daemon, "wq", self.array(1)) and self.copy(daemon, "wv", self.array(2)),
                          f"{what}: two layers are copied in")
            self.half_a_copy(daemon, "wo", self.array(3), lambda: crash(daemon))
        ended()
        wrong, copied = [], 0
        for turn in range(TURNS):
            before = self.holds(path, "wk")
            with live.Daemon(self.options.ckptfs, path) as daemon:
                pair = self.copies_until(daemon, "wk", lambda d=daemon: crash(d))
            ended()
            copied += pair[0] is not None
            wrong += [] if self.one_of(path, "wk", before, pair) else [f"crash {turn}"]
        if TURNS:
            self.tap.line(not wrong and copied,
                          f"{what}: {TURNS} crashes at any time: the last cp that ended well, or the next", wrong)
        with live.Daemon(self.options.ckptfs, path) as daemon:
            self.tap.line(self.copy(daemon, "wk", self.array(4)), f"{what}: a mount afterwards writes")
        pair = (self.array(1), self.array(2))
        self.tap.line(not self.one_of(path, "wk", b"", pair), f"{what}: canary: another layer is not taken for it")


# ---- parts -----------------------------------------------------------------------------------------------------------

def killed(trial, saved, wanted):
    path = trial.scratch / "killed"
    shutil.copytree(saved, path)
    trial.crashes("SIGKILL", path, lambda daemon: daemon.kill(), lambda: None)
    trial.resumes("SIGKILL", path, wanted)


def plug_pulled(trial, saved, wanted):
    why = images.why_not(str(trial.scratch))
    if why:
        trial.tap.line(os.environ.get("CI") != "true", f"a pulled plug # SKIP {why}")
        return
    with images.Image("ext4", str(trial.scratch)) as image:
        path, late = pathlib.Path(image.root, "ckpt"), pathlib.Path(image.root, "late")
        shutil.copytree(saved, path)
        image.settle()
        lost = []

        def crash(daemon):
            late.write_bytes(b"not synced")
            image.cut("lost")
            daemon.kill()

        def ended():
            image.recover()
            lost.append(not late.exists() or late.stat().st_size == 0)
        trial.crashes("pulled plug", path, crash, ended)
        # Of the first crash: in others a commit syncs at any time, and with it all that the journal has.
        trial.tap.line(lost[0] and len(lost) == TURNS + 1, "canary: unsynced bytes are lost")
        trial.resumes("pulled plug", path, wanted)


def goes_on(trial, path):
    """The job saves over it, and that can be mounted and written, too."""
    trial.job(WORLD, f"--load={path}", "--steps=1", f"--save={path}")
    with live.Daemon(trial.options.ckptfs, path) as daemon:
        good = trial.copy(daemon, "wq", trial.array(5))
    trial.tap.line(good and trial.holds(path, "wq") == pathlib.Path(trial.array(5)).read_bytes()[-1024:],
                   "saved by the job again, and a layer replaced again")


def main():
    options = live.arguments(__doc__)
    if os.geteuid() == 0:
        images.keep_mounts_private()
    tap = interop.Tap()
    with tempfile.TemporaryDirectory(prefix="resume-") as scratch:
        trial, saved = Trial(tap, options, scratch), f"{scratch}/saved"
        try:
            trial.job(WORLD, "--steps=2", f"--save={saved}", torchrun=live.is_long())
            layers = [f"--set={LAYER.format(name)}={trial.array(number)}"
                      for name, number in (("wq", 1), ("wv", 2), ("wk", 4))]
            plain = trial.job(WORLD, f"--load={saved}", "--seed=7", "--steps=2")
            wanted = {world: trial.job(world, f"--load={saved}", "--seed=7", "--steps=2", *layers)
                      for world in (WORLD, WORLD // 2)}
            changed = {key for key, entry in wanted[WORLD]["loaded"].items() if plain["loaded"][key] != entry}
            tap.line(changed == {stem(name) for name in ("wq", "wv", "wk")} and plain["losses"] != wanted[WORLD]["losses"],
                     "canary: the layers make a difference", changed)
            halves = [dict([part]) for part in wanted.items()]
            killed(trial, saved, wanted if live.is_long() else halves[0])
            plug_pulled(trial, saved, wanted if live.is_long() else halves[1])
            goes_on(trial, trial.scratch / "killed")
        except Exception:
            tap.line(False, "it ran", traceback.format_exc().splitlines()[-8:])
    sys.exit(tap.finish())


if __name__ == "__main__":
    main()
