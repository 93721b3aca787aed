# SPDX-License-Identifier: MIT
"""S-P5: what each run of the program may take for a checkpoint of so many
bytes: 64 MiB and 40 bytes for each byte, 1 s and 200 ns for each byte.

Memory is the largest resident size, time is processor time: neither grows
because other things run on the machine. The kernel ends what takes far more.
"""
import os
import subprocess

BOUNDED = os.environ.get("BOUNDED_BIN", "bounded")
MIB = 1 << 20
HARD_CPU, HARD_DATA = 30, 4096	# seconds, MiB with the stacks of threads


def sanitized(program):
    """Shadow memory and checks have no bound."""
    with open(program, "rb") as f:
        text = f.read()
    return any(name in text for name in (b"__asan_init", b"__tsan_init"))


def size_of(path):
    """Bytes of the regular files of a checkpoint."""
    return sum(os.lstat(os.path.join(root, name)).st_size
               for root, _, names in os.walk(path) for name in names
               if os.path.isfile(os.path.join(root, name)))


class Usage:
    def __init__(self, what, memory, seconds):
        self.what, self.memory, self.seconds = what, memory, seconds

    def over(self, size, memory=64 * MIB, seconds=1):
        """Problems, if this is too much for a checkpoint of `size` bytes."""
        if self.memory > memory + 40 * size:
            yield f"{self.what}: {self.memory} bytes of memory for {size}"
        if self.seconds > seconds + 200e-9 * size:
            yield f"{self.what}: {self.seconds} s for {size} bytes"


class Meter:
    """Runs programs and keeps what each took."""

    def __init__(self, work, program):
        self.file = work + "/usage"
        self.data = 0 if sanitized(program) else HARD_DATA
        self.usages = []

    def run(self, program, *args):
        got = subprocess.run(
            [BOUNDED, self.file, str(HARD_CPU), str(self.data), program,
             *args], capture_output=True, text=True,
            errors="surrogateescape", timeout=120)
        with open(self.file) as f:
            kib, usec = f.read().splitlines()[-1].split()
        self.usages.append(Usage(args[0], int(kib) << 10, int(usec) / 1e6))
        return got

    def daemon(self, pid):
        """A daemon has no one who waits for it: asked while it lives."""
        with open(f"/proc/{pid}/status") as f:
            kib = next(line.split()[1] for line in f
                       if line.startswith("VmHWM:"))
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        self.usages.append(Usage("daemon", int(kib) << 10,
                                 ticks / os.sysconf("SC_CLK_TCK")))

    def take(self):
        taken, self.usages = self.usages, []
        return taken
