#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Creates and removes the hosts of hosts.py, in a separate process.

    hosts_keeper.py NAME...

Prints one line of JSON, a description of the hosts or {"trouble": reason}, then
waits for the end of standard input. The starter closes it, or dies by any signal,
so the programs of the hosts always end with the test. This process itself must not
be killed: then its hosts end, but programs that the test started in them and the
directory remain.

Interfaces are created in their namespaces, and no mount of a host is visible
outside of it. The machine itself is changed only in one directory below $TMPDIR.
"""
import ctypes
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x20000, 0x4000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
MNT_DETACH, PR_SET_PDEATHSIG = 2, 1
KINDS = ("net", "uts", "mnt")
NETWORK = "10.77.0"
MTU = 1500
CONNECTIONS = "/sys/fs/fuse/connections"

libc = ctypes.CDLL(None, use_errno=True)

AGENT = """#!/bin/bash
# Stands for ssh: [OPTION]... HOST COMMAND...
while [[ $1 == -* ]]; do shift; done
case $1 in
%s*)
\techo "$0: no host $1" >&2
\texit 255
\t;;
esac
export TMPDIR=%s/tmp/$name
shift
exec nsenter -t "$pid" --net --uts --mount bash -c "$*"
"""


class Trouble(Exception):
    """The machine cannot make hosts; the text is the reason."""


def checked(status, what):
    if status:
        raise Trouble(f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind, flags):
    checked(libc.mount(source.encode(), target.encode(), kind, flags, None),
            f"mount {target}")


def namespace(pid, kind):
    """The identity of a namespace among all existing ones."""
    status = os.stat(f"/proc/{pid}/ns/{kind}")
    return status.st_dev, status.st_ino


def inside(namespaces):
    """The processes in any of these namespaces. A program that creates its own
    namespace of one kind, such as a sandbox, is found by the other kinds."""
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and any(namespace(name, kind) in namespaces
                                      for kind in KINDS):
                yield int(name)
        except OSError:
            continue    # it has ended, and waits for its parent


def ip(pid, text):
    """Runs lines of ip(8) in the network namespace of a process."""
    done = subprocess.run(
        ["nsenter", "-t", str(pid), "--net", "ip", "-batch", "-"],
        input=text, text=True, capture_output=True)
    if done.returncode:
        raise Trouble(f"ip: {done.stderr.strip()[:300]} in {text!r}")


def forget_mounts():
    """Unmounts the copies of the machine's mounts: of checkpoints, since a daemon
    lives until the last copy of its mount ends, and of images, which could not be
    mounted again otherwise."""
    with open("/proc/self/mounts") as mounts:
        found = [line.split() for line in mounts]
    for device, place, kind, *_ in reversed(found):
        if place != "/" and (kind == "fuse.ckptfs" or
                             device.startswith("/dev/loop")):
            libc.umount2(place.encode(), MNT_DETACH)


class Keeper:
    def __init__(self, names):
        self.names = names
        self.base = tempfile.mkdtemp(prefix="ckptfs-dist.")
        os.chmod(self.base, 0o755)
        self.pids = {}          # of the first process of each host, and "switch"
        self.pins = []          # namespaces to be emptied

    # --- making ---

    def make(self):
        for folder in ("src", "mnt", "own", "tmp"):
            os.mkdir(f"{self.base}/{folder}")
        for name in self.names:
            os.mkdir(f"{self.base}/own/{name}")
            os.mkdir(f"{self.base}/tmp/{name}")
            os.chmod(f"{self.base}/tmp/{name}", 0o1777)
        addresses = {name: f"{NETWORK}.{number}"
                     for number, name in enumerate(self.names, 1)}
        with open(self.base + "/hosts", "w") as out:
            out.write("127.0.0.1 localhost\n")
            out.writelines(f"{address} {name}\n"
                           for name, address in addresses.items())
        self.start("switch", CLONE_NEWNET, lambda: None)
        for name in self.names:
            self.start(name, CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS,
                       lambda: self.furnish(name))
        self.connect(addresses)
        self.write_agent(addresses)
        return {"base": self.base, "pids": self.pids, "addresses": addresses}

    def start(self, what, flags, work):
        """An idle process that keeps namespaces alive."""
        reader, writer = os.pipe()
        keeper, pid = os.getpid(), os.fork()
        if pid == 0:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != keeper:
                os._exit(1)
            self.live(flags, work, writer)
        os.close(writer)
        with open(reader) as told:
            answer = told.read()
        if answer != "ready":
            os.waitpid(pid, 0)
            raise Trouble(f"{what}: {answer}")
        for kind in KINDS:
            if namespace(pid, kind) != namespace("self", kind):
                self.pins.append(os.open(f"/proc/{pid}/ns/{kind}",
                                         os.O_RDONLY))
        self.pids[what] = pid

    def live(self, flags, work, writer):
        """Body of the child. It closes the descriptors that it inherited and does not
        need."""
        answer = "ready"
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            checked(libc.unshare(flags), "unshare")
            self.quiet()
            work()
        except (Trouble, OSError) as problem:
            answer = str(problem)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.write(writer, answer.encode())
        os.close(writer)
        while answer == "ready":
            signal.pause()
        os._exit(1)

    def quiet(self):
        """Disables IPv6, which would send packets of its own."""
        try:
            with open("/proc/sys/net/ipv6/conf/default/disable_ipv6",
                      "w") as out:
                out.write("1")
        except FileNotFoundError:
            pass

    def furnish(self, name):
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        forget_mounts()
        socket.sethostname(name)
        mount(self.base + "/hosts", "/etc/hosts", None, MS_BIND)
        mount(f"{self.base}/own/{name}", self.base + "/src", None, MS_BIND)
        mount("shm", "/dev/shm", b"tmpfs", 0)
        if not os.path.ismount(CONNECTIONS):    # as systemd does
            mount("none", CONNECTIONS, b"fusectl", 0)

    def connect(self, addresses):
        """Connects eth0 of each host to portN of the switch by a cable."""
        ip(self.pids["switch"],
           "link add switch type bridge mcast_snooping 0\n"
           "link set switch up\n")
        for number, name in enumerate(self.names, 1):
            ip(self.pids["switch"],
               f"link add port{number} mtu {MTU} type veth peer name eth0 "
               f"mtu {MTU} netns {self.pids[name]}\n"
               f"link set port{number} master switch\n"
               f"link set port{number} up\n")
            ip(self.pids[name],
               "link set lo up\n"
               f"addr add {addresses[name]}/24 dev eth0\n"
               "link set eth0 up\n")

    def write_agent(self, addresses):
        path = self.base + "/agent"
        rows = "".join(f"{name}|{addresses[name]})\n"
                       f"\tname={name} pid={self.pids[name]}\n\t;;\n"
                       for name in self.names)
        with open(path, "w") as out:
            out.write(AGENT % (rows, shlex.quote(self.base)))
        os.chmod(path, 0o755)

    # --- removal ---

    def end_processes(self):
        """Kills all processes of the hosts, also stopped ones and those that wait for
        a mount without a daemon. The search repeats to find processes started
        meanwhile."""
        statuses = map(os.fstat, self.pins)
        namespaces = {(status.st_dev, status.st_ino) for status in statuses}
        own = set(self.pids.values())
        end = time.monotonic() + 120
        while time.monotonic() < end:
            found = set(inside(namespaces)) - own
            if not found and not own:
                return None
            for pid in found or own:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not found:
                for pid in own:
                    os.waitpid(pid, 0)
                own = set()
            time.sleep(0.01)
        return f"processes that do not end: {found}"

    def clean(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        trouble = self.end_processes()
        for pin in self.pins:
            os.close(pin)
        subprocess.run(["rm", "-rf", "--one-file-system", self.base],
                       check=False)
        if os.path.exists(self.base):
            trouble = trouble or f"{self.base} cannot be removed"
        return trouble


def say(what):
    """Prints JSON; a closed pipe of a dead starter is ignored."""
    try:
        os.write(1, json.dumps(what).encode() + b"\n")
    except BrokenPipeError:
        pass


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.umask(0o022)
    keeper = Keeper(sys.argv[1:])
    try:
        say(keeper.make())
        while sys.stdin.buffer.read(1):
            pass
    except (Trouble, OSError) as problem:
        say({"trouble": str(problem)})
    finally:
        trouble = keeper.clean()
    if trouble:
        print(f"hosts_keeper.py: {trouble}", file=sys.stderr)
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
