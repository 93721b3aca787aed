# SPDX-License-Identifier: MIT
"""Compares the rows of tests/bench/run for two kinds of mounts, which differ by an option or by the build.

    tests/bench/run --program PROGRAM --data DIR --pairs 15 --with gpu=auto --against gpu=off [--other PROGRAM]
                    [--only GROUP]... [--rows REGEX] [--minutes N]

A round is three runs of a group, each with one repetition: against, with, against. The two outer runs change places from
round to round. So each round gives a pair of the two mounts, and a pair of the second mount with itself, which shows the
noise. Figures are medians of rounds. A ratio is the median of the ratios of the rounds, above 1 if the first mount is
better, for rates and for times. Native reads are not measured: where the table has a ratio to native reads, this one has
the rate or the time. --other is the program of the second kind of mounts.

--rows selects the rows in which the expression is found. Comparisons without a selected row are skipped; other groups are
measured completely. --minutes ends the measurement after the current round; a group without a complete round is named.
The groups check, units, unmounted and values mount nothing, and limits repeats the reads of first, hot and direct: these groups
are measured only if --only names them.
"""
import copy
import re
import shutil
import statistics
import time

from measure import Bench

FLOOR = 0.97
LEFT_OUT = "check", "units", "unmounted", "values", "limits", "kinds", "items", "hf_many", "hf", "hf_export", "hf_direct"


class Side(Bench):
    """One kind of mounts. It stores its figures."""

    def __init__(self, options, program, mount_options):
        options = copy.copy(options)
        options.program, options.repeat = program, 1
        super().__init__(options)
        self.natives, self.options = False, mount_options
        self.pattern = re.compile(options.rows)
        self.found, self.skipped = {}, {}

    def wants(self, what):
        return bool(self.pattern.search(what))

    def row(self, what, native, ours, figure, floor=None, target=None, less=False):
        if self.wants(what):
            self.found[what] = 1 / figure if less and figure > 0 else figure

    def skip(self, what, why):
        self.skipped[what] = why

    def run(self, unit):
        """{row: figure, where more is better}"""
        self.found = {}
        unit(self)
        return self.found


def median_of(ratios):
    """The median, with the quartiles if there are enough values."""
    text = f"{statistics.median(ratios):.3f}"
    if len(ratios) < 4:
        return text
    low, _, high = statistics.quantiles(ratios, n=4)
    return f"{text} ({low:.3f} to {high:.3f})"


def print_row(what, rounds):
    """rounds: figures of (against, with, against). A round with a figure 0 has no ratio."""
    rounds = [three for three in rounds if min(three) > 0]
    if not rounds:
        print(f"| {what} | 0 | | | {FLOOR} | no figure |", flush=True)
        return
    pairs, itself = [new / old for old, new, _ in rounds], [last / old for old, _, last in rounds]
    verdict = "floor met" if statistics.median(pairs) >= FLOOR else "**floor missed**"
    print(f"| {what} | {len(rounds)} | {median_of(pairs)} | {median_of(itself)} | {FLOOR} | {verdict} |", flush=True)


class Pairs:
    def __init__(self, options):
        self.first = Side(options, options.program, options.with_.split(",") if options.with_ else [])
        self.second = Side(options, options.other or options.program,
                           options.against.split(",") if options.against else [])
        self.count = options.pairs
        self.end = time.monotonic() + 60 * options.minutes if options.minutes else None

    def is_over(self):
        return self.end is not None and time.monotonic() >= self.end

    def measure(self, unit, name):
        """Prints the rows of a group or of a part of it."""
        rounds = {}
        for number in range(self.count):
            if self.is_over():
                break
            earlier, new, later = (side.run(unit) for side in (self.second, self.first, self.second))
            if number % 2:
                earlier, later = later, earlier
            for what in new:
                if what in earlier and what in later:
                    rounds.setdefault(what, []).append((earlier[what], new[what], later[what]))
        for what, found in rounds.items():
            print_row(what, found)
        self.print_skipped()
        if not rounds and self.is_over():
            print(f"| {name} | | | | | not measured: the time is over |", flush=True)

    def print_skipped(self):
        for what, why in self.second.skipped.items():
            print(f"| {what} | | | | | skipped: {why} |", flush=True)
        self.second.skipped = {}

    def run(self, units):
        """units: (name, function), each measured as a whole."""
        print(f"{self.text()}; medians of pairs, and their quartiles\n")
        print("| what | pairs | ratio | the second beside itself | floor | |\n" + 6 * "|---" + "|")
        for name, unit in units:
            self.measure(unit, name)
        self.print_skipped()

    def text(self):
        sides = [f"{side.program.name} {','.join(side.options) or 'without options'}"
                 for side in (self.first, self.second)]
        other = "" if self.first.program == self.second.program else ", of two programs"
        return f"{sides[0]} against {sides[1]}{other}"

    def busy(self):
        return self.first.busy + self.second.busy, self.first.settled + self.second.settled

    def close(self):
        for side in (self.first, self.second):
            side.umount_left()
            shutil.rmtree(side.base)
