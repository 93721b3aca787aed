# SPDX-License-Identifier: MIT
"""Calls that take their time, each in a thread of its own."""

import threading


class Call(threading.Thread):
    """One call; `got` is its value or -errno, once it is answered."""

    def __init__(self, call, *args):
        super().__init__()
        self.call, self.args, self.got = call, args, None
        self.start()

    def run(self):
        try:
            self.got = self.call(*self.args)
        except OSError as e:
            self.got = -e.errno
