#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""again.py runs a failed test once more: in a small project with a test that passes the second time, one that never
does, and one that passed."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from tap import Tap  # noqa: E402

MESON = """project('p')
sh = find_program('sh')
test('passes', sh, args: ['-c', 'echo passes >>' + meson.current_source_dir() / 'ran'])
test('second', sh, args: ['-c', 'echo output; mkdir ' + meson.current_source_dir() / 'made' + ' && exit 1; exit 0'])
test('never', sh, args: ['-c', 'echo why; exit 1'])
"""


def results(folder):
    build, logs = f"{folder}/build", f"{folder}/logs"
    os.mkdir(logs)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["meson", "setup", build, folder], check=True, **quiet)
    subprocess.run(["meson", "test", "-C", build], **quiet)
    subprocess.run([f"{HERE}/again.py", build, logs], check=True)
    with open(f"{build}/meson-logs/testlog.json") as file:
        return {test["name"].split(" / ")[-1]: test for test in map(json.loads, file)}


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/meson.build", "w") as file:
            file.write(MESON)
        tests = results(folder)
        tap.check(sorted(tests) == ["never", "passes", "second"], "each test has one result", tests)
        second, never = tests["second"], tests["never"]
        with open(second.get("flaky", os.devnull)) as file:
            tap.check(file.read() == "output\n", "the first output of a flaky test is kept")
        tap.check(second["result"] == "OK", "a flaky test counts as passed", second)
        tap.check(never["result"] != "OK" and "flaky" not in never and never["stdout"].count("why") == 2,
                  "a test that fails twice stays failed, with both outputs", never)
        with open(f"{folder}/ran") as file:
            tap.check(file.read() == "passes\n", "a test that passed runs once")
    return tap.finish()


sys.exit(main())
