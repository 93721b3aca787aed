# SPDX-License-Identifier: MIT
#
# Lies of .metadata.
# Each kind of tests/damage/kinds.py: checked, mounted, every byte read.
need python3

python3 "$HERE/../damage/verify.py" "$WORK" metadata
