# SPDX-License-Identifier: MIT
# Some or all data files are remote, and their backend replies late and in any order: the tree
# equals that of local files.
need python3 setsid

lines=$(python3 "$HERE/remote-files.py" "$WORK" "$FIXTURES")
status=$?
sed '$d' <<<"$lines"
count=$(sed -n '$s/^1\.\.//p' <<<"$lines")
count=${count:-0}
[ "$status" = 0 ] || failed=1
done_testing
