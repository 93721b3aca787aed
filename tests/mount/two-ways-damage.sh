# SPDX-License-Identifier: MIT
#
# Two ways, one tree, of damaged checkpoints: the same is listed, lost and said
# without a mount; and whatever differs in such a comparison is found.
need python3

python3 "$HERE/two-ways.py" --damage "$WORK"
