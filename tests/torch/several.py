#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs scripts of this directory one after the other in forks of one process, so that PyTorch is imported only once.

    several.py PROGRAM NAME[=[ARGUMENT[,ARGUMENT]...]]...   each script gets PROGRAM, or its own arguments or none

The scripts run with few cases and fixed seeds, also in the long run, which runs each of them alone with many. The result
is one TAP: the lines of each script with its name before them.
"""
import os
import pathlib
import re
import runpy
import sys
import traceback

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / part) for part in ("fixtures", "lib")]
import make                                                                                 # noqa: E402
import spawn                                                                                # noqa: E402
from tap import Tap                                                                         # noqa: E402

LINE = re.compile(r"(not )?ok \d+ - (.*?)(?: # SKIP (.*))?$")
PLAN = re.compile(r"1\.\.(\d+)(?: # SKIP (.*))?$")


def child(name, arguments, out):
    """Never returns: the script is the main program of this process."""
    status = 1
    try:
        os.dup2(out, 1)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
        sys.path.insert(0, str(HERE))                   # tests/fixtures has modules of the same names
        sys.argv = [str(HERE / f"{name}.py"), *arguments]
        runpy.run_path(sys.argv[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = 0 if end.code is None else end.code if isinstance(end.code, int) else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def started(name, arguments):
    """Process id, and the file that its output can be read from."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(out)
        child(name, arguments, into)
    os.close(into)
    return pid, open(out, encoding="utf-8", errors="replace")


def run(tap, name, arguments):
    """All lines of one script. Without a plan, or with another number of results, it has failed."""
    pid, out = started(name, arguments)
    count, planned, failed = 0, None, tap.failed
    for line in out:
        result, plan = LINE.match(line.rstrip("\n")), PLAN.match(line)
        if result and result[3] is not None:
            tap.skip(f"{name}: {result[2]}", result[3])
        elif result:
            tap.result(not result[1], f"{name}: {result[2]}")
        elif plan and plan[2] is not None:
            tap.skip(name, plan[2])
        if not result and not plan:
            print(line, end="", flush=True)
        count += result is not None
        planned = int(plan[1]) if plan else planned
    _, status = os.waitpid(pid, 0)
    if planned != count or (status != 0 and tap.failed == failed):
        tap.result(False, f"{name}: it ran", [f"status {status}, {count} results of {planned}"])


def main():
    os.environ.pop("CKPTFS_ALL", None)
    if make.installed():
        make.quiet()
        spawn.import_late()
    tap, program = Tap(), sys.argv[1]
    for word in sys.argv[2:]:
        name, equals, own = word.partition("=")
        run(tap, name, [word for word in (own.split(",") if equals else [program]) if word])
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
