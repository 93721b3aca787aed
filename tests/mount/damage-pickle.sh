# SPDX-License-Identifier: MIT
#
# What data.pkl can say that is not true or would run something.
# Each kind of tests/damage/kinds.py: checked, mounted, every byte read.
need python3

python3 "$HERE/../damage/verify.py" "$WORK" pickle
