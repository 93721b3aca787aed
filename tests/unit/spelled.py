# SPDX-License-Identifier: MIT
"""Makes a checkpoint whose data files have names of a commit, but are called
something else in .metadata.

    spelled.py DIRECTORY SPELLING

In SPELLING, `NAME` is the file's name and `DIR` the checkpoint's directory;
a link that is needed to get there is made. TWICE: one file with two names, and
with 1000 bytes that nothing uses.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "crash"))
import made  # noqa: E402

NAME = "__{}_ckptfs-2-0123456789abcdef.distcp"


class Spelled(made.Plan):
    """Data files called as the spelling says."""

    def __init__(self, spelling):
        self.spelling = spelling
        super().__init__(1, columns=4)

    def called(self, rank):
        """The text in .metadata."""
        return self.spelling.replace("NAME", NAME.format(rank))

    def files(self, new):
        return {self.called(int(name[2])): items
                for name, items in super().files(new).items()}


class Twice(made.Plan):
    """One data file for both ranks, which .metadata has under two names, with
    so many bytes in it that no item has."""

    def __init__(self, spare):
        self.spare = spare
        super().__init__(1, columns=4)

    def files(self, new):
        first, second = super().files(new).values()
        before = {("none", 0): b"".join(first.values())}
        return {NAME.format(0): first,
                "./" + NAME.format(0): {**before, **second}}

    def write(self, directory):
        *_, items = self.files(False).values()
        made.put(f"{directory}/{NAME.format(0)}",
                 b"".join(items.values()) + bytes(self.spare))


def links(directory, spelling):
    if spelling.startswith("here/"):
        os.symlink(".", f"{directory}/here")
    if spelling.startswith("sub/"):
        os.mkdir(f"{directory}/sub")


def write(directory, plan):
    for rank, items in enumerate(plan.files(False).values()):
        name, called = NAME.format(rank), plan.called(rank)
        place = called if plan.spelling == "sub/NAME" else name
        made.put(f"{directory}/{place}", b"".join(items.values()))
        if plan.spelling == "soft.NAME":
            os.symlink(name, f"{directory}/{called}")
        if plan.spelling == "hard.NAME":
            os.link(f"{directory}/{name}", f"{directory}/{called}")


def main(directory, spelling):
    twice = spelling == "TWICE"
    plan = Twice(1000) if twice else \
        Spelled(spelling.replace("DIR", directory))
    os.makedirs(directory)
    made.put(f"{directory}/.metadata", plan.metadata(False))
    links(directory, spelling)
    if twice:
        plan.write(directory)
    else:
        write(directory, plan)


main(*sys.argv[1:])
