# SPDX-License-Identifier: MIT
#
# A checkpoint on several hosts that differ, lack files, are missing, or die.
need python3 setsid

lines=$(CKPTFS=$CKPTFS_BIN python3 "$HERE/several-hosts-faults.py" "$CKPTFS" "$WORK" "$FIXTURES")
status=$?
sed '$d' <<<"$lines"
count=$(sed -n '$s/^1\.\.//p' <<<"$lines")
count=${count:-0}
[ "$status" = 0 ] || failed=1
done_testing
