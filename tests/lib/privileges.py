# SPDX-License-Identifier: MIT
"""What the threads of processes of root may, as /proc has it."""
import os
import re
import subprocess

FIELDS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
READ = 1 << 2           # CAP_DAC_READ_SEARCH


def threads(pid):
    """{number of a thread: its values of FIELDS}, without those that end meanwhile."""
    found = {}
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        try:
            with open(f"/proc/{pid}/task/{thread}/status") as status:
                text = status.read()
        except OSError:
            continue
        found[thread] = tuple(int(re.search(rf"^{field}:\s*(\w+)$", text, re.M)[1], 16)
                              for field in FIELDS)
    return found


def of_reader(program):
    """What each thread has of a process that has given up all that is not for reading. A
    build with sanitizers has no filter for system calls."""
    libraries = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True,
                               check=True).stdout
    filtered = not re.search(r"lib[a-z]*san\.", libraries)
    return (0, READ, READ, READ, 0, 1, 2 if filtered else 0)
