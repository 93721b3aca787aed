# SPDX-License-Identifier: MIT
#
# A commit does not wait for those who look at items on a slow source: no lock is
# held while a file is read. Each round has a fresh mount, since what was found
# is remembered.
need python3

source=$(fixture sample)
one=model.layers.0.attention.wk.weight
mkdir times
slow() { # slow COMMAND...: with 2 ms for each pread(2) of the daemon
	ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 MUTE_PREAD=1 \
		LD_PRELOAD=$LIBMUTE_BIN "$@"
}
# round READERS: appends how long a commit took, in microseconds.
round() {
	slow mounted "$source" -o write &&
		python3 "$HERE/write-beside.py" "$mnt" "$one" "$1" >>"times/$1" &&
		unmounted
}
median() { sort -n "$1" | sed -n "$((($(wc -l <"$1") + 1) / 2))p"; }
# Other work on the machine is in the way of both, but not always of both
# alike: so it may try again.
beside() {
	for _ in 1 2 3 4; do
		rm -f times/*
		for _ in 1 2 3 4 5 6 7 8 9; do
			round 0 && round 8 || return 1
		done
		idle=$(median times/0) busy=$(median times/8)
		echo "# $busy us beside 8 readers, $idle us alone"
		[ $((busy * 2)) -gt $((idle * 3)) ] || return 0
	done
	return 1
}
beside >seen
result $? "a commit beside those who look at items"
cat seen
check 'a checkpoint without a fault' "$CKPTFS" check "$source" --full
done_testing
