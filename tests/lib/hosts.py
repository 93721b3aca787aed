# SPDX-License-Identifier: MIT
"""Several hosts on one machine, for tests of distributed mounts; needs root.

    with Hosts(3) as hosts:
        hosts.run("h1", ["mpirun", *hosts.mpi, "-H", "h1,h2,h3", "hostname"])

A host is a network, a UTS and a mount namespace. It has a name, an address
10.77.0.N on eth0, an /etc/hosts with all names and its own mounts, so also its
own /dev/shm and $TMPDIR. The path hosts.src is the same on all hosts, and leads
to another directory on each; hosts.mnt is an empty mount point. Processes, users
and all other files are those of the machine. Programs, sshd among them, run in a
host only if the test starts them, or if mpirun starts them by hosts.agent, which
replaces ssh and works from every host.

close() or the death of this process ends all hosts, see hosts_keeper.py.
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
fd, size = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), 0
try:
    while got := os.pread(fd, (1 << 20) - size, size):  # a read ends before lost bytes
        size += len(got)
    print(size)
except OSError as e:
    print(-e.errno)
"""


def has_stopped(pid):
    states = [pathlib.Path(task, "stat").read_text().rpartition(") ")[2][0]
              for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    return set(states) <= {"T", "Z"}


class Hosts:
    def __init__(self, count=3, names=None):
        """Raises Trouble if this machine cannot make hosts."""
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
        """Ends all processes of the hosts, then the hosts."""
        self.keeper.stdin.close()
        status = self.keeper.wait()
        self.keeper.stdout.close()
        for process in self.started:
            process.wait()
        if status and sys.exc_info()[0] is None:
            raise Trouble("the hosts have left something, see above")

    # --- programs ---

    def command(self, host, argv, cwd=None):
        """A command of the machine that runs argv in that host."""
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
        """Options of mpirun. Without `--bind-to none` each host would give its
        first rank the same core."""
        network = NETWORK + ".0/24"
        return ["--allow-run-as-root", "--bind-to", "none",
                "--mca", "plm_rsh_agent", self.agent,
                "--mca", "btl_tcp_if_include", network,
                "--mca", "oob_tcp_if_include", network]

    def processes(self, host):
        """The processes started in a host, oldest first: [(pid, argv)]."""
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
        """The pids of a program with this word among its arguments, oldest first."""
        return [pid for pid, argv in self.processes(host)
                if word in argv and os.path.basename(argv[0]) == name]

    def namespaces(self, host):
        return {namespace(self.pids[host], kind) for kind in KINDS}

    def signal(self, pid, number):
        """Sends a signal to a process of a host, and to no other process."""
        if not any(pid == other for name in self.names
                   for other, _ in self.processes(name)):
            raise ProcessLookupError(f"{pid} is no process of a host")
        os.kill(pid, number)

    def stop(self, pid):
        """Returns when all threads have stopped; kill(2) does not wait for that."""
        self.signal(pid, signal.SIGSTOP)
        end = time.monotonic() + 60
        while time.monotonic() < end and not has_stopped(pid):
            time.sleep(0.005)

    def cont(self, pid):
        self.signal(pid, signal.SIGCONT)

    def kill(self, pid):
        self.signal(pid, signal.SIGKILL)

    def crash(self, host):
        """Simulates a power failure: no packet informs the other hosts that the
        programs ended. After link(host, "up") the host works again and has its
        files; its old connections then send their remaining packets."""
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
        """Reads the first MiB of a file in that host, past the page cache. Returns
        the number of bytes, or minus errno if one is lost, and the seconds."""
        begun = time.monotonic()
        done = self.run(host, [sys.executable, "-c", READ, path],
                        stdout=subprocess.PIPE, text=True, check=True)
        return int(done.stdout), time.monotonic() - begun

    def directory(self, host):
        """The directory of the machine that the host sees at hosts.src."""
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
        """Unplugs the cable of a host ("down") or plugs it in ("up"). Packets sent
        while it is down are lost."""
        self.switch(f"link set port{self.number(host)} {state}\n")

    def netem(self, host, words, seed=1):
        """Delays, drops or throttles the packets that the host sends, in the
        words of tc-netem(8) ("delay 100ms loss 5% rate 10mbit"). A call with
        None ends it. Packets to the host pass unchanged. No kernel module is
        needed: slow_wire.py runs between the host's port and the switch."""
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
        """Bytes that eth0 of a host has received and sent, with all headers."""
        with open(f"/proc/{self.pids[host]}/net/dev") as table:
            row = next(line for line in table if "eth0:" in line)
        fields = row.partition(":")[2].split()
        return int(fields[0]), int(fields[8])

    def is_reached(self, name):
        """True if the host and all others reach each other: MPI does not retry."""
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
        """A socket of this process in the network namespace of a host. A thread
        enters the namespace to make it. A test must close the socket before
        close(), or the namespace outlives the hosts."""
        with open(f"/proc/{self.pids[host]}/ns/net") as place, \
                ThreadPoolExecutor(1) as thread:
            return thread.submit(self.visit, place.fileno(), kind).result()

    @staticmethod
    def visit(network, kind):
        checked(libc.setns(network, CLONE_NEWNET), "setns")
        return socket.socket(socket.AF_INET, kind)


def until(condition, seconds=10):
    """True if the condition becomes true within so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def why_not():
    """The reason why this machine cannot make hosts, or None."""
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
    """True if the test is skipped; the reason is printed. On CI it runs and fails."""
    why = why_not() if os.environ.get("CI") != "true" else None
    if why:
        print(f"1..0 # SKIP {why}")
    return why is not None
