# SPDX-License-Identifier: MIT
# False contents of data.pkl, and contents that would run code.
# Each kind of tests/damage/kinds.py: checked, mounted, every byte read.
need python3

python3 "$HERE/../damage/verify.py" "$WORK" pickle
