#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of the simulated hosts that other tests of this directory use: names,
files, network and processes are as promised, and every end of a test leaves no
mount, process or interface.

    self.py CKPTFS          all tests; needs root
    self.py CKPTFS END      makes hosts, prints their state, and ends in this way
"""
import filecmp
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
from hosts import Hosts, until, why_not  # noqa: E402
from hosts_keeper import KINDS, inside, namespace  # noqa: E402
from tap import Tap, seed  # noqa: E402

FIXTURES = os.path.join(HERE, "../fixtures")
CKPTFS = os.path.realpath(sys.argv[1])
SEED = seed()
MIB = 1 << 20
tap = Tap()
check = tap.check


def equal(what, got, want):
    check(got == want, what, f"got  {got!r}", f"want {want!r}")


def raises(kind, call, *arguments):
    try:
        call(*arguments)
    except kind:
        return True
    return False


def silent(source, seconds=0.5):
    """True if no data, end of file or error arrives for some seconds."""
    return not select.select([source], [], [], seconds)[0]


def alive(pid):
    """True if the process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as line:
            return line.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- names, files, processes ---

def output_of(hosts, host, *argv):
    """The output of a command on that host, with its errors."""
    return hosts.run(host, argv, stdout=subprocess.PIPE, text=True,
                     stderr=subprocess.STDOUT, timeout=60).stdout.strip()


def test_names(hosts):
    equal("each host has its name",
          [output_of(hosts, name, "hostname") for name in hosts.names],
          hosts.names)
    equal("each host knows all names by /etc/hosts",
          [output_of(hosts, name, "getent", "hosts", other).split()
           for name in hosts.names for other in hosts.names],
          [[hosts.addresses[other], other]
           for name in hosts.names for other in hosts.names])
    equal("the loopback is up", "UP" in output_of(
        hosts, "h2", "ip", "link", "show", "lo"), True)
    equal("this machine does not see them", [
        subprocess.run(["hostname"], capture_output=True,
                       text=True).stdout.strip() in hosts.names,
        os.path.ismount(hosts.src), os.listdir(hosts.src)],
        [False, False, []])


def test_files(hosts):
    for name in hosts.names:
        with open(hosts.directory(name) + "/mine", "w") as out:
            out.write(name)
    equal("one path, and each host has its own directory there",
          [output_of(hosts, name, "cat", hosts.src + "/mine")
           for name in hosts.names], hosts.names)
    script = f"mount -t tmpfs x {hosts.mnt} && touch {hosts.mnt}/inside"
    equal("a host can mount", output_of(hosts, "h1", "sh", "-c", script), "")
    equal("its next command sees that, other hosts and this machine do not",
          [output_of(hosts, "h1", "ls", hosts.mnt), output_of(
              hosts, "h2", "ls", hosts.mnt), os.listdir(hosts.mnt)],
          ["inside", "", []])
    output_of(hosts, "h1", "umount", hosts.mnt)
    output_of(hosts, "h1", "sh", "-c", "touch /dev/shm/h1 $TMPDIR/h1")
    equal("each has its own /dev/shm and $TMPDIR", output_of(
        hosts, "h2", "sh", "-c", "ls /dev/shm $TMPDIR | grep -cx h1"), "0")
    equal("the directory a command starts in", [
        output_of(hosts, "h1", "pwd"), hosts.run(
            "h1", ["pwd"], cwd=hosts.src, capture_output=True).stdout],
        [os.getcwd(), hosts.src.encode() + b"\n"])


def test_checkpoint(hosts):
    source = os.path.join(FIXTURES, "sample")
    who = deal.deal(source, {"h1": hosts.directory("h1")}, "by rank", SEED)
    equal("a host mounts a checkpoint",
          output_of(hosts, "h1", CKPTFS, "mount", hosts.src, hosts.mnt), "")
    names = output_of(hosts, "h1", "ls", hosts.mnt + "/raw").split()
    check(names and all(output_of(hosts, "h1", "sh", "-c", 'cat "$0" | wc -c',
                             f"{hosts.mnt}/raw/{name}").isdigit()
                        for name in names), "and reads it", names)
    equal("others have none of it",
          [output_of(hosts, "h2", "ls", hosts.mnt), os.listdir(hosts.mnt)],
          ["", []])
    equal("it can be unmounted",
          output_of(hosts, "h1", CKPTFS, "umount", hosts.mnt), "")
    check(until(lambda: not hosts.processes("h1")), "the daemon has ended",
          hosts.processes("h1"))
    for name in who["h1"]:
        os.unlink(f"{hosts.directory('h1')}/{name}")


