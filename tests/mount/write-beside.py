#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""write-beside.py MOUNT TENSOR READERS HOLD

Commits a tensor while READERS processes read the attribute `error` of all other tensors. Each
read of a data file is delayed until the file HOLD is removed. Prints the errors.
"""
import os
import signal
import sys
import time


def look(directory, names, asked):
    """Reads the attribute `error` of each tensor, for which the mount checks its items."""
    for name in names:
        os.write(asked, b".")
        try:
            os.getxattr(f"{directory}/{name}", "user.ckptfs.error")
        except OSError:
            pass  # no such attribute: the tensor is good


def reader(directory, names, asked):
    """Starts a process that reads the attributes."""
    pid = os.fork()
    if pid == 0:
        look(directory, names, asked)
        os._exit(0)
    return pid


def commit(path, values):
    """Overwrites the tensor with its own bytes; the close commits."""
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, values)
    os.close(fd)


def waits(signum, frame):
    raise TimeoutError("the commit waits for those who look at items")


def main():
    mount, tensor, readers, hold = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    directory = f"{mount}/raw"
    names = sorted(set(os.listdir(directory)) - {tensor})
    with open(f"{directory}/{tensor}", "rb") as file:
        values = file.read()
    answers, asked = os.pipe()
    with open(hold, "w"):
        pass
    signal.signal(signal.SIGALRM, waits)
    signal.alarm(100)
    pids = [reader(directory, names[i::readers], asked) for i in range(readers)]
    for _ in pids:
        os.read(answers, 1)
    time.sleep(0.2)
    try:
        commit(f"{directory}/{tensor}", values)
        ended = [pid for pid in pids if os.waitpid(pid, os.WNOHANG)[0]]
    finally:
        os.unlink(hold)
    for pid in set(pids) - set(ended):
        os.waitpid(pid, 0)
    if len(ended) == readers:
        sys.exit("every reader had ended before the commit: none was held")


main()
