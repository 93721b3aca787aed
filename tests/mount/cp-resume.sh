# SPDX-License-Identifier: MIT
# An interrupted `ckptfs cp -r`, and `--resume`: complete files are skipped, all others are
# copied again to the same destination. Also copies of hf/ in files of 5 GiB.
need python3
python3 "$HERE/big.py" small 5 2 40960 || skip_all 'no checkpoint'
python3 "$HERE/big.py" large 2 2 12000000
exec python3 -B "$HERE/cp-resume.py"
