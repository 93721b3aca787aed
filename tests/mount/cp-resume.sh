# SPDX-License-Identifier: MIT
#
# `ckptfs cp -r` that is interrupted, and `--resume`: what is complete is skipped, all else is
# copied again, into the same place; and the files of 5 GiB that it makes of hf/.
need python3
python3 "$HERE/big.py" small 5 2 40960 || skip_all 'no checkpoint'
python3 "$HERE/big.py" large 2 2 12000000
exec python3 -B "$HERE/cp-resume.py"
