# SPDX-License-Identifier: MIT
#
# `ckptfs cp` that is killed, interrupted, short of space or overtaken by a change of
# its source: under every name is nothing or the whole right file.
need python3 mount
[ "$(id -u)" = 0 ] || skip_all 'only root can mount a small file system'
python3 "$HERE/big.py" small 3 2 40960 || skip_all 'no checkpoint'
python3 "$HERE/big.py" large 1 2 12000000
python3 "$HERE/big.py" single 3 1 40960
mkdir space
mount -t tmpfs -o size=8m none space
exec python3 -B "$HERE/cp-faults.py"
