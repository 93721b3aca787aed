# SPDX-License-Identifier: MIT
"""Calls that change files, in files/ of a mount or in any other directory.

    files-calls.py calls DIRECTORY           each call and class of errno of pjdfstest, in an
                                             empty directory: prints the result of each
    files-calls.py protected FILES OTHER     calls that would change the checkpoint in files/;
                                             OTHER: a hard link to a data file
    files-calls.py across MOUNT TENSOR       calls between files/ and the tree
    files-calls.py steps FILES               calls in files/ of a run directory
    files-calls.py unnamed DIRECTORY         files that are made without a name, in an empty
                                             directory: prints the result of each call
    files-calls.py unnamed_refused MOUNT RUN the same where the checkpoint would change; RUN: a
                                             mount of a run directory
    files-calls.py setid DIRECTORY           changes of files with set-group-ID, in an empty
                                             directory: prints the mode after each

The output of `calls`, `unnamed` and `setid` in files/ must be that of the same calls in a plain directory.
"""

import errno
import fcntl
import mmap
import os
import stat
import sys
import time

from file_calls import (EMPTY_PATH, EXCHANGE, FOLLOW, GROUP, KEEP_SIZE, KINDS, NOREPLACE, OTHER, PUNCH_HOLE, USER, ZERO, as_user,
                        fallocate, is_root, libc, make, outcome, remove, rename2, show, touch)

problems = 0


# --- calls by the kind of their file -------------------------------------------------------

def kinds():
    for kind in KINDS:
        show(f'make {kind}', outcome(make, kind, 'x'), 'x')
        show(f'make {kind} again', outcome(make, kind, 'x'))
        if kind != 'link':
            show(f'chmod {kind}', outcome(os.chmod, 'x', 0o4751), 'x')
        show(f'chown {kind}', outcome(os.lchown, 'x', USER if is_root else -1, -1), 'x')
        show(f'link {kind}', outcome(lambda: os.link('x', 'y', follow_symlinks=False)), 'x', 'y')
        remove('y')
        show(f'times of {kind}', outcome(lambda: os.utime('x', ns=(10 ** 18, 2 * 10 ** 18 + 1), follow_symlinks=False)))
        s = os.lstat('x')
        show(f'times of {kind} are', (s.st_atime_ns, s.st_mtime_ns) if kind != 'link' else s.st_mtime_ns)
        show(f'rename {kind}', outcome(os.rename, 'x', 'y'), 'x', 'y')
        for other in KINDS:
            make(other, 'z')
            show(f'rename {kind} to {other}', outcome(os.rename, 'y', 'z'), 'z')
            if not os.path.lexists('y'):
                os.rename('z', 'y')
            make(other, 'w') if not os.path.lexists('w') else None
            show(f'exchange {kind} with {other}', outcome(rename2, 'y', 'w', EXCHANGE), 'y', 'w')
            outcome(rename2, 'y', 'w', EXCHANGE)
            show(f'rename {kind} to {other}, if it is not there', outcome(rename2, 'y', 'w', NOREPLACE))
            remove('z')
            remove('w')
        show(f'unlink {kind}', outcome(os.unlink, 'y'), 'y')
        make(kind, 'y') if not os.path.lexists('y') else None
        show(f'rmdir {kind}', outcome(os.rmdir, 'y'), 'y')
        remove('y')


# --- calls by their errors ---------------------------------------------------------------

