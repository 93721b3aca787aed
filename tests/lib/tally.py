# SPDX-License-Identifier: MIT
"""Adds up test results and shows failures in full, and nothing else.

    tally.py [--strict SUITE]... NAME=FILE...

FILE is a meson testlog.json (ends in .json) or the TAP output of one program;
NAME identifies the run in failures. A program counts one for each of its TAP lines; a
program without TAP lines, or one that failed without a failed line, counts one. In a --strict suite a skip is a failure, and so is a suite
that did not run. The last lines are the seconds of each suite, the ten slowest tests, the
flaky tests (which again.py has run twice), the skips with their reasons, and "N passed, N
failed, N skipped".
"""

import collections
import json
import re
import sys

TAP = re.compile(r'^(not )?ok\b(.*)$')
SKIP = re.compile(r'#\s*SKIP\b\s*(.*)', re.I)
PLAN = re.compile(r'^1\.\.(\d+)\s*(?:#\s*SKIP\b\s*(.*))?$', re.I)


class Tally:
    def __init__(self, strict):
        self.strict = strict
        self.seen = set()
        self.passed = self.failed = self.skipped = 0
        self.seconds = collections.Counter()  # of suites, and of tests
        self.slow = collections.Counter()
        self.notes = []  # of skips and flaky tests

    def took(self, name, suites, where, seconds):
        for suite in suites:
            self.seconds[f'{name}/{suite}'] += seconds
        self.slow[where] += seconds

    def summary(self):
        for what, all_of in (('suites', self.seconds), ('slowest', self.slow)):
            print(f'{what}: ' + ', '.join(f'{name} {seconds:.0f} s' for name, seconds in
                                          all_of.most_common(10) if seconds >= 1))
        for note in sorted(self.notes):
            print(note)
        print(f'{self.passed} passed, {self.failed} failed, {self.skipped} skipped')

    def skip(self, where, suites, why):
        if self.strict & suites:
            self.failed += 1
            print(f'FAILED {where}: skipped, which is not allowed here: {why}')
        else:
            self.skipped += 1
            self.notes.append(f'skipped {where}: {why or "no reason given"}')

    def tap(self, where, suites, text, good):
        """One program that printed TAP and ended well or not."""
        results = failed = skipped = 0
        plan = why = None
        for line in text.split('\n'):
            m = TAP.match(line)
            if m:
                results += 1
                skip = SKIP.search(m.group(2))
                if skip:
                    skipped += 1
                    what = m.group(2).split('#')[0].strip()
                    self.skip(f'{where}: {what}', suites, skip.group(1))
                elif m.group(1):
                    failed += 1
            m = PLAN.match(line)
            if m:
                plan, why = int(m.group(1)), m.group(2)
        if plan == 0 and why is not None and not results and good:
            self.skip(where, suites, why)
            return
        self.passed += results - failed - skipped
        if not failed and (not good or plan != results):
            failed = 1
        self.failed += failed
        if failed:
            print(f'FAILED {where}')
            print(shown(text))

    def meson(self, name, path):
        with open(path) as f:
            for line in f:
                self.meson_test(name, json.loads(line))

    def meson_test(self, name, test):
        """Meson's name of a test is "project:suite+suite / test"."""
        suites, _, short = test['name'].rpartition(' / ')
        where = f'{name}/{short}'
        suites = set(suites.split(':')[-1].split('+'))
        self.seen |= suites
        self.took(name, suites, where, test.get('duration', 0))
        if 'flaky' in test:
            self.notes.append(f'flaky {where}: failed once, passed alone; see {test["flaky"]}')
        text = test.get('stdout', '')
        good = test['result'] in ('OK', 'SKIP')
        if not good:
            text += test.get('stderr', '')
        if any(TAP.match(l) or PLAN.match(l) for l in text.split('\n')):
            self.tap(where, suites, text, good)
        elif test['result'] == 'SKIP':
            self.skip(where, suites, text.strip())
        elif good:
            self.passed += 1
        else:
            self.failed += 1
            print(f'FAILED {where}: {test["result"]}')
            print(shown(text))


def shown(text):
    """All that is not a passed check, from both ends if it is long."""
    lines = [l for l in text.rstrip().split('\n') if not l.startswith('ok ')]
    if len(lines) > 200:
        lines[150:-50] = [f'... {len(lines) - 200} lines left out ...']
    return '\n'.join('    ' + l for l in lines)


def main(args):
    strict = set()
    while args and args[0] == '--strict':
        strict.add(args[1])
        args = args[2:]
    tally = Tally(strict)
    for arg in args:
        name, path = arg.split('=', 1)
        if path.endswith('.json'):
            tally.meson(name, path)
            continue
        with open(path, errors='replace') as f:
            tally.tap(name, {name}, f.read(), True)
    for suite in sorted(strict - tally.seen):
        tally.failed += 1
        print(f'FAILED {suite}: the suite did not run')
    tally.summary()
    return 1 if tally.failed or not tally.passed else 0


sys.exit(main(sys.argv[1:]))
