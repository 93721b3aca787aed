# SPDX-License-Identifier: MIT
"""Requests that arrive while a writer may be closing its file wait for the close, and no other
requests wait. Prints the errors.

    write-busy.py MOUNT STEM
"""

import errno
import os
import sys
import time

from calls import Call

mount, stem = sys.argv[1:]
raw = f'{mount}/raw/{stem}'
with open(raw, 'rb') as f:
    data = f.read()
problems = 0


def problem(what):
    global problems
    problems += 1
    print(what)


def leaving(flags=0):
    """A writer of whom a copy was closed, and nothing written since."""
    fd = os.open(raw, os.O_WRONLY | flags)
    try:
        os.close(os.dup(fd))
    except OSError as e:
        assert e.errno == errno.EINVAL
    return fd


def close(fd):
    try:
        os.close(fd)
    except OSError as e:
        assert e.errno == errno.EINVAL


def others_go_on(attempt):
    """200 lookups, each of another name, end while 16 programs wait."""
    fd = leaving()
    waiting = [Call(os.open, raw, os.O_WRONLY) for _ in range(16)]
    time.sleep(0.05)
    for i in range(200):
        assert not os.path.exists(f'{mount}/raw/{attempt}.{i}')
    early = sum(w.is_alive() for w in waiting)
    for w in waiting:
        w.join()
    os.close(fd)
    for w in waiting:
        if w.got != -errno.EBUSY:
            problem(f'an open beside a writer: {w.got}')
    return early == 16


def last_close(what, call, *args, want=0, before=lambda: None, flags=0):
    """The last close lets it go on."""
    fd = leaving(flags)
    before()
    w = Call(call, *args)
    time.sleep(0.05)
    if not w.is_alive():
        problem(f'{what}: did not wait')
    close(fd)
    w.join()
    if (w.got or 0) < 0 or want:
        if w.got != want:
            problem(f'{what}: {w.got}, not {want}')
    if isinstance(w.got, int) and w.got > 0:
        close(w.got)


def scratch():
    with open(f'{mount}/raw/new', 'wb') as f:
        f.write(data)


# A machine that is slow now may be faster then.
if not any(others_go_on(i) for i in range(5)):
    problem('others wait, too')
last_close('open', os.open, raw, os.O_WRONLY)
last_close('open to write anew', os.open, raw, os.O_WRONLY | os.O_TRUNC)
last_close('open to write anew, after such a one', os.open, raw,
           os.O_WRONLY | os.O_TRUNC, flags=os.O_TRUNC)
last_close('truncate', os.truncate, raw, 5, want=-errno.EINVAL)
last_close('truncate to the present size', os.truncate, raw, len(data))
last_close('chmod', os.chmod, raw, 0o600, want=-errno.EPERM)
last_close('create', os.open, raw, os.O_WRONLY | os.O_CREAT | os.O_EXCL,
           before=lambda: os.unlink(raw))
last_close('rename', os.rename, f'{mount}/raw/new', raw, before=scratch)
with open(raw, 'rb') as f:
    if f.read() != data:
        problem('rename: other bytes')

# One after the other, each waits for the one before.
got = []


def in_turn():
    while True:
        try:
            fd = os.open(raw, os.O_WRONLY)
            break
        except OSError as e:
            assert e.errno == errno.EBUSY
    got.append(os.write(fd, data))
    os.close(fd)


crowd = [Call(in_turn) for _ in range(16)]
for w in crowd:
    w.join()
if got != [len(data)] * 16 or any(w.got for w in crowd):
    problem(f'one after the other: {[w.got for w in crowd]}')

# The end of the mount answers them.
fd = leaving()
waiting = [Call(os.open, raw, os.O_WRONLY) for _ in range(8)]
time.sleep(0.05)
with open(f'{mount}/.ckptfs/status') as f:
    pid = int(next(x for x in f if x.startswith('daemon: ')).split()[1])
os.kill(pid, 15)
for w in waiting:
    w.join(10)
    if w.is_alive() or w.got >= 0:
        problem(f'at the end of the mount: {w.got}')
sys.stdout.flush()
os._exit(1 if problems else 0)
