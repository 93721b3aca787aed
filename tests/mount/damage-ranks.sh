# SPDX-License-Identifier: MIT
#
# Files of ranks, and flat parameters with a sidecar.
# Each kind of tests/damage/sources.py: checked, mounted, every byte read.
need python3

python3 "$HERE/../damage/verify.py" "$WORK" ranks flat
