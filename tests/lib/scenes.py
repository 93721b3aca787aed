# SPDX-License-Identifier: MIT
"""The scenes of a test, several at a time: each is run by a process of its own, and has
hosts of its own. Scenes that mostly wait do not get in each other's way.

    sys.exit(play(TESTS, act))

TESTS are functions; act(test) does one, with results, and returns the exit status. The
program's words after the first are names of those that are done: one by itself, several
or all (without any) as said, and what they print is printed in the order of TESTS.
"""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tap import Tap

AT_A_TIME = 3


def play(tests, act, at_a_time=AT_A_TIME):
    by_name = {test.__name__: test for test in tests}
    names = sys.argv[2:] or list(by_name)
    if len(sys.argv) == 3:
        return act(by_name[names[0]])
    tap = Tap()
    with ThreadPoolExecutor(at_a_time) as pool:
        for name, done in zip(names, pool.map(one, names)):
            print(f"# {name}")
            repeat(tap, name, done)
    return tap.finish()


def one(name):
    return subprocess.run(
        [sys.executable, "-B", os.path.abspath(sys.argv[0]), sys.argv[1], name],
        stdout=subprocess.PIPE, text=True)


def repeat(tap, name, done):
    """Its results, counted anew. One that ends before it says how many they are has
    failed."""
    bad = planned = count = 0
    for line in done.stdout.splitlines():
        result = re.fullmatch(r"(not )?ok \d+ - (.*)", line)
        plan = re.fullmatch(r"1\.\.(\d+)", line)
        if result:
            count += 1
            bad += bool(result.group(1))
            tap.result(not result.group(1), result.group(2))
        elif plan:
            planned = int(plan.group(1))
        else:
            print(line)
    if planned != count or not count or done.returncode != bool(bad):
        tap.result(False, f"{name}: ends with {done.returncode} after {count} results")
