#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The processes of a mount keep their promised memory limits for any amount of reads, also while
a host is stopped: 200 MiB and `cache` on the mounting host, 100 MiB and `ownermem` on each
other host. Prints TAP.

    memory.py CKPTFS

CKPTFS_GIB: amount of reads (2; in the long run 64).
"""
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, name) for name in ("../lib", "../damage")]
import source  # noqa: E402
from hosts import Hosts, skipped  # noqa: E402
from hosts_mount import mounted  # noqa: E402
from process_memory import Watch, mib_of  # noqa: E402
from tap import Tap  # noqa: E402

GIB = float(os.environ.get("CKPTFS_GIB") or 2)
TENSOR = 128 << 20          # bytes of a tensor, all on one host
CATALOG = 1                 # MiB: an upper limit for a catalog of so few tensors
OWNER, OWNERMEM, HERE_TOO = 100, 256, 200
STREAMS = 6                 # files read at the same time
SECONDS = 7                 # minimum stop of a host, which is down after 5
# The bytes go through pipes: they are counted, and not stored.
READ = 'for f; do dd if="$f" bs=1M iflag=%s 2>/dev/null; done | wc -c'
tap = Tap()


def cache():
    """The default of `cache`, in MiB."""
    with open("/proc/meminfo") as f:
        total = int(f.readline().split()[1])
    return min(1024, total // 1024 // 16)


# --- a checkpoint of holes --------------------------------------------------------------------

def item():
    """The bytes of an item before and after the data of a tensor of zeros."""
    whole = source.item((TENSOR // 4,), bytes(TENSOR))
    begin = whole.index(bytes(1 << 20))
    return whole[:begin], whole[begin + TENSOR:]


def hole(f, before, behind):
    """Writes an item whose data are a hole."""
    start = f.tell()
    f.write(before)
    f.seek(TENSOR, os.SEEK_CUR)
    f.write(behind)
    return start, f.tell() - start


def write(hosts):
    """Puts each tensor on one host; returns the names on each host."""
    names, entries, rows = {host: [] for host in hosts.names}, {}, {}
    before, behind = item()
    count = max(int(GIB * (1 << 30)) // TENSOR, 2 * STREAMS)
    files = [open(f"{path}/__{i}_0.distcp", "wb")
             for i, path in enumerate(hosts.directories.values())]
    for n in range(count):
        name, i = f"t{n}", n % len(files)
        start, length = hole(files[i], before, behind)
        entries[name] = source.d.tensor((TENSOR // 4,), [((0,), (TENSOR // 4,))])
        rows[source.d.index(name, (0,))] = source.d.info(f"__{i}_0.distcp", start, length)
        names[hosts.names[i]].append(name)
    for f in files:
        f.close()
    with open(f"{hosts.directory('h1')}/.metadata", "wb") as f:
        f.write(source.pickle.dumps(source.d.checkpoint(entries, rows), 4))
    return names


# --- memory ---------------------------------------------------------------------------------------

def processes(hosts):
    """The FUSE daemon with its worker process, and the file server of each other host."""
    here = [pid for pid, argv in hosts.processes("h1")
            if argv and os.path.basename(argv[0]) == "ckptfs"]
    return {"h1": here, **{host: hosts.programs(host, "ckptfs", "serve")
                           for host in hosts.names[1:]}}


def check_most(what, watch, looks):
    most = watch.end()
    bounds = {host: OWNER + OWNERMEM for host in most}
    bounds["h1"] = HERE_TOO + cache() + CATALOG
    tap.check(all(most[host] <= bounds[host] for host in most),
              f"{what}: no more memory than is promised", most, bounds)
    tap.check(watch.looks >= looks and all(most.values()),
              f"{what}: canary: all were looked at", watch.looks, most)
    print("# MiB: " + ", ".join(f"{host} {most[host]:.0f} of {bounds[host]}"
                                for host in most))


def start(hosts, names, flag):
    """Starts a program that reads these tensors one after the other."""
    return hosts.popen("h1", ["sh", "-c", READ % flag, "sh",
                              *(f"{hosts.mnt}/raw/{name}" for name in names)],
                       stdout=subprocess.PIPE, text=True)


def streams(hosts, names):
    """Starts STREAMS programs; every second one bypasses the page cache."""
    return [start(hosts, names[i::STREAMS], ("fullblock", "direct")[i % 2])
            for i in range(STREAMS)]


def total(children):
    return sum(int(child.communicate()[0]) for child in children)


def test_canary():
    """Canary: 64 MiB of private and 64 MiB of shared memory count, mapped files do not."""
    code = "import mmap, sys\n" \
        "own = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n" \
        "both = mmap.mmap(-1, 64 << 20)\n" \
        "f = open(sys.argv[1], 'rb')\n" \
        "file = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n" \
        "own[::4096] = both[::4096] = bytes(16 << 10)\n" \
        "sum(file[::4096])\n" \
        "import os\n" \
        "pid = os.fork()\n" \
        "both[::4096] = bytes(16 << 10)\n" \
        "if pid == 0:\n\tsys.stdin.read(1)\n\tos._exit(0)\n" \
        "print(pid, flush=True)\n" \
        "sys.stdin.read(1)\n"
    path = f"{os.environ.get('TMPDIR', '/tmp')}/ckptfs-memory.{os.getpid()}"
    with open(path, "wb") as f:
        f.truncate(96 << 20)
    try:
        with subprocess.Popen([sys.executable, "-c", code, path], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            child_of_it = int(child.stdout.readline())
            found = mib_of([child.pid, child_of_it])
            child.stdin.close()
    finally:
        os.unlink(path)
    tap.check(128 <= found < 128 + 40, "canary: pages are counted once, files are not",
              found)


def test_streams(hosts, names):
    every = [name for rank in zip(*names.values()) for name in rank]
    watch = Watch(lambda: processes(hosts))
    begun = time.monotonic()
    read = total(streams(hosts, every))
    tap.check(read == len(every) * TENSOR, "all that was asked for was read", read)
    print(f"# {read >> 20} MiB at {read / (time.monotonic() - begun) / 1e9:.2f} GB/s")
    check_most("much is read", watch, 10)


def test_stopped(hosts, names):
    """While a host is stopped, tensors of the others are read, and its own are waited for."""
    watch = Watch(lambda: processes(hosts))
    pids, begun = processes(hosts)["h2"], time.monotonic()
    for pid in pids:
        hosts.stop(pid)
    waiting = streams(hosts, names["h2"])
    others = streams(hosts, names["h1"][:STREAMS] + names["h3"][:STREAMS])
    read = total(others)
    time.sleep(max(begun + SECONDS - time.monotonic(), 0))
    check_most("a host is stopped", watch, 10)
    for pid in pids:
        hosts.cont(pid)
    tap.check(read > 0, "what others have was read", read)
    waited = total(waiting)
    print(f"# {read >> 20} MiB of others, {waited >> 20} of the one that was stopped")


def main():
    if skipped():
        return 0
    test_canary()
    with Hosts(3) as hosts:
        names = write(hosts)
        with mounted(hosts, CKPTFS, "rejoin=off"):
            test_streams(hosts, names)
            test_stopped(hosts, names)
    return tap.finish()


CKPTFS = os.path.realpath(sys.argv[1])
sys.exit(main())