ONE_NAME = {
    'open': lambda p: os.close(os.open(p, os.O_RDONLY)),
    'create': lambda p: os.close(os.open(p, os.O_WRONLY | os.O_CREAT, 0o644)),
    'create, exclusive': lambda p: os.close(os.open(p, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)),
    'mkdir': os.mkdir, 'mkfifo': os.mkfifo,
    'mknod': lambda p: os.mknod(p, 0o644 | stat.S_IFREG),
    'symlink': lambda p: os.symlink('target', p),
    'unlink': os.unlink, 'rmdir': os.rmdir, 'chmod': lambda p: os.chmod(p, 0o600),
    'chown': lambda p: os.chown(p, os.getuid(), os.getgid()),
    'lchown': lambda p: os.lchown(p, os.getuid(), os.getgid()),
    'truncate': lambda p: os.truncate(p, 3), 'utime': os.utime,
    'link from': lambda p: os.link(p, 'new'), 'link to': lambda p: os.link('file', p),
    'rename from': lambda p: os.rename(p, 'new'), 'rename to': lambda p: os.rename('other', p),
    'setxattr': lambda p: os.setxattr(p, 'user.x', b'y'),
}


def restore():
    """What paths() begins with, where a call has changed it."""
    if os.path.isdir('new') and not os.path.isdir('dir'):
        os.rename('new', 'dir')
    for left in ('new', 'x' * 255):
        remove(left)
    for name in ('file', 'other'):
        if not os.path.lexists(name):
            touch(name, text='bytes')


def paths():
    """ENOENT, ENOTDIR, ENAMETOOLONG, ELOOP, EEXIST, EISDIR, ENOTEMPTY, EINVAL, ENXIO."""
    restore()
    os.mkdir('dir')
    touch('dir/inside')
    os.symlink('loop', 'loop')
    os.mkfifo('fifo')
    for path in ('missing/x', 'file/x', 'x' * 255, 'x' * 256, 'x/' * 2100, 'loop/x', 'loop', 'dir', 'dir/', 'file/',
                 'dir/.', 'dir/..', ''):
        for name, call in ONE_NAME.items():
            show(f'{name} {path[:12]}[{len(path)}]', outcome(call, path))
            restore()
    os.chmod('dir', 0o755)
    show('rename of a directory into itself', outcome(os.rename, 'dir', 'dir/below'))
    show('rename of a directory onto a full one', outcome(lambda: (os.mkdir('d2'), os.rename('d2', 'dir'))))
    show('rename of a file onto itself', outcome(os.rename, 'file', 'file'), 'file')
    os.link('file', 'file2')
    show('rename between two links of a file', outcome(os.rename, 'file', 'file2'), 'file', 'file2')
    show('rename with unknown flags', outcome(rename2, 'file', 'z', 64))
    show('exchange with a missing file', outcome(rename2, 'file', 'zz', EXCHANGE))
    show('open of a FIFO that has no reader', outcome(os.open, 'fifo', os.O_WRONLY | os.O_NONBLOCK))
    show('open of a directory for writing', outcome(os.open, 'dir', os.O_WRONLY))
    show('open of a link, not followed', outcome(os.open, 'loop', os.O_RDONLY | os.O_NOFOLLOW))
    show('truncate to a negative size', outcome(os.truncate, 'file', -1))
    show('ftruncate of a file open for reading', outcome(lambda: os.ftruncate(os.open('file', os.O_RDONLY), 3)))
    show('rename of ..', outcome(os.rename, 'dir/..', 'new'))
    show('a link to a directory', outcome(os.link, 'dir', 'new'))
    show('a symbolic link of 4,095 bytes', outcome(os.symlink, 'y' * 4095, 'long'), 'long')
    show('it is', len(os.readlink('long')) if os.path.lexists('long') else '-')


# --- calls by permissions ----------------------------------------------------------------

