# SPDX-License-Identifier: MIT
"""Tests in Python that print TAP, as tap.h is for those in C.

    tap = Tap()
    tap.result(1 + 1 == 2, "numbers add up")
    sys.exit(tap.finish())
"""
import os
import random
import sys


def is_long():
    """True in `tests/run --all`: new seeds and long counts. Everywhere else a test does the same at every run."""
    return bool(os.environ.get("CKPTFS_ALL"))


def seed(fixed=1):
    """The seed of a random test: CKPTFS_SEED; in the long run a new one; else `fixed`. Printed."""
    text = os.environ.get("CKPTFS_SEED")
    number = int(text) if text else random.SystemRandom().randrange(1, 1 << 32) if is_long() else fixed
    print(f"# CKPTFS_SEED={number}", flush=True)
    return number


def cases(name, few, many):
    """How many cases a test has: the environment variable `name`; in the long run `many`; else `few`."""
    text = os.environ.get(name)
    return type(few)(text) if text else many if is_long() else few


def raises(kind, function, *arguments):
    """The exception of this kind that a call raises, or None."""
    try:
        function(*arguments)
    except kind as e:
        return e
    return None


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def result(self, good, what, notes=()):
        """Prints a result, and a comment line for each note."""
        self.count += 1
        self.failed += not good
        print(f"{'' if good else 'not '}ok {self.count} - {what}")
        for note in notes:
            for line in f"{note[:500]}".splitlines():
                print(f"# {line}")
        sys.stdout.flush()

    def check(self, good, what, *notes):
        """Prints a result; the notes are printed if it is not good."""
        self.result(bool(good), what, () if good else map(str, notes))

    def skip(self, what, why):
        """One result that cannot be had here; with CI=true it has to be."""
        if os.environ.get("CI") == "true":
            self.result(False, f"{what}: skipped, which is not allowed: {why}")
            return
        self.count += 1
        print(f"ok {self.count} - {what} # SKIP {why}")
        sys.stdout.flush()

    def finish(self):
        """The exit status: 0 if there were results, and all are good."""
        print(f"1..{self.count}")
        return 1 if self.failed or not self.count else 0
