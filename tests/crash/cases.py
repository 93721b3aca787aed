# SPDX-License-Identifier: MIT
"""What the harness is tried on, and what must come out.

A mutant names its phases, and the kinds of problems of which one must be
found: one that is merely always there, such as a shard written in place being
a changed file, proves nothing about crashes.
"""
import collections

import made

Mutant = collections.namedtuple("Mutant", "plan phases kinds")

HARM = {"unreadable", "mixed", "lost"}
CUT = ("cut",)


def plans():
    """The first is used wherever all points are tried."""
    return [
        made.Plan(1, columns=12000),
        made.Plan(2, tensors=8, columns=300, changed=3, ranks=4),
        made.Plan(3, tensors=60, columns=50, changed=5),
        made.Plan(4, tensors=2, columns=40000, changed=2),
        made.Plan(5, tensors=150, columns=3, changed=1),
    ]


def crowded():
    """Each step of a commit needs a block of its own."""
    return made.Plan(6, tensors=60, columns=3000, crowded=True)


def mutant(phases, kinds=HARM, **plan):
    return Mutant({"seed": 1, "columns": 12000, **plan}, phases, kinds)


MUTANTS = {
    "no-shard-sync": mutant(CUT),
    "no-metadata-sync": mutant(CUT),
    "no-first-directory-sync": mutant(("model",)),
    "no-last-metadata-sync": mutant(("shutdown",), {"lost"}),
    "no-last-directory-sync": mutant(("model",), {"lost"}),
    "no-last-sync": mutant(CUT, {"lost"}),
    "no-sync-at-all": mutant(CUT),
    "rename-before-sync": mutant(CUT),
    "sync-before-write": mutant(CUT),
    "unlink-first": mutant(("kill", "cut"), {"unreadable"}),
    "shards-in-place": mutant(("kill", "cut"), in_place=True),
    "metadata-in-place": mutant(("kill", "cut"), {"unreadable"}),
    "metadata-first": mutant(("kill", "cut"), {"unreadable"}),
    "report-early": mutant(("kill", "cut"), {"lost"}),
    "like-dcp": mutant(("kill", "cut"), {"unreadable"}, in_place=True,
                       other_shape=30),
    "ignore-short": mutant(("short",), {"unreadable"}),
    "ignore-sync-error": mutant(("error",)),
    "retry-sync": mutant(("error",)),
    "leave-files": mutant(("error",), {"leak"}),
    "clean-after-rename": mutant(("error",), {"unreadable"}),
    "remove-foreign": mutant(("undisturbed",), {"foreign"}),
    "no-memory-check": mutant(("nomem",), {"died"}),
}
