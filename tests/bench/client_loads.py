# SPDX-License-Identifier: MIT
"""Loads a checkpoint by the Python package and by others in one process, and prints JSON. Used by tests/bench/bench_client.py.

    client_loads.py WAY SOURCE TIMES [NAME]

WAY is one of those below. Each prints a list of TIMES rows of seconds, a row a round of all ways that are compared, in turn.
Destinations are allocated and touched before the clock starts, and all have the same memory, but slices. CKPTFS_PACKAGE is the directory of the
package.
"""
import concurrent.futures
import json
import os
import pathlib
import sys
import time
import warnings

sys.path.insert(0, os.environ["CKPTFS_PACKAGE"])
warnings.simplefilter("ignore")
PIECE = 8 << 20
ROWS = 64


def clock(function, *words, **more):
    start = time.monotonic()
    function(*words, **more)
    return time.monotonic() - start


def rounds(times, *ways):
    """Seconds of each way; the first of a round changes."""
    for way in ways:
        way()
    found = []
    for number in range(times):
        order = list(range(len(ways)))
        order = order[number % len(ways):] + order[:number % len(ways)]
        row = dict((i, clock(ways[i])) for i in order)
        found.append([row[i] for i in range(len(ways))])
    return found


def touched(reader):
    import torch
    entries = reader.read_metadata().state_dict_metadata
    return {name: torch.empty(entry.size, dtype=entry.properties.dtype).fill_(0) for name, entry in entries.items()
            if hasattr(entry, "size")}


def loading(state, reader):
    import torch.distributed.checkpoint as dcp
    return lambda: dcp.load(state, storage_reader=reader, no_dist=True)


def way_dcp(source, times):
    """dcp.load by FileSystemReader, and by StorageReader."""
    import ckptfs
    import torch.distributed.checkpoint as dcp
    state = touched(dcp.FileSystemReader(source))
    return rounds(times, loading(state, dcp.FileSystemReader(source)), loading(state, ckptfs.torch.StorageReader(source)))


def way_hf(source, times):
    """dcp.load by HuggingFaceStorageReader, and by StorageReader."""
    import ckptfs
    import torch.distributed.checkpoint as dcp
    state = touched(dcp.HuggingFaceStorageReader(source))
    return rounds(times, loading(state, dcp.HuggingFaceStorageReader(source)), loading(state, ckptfs.torch.StorageReader(source)))


def read_piece(fd, view, begin, end):
    while begin < end:
        begin += os.preadv(fd, [view[begin:end]], begin)


def reading(files, state):
    """Reads the bytes of all files by threads, into the memory of the largest tensors."""
    import torch
    room = torch.empty(sum(file.stat().st_size for file in files), dtype=torch.uint8).fill_(0)
    memory, at, pieces = memoryview(room.numpy()), 0, []
    for file in files:
        fd, size = os.open(file, os.O_RDONLY), file.stat().st_size
        pieces += [(fd, memory[at:at + size], begin, min(begin + PIECE, size)) for begin in range(0, size, PIECE)]
        at += size
    pool = concurrent.futures.ThreadPoolExecutor(min(16, os.cpu_count()))
    return lambda: list(pool.map(lambda piece: read_piece(*piece), pieces))


def way_state_dict(source, times):
    """dcp.load by FileSystemReader; the files into one buffer by threads; state_dict(out=) with the open."""
    import ckptfs
    import torch.distributed.checkpoint as dcp
    state = touched(dcp.FileSystemReader(source))
    files = sorted(pathlib.Path(source).glob("*.distcp"))
    return rounds(times, loading(state, dcp.FileSystemReader(source)), reading(files, state),
                  lambda: ckptfs.open(source).state_dict(out=state))


def way_slice(source, times, name):
    """dcp.load of a DTensor whose local rows are 64, and the same rows by an index."""
    import ckptfs
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore
    ck = ckptfs.open(source)
    rows, columns = ck[name].shape
    rank, world = rows // ROWS // 2 + 3, rows // ROWS
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    mesh = DeviceMesh("cpu", torch.arange(world))
    local = torch.zeros(ROWS, columns, dtype=getattr(torch, ck[name].dtype))
    state = {name: DTensor.from_local(local, mesh, [Shard(0)], run_check=False, shape=torch.Size((rows, columns)),
                                      stride=(columns, 1))}
    found = []

    def ours():
        # Reads of less than a millisecond.
        for at in range(rank * ROWS, rank * ROWS + 20):
            found[:] = [ck[name][at:at + ROWS].torch()]
    table = rounds(times, loading(state, dcp.FileSystemReader(source)), ours)
    assert torch.equal(ck[name][rank * ROWS:rank * ROWS + ROWS].torch(), local)
    return [[theirs, mine / 20] for theirs, mine in table]


def way_open(source, times):
    """The import, once, and opening."""
    start = time.monotonic()
    import ckptfs
    first = time.monotonic() - start
    return [[first, clock(ckptfs.open, source)] for _ in range(times)]


if __name__ == "__main__":
    if sys.argv[1] != "open":
        import torch
        torch.set_num_threads(1)
    print(json.dumps(globals()["way_" + sys.argv[1]](sys.argv[2], int(sys.argv[3]), *sys.argv[4:])))
