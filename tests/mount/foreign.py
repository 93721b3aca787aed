# SPDX-License-Identifier: MIT
"""A mount of the type fuse.ckptfs that another program serves, by root's
mount(2) in the name of any user.

    foreign.py PLACE [user=N] [WORD=SECONDS]... [hang=WORD,...] [NAME=FILE]...

A WORD is statfs, opendir, open, read or ioctl, and takes so long; requests of the
words in `hang` are never answered. status=FILE and log=FILE are what
.ckptfs/NAME holds, and order=FILE the answer to each order. A read of a FILE that
is /dev/zero never ends. Says `ready` when it is mounted, and `asked WORD` when it
has been asked one of those words. Ends when it is killed.
"""
import ctypes
import errno
import os
import struct
import sys
import threading
import time

LOOKUP, GETATTR, OPEN, READ, STATFS, RELEASE = 1, 3, 14, 15, 17, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR = 25, 26, 27, 28, 29
IOCTL = 39
UNANSWERED = (2, 36, 38, 42)  # FORGET, INTERRUPT, DESTROY, BATCH_FORGET
WORDS = {STATFS: 'statfs', OPENDIR: 'opendir', OPEN: 'open', READ: 'read',
         IOCTL: 'ioctl'}
IOCTL_DIR, DIRECT_IO = 1 << 11, 1
ROOT, CONTROL = 1, 2
NAMES = {'status': 3, 'log': 4}

given = dict(word.split('=', 1) for word in sys.argv[2:])
hang = given.get('hang', '').split(',')
files = {node: given[name] for name, node in NAMES.items() if name in given}


def attributes(node):
    mode = 0o100644 if node > CONTROL else 0o40755
    return struct.pack('=6Q10I', node, 1 << 20, 0, 0, 0, 0, 0, 0, 0, mode, 1,
                       0, 0, 0, 4096, 0)


def lookup(node, body):
    name = body.rstrip(b'\0').decode('latin-1')
    found = None
    if node == ROOT and name == '.ckptfs':
        found = CONTROL
    elif node == CONTROL and NAMES.get(name) in files:
        found = NAMES[name]
    if not found:
        return -errno.ENOENT
    return struct.pack('=4Q2I', found, 0, 0, 0, 0, 0) + attributes(found)


def read(node, body):
    at, size = struct.unpack_from('=QI', body, 8)
    with open(files[node], 'rb') as f:
        if files[node] != '/dev/zero':
            f.seek(at)
        return f.read(size)


def ioctl(node, body):
    size = struct.unpack_from('=I', body, 28)[0]
    with open(given.get('order', '/dev/null'), 'rb') as f:
        text = struct.pack('=i', 0) + f.read()
    return struct.pack('=iIII', 0, 0, 0, 0) + text.ljust(size, b'\0')[:size]


def statfs(node, body):
    return struct.pack('=5Q10I', 1, 0, 0, 1, 0, 4096, 255, 4096, *[0] * 7)


ANSWERS = {
    INIT: lambda node, body: struct.pack(
        '=4I2H2I2H8I', 7, 31, 0, IOCTL_DIR, 16, 12, 1 << 17, 1, 32, 0,
        *[0] * 8),
    LOOKUP: lookup,
    GETATTR: lambda node, body: struct.pack('=Q2I', 0, 0, 0) +
    attributes(node),
    OPENDIR: lambda node, body: struct.pack('=QII', 0, 0, 0),
    OPEN: lambda node, body: struct.pack('=QII', 0, DIRECT_IO, 0),
    READ: read,
    IOCTL: ioctl,
    STATFS: statfs,
    READDIR: lambda node, body: b'',
    FLUSH: lambda node, body: b'',
    RELEASE: lambda node, body: b'',
    RELEASEDIR: lambda node, body: b'',
}


def answer(request):
    opcode, unique, node = struct.unpack_from('=IQQ', request, 4)
    if opcode in WORDS:
        print('asked', WORDS[opcode], flush=True)
    if opcode in UNANSWERED or WORDS.get(opcode) in hang:
        return
    time.sleep(float(given.get(WORDS.get(opcode), 0)))
    said = -errno.ENOSYS
    if opcode in ANSWERS:
        said = ANSWERS[opcode](node, request[40:])
    error, body = (said, b'') if isinstance(said, int) else (0, said)
    try:
        os.write(device, struct.pack('=IiQ', 16 + len(body), error, unique) +
                 body)
    except OSError:
        pass  # the requester has ended


device = os.open('/dev/fuse', os.O_RDWR)
options = (f'fd={device},rootmode=40000,user_id={given.get("user", 0)},'
           'group_id=0,allow_other')
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b'foreign', sys.argv[1].encode(), b'fuse.ckptfs', 0,
              options.encode()):
    sys.exit(os.strerror(ctypes.get_errno()))
print('ready', flush=True)
while True:
    try:
        asked = os.read(device, 1 << 20)
    except OSError as e:
        if e.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
            continue
        break
    threading.Thread(target=answer, args=(asked,), daemon=True).start()
