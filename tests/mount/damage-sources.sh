# SPDX-License-Identifier: MIT
#
# Safetensors, and files of torch.save in both containers.
# Each kind of tests/damage/sources.py: checked, mounted, every byte read.
need python3

python3 "$HERE/../damage/verify.py" "$WORK" safetensors torch torch-several
