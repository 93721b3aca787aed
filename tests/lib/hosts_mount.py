# SPDX-License-Identifier: MIT
"""A mount of all hosts of hosts.py on the first one, for what is inside a block.

    with mounted(hosts, CKPTFS, "timeout=5"): ...
"""
import contextlib
import subprocess

from hosts import until

NET = "net=10.77.0.0/24"


@contextlib.contextmanager
def mounted(hosts, program, *options):
    first = hosts.names[0]
    done = hosts.run(first, [
        program, "mount", "--hosts", ",".join(hosts.names), "-o",
        ",".join((f"agent={hosts.agent}", NET, *options)), hosts.src, hosts.mnt],
        stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"mount: {done.stderr}")
    try:
        yield hosts.mnt
    finally:
        done = hosts.run(first, [program, "umount", hosts.mnt], capture_output=True,
                         text=True)
    if done.returncode:
        raise RuntimeError(f"umount: {done.stderr}")


def report(hosts, name):
    """The text of one of its reports."""
    return hosts.run(hosts.names[0], ["cat", f"{hosts.mnt}/.ckptfs/{name}"],
                     stdout=subprocess.PIPE, text=True, check=True).stdout


def measured(hosts):
    """Waits until each way was: from then on nothing moves that nobody reads."""
    def known():
        rows = [row.split(",") for row in report(hosts, "paths").splitlines()[1:]]
        return len(rows) == len(hosts.names) and \
            all(len(row) == 5 and row[2] for row in rows)
    return until(known)
