#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""targets.py BUILD SUITE...: the files that the tests of these suites need, for ninja, with all that is installed, which
one of them looks at. Without a suite nothing, which is everything to ninja."""
import json
import os
import pathlib
import sys


def main():
    build, suites = pathlib.Path(sys.argv[1]), set(sys.argv[2:])
    info = build / "meson-info"
    tests = json.loads((info / "intro-tests.json").read_text())
    needed = {target for test in tests if suites & {suite.split(":")[-1] for suite in test["suite"]}
              for target in test["depends"]}
    for target in json.loads((info / "intro-targets.json").read_text()):
        if target["id"] in needed or suites and target["installed"]:
            print(*(os.path.relpath(file, build.resolve()) for file in target["filename"]))


main()
