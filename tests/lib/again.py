#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""again.py BUILD LOGS: runs each test that failed in BUILD's last `meson test` once more, alone.

One that passes then counts as passed: the log has the second result, with "flaky", the file below LOGS that keeps what
the first run printed. One that fails twice stays failed, with the output of both."""
import json
import os
import subprocess
import sys


def read(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def failed(test):
    return test["result"] not in ("OK", "SKIP")


def run_alone(build, name):
    """The test's second result; None if meson does not run it."""
    log = f"{build}/meson-logs/testlog.json"
    os.remove(log)
    subprocess.run(["meson", "test", "-C", build, "--no-rebuild", name], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    tests = read(log) if os.path.exists(log) else []
    return tests[0] if len(tests) == 1 else None


def again(build, logs, test):
    name = test["name"].rpartition(" / ")[2]
    first = test.get("stdout", "") + test.get("stderr", "")
    kept = f"{logs}/flaky-{name}.log"
    with open(kept, "w") as file:
        file.write(first)
    second = run_alone(build, name)
    if second is None:
        return test
    if failed(second):
        second["stdout"] = f"{second.get('stdout', '')}\n# the first run:\n" + commented(first)
        return second
    return {**second, "flaky": kept}


def commented(text):
    return "".join(f"# {line}\n" for line in text.splitlines())


def main():
    build, logs = sys.argv[1:]
    log = f"{build}/meson-logs/testlog.json"
    tests = [again(build, logs, test) if failed(test) else test for test in read(log)]
    with open(log, "w") as file:
        file.writelines(json.dumps(test) + "\n" for test in tests)


main()
