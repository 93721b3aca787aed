# SPDX-License-Identifier: MIT
"""Saves with torch.distributed.checkpoint, once for each request.

    dcp_save.py ORDERS ANSWERS      open descriptors

An order is a line "PATH TENSORS COLUMNS SEED". Each is carried out by a child,
which may be killed; the answer is "saved STATUS".
"""
import os
import signal
import sys
import warnings

warnings.filterwarnings("ignore")


def save(path, tensors, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    state = {f"t{n}": torch.rand((4, columns + n), generator=generator)
             for n in range(tensors)}
    dcp.save(state, checkpoint_id=path)


def child_status(words):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            save(words[0], *map(int, words[1:]))
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    orders, answers = open(int(sys.argv[1])), open(int(sys.argv[2]), "w")
    print("ready", file=answers, flush=True)
    for line in orders:
        print("saved", child_status(line.split()), file=answers, flush=True)


import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402

main()
