# SPDX-License-Identifier: MIT
"""Runs the scenarios of a test, each in its own process with its own hosts. In
`tests/run --all` several run at a time, since they mostly wait. Otherwise they run one
after the other, so that they do not slow each other down.

    sys.exit(play(TESTS, act))

TESTS are functions; act(test) runs one of them, prints its results, and returns the exit
status. Arguments of the program select tests by name; without arguments all run. The output
is printed in the order of TESTS.
"""
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tap import Tap, is_long

AT_A_TIME = 3


def play(tests, act, at_a_time=AT_A_TIME, words=1):
    by_name = {test.__name__: test for test in tests}
    given = sys.argv[1 + words:]
    names = given or list(by_name)
    if len(given) == 1:
        return act(by_name[names[0]])
    tap, start = Tap(), time.monotonic()
    with ThreadPoolExecutor(at_a_time if is_long() else 1) as pool:
        for name, (done, begin, end) in zip(names, pool.map(partial(one, words), names)):
            print(f"# {name}: {begin - start:.0f} to {end - start:.0f} s")
            repeat(tap, name, done)
    return tap.finish()


def one(words, name):
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-B", os.path.abspath(sys.argv[0]), *sys.argv[1:1 + words], name],
        stdout=subprocess.PIPE, text=True)
    return done, begin, time.monotonic()


def repeat(tap, name, done):
    """Prints the results of a test with new numbers. A test that ends without a plan has
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
