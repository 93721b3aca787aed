# SPDX-License-Identifier: MIT
# However a mount ends, no mount and no daemon remain, and the directory is empty: also with
# active readers, and for foreground and detached daemons.

source=$FIXTURES/plain
one=$(stems plain | head -n 1)

# left_nothing WHAT PID
left_nothing() {
	check "$1: the daemon is gone" gone "$2"
	check "$1: the mount is gone" not_mounted
	equal "$1: the directory is empty" "$(ls -A "$mnt")" ''
}

# The process that unmounts for a killed daemon runs in the background: the test polls.
not_mounted() {
	comes is_not_mounted
}
is_not_mounted() {
	! is_mounted
}

for signal in TERM INT HUP; do
	mounted "$source"
	pid=$(daemon)
	check "SIG$signal" kill -"$signal" "$pid"
	left_nothing "SIG$signal" "$pid"
done

mounted "$source"
pid=$(daemon)
check 'umount(8)' umount "$mnt"
left_nothing 'umount(8)' "$pid"

if command -v fusermount3 >/dev/null; then
	mounted "$source"
	pid=$(daemon)
	check 'fusermount3 -u' fusermount3 -u "$mnt"
	left_nothing 'fusermount3 -u' "$pid"
else
	skip 'fusermount3 -u' 'no fusermount3 here'
fi

mounted "$source"
pid=$(daemon)
check 'ckptfs umount' "$CKPTFS" umount "$mnt"
left_nothing 'ckptfs umount' "$pid"

mounted "$source"
pid=$(daemon)
exec 3<"$mnt/full/$one.npy"
fails 'busy' 'busy' "$CKPTFS" umount "$mnt"
check 'busy: still served' cat "$mnt/raw/$one"
kill -TERM "$pid"
check 'SIGTERM with an open file: the daemon is gone' gone "$pid"
check 'SIGTERM with an open file: the mount is gone' not_mounted
exec 3<&-

# Readers at work do not keep the daemon from ending.
mounted "$source" -o direct
pid=$(daemon)
for _ in 1 2 3 4; do
	while cat "$mnt/full/$one.npy" >/dev/null 2>&1; do :; done &
done
sleep 0.2
kill -TERM "$pid"
check 'SIGTERM among readers: the daemon is gone' gone "$pid"
check 'SIGTERM among readers: the mount is gone' not_mounted
wait

for signal in TERM INT; do
	"$CKPTFS" mount "$source" "$mnt" -f >"$WORK/front" 2>&1 &
	pid=$!
	comes is_mounted
	check '-f: usable' cat "$mnt/full/$one.npy"
	kill -"$signal" "$pid"
	wait "$pid"
	equal "-f: exit status after SIG$signal" $? 0
	check "-f: unmounted after SIG$signal" not_mounted
done

# A signal at any moment of the start leaves no dead mount.
left=0
for delay in 0 0.001 0.002 0.004 0.006 0.008 0.01 0.015 0.02 0.03; do
	"$CKPTFS" mount "$source" "$mnt" -f >/dev/null 2>&1 &
	pid=$!
	sleep "$delay"
	kill -TERM "$pid"
	wait "$pid"
	is_mounted && left=$((left + 1)) && umount -l "$mnt"
done
equal 'SIGTERM while starting: mounts left' "$left" 0

# A killed daemon leaves a dead mount, which can be unmounted.
mounted "$source"
pid=$(daemon)
kill -KILL "$pid"
check 'SIGKILL: the daemon is gone' gone "$pid"
# A zombie's last thread may still hold the mount for a moment.
is_dead() {
	! stat -f "$mnt" >/dev/null 2>&1
}
comes is_dead
fails 'SIGKILL: the mount is dead' 'not connected' ls "$mnt"
fails 'SIGKILL: mounting over it' 'unmount it first' \
	"$CKPTFS" mount "$source" "$mnt"
check 'SIGKILL: ckptfs umount' "$CKPTFS" umount "$mnt"
check 'SIGKILL: the mount is gone' not_mounted

# A daemon that is killed during a request, or at its start, ends completely: no thread of
# it waits for its own reply.
end_whole() {
	comes has_one_thread "$1"
}
has_one_thread() {
	[ "$(find "/proc/$1/task" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)" -le 1 ]
}

for at in 1 2 3; do
	ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 MUTE_AT=$at \
		LD_PRELOAD=$LIBMUTE_BIN "$CKPTFS" mount "$source" "$mnt" -f \
		>/dev/null 2>&1 &
	pid=$!
	comes is_mounted
	timeout -s KILL 100 ls "$mnt" >/dev/null 2>&1
	check "regression: killed at answer $at: all threads end" end_whole \
		"$pid"
	umount -l "$mnt"
done

# The kernel takes the read-ahead from the INIT reply if it is less than its own value.
read_ahead() {
	cat "/sys/class/bdi/$(findmnt -no MAJ:MIN "$mnt" | xargs)/read_ahead_kb"
}
if [ "$(id -u)" = 0 ]; then
	ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 MUTE_LATE=1 \
		LD_PRELOAD=$LIBMUTE_BIN "$CKPTFS" mount "$source" "$mnt"
	check 'a late first answer: usable' cat "$mnt/full/$one.npy"
	equal 'a late first answer: the read-ahead is kept' "$(read_ahead)" 1024
	unmounted
