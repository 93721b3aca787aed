# SPDX-License-Identifier: MIT
"""A tensor of an offer in PyTorch, beside the same that PyTorch and safetensors load.

    with_torch.py unix:SOCKET#PATH BYTES-OF-IT
"""
import json
import os
import struct
import sys
import time

import torch

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../../mount-helpers/python")]
import ckptfs_gpu  # noqa: E402
from lines import Lines, gbps, rounded  # noqa: E402

DEVICE = "cuda:0"


class Ours:
    """The tensor of a path, exported again each time."""
    def __init__(self, path):
        self.path, self.had = path, None

    def __call__(self):
        self.had = ckptfs_gpu.open(self.path)
        return torch.from_dlpack(self.had)

    def end(self):
        self.had.close()


def best(what, end=lambda: None, times=3):
    """The least time in seconds. The result is released after each call; the first call includes
    setup."""
    least = None
    for _ in range(times):
        begun = time.monotonic()
        tensor = what()
        torch.cuda.synchronize()
        took = time.monotonic() - begun
        least = took if least is None else min(least, took)
        del tensor
        end()
        time.sleep(0.2)  # until the worker has freed the memory, too
    return least


def merged(data, shape, place):
    """The same as one file of safetensors."""
    head = json.dumps({"t0": {"dtype": "I64", "shape": list(shape),
                              "data_offsets": [0, len(data)]}}).encode()
    head += b" " * (-len(head) % 8)
    with open(place, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        file.write(data)


def main():
    path, name = sys.argv[1:3]
    lines = Lines()
    with open(name, "rb") as file:
        data = file.read()
    ours = Ours(path)
    tensor = ours()
    want = torch.frombuffer(bytearray(data), dtype=torch.int64).reshape(tensor.shape)
    shape, nbytes = tuple(tensor.shape), len(data)
    lines.say("torch_equal", tensor.is_cuda and torch.equal(tensor.cpu(), want), bytes=nbytes,
              torch=torch.__version__)
    del tensor
    ours.end()
    took = best(ours, ours.end)
    torch.save(want, name + ".pt")
    load = best(lambda: torch.load(name + ".pt", map_location=DEVICE))
    lines.figure("torch_load", bytes=nbytes, gbps=gbps(nbytes, took), ref="torch.load to the device",
                 ref_gbps=gbps(nbytes, load), ratio=rounded(load / took))
    try:
        from safetensors import safe_open
    except ImportError:
        lines.missing("torch_safe_open", "no safetensors")
        return
    merged(data, shape, name + ".safetensors")

    def by_safetensors():
        with safe_open(name + ".safetensors", "pt", device=DEVICE) as file:
            return file.get_tensor("t0")
    other = best(by_safetensors)
    lines.figure("torch_safe_open", 1.5, 2, bytes=nbytes, gbps=gbps(nbytes, took),
                 ref="safe_open on the device, of the merged file", ref_gbps=gbps(nbytes, other),
                 ratio=rounded(other / took))


if __name__ == "__main__":
    main()