def test_processes(hosts):
    process = hosts.popen("h2", ["sleep", "1000"])
    row = (process.pid, ["sleep", "1000"])
    check(until(lambda: row in hosts.processes("h2")),
          "a host's processes are known")
    equal("of the others are not", hosts.processes("h1"), [])
    state = f"/proc/{process.pid}/stat"
    hosts.stop(process.pid)
    check(until(lambda: ") T " in open(state).read()), "one is stopped")
    hosts.cont(process.pid)
    check(until(lambda: ") S " in open(state).read()), "and goes on")
    hosts.kill(process.pid)
    equal("and is killed", process.wait(timeout=10), -signal.SIGKILL)
    check(raises(ProcessLookupError, hosts.kill, os.getpid()),
          "no signal reaches a process outside")


def test_mpi(hosts):
    begin = time.monotonic()
    done = hosts.run("h1", ["mpirun", *hosts.mpi, "-H", ",".join(
        hosts.names), "sh", "-c", f"echo $(hostname) $(cat {hosts.src}/mine)"],
        capture_output=True, text=True, timeout=60)
    print(f"# mpirun of three hosts: {time.monotonic() - begin:.2f} s")
    equal("mpirun in a host starts a rank in each", (
        done.returncode, sorted(done.stdout.splitlines()), done.stderr),
        (0, [f"{name} {name}" for name in hosts.names], ""))
    check(until(lambda: not any(map(hosts.processes, hosts.names))),
          "it leaves no process")
    done = subprocess.run(
        [hosts.agent, "-x", "-q", hosts.addresses["h3"], "echo", "a  b;",
         "hostname"], capture_output=True, text=True)
    equal("the agent takes options, an address and a shell's words",
          done.stdout, "a b\nh3\n")
    done = subprocess.run([hosts.agent, "h4", "true"], capture_output=True)
    equal("and knows no other host", done.returncode, 255)


# --- the network ---