fi

# The lock of the checkpoint ends with the daemon.
ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 MUTE_END=1 \
	LD_PRELOAD=$LIBMUTE_BIN "$CKPTFS" mount "$source" "$mnt"
pid=$(daemon)
check 'a slow end: ckptfs umount' "$CKPTFS" umount "$mnt"
fails 'a slow end: the daemon is gone when umount ends' '' \
	readlink "/proc/$pid/exe"
if unshare -m --propagation private true 2>/dev/null; then
	mounted "$source"
	pid=$(daemon)
	unshare -m --propagation private sh -c 'echo; exec sleep 300' >other &
	other=$!
	until [ -s other ]; do sleep 0.05; done
	"$CKPTFS" umount "$mnt" 2>said
	equal 'another namespace: umount' $? 0
	check 'another namespace: a message' grep -q "process $pid is still running" said
	check 'another namespace: not mounted here' not_mounted
	kill "$other"
	check 'another namespace: the daemon ends with it' gone "$pid"
else
	skip 'another namespace' 'no mount namespace can be made here'
fi

# The mount is used and unmounted before its own process has checked it.
for front in '-f' ''; do
	ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 MUTE_KEEPER=1 \
		LD_PRELOAD=$LIBMUTE_BIN "$CKPTFS" mount "$source" "$mnt" \
		$front >"$WORK/front" 2>&1 &
	pid=$!
	comes is_mounted
	check "regression: used at once, $front" cat "$mnt/full/$one.npy"
	check "regression: unmounted at once, $front" umount "$mnt"
	wait "$pid"
	equal "regression: used and unmounted at once, $front: status" $? 0
	equal "regression: used and unmounted at once, $front: said" \
		"$(grep -v 'cp -r of the mount' "$WORK/front")" ''
done

# Ctrl-C also reaches the process that unmounts, if it has not left the terminal yet.
if [ "$(id -u)" = 0 ]; then
	late() {
		local child
		for child in $(cat /proc/"$pid"/task/*/children 2>/dev/null); do
			grep -qs '^late$' "/proc/$child/comm" && echo "$child"
		done
	}
	front() {
		ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 MUTE_FORK=2 \
			LD_PRELOAD=$LIBMUTE_BIN "$CKPTFS" mount "$source" "$mnt" \
			-f >"$WORK/front" 2>&1 &
		pid=$!
		until [ -n "$(late)" ] || ! kill -0 "$pid"; do sleep 0.02; done
		kill -"$1" "$(late)"
		comes is_mounted
		ls "$mnt" >/dev/null
		kill -TERM "$pid"
		wait "$pid"
	}
	front TERM
	equal 'regression: a signal for the group at the start: status' $? 0
	left_nothing 'regression: a signal for the group at the start' "$pid"

	front KILL
	equal 'regression: who unmounts is gone: status' $? 2
	check 'regression: who unmounts is gone: it is said' \
		grep -q "^ckptfs: $mnt: is not unmounted, do it by umount" \
		"$WORK/front"
	umount -l "$mnt"
fi

# A daemon that cannot identify its mount reports it: the mount table could not be read
# before or after mounting. The command reads the table first.
if [ "$(id -u)" = 0 ]; then
	unknown() {
		ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 \
			MUTE_TABLE=$1 LD_PRELOAD=$LIBMUTE_BIN "$CKPTFS" mount \
			"$source" "$mnt" -f >"$WORK/front" 2>&1 &
		pid=$!
		comes is_mounted
		cat "$mnt/full/$one.npy" >/dev/null
		"${@:2}"
		wait "$pid"
	}
	for look in 2 3; do
		unknown $look eval 'kill -TERM "$pid"'
		equal "regression: an unknown mount, look $look: status" $? 2
		check "regression: an unknown mount, look $look: it is said" \
			grep -q "^ckptfs: $mnt: cannot identify the new mount" \
			"$WORK/front"
		check "regression: an unknown mount, look $look: at the end" \
			grep -q "^ckptfs: $mnt: is not unmounted, do it by" \
			"$WORK/front"
		check "regression: an unknown mount, look $look: it is left" \
			is_mounted
		umount -l "$mnt"
	done
	unknown 2 umount "$mnt"
	equal 'an unknown mount, unmounted: status' $? 0
fi

# For a user, fusermount3 leaves the mount if it learns of the death before the kernel has
# released the device, which happens. For root no mount remains.
if [ "$(id -u)" = 0 ]; then
	for try in 1 2 3 4 5; do
		mounted "$source" -o auto_unmount
		pid=$(daemon)
		check "auto_unmount: usable, try $try" cat "$mnt/full/$one.npy"
		kill -KILL "$pid"
		left_nothing "auto_unmount: SIGKILL, try $try" "$pid"
	done
fi
mounted "$source" -o auto_unmount
pid=$(daemon)
kill -TERM "$pid"
left_nothing 'auto_unmount: SIGTERM' "$pid"
done_testing
