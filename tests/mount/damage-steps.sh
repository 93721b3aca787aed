# SPDX-License-Identifier: MIT
#
# Megatron's common.pt, and run directories.
# Each kind of tests/damage/sources.py: checked, mounted, every byte read.
need python3

python3 "$HERE/../damage/verify.py" "$WORK" megatron run
