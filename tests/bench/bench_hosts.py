# SPDX-License-Identifier: MIT
"""The group hosts of tests/bench/run: mounts of several hosts, which are namespaces of this machine (tests/lib/hosts.py).

    tests/bench/run --program build/mount-helpers/ckptfs --data DIR --only hosts [--span MIB] [--repeat N]

Needs root, Open MPI, and DIR on a filesystem with hard links; one row needs DIR/chunks. --span limits the bytes of the
1 GiB tensor that are streamed, for a short run. Each figure is compared with another one of the same run, measured in
turn: the transfer of MPI between the same hosts (tests/mpi/mpi_pair.c), or a mount of one directory with all shards. Both
have processor seconds per GB: of the reader, and of all processes of the mount on all hosts, without the kernel's own
network processing. The network is a pair of virtual interfaces and all hosts share the processors, so only ratios are
meaningful.
"""
import contextlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

from measure import BIG, COLUMNS, MIB, SMALL

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE.parent / "damage")]
import deal                                                                                 # noqa: E402
import source                                                                               # noqa: E402
from hosts import Hosts, until, why_not                                                     # noqa: E402
from hosts_mount import mounted                                                             # noqa: E402

SIZE, SHARDS = 1 << 30, 8   # of the large tensor: bytes, shards
RANDOM = 2000               # reads of 4 KiB, of all readers together
LOOK, SEARCH = 0.02, 0.25   # seconds: intervals of reading the usage of processes, and of listing them
ASIDE = 64 * MIB            # bytes of a tensor that only one host has
TCP = """
import socket, sys
size, room = int(sys.argv[2]), bytearray(4 << 20)
if sys.argv[1] == "to":
    with socket.create_connection((sys.argv[3], 7777)) as s:
        for _ in range(size // len(room)):
            s.sendall(room)
        s.shutdown(socket.SHUT_WR)
        s.recv(1)
else:
    import time
    with socket.create_server(("", 7777)) as server:
        print(flush=True)
        s, _ = server.accept()
        begun, got = time.monotonic(), 0
        while n := s.recv_into(room):
            got += n
        print(got / (time.monotonic() - begun) / 1e9)
"""


# ---- hosts ----------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def hosts_with(bench, count, source_, how="by rank"):
    """Hosts with the files of a checkpoint. The files are hard links, so that they share their
    page cache."""
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(bench.data)
    try:
        made = Hosts(count)
    finally:
        del os.environ["TMPDIR"]
        if before is not None:
            os.environ["TMPDIR"] = before
    with made as hosts:
        if how == "others":     # the first host has no files
            deal.deal(bench.data / source_, {name: path for name, path in hosts.directories.items() if name != "h1"},
                      "by rank", 1, "all", link=True)
        elif source_:
            deal.deal(bench.data / source_, hosts.directories, how, 1, "all", link=True)
        yield hosts


def mounted_there(bench, hosts, *options):
    return mounted(hosts, bench.program, *bench.options, *options)


def ticks(processes):
    """Processor seconds used by processes."""
    total = 0
    for pid in processes:
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def of_mount(hosts):
    return [pid for name in hosts.names for pid, argv in hosts.processes(name)
            if argv and os.path.basename(argv[0]) == "ckptfs"]


def children_cpu():
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


class Figure:
    """A rate, and seconds of processor for a GB."""

    def __init__(self, gbps, cpu):
        self.gbps, self.cpu = gbps, cpu

    def text(self):
        return f"{self.gbps:.3f} GB/s, {self.cpu:.2f} s/GB"


def read(bench, processes, run, pattern, pieces, *flags):
    """A Figure of one run of the reader. processes() serve it; run(argv) is its output."""
    used, own = ticks(processes()), children_cpu()
    seconds, count = map(float, run([str(bench.reader), pattern, *map(str, flags), *map(str, pieces)]).split())
    used, own = ticks(processes()) - used, children_cpu() - own
    return Figure(count / seconds / 1e9, (used + own) / count * 1e9)


