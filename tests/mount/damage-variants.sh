# SPDX-License-Identifier: MIT
#
# A metadata of each rank, and items in blobs of safetensors.
# Each kind of tests/damage/variants.py: checked, mounted, every byte read.
need python3

python3 "$HERE/../damage/verify.py" "$WORK" variants
