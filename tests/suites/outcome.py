# SPDX-License-Identifier: MIT
"""Results of a suite: counts, and lines for people."""
import collections
import json
import pathlib

KINDS = ("ok", "not ok", "todo", "not run")
HERE = pathlib.Path(__file__).resolve().parent


def excluded(suite):
    """{test: reason} of excluded.txt: lines SUITE<tab>TEST<tab>REASON."""
    found = {}
    for line in (HERE / "excluded.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, test, reason = line.split("\t")
            if name == suite:
                found[test] = reason
    return found


class Outcome:
    def __init__(self, counts=None, reasons=None):
        self.counts = collections.Counter(counts)
        self.reasons = collections.Counter(reasons)

    @classmethod
    def load(cls, path):
        """The outcome that text() gave, or an empty one."""
        return cls(**json.loads(path.read_text())) if path.exists() and path.stat().st_size else cls()

    def text(self):
        """For load()."""
        return json.dumps({"counts": self.counts, "reasons": self.reasons})

    def add(self, kind, number=1):
        self.counts[kind] += number

    def failed(self, test, assertion, number=1):
        """Failures of a test, with the first one of its assertions."""
        self.counts["not ok"] += number
        print(f"not ok {test}: {assertion}", flush=True)

    def not_run(self, test, reason):
        self.counts["not run"] += 1
        self.reasons[reason] += 1

    def summary(self):
        for reason, number in sorted(self.reasons.items(), key=lambda item: (-item[1], item[0])):
            print(f"# not run: {number}: {reason}")
        print(", ".join(f"{self.counts[kind]} {kind}" for kind in KINDS), flush=True)
