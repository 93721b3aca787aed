# SPDX-License-Identifier: MIT
"""Runs fsx, fio and stress-ng: programs with one exit status for each way of use."""
import subprocess

from image import Trouble
from outcome import excluded

SECONDS = 1800              # for one way, or
RATE = 100                  # operations of fsx and fsstress in a second: a slower way hangs

# Each way of fsx: buffered and mapped calls are mixed without -R and -W.
BLOCKS = "-R -W -r 4096 -w 4096 -t 4096"
FSX = {
    "buffered": "-R -W",
    "mapped": "",
    "direct": f"-Z {BLOCKS}",
    "aio": "-A -R -W",
    "aio-direct": f"-A -Z {BLOCKS}",
    "io_uring": "-U -R -W",
    "io_uring-direct": f"-U -Z {BLOCKS}",
}

# Each way of fio: engine, direct, kind of writes.
FIO = {f"{engine}-{'direct' if direct else 'buffered'}-{kind}": (engine, direct, kind)
       for engine in ("psync", "libaio", "io_uring", "mmap")
       for direct in ((0, 1) if engine != "mmap" else (0,))
       for kind in ("write", "randwrite", "rw", "randrw")}
# Blocks of several sizes with CRC-32C.
FIO_BLOCKS = ["--bsrange=4k-64k", "--bs_unaligned=0", "--iodepth=8", "--verify=crc32c", "--verify_fatal=1"]

# Stressors that use --temp-path, each with the number of its operations.
STRESS = {
    "access": 200, "aio": 2000, "aiol": 200, "chattr": 50, "chdir": 50, "chmod": 500, "chown": 500, "copy-file": 20,
    "dentry": 4000, "dir": 2000, "dirdeep": 500, "dirmany": 2000, "dnotify": 50, "fallocate": 50, "fcntl": 2000,
    "fiemap": 500, "file-ioctl": 500, "filename": 500, "flock": 2000, "fpunch": 2, "fsize": 50, "fstat": 2000,
    "getdent": 500, "handle": 500, "hdd": 500, "inode-flags": 100, "inotify": 50, "io": 200, "iomix": 2000,
    "lease": 2000, "link": 50, "locka": 2000, "lockf": 2000, "lockofd": 2000, "mknod": 200,
    "mmap": 50, "open": 2000, "rename": 2000, "readahead": 2000, "revio": 500, "seek": 2000,
    "sendfile": 500, "splice": 500, "symlink": 100, "sync-file": 200, "touch": 1000, "utime": 1000, "verity": 20,
    "xattr": 200,
}
# The size option of a stressor, where the default is large.
SIZES = {
    "copy-file": "--copy-file-bytes 128m", "fallocate": "--fallocate-bytes 16m", "fiemap": "--fiemap-bytes 16m",
    "hdd": "--hdd-bytes 16m", "iomix": "--iomix-bytes 16m", "mmap": "--mmap-bytes 16m", "readahead": "--readahead-bytes 16m",
    "revio": "--revio-bytes 16m", "seek": "--seek-size 16m", "sync-file": "--sync-file-bytes 16m",
}


def tried(place, way, command):
    """(exit status, output) of a command in the suite's directory; the output is kept in a log."""
    seconds = max(SECONDS, place.operations // RATE)
    try:
        done = subprocess.run([str(word) for word in command], cwd=place.area, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, check=False)
        status, text = done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as e:
        status, text = -1, (e.stdout or b"").decode(errors="replace") + f"\ntook longer than {seconds} s"
    (place.logs / f"{way}.log").write_text(" ".join(map(str, command)) + "\n" + text)
    return status, text


def first(text, *words):
    """The first line with one of these words, or the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no output"]
    return next((line for line in lines if any(word in line.lower() for word in words)), lines[-1])[:500]


def spoil(path, at):
    """Changes one byte of a file."""
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


def fsx(place, way):
    """(kind of result, its line)"""
    command = [place.built / "ltp/fsx", *FSX[way].split(), "-q", "-S", place.seed, "-N", place.operations,
               "-P", place.logs, place.area / f"fsx-{way}"]
    status, text = tried(place, way, command)
    if "syscall not supported" in text or "not compiled" in text:
        return "not run", first(text, "not ")
    return ("ok", "") if status == 0 else ("not ok", first(text, "bad", "error", "mismatch", ": "))


def fio(place, way):
    engine, direct, kind = FIO[way]
    command = ["fio", f"--name={way}", f"--directory={place.area}", f"--ioengine={engine}", f"--direct={direct}",
               f"--rw={kind}", *FIO_BLOCKS, "--size=64m", "--numjobs=2", f"--randseed={place.seed}",
               "--group_reporting", "--unlink=1"]
    status, text = tried(place, way, command)
    return ("ok", "") if status == 0 else ("not ok", first(text, "verify", "error", "fio:"))


def stress(place, way):
    command = ["stress-ng", f"--{way}", "2", f"--{way}-ops", STRESS[way], "--temp-path", place.area, "--verify",
               "--timeout", "20", "--seed", place.seed, *SIZES.get(way, "").split()]
    status, text = tried(place, way, command)
    if status in (3, 4):
        return "not run", first(text, "skip", "not ")
    return ("ok", "") if status == 0 else ("not ok", first(text, "fail", "error"))


SUITES = {"fsx": (FSX, fsx), "fio": (FIO, fio), "stress-ng": (STRESS, stress)}


def chosen(place, outcome, ways):
    """The ways to run. Those in excluded.txt count as not run."""
    skipped = excluded(place.name)
    if unknown := set(place.tests) - set(ways):
        raise Trouble(f"no such way: {' '.join(sorted(unknown))}; there are: {' '.join(ways)}")
    wanted = list(place.tests or ways)
    for way in wanted:
        if way in skipped:
            outcome.not_run(way, skipped[way])
    return [way for way in wanted if way not in skipped]


def run(place, outcome):
    ways, function = SUITES[place.name]
    wanted = chosen(place, outcome, ways)
    place.mount()
    for way in wanted:
        kind, line = function(place, way)
        if kind == "not ok":
            outcome.failed(way, line)
        elif kind == "not run":
            outcome.not_run(way, line)
        else:
            outcome.add(kind)
