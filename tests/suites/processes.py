# SPDX-License-Identifier: MIT
"""Processes and users of the namespaces in which a suite runs."""
import ctypes
import os
import pathlib
import signal
import stat

from image import Trouble, output

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
USERS = 65536       # mapped in a user namespace


def daemons(program):
    """Processes of these namespaces that run the program."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            found += [int(process.name)] if os.readlink(process / "exe") == program else []
        except OSError:
            pass
    return found


def end_others():
    """SIGKILL for all processes of this PID namespace but the first and this one."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass


def device_for_all(node):
    """Puts a device that all users can open on /dev/fuse, in this mount namespace."""
    os.mknod(node, 0o600 | stat.S_IFCHR, os.stat("/dev/fuse").st_rdev)
    os.chmod(node, 0o666)
    output("mount", "--bind", node, "/dev/fuse")


def enter_user_namespace(owner):
    """This process becomes root of a user namespace with the users owner...owner + 65535."""
    libc = ctypes.CDLL(None, use_errno=True)
    ready, go = os.pipe()
    helper = os.fork()
    if not helper:
        os.close(go)
        os.read(ready, 1)
        for name in ("uid_map", "gid_map"):
            pathlib.Path(f"/proc/{os.getppid()}/{name}").write_text(f"0 {owner} {USERS}")
        os._exit(0)
    os.close(ready)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS):
        raise Trouble(f"no user namespace: {os.strerror(ctypes.get_errno())}")
    os.close(go)
    if os.waitpid(helper, 0)[1]:
        raise Trouble("no users can be mapped")
    os.setgroups([])
    os.setgid(0)
    os.setuid(0)
