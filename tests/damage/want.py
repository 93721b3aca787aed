# SPDX-License-Identifier: MIT
"""The expected result of a kind of damage:

    FINE            all bytes are equal
    lost(...)       by tensor: [begin, end) of its bytes, and the errno that
                    a read of them returns
    refused         neither mounted nor checked: exit 2
    Want(...)       other results; the range None is an error of open, [0, 0)
                    of every read of a tensor of unknown size
"""

KINDS = {}
BASES = {}		# group: the checkpoint that its kinds change
ALL = {"a": 48, "b": 24, "c": 12}


class Want:
    def __init__(self, lost=None, refused=False, full=(), objects=None,
                 unsure=(), unknown=(), text="", files=(), files_of=None,
                 gone=(), lines=None):
        self.lost = lost or {}	# name: [(begin, end, errno)]
        self.refused = refused
        self.full = full
        self.objects = objects or {}	# name: errno
        self.unsure = unsure	# wrong bytes that cannot be detected
        self.unknown = unknown	# classes that must be listed
        self.text = text	# in the message of a refusal
        self.files = files	# errnos of files without any shown tensor
        # name: errnos of reported damage, although all bytes are readable
        self.files_of = files_of or {}
        # Entries without a name, and errnos of their lines of damage, if any.
        self.gone = set(gone)
        self.lines = (gone if isinstance(gone, dict) else {}) | (lines or {})


FINE = Want()


def lost(objects=None, **ranges):
    return Want({name: [r if isinstance(r, tuple) else (0, ALL[name], r)]
                 for name, r in ranges.items()}, objects=objects)


def refused(text):
    return Want(refused=True, text=text)


def base(group):
    def register(function):
        BASES[group] = function
        return function
    return register


def kind(group, name):
    def register(function):
        assert (group, name) not in KINDS, name
        KINDS[group, name] = function
        return function
    return register


def table(group, rows, apply, want):
    for name, *args in rows:
        def run(c, args=tuple(args)):
            apply(c, *args)
            return want
        kind(group, name)(run)
