#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a mount in a host shows, of hosts.py.

    seen_in(hosts, "h1", hosts.mnt)     as two_trees.seen(), to programs of that host
"""
import pickle
import subprocess
import sys

import two_trees


def seen_in(hosts, host, mount):
    done = hosts.run(host, [sys.executable, "-B", __file__, mount], stdout=subprocess.PIPE, check=True)
    return pickle.loads(done.stdout)


if __name__ == "__main__":
    pickle.dump(two_trees.seen(sys.argv[1]), sys.stdout.buffer)
