# SPDX-License-Identifier: MIT
#
# Random operations on the file of one tensor, with remounts, by four seeds, two at a
# time. CKPTFS_OPERATIONS: how many; one tensor is cut by rows, the other
# by columns.
need python3

each=$(($(cases CKPTFS_OPERATIONS 4000 100000) / 4))
seed=$(seed 1)
# Files are in memory to save time: the suite crash tests durability.
mkdir fast
[ "$(id -u)" != 0 ] || mount -t tmpfs none fast 2>"$WORK/out" || true

# start SEED COUNT FIXTURE TENSOR: on a checkpoint and a mount of its own.
start() {
	mkdir -p "fast/$1/mnt"
	cp -a "$FIXTURES/$3" "fast/$1/source"
	CKPTFS_VERBOSE=1 python3 "$HERE/tools-random.py" "$CKPTFS" \
		"$WORK/fast/$1/source" "$WORK/fast/$1/mnt" "$4" "$2" "$1" \
		>"fast/$1/out" 2>"fast/$1/tally"
}
by_rows='sample model.layers.0.attention.wk.weight'
by_columns='dtensor_columns bytes'
# ended SEED STATUS COUNT
ended() {
	result "$2" "random operations: seed $1, $3"
	[ "$2" -eq 0 ] || sed 's/^/# /' "fast/$1/out"
	check "seed $1: a checkpoint without a fault" \
		"$CKPTFS" check "fast/$1/source" --full
	done_of() { awk -v w="$2" '$2 == w && !$3 { print $1 }' "fast/$1/tally"; }
	check "seed $1: there were commits and remounts" test \
		"$(done_of "$1" commits)" -gt $(($3 / 50)) -a \
		"$(done_of "$1" remounts)" -gt $(($3 / 2000))
}
for first in "$seed" $((seed + 2)); do
	start "$first" "$each" $by_rows &
	second=0 status=0
	start $((first + 1)) "$each" $by_columns || second=1
	wait $! || status=1
	ended "$first" $status "$each"
	ended $((first + 1)) $second "$each"
done
fails 'canary: a wrong model is found' 'seed' sh -c \
	'CKPTFS_CANARY=1 "$@"' - python3 "$HERE/tools-random.py" "$CKPTFS" \
	"$WORK/fast/$seed/source" "$WORK/fast/$seed/mnt" "${by_rows#* }" 2000 2
done_testing
