# SPDX-License-Identifier: MIT
# Mounts of the type fuse.ckptfs that another program serves, also in the name of another
# user. The commands must harm neither such a mount nor the calling user.
need python3 jq setpriv unshare

[ "$(id -u)" = 0 ] || skip_all 'only root can make such mounts'
# In a private mount namespace no other process reads or removes records.
if [ -z "${INSIDE:-}" ]; then
	unshare -m --propagation private true 2>/dev/null ||
		skip_all 'no mount namespace can be made here'
	INSIDE=1 exec unshare -m --propagation private \
		bash -u -c '. "$HERE/functions.sh"; . "$0"' "$0"
fi
mount -t tmpfs -o mode=755 run /run
# foreign WORD...: foreign.py on $mnt; its pid is in $server.
foreign() {
	: >"$mnt.told"
	python3 "$HERE/foreign.py" "$mnt" "$@" >"$mnt.told" 2>&1 &
	server=$!
	for _ in $(seq 100); do
		grep -q ready "$mnt.told" && return
		sleep 0.05
	done
	result 1 "foreign $*"
	cat "$mnt.told"
	done_testing
}
foreign_end() {
	kill -KILL "$server"
	wait "$server" 2>/dev/null
	umount -l "$mnt"
}
# quick SECONDS COMMAND...: the command fails if it takes longer.
quick() {
	timeout -s KILL "$@"
}

# --- a record that is left over -------------------------------------------------

# Its device number now belongs to another mount, which replies slowly.
mounted "$(fixture plain)"
pid=$(daemon)
number=$(findmnt -no MAJ:MIN "$mnt" | xargs)
kill -KILL "$pid"
gone "$pid"
umount -l "$mnt"
check 'regression: a record is left over: canary' test -e "/run/ckptfs/$number"
cp "/run/ckptfs/$number" record
foreign statfs=0.7
rm "/run/ckptfs/$number"
number=$(findmnt -no MAJ:MIN "$mnt" | xargs)
cp record "/run/ckptfs/$number"
exec 3<"$mnt"
fails 'regression: a record is left over: umount' \
	'cannot read which tensors would be lost' quick 20 "$CKPTFS" umount "$mnt"
check 'regression: a record is left over: the mount stays' is_mounted
check 'regression: a record is left over: it is served' ls "$mnt"
exec 3<&-
cp record "/run/ckptfs/$number"
"$CKPTFS" mounts >/dev/null
check 'regression: a record is left over: it is removed' \
	test ! -e "/run/ckptfs/$number"
# Records as an earlier release wrote them, of this mount, and of a dead process.
believed() {
	sed "$1" record >"/run/ckptfs/$number"
	"$CKPTFS" mounts --json | jq -r --arg m "$mnt" \
		'.mounts[] | select(.mountpoint == $m) | .pid'
	rm -f "/run/ckptfs/$number"
}
id=$(findmnt -no ID "$mnt" | xargs)
equal 'a record of no mount: not believed' "$(believed '/mount: /d')" null
# Before Linux 6.8 mount numbers are reused, and there is no unique number.
! grep -q '^unique mount: [1-9]' record ||
	equal 'a record of a mount with this number: not believed' \
		"$(believed "s/^mount: .*/mount: $id/")" null
equal 'a record of this mount: canary' "$(believed "s/^mount: .*/mount: $id/
	s/^unique .*/unique mount: 0/")" "$pid"
foreign_end
# --- a false record ---------------------------------------------------------

# theirs PID: the pid that root reads from a record written by the mounting user.
theirs() {
	sed "s/^pid: .*/pid: $1/; s/^mount: .*/mount: $(
		findmnt -no ID "$mnt" | xargs)/; s/^unique .*/unique mount: 0/
		s/^start: .*/start: $(awk '{ print $22 }' "/proc/$1/stat")/" \
		record >"$folder/$(findmnt -no MAJ:MIN "$mnt" | xargs)"
	chown -R 65534 "$folder"
	"$CKPTFS" mounts --json | jq -r --arg m "$mnt" \
		'.mounts[] | select(.mountpoint == $m) | .pid'
}
folder=/run/user/65534/ckptfs
mkdir -p "$folder"
chown -R 65534 /run/user/65534
foreign user=65534
setpriv --reuid=65534 --clear-groups sleep 100 &
slept=$!
until grep -q '^Uid:.65534' "/proc/$slept/status"; do sleep 0.05; done
equal "a user's record of a process of root: not believed" "$(theirs $$)" null
equal "a user's record of his own process: canary" "$(theirs $slept)" $slept
kill $slept
foreign_end

# --- a mount that never replies -----------------------------------------------------