class Pair:
    """A connection from one host to another, which echoes all data."""

    def __init__(self, hosts, one, other):
        listener = hosts.socket(other)
        listener.bind((hosts.addresses[other], 0))
        listener.listen()
        self.near = hosts.socket(one)
        self.near.connect(listener.getsockname())
        self.far = listener.accept()[0]
        listener.close()
        for end in (self.near, self.far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.settimeout(30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.near.close()
        self.far.close()

    def trip(self):
        """The round-trip time of one byte, in seconds."""
        begin = time.monotonic()
        self.near.sendall(b"x")
        self.far.sendall(self.far.recv(1))
        self.near.recv(1)
        return time.monotonic() - begin

    def transfer(self, count):
        """The time in seconds of a transfer in one direction."""
        begin = time.monotonic()
        sender = threading.Thread(
            target=lambda: self.near.sendall(bytes(count)))
        sender.start()
        while count:
            count -= len(self.far.recv(min(count, MIB)))
        sender.join()
        return time.monotonic() - begin


def test_counters(hosts):
    with Pair(hosts, "h1", "h2") as pair:
        before = [hosts.bytes(name) for name in hosts.names]
        pair.transfer(10 * MIB)
        after = [hosts.bytes(name) for name in hosts.names]
    counts = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(before, after)]
    sent, received, third = counts[0][1], counts[1][0], counts[2]
    check(all(10 * MIB <= n <= 11 * MIB for n in (sent, received)),
          "counters have a transfer of 10 MiB within 10 %", counts)
    check(max(third) < MIB, "a third host is not touched", counts)


def test_link(hosts):
    with Pair(hosts, "h1", "h2") as pair:
        check(min(pair.trip() for _ in range(5)) < 0.1, "a connection is quick")
        hosts.link("h2", "down")
        pair.near.sendall(b"x")
        check(silent(pair.far), "it stalls when a cable is out")
        hosts.link("h2", "up")
        equal("and goes on when it is in again", pair.far.recv(1), b"x")


def test_netem(hosts):
    with Pair(hosts, "h1", "h2") as pair:
        hosts.netem("h1", "delay 100ms")
        pair.trip()     # the switch learns the new port of h1
        trips = [pair.trip() for _ in range(3)]
        check(0.1 <= min(trips) < 0.3,
              "packets are delayed", trips)
        hosts.netem("h1", "rate 16mbit")
        took = pair.transfer(MIB)
        check(0.45 < took < 5, "a rate of 2 MB/s is kept", took)
        hosts.netem("h1", "loss 100%")
        pair.near.sendall(b"x")
        check(silent(pair.far), "all packets are lost")
        hosts.netem("h1", None)
        pair.far.recv(1)
        trips = [pair.trip() for _ in range(5)]
        check(min(trips) < 0.05, "and then all is as before", trips)
    test_loss(hosts)
    for words in ("delay 3 parsecs", "delay", "jitter 3ms", "loss much"):
        check(raises(ValueError, hosts.netem, "h1", words),
              f"refused: {words}")


def test_loss(hosts):
    with hosts.socket("h2", socket.SOCK_DGRAM) as far, \
            hosts.socket("h1", socket.SOCK_DGRAM) as near:
        far.bind((hosts.addresses["h2"], 0))
        near.connect(far.getsockname())
        near.send(b"ask for the address first")
        far.recv(100)
        hosts.netem("h1", "loss 30%", seed=1)
        for n in range(200):
            near.send(b"%d" % n)
        count = 0
        while not silent(far):
            far.recv(100)
            count += 1
        hosts.netem("h1", None)
    check(100 < count < 180, "some packets are lost", count)


LISTEN = """
import socket
with socket.create_server(("", 777)) as listener:
    print("ready", flush=True)
    listener.accept()[0].recv(1)
"""


def test_crash(hosts):
    with open(hosts.directory("h3") + "/kept", "w"):
        process = hosts.popen("h3", [sys.executable, "-c", LISTEN],
                              stdout=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    with hosts.socket("h1") as near:
        near.connect((hosts.addresses["h3"], 777))
        hosts.crash("h3")
        equal("a host crashes", (process.wait(timeout=10),
                                 hosts.processes("h3")),
              (-signal.SIGKILL, []))
        check(silent(near), "and nobody is told")
    hosts.link("h3", "up")
    with Pair(hosts, "h1", "h3") as pair:
        pair.trip()
    equal("it comes again, with its files",
          output_of(hosts, "h3", "ls", hosts.src + "/kept"), hosts.src + "/kept")


# --- the end ---

def hold():
    """Makes every kind of object that a test could leave, then waits."""
    hosts = Hosts(2)
    deal.deal(FIXTURES + "/sample", hosts.directories, "copies", SEED, "all")
    shell = "$1 mount $0/src $0/mnt && cd $0/mnt && exec setsid sleep 1000"
    for name in hosts.names:
        hosts.popen(name, ["sh", "-c", shell, hosts.base, CKPTFS])
        subprocess.Popen([hosts.agent, name, "trap '' TERM HUP; sleep 1000 &"
                          " unshare --net --mount sleep 1000"])
        stopped = hosts.popen(name, ["sleep", "1000"])
        assert until(lambda: [argv[:1] for _, argv in hosts.processes(
            name)].count(["sleep"]) == 4)
        hosts.stop(stopped.pid)
    hosts.netem("h1", "delay 1ms")
    print(json.dumps({
        "base": hosts.base, "keeper": hosts.keeper.pid,
        "pids": sorted(hosts.pids.values()) + [
            pid for name in hosts.names for pid, _ in hosts.processes(name)],
        "wire": hosts.wires["h1"].pid, "interfaces": output_of(
            hosts, "switch", "ls", "/proc/sys/net/ipv4/conf").split(),
    }), flush=True)
    return hosts


def interfaces():
    return {name for _, name in socket.if_nameindex()}


def left(held):
    """Leftovers of a test that has ended."""
    with open("/proc/self/mounts") as mounts:
        found = [line for line in mounts if held["base"] in line]
    found += [pid for pid in held["pids"] + [held["keeper"], held["wire"]]
              if alive(pid)]
    found += interfaces() & (set(held["interfaces"]) - set(held["before"]))
    return found + [held["base"]] * os.path.exists(held["base"])


def namespaces_of(pids):
    """Namespaces of these processes other than those of the test, each with an
    open descriptor, so that the kernel does not reuse its number."""
    pins = {}
    for path in (f"/proc/{pid}/ns/{kind}" for pid in pids for kind in KINDS):
        pin = os.open(path, os.O_RDONLY)
        status = os.fstat(pin)
        key = status.st_dev, status.st_ino
        if key in pins or key in {namespace("self", kind) for kind in KINDS}:
            os.close(pin)
        else:
            pins[key] = pin
    return pins


def test_end(how):
    """A test that ends in this way leaves nothing."""
    before = sorted(interfaces())
    holder = subprocess.Popen([sys.executable, __file__, CKPTFS, how],
                              stdout=subprocess.PIPE, stdin=subprocess.PIPE,
                              start_new_session=True,
                              stderr=None if how == "closed" else
                              subprocess.DEVNULL)
    line = next(line for line in holder.stdout if line.startswith(b"{"))
    held = {**json.loads(line), "before": before}
    pins = namespaces_of(held["pids"])
    count = len(held["pids"])
    check(count >= 3 + 2 * 6 and all(map(alive, held["pids"])) and
          len(left(held)) == count + 3, f"{how}: there is something to leave",
          held, left(held))
    if how == "killed":
        holder.kill()
    elif how == "killed with all it started":
        os.killpg(holder.pid, signal.SIGKILL)
    elif how == "terminated":
        holder.terminate()
    holder.stdin.close()
    begin = time.monotonic()
    status = holder.wait(timeout=30)
    equal(f"{how}: the test ends so", status,
          {"closed": 0, "an exception": 1,
           "terminated": -signal.SIGTERM}.get(how, -signal.SIGKILL))
    check(until(lambda: not left(held)), f"{how}: nothing is left of it",
          left(held))
    print(f"# after {time.monotonic() - begin:.2f} s")
    equal(f"{how}: nobody is in its namespaces", sorted(inside(pins)), [])
    for pin in pins.values():
        os.close(pin)
    holder.stdout.close()


def test_held(how):
    hosts = hold()
    sys.stdin.read()
    if how == "an exception":
        raise RuntimeError
    hosts.close()
    return 0


# --- distribution of files ---

def dealt(how, metadata, folder, count, seed):
    """The fault of a distribution of files."""
    source = os.path.join(FIXTURES, folder)
    names = deal.files_of(source)
    with tempfile.TemporaryDirectory() as work:
        directories = {f"h{n}": f"{work}/h{n}" for n in range(count)}
        for directory in directories.values():
            os.mkdir(directory)
        who = deal.deal(source, directories, how, seed, metadata)
        for host, directory in directories.items():
            if deal.files_of(directory) != sorted(who[host]):
                return f"{host} lacks the files of its share"
            if filecmp.cmpfiles(source, directory, who[host],
                                shallow=False)[1:] != ([], []):
                return f"{host} has other bytes"
    have = {name: [h for h in who if name in who[h]] for name in names}
    counts = {len(have[name]) for name in names if name != deal.METADATA}
    data = {h for h in who for name in who[h] if name != deal.METADATA}
    with_it = len(have[deal.METADATA])
    if with_it not in {"one": [1], "all": [count],
                       "some": range(1, max(2, count))}[metadata]:
        return f"{with_it} hosts have .metadata"
    if counts != {min(count, 2) if how == "copies" else 1}:
        return f"files are on {counts} hosts"
    if how == "all to one" and len(data) > 1 or \
            how == "one empty" and len(data) == count > 1:
        return f"{data} have data"
    if how == "by rank" and any(have[name] != [
            f"h{int(name.split('_')[2]) % count}"] for name in names
            if name != deal.METADATA):
        return f"{have}"
    return None


def test_deal():
    for how in deal.HOW:
        found = {(metadata, folder, count, seed): problem
                 for metadata in ("one", "some", "all")
                 for folder in ("fsdp1_sharded", "many", "sample")
                 for count in (1, 2, 3, 5) for seed in range(SEED, SEED + 3)
                 for problem in [dealt(how, metadata, folder, count, seed)]
                 if problem}
        check(not found, f"files are dealt: {how}", *found.items())
    source = os.path.join(FIXTURES, "sharded_many")
    with tempfile.TemporaryDirectory() as work:
        deals = []
        for number, seed in enumerate((1, 1, 2, 3, 4)):
            directories = {f"h{n}": f"{work}/{number}/h{n}" for n in range(3)}
            deals.append(deal.deal(source, directories, "random", seed,
                                   "some"))
    check(deals[0] == deals[1] and deals[2:] != [deals[0]] * 3,
          "the seed says how", *deals)


def main():
    if len(sys.argv) > 2:
        return test_held(sys.argv[2])
    why = why_not()
    if why and os.environ.get("CI") != "true":
        print(f"1..0 # SKIP {why}")
        return 0
    check(not why, "hosts can be made", why)
    test_deal()
    if not why:
        with Hosts(3) as hosts:
            for test in (test_names, test_files, test_checkpoint,
                         test_processes, test_mpi, test_counters,
                         test_link, test_netem, test_crash):
                test(hosts)
        for how in ("closed", "killed", "killed with all it started",
                    "terminated", "an exception"):
            test_end(how)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
