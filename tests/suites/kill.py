# SPDX-License-Identifier: MIT
"""Runs fio in files/ and ends the daemon by SIGKILL meanwhile. In the next mount each block whose write fio knows as
complete must be there: with its CRC-32C. With --control fio is ended instead, and no file system.
"""
import os
import random
import re
import signal
import subprocess
import time

from image import Trouble
from programs import FIO_BLOCKS, chosen, first, spoil, tried
from processes import daemons

KILLS = 10                  # for each way
SIZE = 64 << 20
SECONDS = 60                # until fio has written enough, and until the processes of a mount are gone
# fio compares the number of complete reads with that of the writes in the state: one read at a time.
AGAIN = ["--verify_only=1", "--overwrite=1", "--allow_file_create=0", "--verify_state_save=0", "--verify_fatal=0",
         "--ioengine=psync", "--iodepth=1"]
FAILED = re.compile(r"^fio: io_u error on file .*: write offset=(\d+)", re.M)
LOST = re.compile(r"^verify: .*requested block: offset=(\d+)", re.M)
# Each way: options of fio.
WAYS = {f"{engine}-{'direct' if direct else 'buffered'}": [f"--ioengine={engine}", f"--direct={direct}"]
        for engine in ("psync", "libaio", "io_uring") for direct in (0, 1)}


def fio(place, way, name, seed, kind):
    """A command that writes a file of the suite's directory, and keeps the state of its writes in the logs."""
    return ["fio", f"--name={name}", f"--directory={place.area}", f"--rw={kind}", *FIO_BLOCKS, f"--size={SIZE}",
            "--fsync=64", "--fallocate=none", f"--randseed={seed}", f"--aux-path={place.logs}", *WAYS[way]]


def wait_until(what, condition):
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            raise Trouble(f"{what}: not after {SECONDS} s")
        time.sleep(0.001)


def written(place):
    """Bytes of the files in the suite's directory, in the source."""
    return sum(512 * entry.stat().st_blocks for entry in os.scandir(place.source / "t"))


def kill(place, child):
    """Ends the daemon, or fio, in the middle of a run of fio, and makes a new mount."""
    if place.control:
        child.terminate()
        child.wait(SECONDS)
        return
    for process in daemons(place.program):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass                                        # it ended with the daemon
    child.wait(SECONDS)
    subprocess.run(["umount", "-l", place.mnt], check=True)
    wait_until("the end of the processes of the mount", lambda: not daemons(place.program))
    place.mount()


def once(place, way, number, kind):
    """None, or the reason why a kill lost blocks."""
    rng = random.Random(place.seed * KILLS + number)
    seed = rng.randrange(1 << 30)
    safe, cut = (fio(place, way, f"{name}-{number}", seed, kind) for name in ("safe", "cut"))
    status, text = tried(place, f"{way}-safe-{number}", [*safe, "--do_verify=0", "--end_fsync=1"])
    if status:
        return f"before the kill: {first(text, 'error', 'fio:')}"
    before = written(place)
    with open(place.logs / f"{way}-cut-{number}.log", "wb") as log:
        with subprocess.Popen([*cut, "--do_verify=0"], cwd=place.logs, stdin=subprocess.DEVNULL, stdout=log,
                              stderr=subprocess.STDOUT) as child:
            enough = before + rng.randrange(SIZE // 8, SIZE // 2)
            wait_until("fio writes", lambda: written(place) >= enough or child.poll() is not None)
            if child.poll() is not None:
                return "fio ended before the kill"
            kill(place, child)
            if not child.returncode:
                return "fio wrote all before the kill"
    # A write that failed is none that fio knows as complete. The state of fio excludes it only if no later one came
    # to its end before it.
    failed = set(FAILED.findall((place.logs / f"{way}-cut-{number}.log").read_text(errors="replace")))
    for name, command, known in (("safe", safe, set()), ("cut", [*cut, "--verify_state_load=1"], failed)):
        os.truncate(place.area / f"{name}-{number}.0.0", SIZE)      # else fio would make the file again
        status, text = tried(place, f"{way}-{name}-{number}-again", [*command, *AGAIN])
        lost = set(LOST.findall(text))
        if lost - known or (status and not lost):
            return f"{name}, after the kill: {first(text, 'verify:', 'error', 'fio:')}"
    spoil(place.area / f"safe-{number}.0.0", SIZE // 2)
    if not tried(place, f"{way}-canary-{number}", [*safe, *AGAIN])[0]:
        return "canary: a wrong byte was not found"
    for entry in os.scandir(place.area):
        os.unlink(entry)
    return None


def run(place, outcome):
    wanted = chosen(place, outcome, WAYS)
    place.options += ",nopassthrough"       # else the kernel goes on writing when the daemon is dead
    place.mount()
    for way in wanted:
        for number in range(KILLS):
            reason = once(place, way, number, ("write", "randwrite")[number % 2])
            if reason:
                outcome.failed(f"{way} {number}", reason)
            else:
                outcome.add("ok")