def users():
    """EACCES and EPERM for other users, sticky directories, owners and set-ID bits."""
    os.mkdir('open', 0o777)
    os.chmod('open', 0o777)
    os.mkdir('sticky')
    os.chmod('sticky', 0o1777)
    os.mkdir('closed', 0o755)
    touch('closed/file', 0o644)
    os.mkdir('hidden', 0o700)
    touch('hidden/file')
    for where in ('open', 'sticky', 'closed', 'hidden'):
        for name, call in ONE_NAME.items():
            if 'link to' in name or 'rename' in name or 'link from' in name:
                continue
            show(f'{where}: {name} by a user', as_user(USER, [], call, f'{where}/file'), f'{where}/file')
    for where in ('open', 'sticky'):
        for uid in (USER, OTHER):
            remove(f'{where}/mine')
            as_user(USER, [], touch, f'{where}/mine')
            for name, call in {'unlink': os.unlink, 'rename': lambda p: os.rename(p, p + '2'),
                               'chmod': lambda p: os.chmod(p, 0o777), 'truncate': lambda p: os.truncate(p, 0),
                               'chown': lambda p: os.chown(p, OTHER, -1), 'times': lambda p: os.utime(p, (1, 1)),
                               'now': os.utime, 'link': lambda p: os.link(p, p + '3')}.items():
                if not os.path.lexists(f'{where}/mine'):
                    as_user(USER, [], touch, f'{where}/mine')
                show(f'{where}: {name} by {"its owner" if uid == USER else "another"}',
                     as_user(uid, [], call, f'{where}/mine'), f'{where}/mine')
                for left in ('2', '3'):
                    remove(f'{where}/mine{left}')
    owners()


def write(path, flags=0):
    fd = os.open(path, os.O_RDWR | flags)
    os.write(fd, b'x')
    os.close(fd)


def allocate(path):
    fd = os.open(path, os.O_RDWR)
    os.posix_fallocate(fd, 0, 10000)
    os.close(fd)


def copy_range(path):
    fd = os.open(path, os.O_RDWR)
    os.copy_file_range(fd, fd, 1, 0, 1000)
    os.close(fd)


CHANGES = {'write': write, 'append': lambda p: write(p, os.O_APPEND), 'truncate': lambda p: os.truncate(p, 10),
           'allocate': allocate, 'copy': copy_range, 'O_TRUNC': lambda p: write(p, os.O_TRUNC)}


def owners():
    as_user(USER, [GROUP], touch, 'open/owned')
    show('a file of a user', 'is', 'open/owned')
    for kind in KINDS[:5]:
        show(f'{kind} of a user', as_user(USER, [], make, kind, f'open/{kind}'), f'open/{kind}')
    for kind in KINDS[5:]:
        show(f'{kind} by a user', as_user(USER, [], make, kind, f'open/{kind}'))
    os.mkdir('setgid')
    if is_root:
        os.chown('setgid', USER, GROUP)
    os.chmod('setgid', 0o2777)
    show('a file in a set-group-ID directory', as_user(USER, [], touch, 'setgid/f'), 'setgid/f')
    show('a directory in it', as_user(USER, [], os.mkdir, 'setgid/d'), 'setgid/d')
    show('owner gives its file a group of his', as_user(USER, [GROUP], os.chown, 'open/owned', -1, GROUP), 'open/owned')
    os.chmod('open/owned', 0o6755)
    show('set-ID bits after chown by its owner', as_user(USER, [GROUP], os.chown, 'open/owned', -1, GROUP), 'open/owned')
    os.chmod('open/owned', 0o6755)
    show('set-ID bits after chown by root', outcome(os.chown, 'open/owned', -1, -1), 'open/owned')
    for name, call in CHANGES.items():
        os.chmod('open/owned', 0o6777)
        show(f'set-ID bits after {name} by another', as_user(OTHER, [], call, 'open/owned'), 'open/owned')
    os.chmod('open/owned', 0o6777)
    show('set-ID bits after truncate by root', outcome(os.truncate, 'open/owned', 0), 'open/owned')
    show('set-group-ID for a group that is not his', as_user(USER, [], os.chmod, 'open/owned', 0o2755), 'open/owned')
    for mask in (0o077, 0o000):
        os.umask(mask)
        touch(f'masked-{mask}', 0o666)
        os.mkdir(f'masked-dir-{mask}', 0o777)
        os.umask(0o022)
        show(f'umask {mask}', 'is', f'masked-{mask}', f'masked-dir-{mask}')


# --- bytes ----------------------------------------------------------------------------------

def bytes_of(path):
    with open(path, 'rb') as f:
        return f.read()


