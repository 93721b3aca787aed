# SPDX-License-Identifier: MIT
#
# Many programs that come while a tensor is being closed.
need python3

source=$(fixture sample)
mounted "$source" -o write
pid=$(daemon)
check 'whoever comes while a writer may be closing' timeout 60 python3 \
	"$HERE/write-busy.py" "$mnt" model.layers.0.attention.wk.weight
gone "$pid"
result $? 'the daemon ends'

# A commit takes more than a second.
ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 MUTE_SYNC=1 \
	LD_PRELOAD=$LIBMUTE_BIN mounted "$source" -o write
others() {
	check "$1" timeout 60 python3 "$HERE/write-copies.py" "$mnt" \
		model.layers.0.attention.wk.weight \
		model.layers.0.attention.wq.weight "${1#regression: }"
}
others 'regression: copies of a descriptor closed at once'
others 'a write while it is committed'
others 'a cut while it is committed'
others 'regression: a rename that waited holds no other'
others 'regression: renames at once'
unmounted
check 'a checkpoint without a fault' "$CKPTFS" check "$source" --full
done_testing
