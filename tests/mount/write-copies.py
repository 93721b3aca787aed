# SPDX-License-Identifier: MIT
"""On a mount whose commits take more than a second: who waits for one does not
keep others waiting. Prints what does not go so.

    write-copies.py MOUNT STEM OTHER-STEM WHAT
"""

import errno
import os
import shutil
import sys
import time

from calls import Call

mount, stem, other, what = sys.argv[1:]
raw = f'{mount}/raw/{stem}'
with open(raw, 'rb') as f:
    old = f.read()
new = bytes(b ^ 0x55 for b in old)
CROWD = 16  # more than the daemon has threads


def all_answered(calls, want):
    for call in calls:
        call.join()
    got = [call.got for call in calls]
    assert got == [want] * len(calls), got


def others_go_on(calls, there=f'{mount}/raw/{other}'):
    """100 reads of what else is there end before any of the calls. The kernel
    keeps a directory while one renames in it."""
    time.sleep(0.1)
    start = time.monotonic()
    for i in range(100):
        with open(there, 'rb', buffering=0) as f:
            f.read(10)
        assert not os.path.exists(f'{os.path.dirname(there)}/none.{i}')
    assert all(c.is_alive() for c in calls), \
        f'others wait, too: {time.monotonic() - start:.3f} s'


def content():
    with open(raw, 'rb') as f:
        return f.read()


def closes():
    fd = os.open(raw, os.O_WRONLY)
    assert os.pwrite(fd, new, 0) == len(new)
    calls = [Call(os.close, os.dup(fd)) for _ in range(CROWD)]
    others_go_on(calls)
    all_answered(calls, None)
    os.close(fd)
    assert content() == new


def meanwhile(call, want, last):
    """While a close commits, another copy is used."""
    fd = os.open(raw, os.O_WRONLY)
    assert os.pwrite(fd, new, 0) == len(new)
    closed = Call(os.close, os.dup(fd))
    time.sleep(0.2)
    used = Call(call, fd)
    others_go_on([closed, used])
    all_answered([closed], None)
    assert content() == new
    all_answered([used], want)
    closed = Call(os.close, fd)
    all_answered([closed], last)


def scratch(path):
    with open(path, 'wb') as f:
        f.write(new)


def parked_rename():
    scratch(f'{mount}/raw/scratch')
    fd = os.open(raw, os.O_WRONLY)
    os.close(os.dup(fd))
    rename = Call(os.rename, f'{mount}/raw/scratch', raw)
    time.sleep(0.1)
    os.close(fd)
    beside = os.open(f'{mount}/full/{other}.npy', os.O_WRONLY)
    os.close(os.dup(beside))
    opened = Call(os.open, f'{mount}/full/{other}.npy', os.O_WRONLY)
    opened.join(0.7)
    assert not opened.is_alive(), 'it is not answered'
    assert opened.got == -errno.EBUSY, opened.got
    assert rename.is_alive(), 'the rename was quick'
    os.close(beside)
    all_answered([rename], None)
    assert content() == new


def renames():
    """One in each directory, each of another tensor."""
    files = [raw, f'{mount}/full/{other}.npy']
    for n, owner in enumerate(sorted(os.listdir(f'{mount}/local'))):
        names = sorted(os.listdir(f'{mount}/local/{owner}'))
        files += [f'{mount}/local/{owner}/{names[n]}']
    for file in files:
        shutil.copyfile(file, f'{os.path.dirname(file)}/scratch')
    calls = [Call(os.rename, f'{os.path.dirname(file)}/scratch', file)
             for file in files]
    others_go_on(calls, f'{mount}/.ckptfs/status')
    all_answered(calls, None)


if what == 'copies of a descriptor closed at once':
    closes()
elif what == 'a write while it is committed':
    meanwhile(lambda fd: os.pwrite(fd, old, 0), len(old), None)
    assert content() == old
elif what == 'a cut while it is committed':
    meanwhile(lambda fd: os.ftruncate(fd, 0), None, -errno.EINVAL)
elif what == 'a rename that waited holds no other':
    parked_rename()
elif what == 'renames at once':
    renames()
else:
    sys.exit(f'what is {what}?')
