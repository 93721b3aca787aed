#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tally.py counts right, and fails where a careless sum would pass."""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
count = failed = 0


def meson(result, stdout, suite='lint+unit', seconds=0):
    return json.dumps({'name': f'ckptfs:{suite} / t', 'result': result, 'duration': seconds,
                       'stdout': stdout, 'stderr': ''})


def expect(what, last, *tests, args=(), said=""):
    global count, failed
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'log.json')
        with open(path, 'w') as f:
            f.write('\n'.join(tests))
        out = subprocess.run(
            [sys.executable, os.path.join(HERE, 'tally.py'), *args,
             'x=' + path], capture_output=True, text=True)
    bad = ' 0 failed' not in last or last.startswith('0 passed')
    good = (out.stdout.rstrip().split('\n')[-1] == last and said in out.stdout
            and (out.returncode != 0) == bad)
    count += 1
    failed += not good
    print(f'{"" if good else "not "}ok {count} - {what}')
    if not good:
        print(f'# exit {out.returncode}: {out.stdout!r}, want {last!r}')


expect('TAP lines are counted', '2 passed, 1 failed, 0 skipped',
       meson('FAIL', 'ok 1\nnot ok 2 - x\nok 3\n1..3\n'))
expect('a plain program counts one', '1 passed, 0 failed, 0 skipped',
       meson('OK', 'hello\n'))
expect('a crash after good lines is a failure',
       '1 passed, 1 failed, 0 skipped', meson('ERROR', 'ok 1\n'))
expect('a missing plan is a failure', '1 passed, 1 failed, 0 skipped',
       meson('OK', 'ok 1\n'))
expect('a time-out without output is a failure',
       '0 passed, 1 failed, 0 skipped', meson('TIMEOUT', ''))
expect('skips are counted', '1 passed, 0 failed, 2 skipped',
       meson('OK', 'ok 1\nok 2 # SKIP no x\n1..2\n'),
       meson('SKIP', '1..0 # SKIP no y\n'))
expect('a skip in a strict suite is a failure',
       '1 passed, 1 failed, 1 skipped', meson('OK', 'ok 1\n1..1\n'),
       meson('SKIP', '1..0 # SKIP no y\n', 'torch'),
       meson('SKIP', '1..0 # SKIP no z\n', 'unit'), args=('--strict', 'torch'))
expect('a strict suite that did not run is a failure',
       '1 passed, 1 failed, 0 skipped', meson('OK', 'x'),
       args=('--strict', 'torch'))
expect('the longest are named', '3 passed, 0 failed, 0 skipped', meson('OK', 'x', 'unit', 2),
       meson('OK', 'x', 'dist', 40.4), meson('OK', 'x', 'lint', 0.2),
       said='suites: x/dist 40 s, x/unit 2 s\nslowest: x/t 43 s\n')
expect('a flaky test passes and is named', '2 passed, 0 failed, 1 skipped',
       json.dumps({**json.loads(meson('OK', 'ok 1\nok 2\n1..2\n')), 'flaky': 'logs/t'}),
       meson('SKIP', '1..0 # SKIP no y\n'),
       said='flaky x/t: failed once, passed alone; see logs/t\nskipped x/t: no y\n')
expect('nothing run is a failure', '0 passed, 0 failed, 0 skipped')
print(f'1..{count}')
sys.exit(failed > 0)
