# SPDX-License-Identifier: MIT
# 100,000 reads of one tensor beside 1,000 commits to it. Each read succeeds, and returns a
# single version that is not stale.
need python3 dd cp

python3 "$HERE/big.py" "$WORK/big" 2 4 65536
mounted "$WORK/big" -o write
check 'a reader of two versions is found out' \
	bash -c '! timeout 100 "$@" | grep -q ", 0 readers failed"' - \
	python3 "$HERE/write-storm.py" "$mnt" t1 1000 200 plant
timeout 900 python3 "$HERE/write-storm.py" "$mnt" t1 "${STORM_READS:-100000}" \
	"${STORM_COMMITS:-1000}" >"$WORK/out" 2>&1
result $? 'reads beside commits'
show
check 'the neighbour is what it was' \
	python3 "$HERE/big.py" --verify 0 "$mnt/raw/t0"
unmounted
check 'a checkpoint without a fault' "$CKPTFS" check "$WORK/big" --full
done_testing
