# SPDX-License-Identifier: MIT
# Damaged checkpoints, with and without a mount: lists, losses and messages are equal. Canaries
# show that the comparison detects differences.
need python3

python3 "$HERE/two-ways.py" --damage "$WORK"
