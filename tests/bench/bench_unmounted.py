# SPDX-License-Identifier: MIT
"""The group of what a user has without a mount."""
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


def group_unmounted(bench):
    cat_big(bench)
    cat_tiny(bench)
