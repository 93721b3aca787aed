# SPDX-License-Identifier: MIT
#
# A commit does not wait for those who look at items on a slow source: no lock is
# held while a file is read. Each round has a fresh mount, since what was found
# is remembered.
need python3 getfattr

source=$(fixture sample)
one=model.layers.0.attention.wk.weight
mkdir times
slow() { # slow MSEC COMMAND...: each pread(2) of the daemon takes so long
	ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 MUTE_PREAD=$1 \
		LD_PRELOAD=$LIBMUTE_BIN "${@:2}"
}
# round READERS: appends how long a commit took, in microseconds.
round() {
	for _ in 1 2 3 4 5; do
		slow 2 mounted "$source" -o write || return 1
		python3 "$HERE/write-beside.py" "$mnt" "$one" "$1" >>"times/$1"
		said=$?
		unmounted || return 1
		[ $said = 75 ] || return $said
	done
	return 1
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

# The end of a mount does not wait for those who wait to look.
slow 100 mounted "$source"
pid=$(daemon)
for file in "$mnt"/raw/*; do
	getfattr -n user.ckptfs.error "$file" >/dev/null 2>&1 &
done
sleep 0.5
kill -TERM "$pid"
gone "$pid"
result $? 'regression: the end of a mount beside those who look at items'
wait

check 'a checkpoint without a fault' "$CKPTFS" check "$source" --full
done_testing
