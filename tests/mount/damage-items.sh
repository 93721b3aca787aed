# SPDX-License-Identifier: MIT
#
# Checkpoints of torch_checkpointing.
# Each kind of tests/damage/torch_checkpointing.py: checked, mounted, every byte read.
need python3

python3 "$HERE/../damage/verify.py" "$WORK" torch_checkpointing
