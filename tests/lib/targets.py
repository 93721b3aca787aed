#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""targets.py BUILD [--no-SUITE]... SUITE...: the files that the tests of these suites need, for ninja, with everything that
is installed, which one of them examines. --no-SUITE: without tests of that suite. No suite: no file, which ninja
takes for everything."""
import json
import os
import pathlib
import sys


def main():
    build, words = pathlib.Path(sys.argv[1]), set(sys.argv[2:])
    left_out = {word for word in words if word.startswith("--no-")}
    suites = words - left_out
    info = build / "meson-info"
    needed = set()
    for test in json.loads((info / "intro-tests.json").read_text()):
        has = {suite.split(":")[-1] for suite in test["suite"]}
        if suites & has and not left_out & {f"--no-{suite}" for suite in has}:
            needed |= set(test["depends"])
    for target in json.loads((info / "intro-targets.json").read_text()):
        if target["id"] in needed or suites and target["installed"]:
            print(*(os.path.relpath(file, build.resolve()) for file in target["filename"]))


main()
