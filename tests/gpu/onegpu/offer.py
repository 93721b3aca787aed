# SPDX-License-Identifier: MIT
"""The programs that tests/gpu/run uses: an `offer`, which serves the tensors of a checkpoint in
the way of a mount (offer_mount.c), and its clients."""
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../lib"),
                os.path.join(HERE, "../../../mount-helpers/python")]
DATA = os.path.join(HERE, "data.py")
SENT = 64 << 10  # bytes of a message, at most
CLIENT = os.path.join(HERE, "../../lib/gpu_client.py")


def until(what, seconds=10):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    return what()


def parent_of(pid):
    with contextlib.suppress(OSError, ValueError):
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return None if fields[0] == "Z" else int(fields[1])
    return None


def children(pid):
    return [int(n) for n in os.listdir("/proc") if n.isdigit() and parent_of(n) == pid]


class Programs:
    """The programs of the archive, with libraries that a machine may lack."""

    def __init__(self, root):
        self.bin = os.path.join(root, "bin")
        self.env = dict(os.environ)
        old = self.env.get("LD_LIBRARY_PATH")
        self.env["LD_LIBRARY_PATH"] = os.path.join(root, "lib") + (":" + old if old else "")

    def path(self, name):
        return os.path.join(self.bin, "ckptfs-" + name if name != "ckptfs" else name)

    def has(self, name):
        return os.access(self.path(name), os.X_OK)

    def run(self, name, *words, before=(), timeout=600):
        return subprocess.run([*before, self.path(name), *words], env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)

    def ask(self, *words):
        """Runs ckptfs-ask; returns its measurements."""
        done = self.run("ask", *words)
        if done.returncode:
            raise RuntimeError(f"ckptfs-ask {words[0]}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)

    def cat(self, checkpoint, name):
        """The bytes of a file of the mount, by the host backend, as a stream."""
        return subprocess.Popen([self.path("ckptfs"), "cat", checkpoint, name], env=self.env,
                                stdout=subprocess.PIPE)

    def bytes(self, checkpoint, name):
        with self.cat(checkpoint, name) as process:
            data = process.stdout.read()
        if process.returncode:
            raise RuntimeError(f"ckptfs cat {name}: exit status {process.returncode}")
        return data


def make_data(path, *numbers, form=None):
    words = [sys.executable, DATA, *([form] if form else []), path, *map(str, numbers)]
    subprocess.run(words, check=True)


class Offer:
    """An offer of one checkpoint, which ends with this process, and its worker, too."""

    def __init__(self, programs, checkpoint, place, options="", gpu="0", seconds=90):
        self.programs, self.checkpoint, self.socket = programs, checkpoint, place
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)
        self.process = subprocess.Popen(
            [programs.path("offer"), "mount", "-o", f"gpu={gpu},gather=gpu{options}", checkpoint,
             place], env=programs.env, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        ready = select.select([self.process.stdout], [], [], seconds)[0]
        if not ready or self.process.stdout.readline() != "ready\n":
            self.process.kill()
            raise RuntimeError("no mover of GPUs: " + self.process.communicate()[1].strip()[-300:])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def path(self, name):
        return f"unix:{self.socket}#{name}"

    def mover(self):
        """The process of the worker, a child of the forking process that the offer started."""
        for forker in children(self.process.pid):
            for mover in children(forker):
                return mover
        return None

    def kill_mover(self):
        """Kills the worker; true if another one replaces it."""
        old = self.mover()
        if not old:
            return False
        os.kill(old, signal.SIGKILL)
        return until(lambda: self.mover() not in (None, old), 30)

    def read(self, name, threads):
        """The times of the GPU and of the host backend to gather a file."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.connect(self.socket)
            s.send(f"read {threads} {name}".encode())
            return json.loads(s.recv(4096))

    def bytes(self, name):
        """The errno, the bytes of a file, and the number of bytes that came from a GPU."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.connect(self.socket)
            s.send(f"bytes {name}".encode())
            told, got = json.loads(s.recv(4096)), b""
            while not told["err"] and len(got) < told["bytes"]:
                got += s.recv(SENT) or b"\0" * told["bytes"]
        return told["err"], got, told["gpu_bytes"]
