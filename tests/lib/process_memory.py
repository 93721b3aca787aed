# SPDX-License-Identifier: MIT
"""How much memory processes have together: anonymous and shared, each page once. Pages of
files that are mapped do not count.

    watch = Watch(lambda: {"mount": [pid, pid], "owner": [pid]})
    ...
    watch.end()["mount"]        # the most there was, in MiB
"""
import re
import threading
import time

PERIOD = 0.03


def mib_of(pids):
    """A page that n processes have is a part of n in each (Pss)."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as f:
                text = f.read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(map(int, re.findall(r"^Pss_(?:Anon|Shmem): +(\d+) kB", text, re.M)))
    return total / 1024


class Watch:
    """pids(): the processes of now, by name."""

    def __init__(self, pids):
        self.pids, self.most, self.looks = pids, {}, 0
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ending.is_set():
            for name, pids in self.pids().items():
                self.most[name] = max(self.most.get(name, 0), mib_of(pids))
            self.looks += 1
            time.sleep(PERIOD)

    def end(self):
        self.ending.set()
        self.thread.join()
        return self.most
