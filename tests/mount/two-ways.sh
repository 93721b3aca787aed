# SPDX-License-Identifier: MIT
#
# Two ways, one tree: ls, cat, getfattr and cp of a checkpoint against a mount
# of it, for every fixture; and all forms of sharding against a model.
need python3

lines=$(python3 "$HERE/two-ways.py" "$WORK" "$FIXTURES")
status=$?
sed '$d' <<<"$lines"
count=$(sed -n '$s/^1\.\.//p' <<<"$lines")
count=${count:-0}
[ "$status" = 0 ] || failed=1

check 'all forms of sharding' python3 "$HERE/two-ways-forms.py" "$WORK/forms"
fails 'all forms of sharding: a wrong byte is found' 'other bytes' \
	python3 "$HERE/two-ways-forms.py" --wrong "$WORK/wrong"
done_testing
