# SPDX-License-Identifier: MIT
"""Compares the extended attributes of a mount with a fixture's table. Prints
the differences.

    attributes.py MOUNT TABLE ERRORS-TABLE-OR-EMPTY
"""

import errno
import os
import sys
import urllib.parse

mount, table, errors = sys.argv[1:]
problems = 0
bad = set()
if errors:
    bad = {line.split(b'\t')[0] for line in open(errors, 'rb')}


def expect(what, got, want):
    global problems
    if got != want:
        problems += 1
        print(f'{what}: got {got!r}, want {want!r}')


def get(path, name):
    try:
        return os.getxattr(path, 'user.ckptfs.' + name)
    except OSError as e:
        return errno.errorcode[e.errno]


for line in open(table, 'rb'):
    stem, dtype, shape, _, chunks, key = line.rstrip(b'\n').split(b'\t')
    key = urllib.parse.unquote_to_bytes(key)
    for view, suffix in (b'full', b'.npy'), (b'raw', b''):
        path = os.path.join(os.fsencode(mount), view, stem + suffix)
        fqn = get(path, 'fqn')
        raw = get(path, 'raw_key')
        expect(f'{path}: key', raw if raw != 'ENODATA' else fqn, key)
        expect(f'{path}: raw_key is there', raw == 'ENODATA', fqn == key)
        expect(f'{path}: dtype', get(path, 'dtype'), dtype)
        expect(f'{path}: shape', get(path, 'shape'), shape)
        expect(f'{path}: chunks', get(path, 'chunks'), chunks)
        expect(f'{path}: kind', get(path, 'kind'), b'tensor')
        expect(f'{path}: no such', get(path, 'nothing'), 'ENODATA')
        error = get(path, 'error')
        expect(f'{path}: error', error != 'ENODATA', stem in bad)
        listed = ['fqn'] + (['raw_key'] if fqn != key else []) + [
            'dtype', 'shape', 'chunks', 'kind']
        if stem in bad:
            listed.append('error')
        expect(f'{path}: list', os.listxattr(path),
               ['user.ckptfs.' + name for name in listed])
        for name in 'security.capability', 'security.selinux', 'system.posix_acl_access':
            try:
                os.getxattr(path, name)
                expect(f'{path}: {name}', 'a value', 'none')
            except OSError as e:
                expect(f'{path}: {name}', e.errno in (
                    errno.ENODATA, errno.EOPNOTSUPP), True)

for path in mount, mount + '/full', mount + '/.ckptfs/tensors.csv':
    expect(f'{path}: list', os.listxattr(path), [])
    expect(f'{path}: fqn', get(path, 'fqn'), 'ENODATA')
sys.exit(1 if problems else 0)
