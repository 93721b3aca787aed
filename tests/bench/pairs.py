# SPDX-License-Identifier: MIT
"""Rows of tests/bench/run for two kinds of mounts, in turn: what one option, or another build, makes of each.

    tests/bench/run --program PROGRAM --data DIR --pairs 15 --with gpu=auto --against gpu=off [--other PROGRAM]
                    [--only GROUP]... [--rows REGEX] [--minutes N]

A round is three runs of a group, each with one repetition: against, with, against, the first and the last of them changing
places from round to round. So each round gives a pair of the two, and one of the second beside itself, which shows
how much of the first is noise. Figures are medians of rounds; a ratio is the median of those of the rounds, above 1 if the
first is better, be it a rate or a time. Nothing native is measured: where the table has a figure in ratio to something
native, it is the rate, or the time, itself here. --other is the program whose mounts the first is compared against.

--rows leaves out all rows in which the expression is not found; those that are a comparison are not measured then, of the
others all of their group are. --minutes ends it after the round in which they are over; a group of which no round was
whole is named. The groups check, units and unmounted, which mount nothing, and limits, which has the readings of
first, hot and direct, are measured if --only names them.
"""
import copy
import re
import shutil
import statistics
import time

from measure import Bench

FLOOR = 0.97
LEFT_OUT = "check", "units", "unmounted", "limits", "kinds", "hf_many", "hf", "hf_export", "hf_direct"


class Side(Bench):
    """One kind of mounts. What is measured of it is kept."""

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
        """{row: its figure, of which more is better}"""
        self.found = {}
        unit(self)
        return self.found


def median_of(ratios):
    """With the quartiles, if there are some."""
    text = f"{statistics.median(ratios):.3f}"
    if len(ratios) < 4:
        return text
    low, _, high = statistics.quantiles(ratios, n=4)
    return f"{text} ({low:.3f} to {high:.3f})"


def print_row(what, rounds):
    """rounds: figures of (against, with, against). One that is nothing has no ratio."""
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
        """Prints the rows of a group, or of a part of one."""
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
        """units: (name, function) of what is measured in one go."""
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