def read_here(bench, pattern, pieces, *flags):
    return read(bench, lambda: [bench.daemon()], lambda argv: subprocess.check_output(argv, text=True), pattern, pieces,
                *flags)


def read_there(bench, hosts, pattern, pieces, *flags):
    """Reads by a program on the first host. The cost of nsenter is negligible."""
    return read(bench, lambda: of_mount(hosts), lambda argv: hosts.run(
        "h1", argv, stdout=subprocess.PIPE, text=True, check=True).stdout, pattern, pieces, *flags)


def in_turn(bench, native, ours):
    """The best figure of each, measured in turn."""
    natives, found = [], []
    for _ in range(bench.repeat):
        bench.settle()
        natives.append(native() if bench.natives else Figure(1, 0))
        found.append(ours())
    return max(natives, key=lambda f: f.gbps), max(found, key=lambda f: f.gbps)


def compare(bench, what, native, ours, floor, target):
    if not bench.wants(what):
        return
    native, ours = in_turn(bench, native, ours)
    bench.row(what, native.text(), ours.text(), ours.gbps / native.gbps, floor, target)


def columns(bench, mnt):
    return [f"{mnt}/full/{COLUMNS}.npy"]


def stream(bench, mnt):
    """Ranges of a file: the whole large tensor, or the beginning of each of its shards."""
    file = f"{mnt}/full/{BIG}.npy"
    if bench.span * MIB >= SIZE:
        return [file]
    return [f"{file}@{i * SIZE // SHARDS}+{bench.span * MIB // SHARDS}" for i in range(SHARDS)]


def fresh_there(bench, hosts, pieces, *flags):
    """Shards are in page cache, files of the mount are not."""
    with mounted_there(bench, hosts) as mnt:
        bench.warm()
        return read_there(bench, hosts, "read", pieces(bench, mnt), *flags)


def fresh_here(bench, pieces, *flags):
    with bench.mounted("big") as mnt:
        bench.warm()
        return read_here(bench, "read", pieces(bench, mnt), *flags)


# ---- ranks of one machine, which share memory -----------------------------------------------------------------------

RANK = 'hostname "$1"; mount --bind "$2" "$3"; shift 3; exec "$@"'     # in its own mount and UTS namespaces


