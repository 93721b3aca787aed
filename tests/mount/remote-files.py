# SPDX-License-Identifier: MIT
"""Some or all data files are remote: the tree equals that of local files, in names, attributes,
bytes and errors, for every fixture and for damaged ones. Prints TAP.

    remote-files.py WORK FIXTURES
"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", name) for name in ("damage", "lib")]
import containers  # noqa: E402,F401
import kinds  # noqa: E402,F401
import two_trees as t  # noqa: E402
from late import Late  # noqa: E402
from source import Checkpoint  # noqa: E402
from tap import Tap, is_long  # noqa: E402
from want import KINDS  # noqa: E402

sys.path.insert(0, HERE)
two_ways = __import__("two-ways")

WHICH = ("all", "odd", "first")


def rows_of(tree):
    return {row["path"]: {**row, "mtime": None} if row["path"] in t.LIVE
            else row for row in tree.rows}


def differences(want, got):
    """A line for each thing that is not the same in two trees."""
    for what, a, b in (("unlisted", want.unlisted, got.unlisted),
                       ("rows", rows_of(want), rows_of(got)),
                       ("error", want.faults, got.faults)):
        for path in sorted(a.keys() | b.keys()):
            x, y = a.get(path), b.get(path)
            if path in t.LIVE and what == "rows":
                x, y = x["mode"], y["mode"]
            if x != y:
                yield f"{path}: {what}: {y!r}, expected {x!r}"
    for path in want.files.keys() - t.LIVE:
        a, b = want.files[path], got.files.get(path)
        if b is None or (a.data, a.error) != (b.data, b.error):
            yield f"{path}: other bytes or another error: {b and b.error}"


def remote_tree(source, mount, number):
    env = {"LATE_REMOTE": WHICH[number % 3], "LATE_SHUFFLE": "1",
           "LATE_SEED": str(number)}
    with Late(source, mount, 2, **env) as late:
        tree = t.seen(mount)
        return tree, late.end()


def compare(tap, what, source, mount, number):
    want = two_ways.seen(source, mount)
    got, moves = remote_tree(source, mount, number)
    problems = list(differences(want, got))
    tap.result(not problems, f"{what}, {WHICH[number % 3]} remote",
               problems[:8])
    return moves, got


def canaries(tap, tree, got):
    path = next(p for p, f in got.files.items() if len(f.data) > 9
                and p not in t.LIVE)
    good = got.files[path].data
    got.files[path].data = good[:-1] + bytes([good[-1] ^ 1])
    tap.result(len(list(differences(tree, got))) == 1, "a wrong byte is found")
    got.files[path].data, got.files[path].error = good, 5
    tap.result(len(list(differences(tree, got))) == 1, "an error is found")
    got.files[path].error = 0
    next(row for row in got.rows if row["path"] == path)["size"] = 77777
    tap.result(list(differences(tree, got)), "another size is found")


def main(work, fixtures):
    tap, mount, moves = Tap(), os.path.join(work, "mnt"), 0
    names, _ = two_ways.fixtures(fixtures)
    for number, name in enumerate(names):
        source = os.path.join(fixtures, name)
        moves += compare(tap, name, source, mount, number)[0]
    for number, name in enumerate(two_ways.which()[::1 if is_long() else 4]):
        source, want = two_ways.made(work, name)
        if not want.refused:
            compare(tap, f"damage: {name}", source, mount, number)
    tap.result(moves > 0, f"{moves} moves were asked for")
    source = os.path.join(fixtures, "sample")
    canaries(tap, two_ways.seen(source, mount),
             compare(tap, "again", source, mount, 0)[1])
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
