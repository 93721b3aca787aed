# SPDX-License-Identifier: MIT
"""Several hosts on one machine, for tests of what runs on many; needs root.

    with Hosts(3) as hosts:
        hosts.run("h1", ["mpirun", *hosts.mpi, "-H", "h1,h2,h3", "hostname"])

A host is a network, a UTS and a mount namespace: it has a name, an address
10.77.0.N on eth0, an /etc/hosts with all names, mounts of its own, and so its
own /dev/shm and $TMPDIR. At the path hosts.src, one for all, each has its own
directory; hosts.mnt is an empty one to mount at. Processes, users and all other
files are those of the machine. Programs, sshd among them, run in a host only
as the test starts them, or mpirun by hosts.agent, which stands for ssh and
works from everywhere.

All ends with close() or when this process dies, see hosts_keeper.py.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from hosts_keeper import (CLONE_NEWNET, KINDS, NETWORK, Trouble, checked,
                          inside, ip, libc, namespace)

HERE = os.path.dirname(os.path.abspath(__file__))
READ = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
try:
    print(len(os.pread(fd, 1 << 20, 0)))
except OSError as e:
    print(-e.errno)
"""


def has_stopped(pid):
    states = [pathlib.Path(task, "stat").read_text().rpartition(") ")[2][0]
              for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    return set(states) <= {"T", "Z"}


class Hosts:
    def __init__(self, count=3, names=None):
        """Raises Trouble if there can be none here."""
        self.names = list(names or (f"h{n}" for n in range(1, count + 1)))
        assert len(set(self.names)) == len(self.names) < 255
        assert all(re.fullmatch("[a-z][a-z0-9-]{0,30}", name)
                   for name in self.names) and "switch" not in self.names
        self.started, self.wires = [], {}
        self.keeper = subprocess.Popen(
            [sys.executable, "-B", HERE + "/hosts_keeper.py", *self.names],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/",
            start_new_session=True)
        made = json.loads(self.keeper.stdout.readline() or
                          '{"trouble": "the keeper has died"}')
        if "trouble" in made:
            self.close()
            raise Trouble(made["trouble"])
        self.base, self.pids = made["base"], made["pids"]
        self.addresses = made["addresses"]
        self.agent, self.src = self.base + "/agent", self.base + "/src"
        self.mnt = self.base + "/mnt"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends all that runs in a host, and the hosts."""
        self.keeper.stdin.close()
        status = self.keeper.wait()
        self.keeper.stdout.close()
        for process in self.started:
            process.wait()
        if status and sys.exc_info()[0] is None:
            raise Trouble("the hosts have left something, see above")

    # --- programs ---

    def command(self, host, argv, cwd=None):
        """What runs argv in that host, if the machine runs it."""
        return ["nsenter", "-t", str(self.pids[host]), "--net", "--uts",
                "--mount", "--wdns=" + (cwd or os.getcwd()), "--", *argv]

    def environment(self, host, env=None):
        return {**(os.environ if env is None else env),
                "TMPDIR": f"{self.base}/tmp/{host}"}

    def run(self, host, argv, cwd=None, env=None, **options):
        """As subprocess.run, with its options; shell commands are
        ["sh", "-c", ...]. The process has the program's own pid."""
        return subprocess.run(self.command(host, argv, cwd),
                              env=self.environment(host, env), **options)

    def popen(self, host, argv, cwd=None, env=None, **options):
        """As subprocess.Popen; close() ends it, if it has not ended."""
        process = subprocess.Popen(self.command(host, argv, cwd),
                                   env=self.environment(host, env), **options)
        self.started.append(process)
        return process

    @property
    def mpi(self):
        """Options of mpirun. Without --bind-to none each host would give its
        first rank the same core."""
        network = NETWORK + ".0/24"
        return ["--allow-run-as-root", "--bind-to", "none",
                "--mca", "plm_rsh_agent", self.agent,
                "--mca", "btl_tcp_if_include", network,
                "--mca", "oob_tcp_if_include", network]

    def processes(self, host):
        """Those of a host that are not the host itself, the oldest first:
        [(pid, argv)]."""
        found = []
        for pid in inside(self.namespaces(host)):
            try:
                with open(f"/proc/{pid}/cmdline") as line:
                    argv = line.read().split("\0")[:-1]
                with open(f"/proc/{pid}/stat") as line:
                    begun = int(line.read().rpartition(")")[2].split()[19])
            except OSError:
                continue
            if pid != self.pids[host]:
                found.append((begun, pid, argv))
        return [(pid, argv) for _, pid, argv in sorted(found)]

    def programs(self, host, name, word):
        """The pids of those of a program that have this word, the oldest first."""
        return [pid for pid, argv in self.processes(host)
                if word in argv and os.path.basename(argv[0]) == name]

    def namespaces(self, host):
        return {namespace(self.pids[host], kind) for kind in KINDS}

    def signal(self, pid, number):
        """Only to a process of a host."""
        if not any(pid == other for name in self.names
                   for other, _ in self.processes(name)):
            raise ProcessLookupError(f"{pid} is no process of a host")
        os.kill(pid, number)

    def stop(self, pid):
        """Returns when each thread has stopped: kill(2) does not wait for that."""
        self.signal(pid, signal.SIGSTOP)
        end = time.monotonic() + 60
        while time.monotonic() < end and not has_stopped(pid):
            time.sleep(0.005)

    def cont(self, pid):
        self.signal(pid, signal.SIGCONT)

    def kill(self, pid):
        self.signal(pid, signal.SIGKILL)

    def crash(self, host):
        """As if the power failed: no packet tells the others that its
        programs are gone. With link(host, "up") it can be used again and has
        its files; what its old connections had left to say is said then."""
        self.link(host, "down")
        left = self.processes(host)
        while left:
            for pid, _ in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            left = self.processes(host)

    # --- files ---

    def read(self, host, path):
        """The first MiB of a file as a process of that host reads it, past the page
        cache: how many bytes, or minus errno, and in how many seconds."""
        begun = time.monotonic()
        done = self.run(host, [sys.executable, "-c", READ, path],
                        stdout=subprocess.PIPE, text=True, check=True)
        return int(done.stdout), time.monotonic() - begun

    def directory(self, host):
        """Where the machine has what the host has at hosts.src."""
        return f"{self.base}/own/{host}"

    @property
    def directories(self):
        return {name: self.directory(name) for name in self.names}

    # --- the network ---

    def number(self, host):
        return self.addresses[host].rpartition(".")[2]

    def switch(self, text):
        ip(self.pids["switch"], text)

    def link(self, host, state):
        """Its cable is pulled out ("down") or put in again ("up"). What is
        sent meanwhile is lost."""
        self.switch(f"link set port{self.number(host)} {state}\n")

    def netem(self, host, words, seed=1):
        """What the host sends is delayed or lost or held to a rate, as the
        words of tc-netem(8) say ("delay 100ms loss 5% rate 10mbit"), until it
        is called with None. What others send to it is not touched. The kernel
        need not have the module: a process of ours, slow_wire.py, is put
        between the host's port and the switch."""
        n = self.number(host)
        if host in self.wires:
            self.wires.pop(host).communicate()
            self.switch(f"link del wire{n}a\nlink set port{n} master switch\n")
        if words is None:
            return
        self.switch(f"link add wire{n}a type veth peer name wire{n}b\n"
                    f"link set wire{n}a up\nlink set wire{n}b up\n"
                    f"link set wire{n}b master switch\n"
                    f"link set port{n} nomaster\n")
        wire = subprocess.Popen(
            ["nsenter", "-t", str(self.pids["switch"]), "--net",
             sys.executable, "-B", HERE + "/slow_wire.py", "port" + n,
             f"wire{n}a", str(seed), *words.split()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.wires[host] = wire
        self.started.append(wire)
        answer = wire.stdout.readline()
        if answer != b"ready\n":
            self.netem(host, None)
            raise ValueError(f"netem: {words}: {answer.decode().strip()}")

    def bytes(self, host):
        """What its eth0 has received and sent so far, with all headers."""
        with open(f"/proc/{self.pids[host]}/net/dev") as table:
            row = next(line for line in table if "eth0:" in line)
        fields = row.partition(":")[2].split()
        return int(fields[0]), int(fields[8])

    def is_reached(self, name):
        """From all others, and they from it: MPI does not try twice."""
        return all(self.answers(here, there) for other in self.names
                   if other != name
                   for here, there in ((other, name), (name, other)))

    def answers(self, here, there):
        with self.socket(here) as s:
            s.settimeout(1)
            try:
                s.connect((self.addresses[there], 9))
            except ConnectionRefusedError:
                return True
            except OSError:
                pass
            return False

    def socket(self, host, kind=socket.SOCK_STREAM):
        """A socket of this process in that host's network, which it stays in:
        a thread goes there to make it. A test that closes it in time finds the
        namespace gone after close()."""
        with open(f"/proc/{self.pids[host]}/ns/net") as place, \
                ThreadPoolExecutor(1) as thread:
            return thread.submit(self.visit, place.fileno(), kind).result()

    @staticmethod
    def visit(network, kind):
        checked(libc.setns(network, CLONE_NEWNET), "setns")
        return socket.socket(socket.AF_INET, kind)


def until(condition, seconds=10):
    """Whether it comes true in so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def why_not():
    """Why there can be no hosts here, None if there can."""
    if os.geteuid() != 0:
        return "only root can make hosts"
    for program in ("ip", "nsenter", "mpirun"):
        if not shutil.which(program):
            return f"no {program}"
    if not os.access("/dev/fuse", os.W_OK):
        return "FUSE cannot be used here"
    try:
        hosts = Hosts(1)
    except Trouble as problem:
        return str(problem)
    hosts.close()
    return None


def skipped():
    """Whether a test does not run for that; then it has said so. On CI it runs, and
    fails."""
    why = why_not() if os.environ.get("CI") != "true" else None
    if why:
        print(f"1..0 # SKIP {why}")
    return why is not None