class Ranks:
    """A job of one mpirun. Each rank has its own files; all ranks see the mount of the first
    one."""

    def __init__(self, bench, count, source_):
        self.bench, self.base = bench, pathlib.Path(tempfile.mkdtemp(prefix="ranks", dir=bench.data))
        self.mnt = self.base / "mnt"
        directories = {f"h{i}": str(self.base / f"h{i}") for i in range(count)}
        for path in (self.mnt, *directories.values()):
            pathlib.Path(path).mkdir()
        deal.deal(bench.data / source_, directories, "by rank", 1, "all", link=True)
        serve = [bench.program, "serve", *(["-o", ",".join(bench.options)] if bench.options else [])]
        first = directories.pop("h0")
        self.ranks = [[*serve, "--mount", self.mnt, first]]
        self.ranks += [["unshare", "--mount", "--uts", "sh", "-c", RANK, "sh", name, path, first, *serve, first]
                       for name, path in directories.items()]

    def mpirun(self, *commands):
        argv = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        for i, command in enumerate(commands):
            argv += [":"] * (i > 0) + ["-n", "1", *map(str, command)]
        return argv

    def processes(self):
        return [int(found.parent.name) for found in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                if str(self.base).encode() in contents(found) and contents(found).startswith(bytes(self.bench.program))]

    @contextlib.contextmanager
    def mounted(self):
        with subprocess.Popen(self.mpirun(*self.ranks), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as job:
            said = iter(job.stderr.readline, "")
            if not any("mounted" in line for line in said):
                raise RuntimeError("the ranks have no mount")
            try:
                yield self.mnt
            finally:
                job.terminate()
                job.communicate()

    def read(self, pieces, *flags):
        """Reads by a program on the machine of the mount, without cached pages of the
        mount."""
        with self.mounted() as mnt:
            self.bench.warm()
            return read(self.bench, self.processes, lambda argv: subprocess.check_output(argv, text=True), "read",
                        pieces(self.bench, mnt), *flags)


def contents(path):
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


@contextlib.contextmanager
def ranks_with(bench, count, source_):
    ranks = Ranks(bench, count, source_)
    try:
        yield ranks
    finally:
        shutil.rmtree(ranks.base)


def four_ranks(bench):
    """The two reads of group_hosts, without a network."""
    with ranks_with(bench, 4, "big") as ranks:
        alone = ["env", "OMPI_MCA_btl_vader_single_copy_mechanism=none", pair_of(bench), min(bench.span, 512)]
        moved = ranks.mpirun(*[alone] * 4)
        compare(bench, "4 ranks of one machine, O_DIRECT; MPI or memcpy",
                lambda: native_of(json.loads(subprocess.check_output(moved)), True), lambda: ranks.read(stream, "-d"),
                None, None)
        compare(bench, "4 ranks of one machine, first read; O_DIRECT of all shards here",
                lambda: fresh_here(bench, stream, "-d"), lambda: ranks.read(stream), 0.5, 0.6)
        compare(bench, "4 ranks of one machine, first read; a first read of all shards here",
                lambda: fresh_here(bench, stream), lambda: ranks.read(stream), None, None)


# ---- native transfers -------------------------------------------------------------------------------------------------

def pair_of(bench):
    return bench.reader.parent.parent / "mpi/mpi_pair"


def mpi(bench, hosts):
    """The output of mpi_pair, with a rank on each host."""
    done = hosts.run("h1", ["mpirun", *hosts.mpi, "--mca", "mpi_yield_when_idle", "1", "-H", ",".join(hosts.names),
                            "-n", str(len(hosts.names)), str(pair_of(bench)),
                            str(min(bench.span, 512))], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def native_of(found, limit=False):
    """limit: also limits the rate to that of memcpy."""
    return Figure(min(found["gbps"], found["memcpy"]) if limit else found["gbps"], found["cpu"])


def tcp(bench, hosts):
    """GB/s of one connection from the second host to the first."""
    size = str(min(bench.span, 512) * MIB)
    server = hosts.popen("h1", [sys.executable, "-c", TCP, "from", size], stdout=subprocess.PIPE, text=True)
    server.stdout.readline()
    hosts.run("h2", [sys.executable, "-c", TCP, "to", size, hosts.addresses["h1"]], check=True)
    return float(server.communicate()[0])


# ---- rows -----------------------------------------------------------------------------------------------------------

def cat(bench, hosts, path):
    """Seconds and processor seconds of `ckptfs cat` to /dev/null, with all processes that it
    starts on the hosts."""
    argv = [str(bench.program), "cat", "--hosts", ",".join(hosts.names), "-o", f"agent={hosts.agent},net=10.77.0.0/24",
            hosts.src, path]
    used, start = {}, time.monotonic()
    searched = start
    with hosts.popen("h1", argv, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as child:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(LOOK)
                break
            if time.monotonic() > searched + SEARCH:
                searched = time.monotonic()
                used |= dict.fromkeys(of_mount(hosts), 0)
            used = {pid: max(before, ticks([pid])) for pid, before in used.items()}
    if child.returncode:
        raise RuntimeError(f"{argv}: {child.returncode}")
    return time.monotonic() - start, sum(used.values())


def rate_of_cat(bench, hosts, start):
    """The figure of a large tensor, minus that of a small one, which is the time to start the
    hosts."""
    bench.warm()
    seconds, used = (all_ - least for all_, least in zip(cat(bench, hosts, f"full/{BIG}.npy"), start))
    return Figure(SIZE / seconds / 1e9, used / SIZE * 1e9)


def cats(bench, hosts):
    start = min(cat(bench, hosts, f"full/{SMALL}.npy") for _ in range(2 * bench.repeat))
    compare(bench, "4 hosts, ckptfs cat of 1 GiB; MPI or memcpy", lambda: native_of(mpi(bench, hosts), True),
            lambda: rate_of_cat(bench, hosts, start), 0.7, 0.85)


def four_hosts(bench):
    with hosts_with(bench, 4, "big") as hosts:
        cats(bench, hosts)
        compare(bench, "4 hosts, first read; O_DIRECT of all shards here", lambda: fresh_here(bench, stream, "-d"),
                lambda: fresh_there(bench, hosts, stream), 0.5, 0.6)
        hot(bench, hosts)


def hot(bench, hosts):
    with bench.mounted("big") as here, mounted_there(bench, hosts) as there:
        here, there = stream(bench, here), stream(bench, there)
        read_here(bench, "read", here)
        read_there(bench, hosts, "read", there)
        compare(bench, "4 hosts, hot re-read; a mount of all shards here", lambda: read_here(bench, "read", here),
                lambda: read_there(bench, hosts, "read", there), 0.95, 1)


def two_hosts(bench):
    with hosts_with(bench, 2, "big", "others") as hosts:
        raw = max(tcp(bench, hosts) for _ in range(bench.repeat)) if bench.natives else None
        beside = f" (raw TCP: {raw:.2f} GB/s)" if raw else ""
        compare(bench, f"2 hosts, one stream; MPI{beside}", lambda: native_of(mpi(bench, hosts)),
                lambda: fresh_there(bench, hosts, stream), 0.7, 0.85)
        for readers in (1, 16):
            at_random(bench, hosts, readers)


def at_random(bench, hosts, readers):
    """Microseconds of a read. With 16 readers: the total time divided by all reads."""
    trips, ours = [], []
    with mounted_there(bench, hosts) as mnt:
        for _ in range(bench.repeat):
            bench.settle()
            trips.append(mpi(bench, hosts)["usec"] if bench.natives else 1)
            figure = read_there(bench, hosts, "random", [f"{mnt}/full/{BIG}.npy"], "-d", "-b", 4096, "-t", readers, "-n",
                                RANDOM // readers)
            ours.append((4096 / figure.gbps / 1e3, figure.cpu))
    usec, cpu = min(ours)
    latency = "" if readers == 1 else f", {usec * readers:.0f} us each"
    bench.row(f"2 hosts, 4 KiB at random, {readers} x; round trips of MPI", f"{min(trips):.1f} us",
              f"{usec:.1f} us{latency}, {cpu * 4.096:.1f} us of processor", usec / min(trips), 4, 2.5, True)


def gather(bench):
    with hosts_with(bench, 8, "big") as hosts:
        compare(bench, "gather, rows of 1 KiB, 8 hosts; all shards here", lambda: fresh_here(bench, columns),
                lambda: fresh_there(bench, hosts, columns), 0.3, 0.5)


def seconds_of(call):
    start = time.monotonic()
    call()
    return time.monotonic() - start


def seconds_to_mount(bench, hosts):
    """The time until a lookup succeeds."""
    start = time.monotonic()
    with mounted_there(bench, hosts) as mnt:
        hosts.run("h1", ["ls", f"{mnt}/full"], stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - start


def mount_here(bench, name):
    start = time.monotonic()
    with bench.mounted(name) as mnt:
        subprocess.run(["ls", mnt / "full"], stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - start


def mounting(bench):
    with hosts_with(bench, 3, "big") as hosts:
        empty = min(seconds_of(lambda: hosts.run(
            "h1", ["mpirun", *hosts.mpi, "-H", ",".join(hosts.names), "true"], check=True)) for _ in range(bench.repeat))
        ours = min(seconds_to_mount(bench, hosts) for _ in range(bench.repeat))
    bench.row("mount of 3 hosts (s); mpirun of an empty job", f"{empty:.2f} s", f"{ours:.2f} s", ours, 3, 1.5, True)


def mounting_chunks(bench):
    what = "mount of 1,024,000 chunks over 3 hosts, more than on one (s)"
    if not (bench.data / "chunks/.metadata").exists():
        return bench.skip(what, f"{bench.data / 'chunks'} is not there, see make_big.py")
    with hosts_with(bench, 3, "chunks") as hosts:
        here, there = [], []
        for _ in range(bench.repeat):
            bench.settle()
            here.append(mount_here(bench, "chunks") if bench.natives else 0)
            there.append(seconds_to_mount(bench, hosts))
    bench.row(what, f"{min(here):.2f} s", f"{min(there):.2f} s", min(there) - min(here), 1, 0.5, True)


def aside(hosts):
    """A checkpoint with one tensor for each host, without replicas."""
    checkpoint = source.Checkpoint()
    checkpoint.items, checkpoint.entries, shape = {}, {}, (ASIDE // 4,)
    for i, name in enumerate(hosts.names):
        checkpoint.items[name, (0,)] = [f"__{i}_0.distcp", source.item(shape, bytes(ASIDE))]
        checkpoint.entries[name] = source.d.tensor(shape, [((0,), shape)])
    checkpoint.write(f"{hosts.base}/whole")
    deal.deal(f"{hosts.base}/whole", hosts.directories, "by rank", 1, "all", link=True)


def others_of_lost(bench):
    """Reads from one host while another one is stopped or unplugged, from the first moment
    until it is detected as down."""
    with hosts_with(bench, 3, None) as hosts:
        aside(hosts)
        for what, lose, find in (("stopped", hosts.stop, hosts.cont), ("cut off", None, None)):
            with mounted_there(bench, hosts, "rejoin=off") as mnt:
                before, during = lost(bench, hosts, mnt, lose, find)
            bench.row(f"reads of others while a host is {what}, x slower", before.text(), during.text(),
                      before.gbps / during.gbps, 2, 1, True)


def lost(bench, hosts, mnt, lose, find):
    def reading():
        return read_there(bench, hosts, "random", [f"{mnt}/raw/h3"], "-d", "-b", 65536, "-n", RANDOM // 4)

    def lose_it(act, state):
        if act is None:
            hosts.link("h2", state)
        else:
            for pid in pids:
                act(pid)
    pids = hosts.programs("h2", "ckptfs", "serve")
    reading()
    before = together(reading() for _ in range(bench.repeat))
    lose_it(lose, "down")
    begun, during = time.monotonic(), []
    waiting = hosts.popen("h1", ["cat", f"{mnt}/raw/h2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(during) < bench.repeat or time.monotonic() < begun + 7:
        during.append(reading())
    lose_it(find, "up")
    if waiting.wait() == 0 or not until(lambda: hosts.read("h1", f"{mnt}/raw/h2")[0] > 0, 20):
        raise RuntimeError("the host was not lost, or is not back")
    return before, together(during)


def together(figures):
    """The figure of several runs of equal size: a run that had to wait counts."""
    figures = list(figures)
    return Figure(len(figures) / sum(1 / f.gbps for f in figures), sum(f.cpu for f in figures) / len(figures))


PARTS = four_hosts, four_ranks, two_hosts, gather, mounting, mounting_chunks, others_of_lost


def is_possible(bench):
    why = why_not() or (None if pair_of(bench).exists() else "mpi_pair is not built, there is no MPI")
    if why:
        bench.skip("several hosts", why)
        return False
    bench.read("read", bench.boxes("big", BIG) + bench.boxes("big", COLUMNS))
    return True


def group_hosts(bench):
    if is_possible(bench):
        for rows in PARTS:
            rows(bench)
