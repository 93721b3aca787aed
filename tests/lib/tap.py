# SPDX-License-Identifier: MIT
"""Tests in Python that print TAP, as tap.h is for those in C.

    tap = Tap()
    tap.result(1 + 1 == 2, "numbers add up")
    sys.exit(tap.finish())
"""
import os
import sys


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def result(self, good, what, notes=()):
        """One line, and more that say why."""
        self.count += 1
        self.failed += not good
        print(f"{'' if good else 'not '}ok {self.count} - {what}")
        for note in notes:
            for line in f"{note[:500]}".splitlines():
                print(f"# {line}")
        sys.stdout.flush()

    def check(self, good, what, *notes):
        """A result; the notes say what there is instead, if it is not good."""
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
