# SPDX-License-Identifier: MIT
#
# Shards that are gone, short, other things than files, or elsewhere.
# Each kind of tests/damage/kinds.py: checked, mounted, every byte read.
need python3

python3 "$HERE/../damage/verify.py" "$WORK" files
