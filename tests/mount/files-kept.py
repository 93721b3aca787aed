# SPDX-License-Identifier: MIT
"""Files that files/ of a mount for writing does not lose.

    files-kept.py moved MOUNT TENSOR     files that are moved from files/ to the tree
    files-kept.py paths FILES PATH...    calls that would change directories, links and data
                                         files through which the checkpoint is read
    files-kept.py change FILES           40 processes, which write `x` over held-write-N, the
                                         same over held-map-N by a mapping and msync(2), call
                                         fdatasync(2) of held-sync-N, or create dir-N/new
"""

import ctypes
import errno
import mmap
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


def exchange(old, new):
    flags = 2
    if ctypes.CDLL(None, use_errno=True).renameat2(-100, old.encode(), -100, new.encode(), flags):
        raise OSError(ctypes.get_errno(), 'renameat2')


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


def paths(top, *names):
    os.chdir(top)
    os.mkdir('mine')
    write('mine/file', 'x')
    for name in names:
        is_dir = not os.path.islink(name) and os.path.isdir(name)
        calls = {
            'rename': lambda: os.rename(name, 'x'), 'rename into': lambda: os.rename(name, 'mine/x'),
            'exchange': lambda: exchange('mine', name), 'chown': lambda: os.lchown(name, 1, 1),
            'times': lambda: os.utime(name, (1, 1), follow_symlinks=False),
        }
        if is_dir:
            calls['remove'] = lambda: os.rmdir(name)
            calls['setxattr'] = lambda: os.setxattr(name, 'user.x', b'y')
            calls['removexattr'] = lambda: os.removexattr(name, 'user.note')
            calls['replace'] = lambda: os.rename('mine', name)
        else:
            calls['remove'] = lambda: os.unlink(name)
            calls['link'] = lambda: os.link(name, 'x', follow_symlinks=False)
            calls['replace'] = lambda: os.rename('mine/file', name)
        if os.path.isfile(name):
            calls['truncate'] = lambda: os.truncate(name, 0)
        calls['chmod'] = lambda: os.chmod(name, 0o700)
        for what, call in calls.items():
            expect(f'{name}: {what}', outcome(call), 'EPERM')
    os.unlink('mine/file')
    os.rmdir('mine')


def overwrite(path):
    with open(path, 'r+b', buffering=0) as f:
        f.write(b'x' * os.fstat(f.fileno()).st_size)


def overwrite_mapped(path):
    with open(path, 'r+b') as f, mmap.mmap(f.fileno(), 0) as m:
        m[:] = b'x' * len(m)
        m.flush()


def sync(path):
    with open(path, 'r+b') as f:
        os.fdatasync(f.fileno())


def child(call, path):
    pid = os.fork()
    if pid == 0:
        os._exit(outcome(call, path) != 'fine')
    return pid


def change(top):
    pids = []
    for i in range(1, 11):
        pids.append(child(overwrite, f'{top}/held-write-{i}'))
        pids.append(child(overwrite_mapped, f'{top}/held-map-{i}'))
        pids.append(child(sync, f'{top}/held-sync-{i}'))
        pids.append(child(lambda path: write(path, ''), f'{top}/dir-{i}/new'))
    for pid in pids:
        expect('a process', os.waitpid(pid, 0)[1], 0)


{'moved': moved, 'paths': paths, 'change': change}[sys.argv[1]](*sys.argv[2:])
sys.exit(1 if problems else 0)
