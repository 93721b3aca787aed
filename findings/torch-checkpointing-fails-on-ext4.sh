#!/bin/sh
# SPDX-License-Identifier: MIT
#
# torch_checkpointing 0.1.1 (0.1.0 too), torch 2.13.0: with its default storage, no save
# succeeds on a filesystem that takes O_DIRECT, such as ext4 and XFS. On tmpfs it succeeds.
#
# LocalFileSystemStorageConfig.use_direct_io is True. The writer opens each file with O_DIRECT,
# and only an error of that open makes it use plain writes. torch.save then writes through
# Python's buffered file in any sizes, and O_DIRECT needs whole blocks: the write of the end of
# the archive fails with EINVAL. JSON, raw bytes and safetensors take the same way.
#
# Cost: the first save on a local disk ends with "Invalid argument", or, with the default
# asynchronous saver, with "Child process terminated unexpectedly". Tests on /dev/shm or /tmp on
# tmpfs pass. Files without their end stay in the directory; with a barrier, in tmp_<name>.
# Remedy: storage_config=LocalFileSystemStorageConfig(use_direct_io=False).
#
# TMPDIR must be on ext4 or XFS; else the status is 2.
#
# Output seen:
#	default               OSError: [Errno 22] Invalid argument
#	use_direct_io=False   saved
#	default on /dev/shm   saved
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work" "/dev/shm/${work##*/}"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q torch==2.13.0 numpy==2.4.6 \
	torch_checkpointing==0.1.1 >&2 || exit 2

cat >show.py <<'END'
import os
import sys

import torch
from torch_checkpointing import CheckpointManager
from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig


def takes_blocks_only(path):
    """True if the filesystem opens a file with O_DIRECT, and refuses a write of 7 bytes."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
        os.write(file, b"7 bytes")
    except OSError:
        return "file" in locals()
    return False


def save(directory, storage):
    config = CheckpointManager.Config.with_sync_save()
    config.storage_config = storage
    try:
        CheckpointManager(config).save(directory, {"model": {"weight": torch.ones(1000)}})
    except OSError as error:
        return f"OSError: {error}"
    return "saved"


if not takes_blocks_only("probe"):
    sys.exit("TMPDIR is on a filesystem without O_DIRECT, or one that takes any size")
changed = False
for name, directory, storage, expected in (
    ("default", "default", None, "OSError: [Errno 22] Invalid argument"),
    ("use_direct_io=False", "plain", LocalFileSystemStorageConfig(use_direct_io=False), "saved"),
    ("default on /dev/shm", f"/dev/shm/{os.path.basename(os.getcwd())}/default", None, "saved"),
):
    found = save(directory, storage)
    changed |= found != expected
    print(f"{name:21} {found}" + ("" if found == expected else f"  CHANGED, was {expected}"))
sys.exit(3 if changed else 0)
END
status=0
venv/bin/python show.py 2>errors || status=$?
[ "$status" = 0 ] || cat errors >&2
case $status in
0 | 3) exit $((status / 3)) ;;
*) exit 2 ;;
esac
