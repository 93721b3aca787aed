# SPDX-License-Identifier: MIT
"""The group of what a user has without a mount."""
import pathlib
import shutil

from measure import BIG, clock

TINY = "model.norm.weight"


def cat_big(bench):
    """Beside cat of shard files that have at least as many bytes together."""
    size = sum(int(piece.rsplit("+", 1)[1]) for piece in bench.boxes("big", BIG))
    files, bytes_ = [], 0
    for file in sorted((bench.data / "big").glob("*.distcp")):
        if bytes_ < size:
            files.append(file)
            bytes_ += file.stat().st_size
    plain, ours = ("cat", *files), (bench.program, "cat", bench.data / "big", f"full/{BIG}.npy")
    clock(*ours)
    bench.compare("ckptfs cat of 1 GiB, beside cat", lambda: bytes_ / clock(*plain) / 1e9,
                  lambda: size / clock(*ours) / 1e9, 0.8, 1.0)


def cat_tiny(bench):
    times = []
    for _ in range(bench.repeat):
        bench.settle()
        times.append(1000 * clock(bench.program, "cat", bench.data / "big", f"full/{TINY}.npy"))
    bench.row("ckptfs cat of a tensor of 4 KiB, start to end (ms)", "", f"{min(times):.1f} ms", min(times), 30, 15, True)


def copy(bench):
    """All tensors to a directory in memory: beside the shards, and beside cp through a fresh mount."""
    place = pathlib.Path("/dev/shm") / bench.base.name
    shards = sorted((bench.data / "big").glob("*.distcp"))
    size = sum(shard.stat().st_size for shard in shards)

    def rate(*command):
        shutil.rmtree(place, ignore_errors=True)
        bench.warm()
        place.mkdir()
        return size / clock(*command, place) / 1e9

    def ours():
        return rate(bench.program, "cp", "-r", bench.data / "big", "raw")

    def through_mount():
        with bench.mounted("big") as mnt:
            return rate("cp", "-r", mnt / "raw")
    try:
        bench.compare("ckptfs cp -r of raw, beside cp of the shards", lambda: rate("cp", *shards), ours, 0.8, 1.2)
        bench.compare("ckptfs cp -r of raw, beside cp -r of a mount", through_mount, ours, 1.5, 2.5)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def group_unmounted(bench):
    cat_big(bench)
    cat_tiny(bench)
    copy(bench)
