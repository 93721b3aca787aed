# SPDX-License-Identifier: MIT
"""Runs pjdfstest: each of its files is a shell script that prints TAP."""
import re
import subprocess

from outcome import excluded

FILE_SECONDS = 900
RESULT = re.compile(r"(not )?ok (\d+)(?: - (.*?))?(?: ?# (TODO|SKIP).*)?$")


def assertion(number, trace):
    """The call before result `number`, from the trace of `sh -x`; a result of test_check has no text of its own."""
    lines = trace.splitlines()
    for at, line in enumerate(lines):
        if re.match(rf"\+ echo '?not ok {number}\b", line):
            calls = [text for text in lines[:at] if re.match(r"\+ (expect|test_check|jexpect) ", text)]
            return calls[-1][2:] if calls else line
    return "no assertion found"


def results(text):
    """(number of the plan, results seen, passed, TODO, {number: message or None} of failures) of a file's TAP."""
    plan, seen, passed, todo, failures = None, 0, 0, 0, {}
    for line in text.splitlines():
        if line.startswith("1.."):
            plan = int(line[3:].split()[0])
        elif found := RESULT.match(line):
            seen += 1
            bad, number, message, directive = found.groups()
            if directive == "TODO":
                todo += 1
            elif bad:
                failures[int(number)] = message
            else:
                passed += 1
    return plan, seen, passed, todo, failures


def script(place, name, area, log):
    """Runs one file in a directory. (its TAP, its trace, whether it ended in time)"""
    complete = True
    with open(f"{log}.out", "wb") as out, open(f"{log}.trace", "wb") as trace:
        try:
            subprocess.run(["sh", "-x", place.built / "tests" / name], cwd=area, stdin=subprocess.DEVNULL,
                           stdout=out, stderr=trace, timeout=FILE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            complete = False
    with open(f"{log}.out", errors="replace") as out, open(f"{log}.trace", errors="replace") as trace:
        return out.read(), trace.read(), complete


def failing_there(place, name, log):
    """Numbers of assertions that fail on ext4 of the same image, too, in the same user namespace."""
    area = place.source / "control"
    area.mkdir(exist_ok=True)
    return set(results(script(place, name, area, f"{log}.control")[0])[4])


def judge(place, name, outcome):
    """Runs one file, and counts its results."""
    log = place.logs / name.replace("/", "-")
    text, trace, complete = script(place, name, place.area, log)
    plan, seen, passed, todo, failures = results(text)
    outcome.add("ok", passed)
    outcome.add("todo", todo)
    if failures and place.owner and not place.control:
        for number in failing_there(place, name, log) & set(failures):
            del failures[number]
            outcome.not_run(f"{name} {number}", "fails on ext4 in a user namespace, too")
    if failures:
        number, message = next(iter(failures.items()))
        outcome.failed(name, f"{len(failures)} of {seen} assertions; first {number}: "
                             f"{message or assertion(number, trace)}", len(failures))
    if not complete:
        outcome.failed(name, f"took longer than {FILE_SECONDS} s")
    elif plan != seen:
        outcome.failed(name, f"ended after {seen} assertions of {plan}: {trace.splitlines()[-1:]}")


def files(place):
    """Names of the files to run, as chmod/00.t."""
    tests = place.built / "tests"
    found = []
    for name in place.tests or [""]:
        path = tests / name
        found += sorted(path.rglob("*.t")) if path.is_dir() else [path]
    return [str(path.relative_to(tests)) for path in found]


def run(place, outcome):
    skipped = excluded("pjdfstest")
    if place.name.endswith("-user"):
        skipped.update(excluded("pjdfstest-user"))
    place.mount()
    for name in files(place):
        if name in skipped:
            outcome.not_run(name, skipped[name])
            continue
        judge(place, name, outcome)