def data():
    """Bytes, sizes, holes, times, mappings, locks, attributes, open files without a name."""
    touch('d', text='0123456789')
    show('truncate up', outcome(os.truncate, 'd', 20), 'd')
    show('bytes', bytes_of('d'))
    show('truncate down', outcome(os.truncate, 'd', 4), 'd')
    with open('d', 'ab') as f:
        f.write(b'more')
    show('appended', bytes_of('d'))
    a, b = os.open('d', os.O_WRONLY | os.O_APPEND), os.open('d', os.O_WRONLY | os.O_APPEND)
    for i in range(3):
        os.write(a, b'a%d' % i), os.write(b, b'b%d' % i)
    os.close(a), os.close(b)
    show('appended by two', bytes_of('d'))
    for mode in (0, KEEP_SIZE, KEEP_SIZE | PUNCH_HOLE, ZERO):
        show(f'fallocate {mode}', outcome(fallocate, 'd', mode, 4096, 8192), 'd')
    show('bytes', bytes_of('d').count(b'\0'))
    with open('holes', 'wb') as f:
        f.seek(1 << 20)
        f.write(b'end')
    with open('holes', 'rb') as f:
        show('SEEK_DATA', outcome(lambda: str(os.lseek(f.fileno(), 0, os.SEEK_DATA))))
        show('SEEK_HOLE', outcome(lambda: str(os.lseek(f.fileno(), 0, os.SEEK_HOLE))))
        show('SEEK_DATA at the end', outcome(os.lseek, f.fileno(), 1 << 21, os.SEEK_DATA))
    with open('holes', 'rb') as f, open('copy', 'w+b') as g:
        show('copy_file_range', str(os.copy_file_range(f.fileno(), g.fileno(), 100, (1 << 20) - 50, 10)), 'copy')
    show('copied', bytes_of('copy')[10:70].strip(b'\0'))
    with open('mapped', 'w+b') as f:
        f.truncate(10000)
        m = mmap.mmap(f.fileno(), 10000)
        m[5000:5005] = b'bytes'
        m.flush()
        show('a mapping is written', bytes_of('mapped')[5000:5005], 'mapped')
        os.pwrite(f.fileno(), b'other', 100)
        show('it has what is written', bytes(m[100:105]))
        m.close()
    os.link('mapped', 'mapped2')
    with open('mapped', 'r+b') as f, open('mapped2', 'r+b') as g:
        m, n = mmap.mmap(f.fileno(), 10000), mmap.mmap(g.fileno(), 10000)
        m[0:4] = b'both'
        show('so has a mapping of its other name', bytes(n[0:4]))
        m.close(), n.close()
    fd = os.open('appended', os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.write(fd, b'a' * 5000)
    with mmap.mmap(fd, 5000) as m:
        m[4096:4100] = b'page'
        m.flush()
        show('a mapping of a file for appending', bytes_of('appended')[4096:4100], 'appended')
    fcntl.fcntl(fd, fcntl.F_SETFL, 0)
    os.pwrite(fd, b'begin', 0)
    show('no more for appending', bytes_of('appended')[:5], 'appended')
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
    os.write(fd, b'end')
    show('again for appending', bytes_of('appended')[5000:], 'appended')
    os.close(fd)
    show('setxattr', outcome(os.setxattr, 'd', 'user.a', b'value'))
    show('setxattr, as new', outcome(os.setxattr, 'd', 'user.a', b'v', os.XATTR_CREATE))
    show('setxattr, of another', outcome(os.setxattr, 'd', 'user.b', b'v', os.XATTR_REPLACE))
    show('listxattr', [n for n in os.listxattr('d') if n.startswith('user.')])
    show('getxattr', os.getxattr('d', 'user.a'))
    show('removexattr', outcome(os.removexattr, 'd', 'user.a'))
    show('removexattr again', outcome(os.removexattr, 'd', 'user.a'))
    with open('gone', 'w+b') as f:
        os.unlink('gone')
        f.write(b'still here')
        f.flush()
        os.fchmod(f.fileno(), 0o600)
        os.ftruncate(f.fileno(), 5)
        s = os.fstat(f.fileno())
        show('a file without a name', (oct(s.st_mode), s.st_size, s.st_nlink, os.pread(f.fileno(), 10, 0)))
        os.mkdir('gone')
        show('it is opened, a directory has its name', outcome(os.open, f'/proc/self/fd/{f.fileno()}', os.O_RDWR))
    with open('d', 'r+b') as f, open('d', 'r+b') as g:
        fcntl.flock(f, fcntl.LOCK_EX)
        show('flock by two', outcome(fcntl.flock, g, fcntl.LOCK_EX | fcntl.LOCK_NB))
        show('fsync', outcome(os.fsync, f.fileno()))
        show('fdatasync', outcome(os.fdatasync, f.fileno()))
    fd = os.open('.', os.O_RDONLY)
    show('fsync of a directory', outcome(os.fsync, fd))
    show('write beyond the largest file', outcome(lambda: os.pwrite(os.open('d', os.O_RDWR), b'x', (1 << 63) - 1)))
    os.mkdir('cwd')
    os.chdir('cwd')
    touch('inside', text='x')
    os.rename('../cwd', '../moved')
    show('a directory that was renamed is the current one', bytes_of('inside'), 'inside', '../moved')
    touch('two')
    os.chdir('..')
    show('its new file', sorted(os.listdir('moved')))


def times():
    """Calls that set ctime, and mtime of a directory."""
    touch('t')
    for name, call in {'chmod': lambda: os.chmod('t', 0o640), 'link': lambda: os.link('t', 't2'),
                       'unlink': lambda: os.unlink('t2'), 'rename': lambda: os.rename('t', 't3'),
                       'back': lambda: os.rename('t3', 't'), 'truncate': lambda: os.truncate('t', 8),
                       'setxattr': lambda: os.setxattr('t', 'user.a', b'b'),
                       'mkdir': lambda: os.mkdir('t4'), 'rmdir': lambda: os.rmdir('t4')}.items():
        path = 't' if os.path.exists('t') else 't3'
        before, above = os.stat(path), os.stat('.')
        time.sleep(0.02)
        call()
        after = os.stat('t' if os.path.exists('t') else 't3')
        show(f'{name}: times', (after.st_ctime_ns > before.st_ctime_ns, after.st_mtime_ns > before.st_mtime_ns,
                                os.stat('.').st_mtime_ns > above.st_mtime_ns))


def calls(directory):
    os.umask(0o022)
    for part in (kinds, paths, users, data, times):
        os.chdir(directory)
        os.mkdir(part.__name__)
        os.chdir(part.__name__)
        part()


# --- files that are made without a name -----------------------------------------------------

def link_of(fd, name, path='/proc/self/fd/%d'):
    """Gives an open file a name: through /proc, or directly."""
    if path:
        libc('linkat', -100, path % fd, -100, name, FOLLOW)
    else:
        libc('linkat', fd, '', -100, name, EMPTY_PATH)


def shown_of(fd):
    s = os.fstat(fd)
    return f'{oct(s.st_mode)} {s.st_nlink} {s.st_uid}:{s.st_gid} {s.st_size}'


def linked_later(where, how):
    fd = os.open(where, os.O_RDWR | os.O_TMPFILE, 0o666)
    print('made:', shown_of(fd))
    os.write(fd, b'0123456789')
    os.ftruncate(fd, 8)
    os.fchmod(fd, 0o640)
    print('setxattr:', outcome(os.setxattr, fd, 'user.a', b'value'), outcome(os.getxattr, fd, 'user.a'))
    print('times:', outcome(lambda: os.utime(fd, (1, 2))), os.fstat(fd).st_mtime)
    with open(f'/proc/self/fd/{fd}', 'r+b', buffering=0) as again:
        print('opened again:', again.read(), again.write(b'!'))
    m = mmap.mmap(fd, 9)
    m[0:1] = b'x'
    m.close()
    print('not listed:', sorted(os.listdir(where)))
    show('a name', outcome(link_of, fd, 'named', how), 'named')
    show('a second one', outcome(link_of, fd, 'second', how), 'second')
    show('one that exists', outcome(link_of, fd, 'second', how))
    os.write(fd, b'more')
    print('bytes:', bytes_of('named'), shown_of(fd), sorted(os.listdir()))
    os.unlink('named'), os.unlink('second')
    print('without a name:', os.pread(fd, 99, 0), shown_of(fd))
    show('a name again', outcome(link_of, fd, 'third', how))
    os.close(fd)


def unnamed(directory):
    os.umask(0o022)
    os.chdir(directory)
    os.mkdir('theirs', 0o777)
    os.chmod('theirs', 0o2777)
    os.mkdir('mine', 0o755)
    for flags in ('O_RDONLY', 'O_WRONLY', 'O_RDWR', 'O_EXCL'):
        show(flags, outcome(os.open, '.', getattr(os, flags) | os.O_TMPFILE, 0o600))
    for how in ['/proc/self/fd/%d'] + ([None] if is_root else []):
        linked_later('.', how)
        linked_later('theirs', how)
    fd = os.open('.', os.O_RDWR | os.O_TMPFILE | os.O_EXCL, 0o600)
    show('a name after O_EXCL', outcome(link_of, fd, 'named'), 'named')
    fd = os.open('theirs', os.O_WRONLY | os.O_APPEND | os.O_TMPFILE, 0o600)
    os.rename('theirs', 'moved')
    print('its directory is renamed:', os.write(fd, b'ab'), outcome(os.fchmod, fd, 0o400), shown_of(fd))
    for place in ('moved', 'mine'):
        print('another user:', place, as_user(USER, [GROUP], lambda: shown_of(
            os.open(place, os.O_RDWR | os.O_TMPFILE, 0o666))))
    gone = os.open('mine', os.O_RDONLY)
    os.rmdir('mine')
    show('a directory that is removed', outcome(os.open, f'/proc/self/fd/{gone}', os.O_RDWR | os.O_TMPFILE))
    show('a file', outcome(lambda: os.open('/dev/null', os.O_RDWR | os.O_TMPFILE)))


# --- set-ID bits ----------------------------------------------------------------------------

def setid(place):
    """Set-group-ID without execution by the group stays for a sender with that group, but not with passthrough."""
    os.umask(0o022)
    os.chdir(place)
    for name in ('append', 'truncate', 'allocate', 'copy'):
        for who, groups in (('a user', []), ('one with the group', [GROUP])):
            remove('f')
            touch('f', 0o666)
            os.chown('f', OTHER, GROUP)
            os.chmod('f', 0o6666)
            show(f'{name} by {who}', as_user(USER, groups, CHANGES[name], 'f'), 'f')
    senders = {'its owner': (OTHER, []), 'its owner, with the group': (OTHER, [GROUP]), 'a user': (USER, []),
               'one with the group': (USER, [GROUP]), 'root': (0, [])}
    for who, (uid, groups) in senders.items():
        for mode in (0o755, 0o4755, 0o2755, 0o2766, 0o6666, 0o6777):
            for ids in ((-1, -1), (OTHER, -1), (-1, GROUP), (USER, GROUP)):
                remove('f')
                touch('f', 0o666)
                os.chown('f', OTHER, GROUP)
                os.chmod('f', mode)
                show(f'chown{ids} of {oct(mode)} by {who}', as_user(uid, groups, os.chown, 'f', *ids), 'f')


# --- refused calls --------------------------------------------------------------------------

def expect(what, got, want):
    global problems
    if got != want:
        problems += 1
        print(f'{what}: got {got}, want {want}')


def protected(top, other):
    os.chdir(top)
    touch('mine')
    files = ['.metadata', '__0_0.distcp', other]
    for path in files:
        for name, call in {
            'open for writing': lambda: os.open(path, os.O_WRONLY), 'open for both': lambda: os.open(path, os.O_RDWR),
            'open and truncate': lambda: os.open(path, os.O_WRONLY | os.O_TRUNC),
            'open or create': lambda: os.open(path, os.O_RDWR | os.O_CREAT),
            'truncate': lambda: os.truncate(path, 0), 'unlink': lambda: os.unlink(path),
            'rename': lambda: os.rename(path, 'x'), 'replace': lambda: os.rename('mine', path),
            'exchange': lambda: rename2('mine', path, EXCHANGE), 'link': lambda: os.link(path, 'x'),
            'chmod': lambda: os.chmod(path, 0o600), 'chown': lambda: os.chown(path, 1, 1),
            'setxattr': lambda: os.setxattr(path, 'user.x', b'y'),
            'removexattr': lambda: os.removexattr(path, 'user.note'), 'times': lambda: os.utime(path, (1, 1)),
            'now': lambda: os.utime(path),
        }.items():
            expect(f'{path}: {name}', outcome(call), 'EPERM')
    for name, call in {'chmod': lambda: os.chmod('.', 0o700), 'chown': lambda: os.chown('.', 1, 1),
                       'times': lambda: os.utime('.', (1, 1)), 'setxattr': lambda: os.setxattr('.', 'user.x', b'y')}.items():
        expect(f'the directory: {name}', outcome(call), 'EPERM')
    for path in ('.metadata.tmp', '__0_7_ckptfs-1-0123456789abcdef.distcp', '.metadata.ckptfs-0123456789abcdef'):
        for name, call in {'create': lambda: touch(path), 'mkdir': lambda: os.mkdir(path),
                           'mkfifo': lambda: os.mkfifo(path), 'symlink': lambda: os.symlink('x', path),
                           'link': lambda: os.link('mine', path), 'rename': lambda: os.rename('mine', path),
                           'exchange': lambda: rename2('mine', path, EXCHANGE)}.items():
            expect(f'{path}: {name}', outcome(call), 'ENOENT' if name == 'exchange' else 'EPERM')
    path = '__0_8_ckptfs-1-0123456789abcdef.distcp'
    for name, call in {'open for writing': lambda: os.open(path, os.O_WRONLY), 'unlink': lambda: os.unlink(path),
                       'truncate': lambda: os.truncate(path, 0), 'link': lambda: os.link(path, 'x'),
                       'rename': lambda: os.rename(path, 'x'), 'replace': lambda: os.rename('mine', path),
                       'exchange': lambda: rename2(path, 'mine', EXCHANGE),
                       'chmod': lambda: os.chmod(path, 0o600)}.items():
        expect(f'a file of a commit that has not ended: {name}', outcome(call), 'EPERM')
    os.mkdir('below')
    expect('such a name in another directory', outcome(touch, 'below/.metadata'), 'fine')
    expect('canary: another file', outcome(os.truncate, 'mine', 3), 'fine')
    for path in ('mine', 'below/.metadata'):
        os.unlink(path)
    os.rmdir('below')


def across(mount, tensor):
    shown, raw = f'{mount}/files', f'{mount}/raw'
    touch(f'{shown}/mine', text='bytes')
    for name, call in {'rename out': lambda: os.rename(f'{shown}/mine', f'{raw}/x'),
                       'rename in': lambda: os.rename(f'{raw}/{tensor}', f'{shown}/x'),
                       'link out': lambda: os.link(f'{shown}/mine', f'{raw}/x'),
                       'link in': lambda: os.link(f'{raw}/{tensor}', f'{shown}/x')}.items():
        expect(name, outcome(call), 'EXDEV')
    touch(f'{shown}/first', text='first')
    fd = os.open(f'{shown}/first', os.O_PATH)
    os.unlink(f'{shown}/first')
    touch(f'{shown}/second', text='its number is that of the first')
    expect('a removed file that is open with O_PATH', outcome(os.open, f'/proc/self/fd/{fd}', os.O_RDWR), 'ESTALE')
    os.close(fd)
    os.unlink(f'{shown}/second')
    with open(f'{raw}/{tensor}', 'rb') as f, open(f'{shown}/copied', 'w+b') as g:
        want = f.read()
        os.copy_file_range(f.fileno(), g.fileno(), len(want), 0, 0)
        g.seek(0)
        expect('copy_file_range of a tensor', g.read() == want, True)
        expect('SEEK_HOLE in a tensor', os.lseek(f.fileno(), 0, os.SEEK_HOLE), len(want))
        expect('SEEK_DATA in a tensor', os.lseek(f.fileno(), 3, os.SEEK_DATA), 3)
    os.unlink(f'{shown}/copied')
    os.unlink(f'{shown}/mine')


def steps(top):
    os.chdir(top)
    expect('a file of the run', outcome(touch, 'mine'), 'fine')
    expect('a file in a step', outcome(touch, 'step-1/mine'), 'EPERM')
    expect('a shard', outcome(os.truncate, 'step-1/__0_0.distcp', 0), 'EPERM')
    expect('rename of a step', outcome(os.rename, 'step-1', 'old'), 'EPERM')
    expect('removing a step', outcome(os.rmdir, 'step-1'), 'EPERM')
    expect('mode of a step', outcome(os.chmod, 'step-1', 0o700), 'EPERM')
    expect('a file into a step', outcome(os.rename, 'mine', 'step-1/mine'), 'EPERM')
    expect('files/ of a step', outcome(touch, '../step-1/files/mine'), 'EPERM')
    expect('a link to a step', outcome(os.symlink, 'step-1', 'latest'), 'fine')
    expect('it is removed', outcome(os.unlink, 'latest'), 'fine')
    with open('../step-1/.ckptfs/status') as f:
        expect('status of the step', [line for line in f if line.startswith('files/:')],
               ['files/: read-only; mount the step to change files beside its checkpoint\n'])
    expect('a directory', outcome(os.mkdir, 'logs'), 'fine')
    expect('a file in it', outcome(touch, 'logs/mine'), 'fine')


def unnamed_refused(mount, run):
    os.chdir(f'{mount}/files')
    fd = os.open('.', os.O_RDWR | os.O_TMPFILE)
    for name in ('.metadata.tmp', '__0_7_ckptfs-1-0123456789abcdef.distcp'):
        expect(name, outcome(link_of, fd, name), 'EPERM')
    expect('a data file', outcome(link_of, fd, '__0_0.distcp'), 'EEXIST')
    expect('outside of files/', outcome(link_of, fd, f'{mount}/raw/x'), 'EXDEV')
    expect('made there', outcome(os.open, f'{mount}/raw', os.O_RDWR | os.O_TMPFILE), errno.errorcode[errno.EOPNOTSUPP])
    expect('made in files/ after that', outcome(os.open, '.', os.O_RDWR | os.O_TMPFILE), 'fine')
    os.chdir(f'{run}/files')
    expect('in a step', outcome(os.open, 'step-1', os.O_RDWR | os.O_TMPFILE), 'EPERM')
    expect('in files/ of a step', outcome(os.open, f'{run}/step-1/files', os.O_RDWR | os.O_TMPFILE), 'EPERM')
    fd = os.open('.', os.O_RDWR | os.O_TMPFILE)
    expect('a file of the run', outcome(os.fchmod, fd, 0o600), 'fine')
    expect('into a step', outcome(link_of, fd, 'step-1/unnamed'), 'EPERM')
    expect('into the run', outcome(link_of, fd, 'unnamed'), 'fine')
    os.unlink('unnamed')


commands = (calls, protected, across, steps, unnamed, unnamed_refused, setid)
{f.__name__: f for f in commands}[sys.argv[1]](*sys.argv[2:])
sys.exit(1 if problems else 0)
