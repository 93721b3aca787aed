# SPDX-License-Identifier: MIT
"""Accesses a mount once, after its source was closed to others.

access-held.py WHAT DIRECTORY FILE: prepares the access, prints "ready", waits for a
line, and prints "done" or the name of the error. The kernel has cached names and
attributes of the time before.
"""
import errno
import os
import sys

what, directory, name = sys.argv[1:]
path = os.path.join(directory, name)
scratch = os.path.join(directory, ".scratch")
size = os.stat(path).st_size
held = os.open(path, os.O_PATH)


def put(file, flags):
    fd = os.open(file, flags, 0o666)
    if flags & os.O_ACCMODE != os.O_RDONLY:
        os.write(fd, bytes(size))
    os.close(fd)


def again(flags):
    return lambda: put("/proc/self/fd/%d" % held, flags)


ways = {
    "read": again(os.O_RDONLY),
    "write": again(os.O_WRONLY),
    "rename": lambda: os.rename(scratch, path),
    "unlink": lambda: os.unlink(path),
    "create": lambda: put(path, os.O_WRONLY | os.O_CREAT),
    "create-read": lambda: put(path, os.O_RDWR | os.O_CREAT),
    "scratch": lambda: put(scratch + "2", os.O_WRONLY | os.O_CREAT),
    "scratch-unlink": lambda: os.unlink(scratch),
    "scratch-rename": lambda: os.rename(scratch, scratch + "2"),
}
if what == "rename" or what.startswith("scratch-"):
    put(scratch, os.O_WRONLY | os.O_CREAT)
if what.startswith("create"):
    os.unlink(path)
print("ready", flush=True)
sys.stdin.readline()
answers = set()
for _ in range(3 if what in ("read", "write") else 1):
    try:
        ways[what]()
        answers.add("done")
        break
    except OSError as e:
        answers.add(errno.errorcode[e.errno])
print(*sorted(answers))
