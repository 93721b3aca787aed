# SPDX-License-Identifier: MIT
"""Files that files/ of a mount for writing does not lose.

    files-kept.py moved MOUNT TENSOR     files that are moved from files/ to the tree
"""

import errno
import os
import shutil
import sys

problems = 0


def outcome(call, *args):
    """`fine`, or the name of the errno of a call."""
    try:
        call(*args)
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e.errno))
    return 'fine'


def expect(what, got, want):
    global problems
    if got != want:
        problems += 1
        print(f'{what}: got {got}, want {want}')


def write(path, text):
    with open(path, 'w') as f:
        f.write(text)


def moved(mount, tensor):
    """Files that a program copies to a directory of tensors and removes then."""
    shown, full, raw = f'{mount}/files', f'{mount}/full', f'{mount}/raw'
    for size in (6, 200000):
        write(f'{shown}/notes.txt', 'n' * size)
        expect(f'{size} bytes: moved to full/', outcome(shutil.move, f'{shown}/notes.txt', f'{full}/other.txt'), 'EPERM')
        expect('it is in files/', os.stat(f'{shown}/notes.txt').st_size, size)
        expect('removed later', outcome(os.unlink, f'{shown}/notes.txt'), 'EPERM')
        os.unlink(f'{full}/other.txt')
        expect('removed without that copy', outcome(os.unlink, f'{shown}/notes.txt'), 'fine')
    write(f'{shown}/notes.txt', 'a')
    write(f'{full}/state.tmp', 'b')
    expect('other bytes of this size', outcome(os.unlink, f'{shown}/notes.txt'), 'fine')
    write(f'{shown}/notes.txt', 'a')
    os.link(f'{shown}/notes.txt', f'{shown}/second.txt')
    expect('a file with another name', outcome(shutil.move, f'{shown}/notes.txt', f'{full}/notes.txt'), 'fine')
    os.unlink(f'{full}/notes.txt')
    os.unlink(f'{shown}/second.txt')
    shutil.copy(f'{raw}/{tensor}', f'{shown}/tensor')
    expect('a tensor', outcome(shutil.move, f'{shown}/tensor', f'{raw}/{tensor}'), 'fine')
    expect('it is moved', os.path.exists(f'{shown}/tensor'), False)


{'moved': moved}[sys.argv[1]](*sys.argv[2:])
sys.exit(1 if problems else 0)
