#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests scenes.py: each result of several scenes appears once, in order, and each way to fail is
detected. Scenes run one at a time, or three at a time in `tests/run --all`. Prints TAP.

    scenes_test.py              the test
    scenes_test.py - SCENE...   the tested program
"""
import os
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from scenes import play  # noqa: E402
from tap import Tap  # noqa: E402

tap = Tap()


def slow():
    time.sleep(0.2)
    tap.check(True, "slow")


def is_alone():
    """No more of it are there at one time than there may be."""
    place = os.environ["CKPTFS_ALONE"]
    mark = f"{place}/{os.getpid()}"
    open(mark, "w").close()
    time.sleep(0.1)
    count = len(os.listdir(place))
    os.unlink(mark)
    tap.check(count <= int(os.environ["CKPTFS_MOST"]), "alone")


def quick():
    tap.check(True, "quick")
    tap.check(True, "quick again")


def fails():
    tap.check(False, "fails", "a note")


def dies():
    tap.check(True, "dies after it")
    os._exit(3)


def raises():
    raise RuntimeError


def is_empty():
    pass


def meets():
    """Three of it are there at one time."""
    place = os.environ["CKPTFS_MEET"]
    open(f"{place}/{os.getpid()}", "w").close()
    end = time.monotonic() + 60
    while len(os.listdir(place)) < 3 and time.monotonic() < end:
        time.sleep(0.01)
    tap.check(len(os.listdir(place)) == 3, "meets")


def act(scene):
    scene()
    return tap.finish()


def played(*scenes):
    done = subprocess.run([sys.executable, __file__, "-", *(s.__name__ for s in scenes)],
                          capture_output=True, text=True)
    lines = [re.sub(r"^(# \w+): \d+ to \d+ s$", r"\1", line) for line in done.stdout.splitlines()]
    return done.returncode, lines


def main():
    got = played(slow, quick)
    tap.check(got == (0, ["# slow", "ok 1 - slow", "# quick", "ok 2 - quick",
                          "ok 3 - quick again", "1..3"]), "all results, in order", got)
    got = played(quick, fails)
    tap.check(got[0] == 1 and got[1][4:] == ["not ok 3 - fails", "# a note", "1..3"],
              "one that fails", got)
    for scene, lines in ((dies, ["ok 3 - dies after it", "not ok 4 - dies: ends with 3 "
                                 "after 1 results", "1..4"]),
                         (raises, ["not ok 3 - raises: ends with 1 after 0 results",
                                   "1..3"]),
                         (is_empty, ["not ok 3 - is_empty: ends with 1 after 0 results",
                                     "1..3"])):
        got = played(quick, scene)
        tap.check(got[0] == 1 and got[1][4:] == lines, f"one that {scene.__name__}", got)
    for most, all_of_it in (1, ""), (3, "1"):
        with tempfile.TemporaryDirectory() as place:
            os.environ.update(CKPTFS_ALONE=place, CKPTFS_MOST=str(most), CKPTFS_ALL=all_of_it)
            got = played(*[is_alone] * 6)
            tap.check(got[0] == 0, f"no more than {most} at a time", got)
    with tempfile.TemporaryDirectory() as place:
        os.environ["CKPTFS_MEET"] = place
        got = played(*[meets] * 3)
        tap.check(got[0] == 0, "three at a time", got)
    return tap.finish()


if len(sys.argv) > 1:
    sys.exit(play((slow, quick, is_alone, fails, dies, raises, is_empty, meets), act))
sys.exit(main())