# beside 'WHAT' COMMAND WORD...: runs a command on such a mount, in parallel to others.
beside() (
	mnt=$WORK/$1
	mkdir -p "$mnt"
	foreign "${@:3}"
	quick 120 "$CKPTFS" $2 "$mnt" >"$mnt.said" 2>&1
	echo "ended: $?" >>"$mnt.said"
	findmnt -M "$mnt" >/dev/null && echo 'still mounted' >>"$mnt.said"
	foreign_end 2>/dev/null
)
# reported WHAT LINE...: the output, requests and exit status contain each line.
reported() {
	local line
	for line in "${@:2}"; do
		check "$1: $line" grep -q "$line" "$1.said" "$1.told"
	done
}
printf '%s\n' 'commit: manual' 'staged tensors: 1' >status
printf 'done' >order
for hang in ioctl opendir; do
	beside "regression: his, $hang hangs: commit" commit \
		user=65534 hang=$hang &
	beside "regression: his, $hang hangs: umount -l" 'umount -l' \
		user=65534 hang=$hang status=status &
done
for hang in open read; do
	for command in status log umount 'umount -l'; do
		beside "his, $hang hangs: $command" "$command" user=65534 \
			hang=$hang status=status log=status &
	done
done
beside 'regression: silent: commit' commit hang=statfs,ioctl &
beside 'a long commit' commit ioctl=8 order=order &
wait
for hang in ioctl opendir; do
	reported "regression: his, $hang hangs: commit" \
		'does not answer; a running commit continues$' 'ended: 2' "asked $hang" 'still mounted'
	what="regression: his, $hang hangs: umount -l"
	reported "$what" 'ended: 0'
	fails "$what: no order" '' grep 'asked opendir' "$what.told"
	fails "$what: it is gone" '' grep 'still mounted' "$what.said"
done
for hang in open read; do
	for command in status log umount; do
		reported "his, $hang hangs: $command" 'does not answer' 'ended: 2' \
			'still mounted'
	done
	what="his, $hang hangs: umount -l"
	reported "$what" 'ended: 0'
	fails "$what: it is gone" '' grep 'still mounted' "$what.said"
done
# A mount of root that answers other requests is waited for.
reported 'regression: silent: commit' 'does not answer' 'ended: 2'
reported 'a long commit' '^done$' 'ended: 0'

foreign user=65534 status=/dev/zero
fails 'regression: a status without end' 'its answer is too long' \
	quick 6 "$CKPTFS" status "$mnt"
foreign_end

# --- text for a terminal --------------------------------------------------------

# clean WHAT COMMAND...: the output has no control character except newlines.
clean() {
	"${@:2}" >said 2>&1
	tr -d '\n' <said | grep -aqP '[\x00-\x1f\x7f]|\xc2[\x80-\x9f]|\x9b'
	equal "regression: control characters: $1" $? 1
	check "regression: control characters: $1: canary" grep -q "$1" said
}
was=$mnt
mnt=$WORK/$'odd\xc2\x9b\x7f'
mkdir "$mnt"
printf '%b' 'read 100%25\n\033]0;status log\a: "\n"\\: \0302\0233\nkind: x (\n' \
	'kind: dcp (\n  \033\nprefixed: \0377, " and 1 more\noptions: ,\n\n: \n' \
	'staged tensors: \033\nscratch files: 1\nscratch: \033]0;umount\a\n' \
	'cut: \0303\nend' >status
printf 'commit \033]0;abort\a\n\tmore' >order
foreign status=status log=status order=order
clean status "$CKPTFS" status "$mnt"
equal 'a plain line is as it is' "$(head -n 1 said)" 'read 100%25'
equal 'others are escaped' "$(sed -n 2p said)" '%1B]0;status log%07: "'
clean log "$CKPTFS" log "$mnt"
clean commit "$CKPTFS" commit "$mnt"
clean abort "$CKPTFS" abort "$mnt"
clean version "$CKPTFS" status --json "$mnt"
check 'regression: status --json of another text' jq -e \
	'.version == 1 and .cut != null' said
clean mountpoint "$CKPTFS" mounts --json
check 'mounts --json: the mount point is what it is' jq -e --arg m "$mnt" \
	'.mounts[] | select(.mountpoint == $m)' said
clean 'dropped 1 scratch file' "$CKPTFS" umount "$mnt"
foreign_end
mnt=$was

# --- a ckptfs mount below one that stops replying -------------------------------

cp -r "$(fixture plain)" held
foreign
ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 MUTE_HURRY=1 LD_PRELOAD=$LIBMUTE_BIN \
	"$CKPTFS" mount held "$mnt/.ckptfs" -o write
pid=$(findmnt -no PID "$mnt/.ckptfs" 2>/dev/null || "$CKPTFS" mounts --json |
	jq -r --arg m "$mnt/.ckptfs" '.mounts[] | select(.mountpoint == $m) | .pid')
stop "$server"
kill -TERM "$pid"
check 'regression: below a mount that stops: the daemon ends' gone "$pid"
mkdir elsewhere
check 'regression: below a mount that stops: the checkpoint is free' \
	"$CKPTFS" mount held elsewhere -o write
"$CKPTFS" umount elsewhere
kill -CONT "$server"
foreign_end
done_testing
