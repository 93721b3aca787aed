# SPDX-License-Identifier: MIT
"""Keeps a mount in use until it is killed, and prints `ready`.

    holder.py file|map|cwd|root PATH    an open file, mapping or directory in a mount
    holder.py device PID                PID's descriptor of /dev/fuse: requests to
                                        that daemon wait even when it is dead
"""
import ctypes
import mmap
import os
import sys
import time

PIDFD_OPEN, PIDFD_GETFD = 434, 438


def take_device(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    folder = f'/proc/{pid}/fd'
    for number in os.listdir(folder):
        if os.readlink(f'{folder}/{number}') != '/dev/fuse':
            continue
        process = libc.syscall(PIDFD_OPEN, pid, 0)
        if libc.syscall(PIDFD_GETFD, process, int(number), 0) >= 0:
            return
    sys.exit('cannot take /dev/fuse')


what, path = sys.argv[1:3]
if what == 'device':
    take_device(int(path))
elif what == 'cwd':
    os.chdir(path)
elif what == 'root':
    os.chroot(path)
else:
    kept = open(path, 'rb')
    if what == 'map':
        mapping = mmap.mmap(kept.fileno(), 8, mmap.MAP_PRIVATE,
                            mmap.PROT_READ)
        kept.close()
print('ready', flush=True)
time.sleep(100)
