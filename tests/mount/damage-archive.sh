# SPDX-License-Identifier: MIT
#
# Archives with wrong fields, records and bytes.
# Each kind of tests/damage/kinds.py and tests/damage/containers.py: checked,
# mounted, every byte read.
need python3

python3 "$HERE/../damage/verify.py" "$WORK" archive
