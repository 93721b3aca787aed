# SPDX-License-Identifier: MIT
"""A wire between two interfaces that delays or drops frames in one direction.

    slow_wire.py FROM TO SEED [delay 100ms] [loss 5%] [rate 10mbit]

Forwards all frames from one interface to the other, in order, and those of the
other direction without delay, until its standard input ends. Prints "ready" or
an error. No other process in this network namespace may use the interfaces. The
rate counts bytes of frames. At most LIMIT frames wait, as with tc-netem(8); later
ones are dropped.

Frames keep the header of virtual network interfaces: a large frame may be segmented
into many packets later, and its checksums may be missing.
"""
import errno
import random
import select
import socket
import sys
import time
from collections import deque

ETH_P_ALL = 3
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
SO_RCVBUFFORCE = 33
LARGEST = 10 + 14 + 65536 + 64
LIMIT = 1000
UNITS = {"delay": {"us": 1e-6, "ms": 1e-3, "s": 1.0},
         "loss": {"%": 0.01},
         "rate": {"bit": 1 / 8, "kbit": 1e3 / 8, "mbit": 1e6 / 8,
                  "gbit": 1e9 / 8}}


def parsed(words):
    """{"delay": seconds, "loss": 0 to 1, "rate": bytes a second or 0}."""
    values = {"delay": 0.0, "loss": 0.0, "rate": 0.0}
    pairs = list(zip(words[::2], words[1::2]))
    if 2 * len(pairs) != len(words):
        raise ValueError("a word without a value")
    for name, text in pairs:
        number = text.rstrip("abcdefghijklmnopqrstuvwxyz%")
        values[name] = float(number) * UNITS[name][text[len(number):]]
    return values


def interface(name):
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    found.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    found.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    found.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
    found.setblocking(False)
    found.bind((name, ETH_P_ALL))
    return found


def frames(source):
    """All waiting frames. An interface that is down has no frames."""
    while True:
        try:
            yield source.recv(LARGEST)
        except BlockingIOError:
            return
        except OSError as problem:
            if problem.errno != errno.ENETDOWN:
                raise
            return


def put(target, frame):
    """A frame that cannot be sent is lost, as on any wire."""
    try:
        target.send(frame)
    except OSError:
        pass


class Wire:
    def __init__(self, names, seed, words):
        how = parsed(words)
        self.delay, self.loss, self.rate = (
            how["delay"], how["loss"], how["rate"])
        self.rng = random.Random(seed)
        self.near, self.far = map(interface, names)
        self.waiting = deque()      # (due time, frame)
        self.free = 0.0             # time when the last frame has passed at the rate

    def take(self):
        now = time.monotonic()
        for frame in frames(self.near):
            if self.rng.random() < self.loss or len(self.waiting) >= LIMIT:
                continue
            if self.rate:
                self.free = max(now, self.free) + len(frame) / self.rate
            self.waiting.append((max(now, self.free) + self.delay, frame))

    def give(self):
        """Sends all due frames. Returns the seconds until the next one is due."""
        while self.waiting:
            left = self.waiting[0][0] - time.monotonic()
            if left > 0:
                return left
            put(self.far, self.waiting.popleft()[1])
        return None

    def go(self):
        left = None
        while True:
            ready = select.select([sys.stdin, self.near, self.far], [], [],
                                  left)[0]
            if sys.stdin in ready:
                return
            if self.near in ready:
                self.take()
            if self.far in ready:
                for frame in frames(self.far):
                    put(self.near, frame)
            left = self.give()


def main():
    try:
        wire = Wire(sys.argv[1:3], int(sys.argv[3]), sys.argv[4:])
    except (KeyError, ValueError, OSError) as problem:
        print(repr(problem))
        return 2
    print("ready", flush=True)
    wire.go()
    return 0


if __name__ == "__main__":
    sys.exit(main())
