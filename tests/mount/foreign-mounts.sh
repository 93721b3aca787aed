# SPDX-License-Identifier: MIT
#
# Mounts of the type fuse.ckptfs that another program serves, in the name of
# another user too: what the commands make of them harms neither the mount nor
# who asks.
need python3 jq unshare

[ "$(id -u)" = 0 ] || skip_all 'only root can make such mounts'
# In a mount namespace of its own nobody else reads, or removes, records.
if [ -z "${INSIDE:-}" ]; then
	unshare -m --propagation private true 2>/dev/null ||
		skip_all 'no mount namespace can be made here'
	INSIDE=1 exec unshare -m --propagation private \
		bash -u -c '. "$HERE/functions.sh"; . "$0"' "$0"
fi
mount -t tmpfs -o mode=755 run /run
# foreign WORD...: foreign.py on $mnt; its pid is in $server.
foreign() {
	: >"$WORK/told"
	python3 "$HERE/foreign.py" "$mnt" "$@" >"$WORK/told" 2>&1 &
	server=$!
	for _ in $(seq 100); do
		grep -q ready "$WORK/told" && return
		sleep 0.05
	done
	result 1 "foreign $*"
	cat "$WORK/told"
	done_testing
}
foreign_end() {
	kill -KILL "$server"
	wait "$server" 2>/dev/null
	umount -l "$mnt"
}
# quick SECONDS COMMAND...: one that takes longer is a failure.
quick() {
	timeout -s KILL "$@"
}

# --- a record that is left over -------------------------------------------------

# Its device number is another mount's by now, whose answers take a while.
mounted "$(fixture plain)"
pid=$(daemon)
number=$(findmnt -no MAJ:MIN "$mnt" | xargs)
kill -KILL "$pid"
gone "$pid"
umount -l "$mnt"
check 'regression: a record is left over: canary' test -e "/run/ckptfs/$number"
cp "/run/ckptfs/$number" record
foreign slow=0.7
rm "/run/ckptfs/$number"
number=$(findmnt -no MAJ:MIN "$mnt" | xargs)
cp record "/run/ckptfs/$number"
exec 3<"$mnt"
fails 'regression: a record is left over: umount' \
	'cannot be asked what would be lost' quick 20 "$CKPTFS" umount "$mnt"
check 'regression: a record is left over: the mount stays' is_mounted
check 'regression: a record is left over: it is served' ls "$mnt"
exec 3<&-
cp record "/run/ckptfs/$number"
"$CKPTFS" mounts >/dev/null
check 'regression: a record is left over: it is removed' \
	test ! -e "/run/ckptfs/$number"
# As an earlier release wrote it; and of this mount, and of a process that is gone.
believed() {
	sed "$1" record >"/run/ckptfs/$number"
	"$CKPTFS" mounts --json | jq -r --arg m "$mnt" \
		'.mounts[] | select(.mountpoint == $m) | .pid'
	rm -f "/run/ckptfs/$number"
}
id=$(findmnt -no ID "$mnt" | xargs)
equal 'a record of no mount: not believed' "$(believed '/mount: /d')" null
# Before Linux 6.8 numbers come again, and nothing else is known.
! grep -q '^unique mount: [1-9]' record ||
	equal 'a record of a mount with this number: not believed' \
		"$(believed "s/^mount: .*/mount: $id/")" null
equal 'a record of this mount: canary' "$(believed "s/^mount: .*/mount: $id/
	s/^unique .*/unique mount: 0/")" "$pid"
foreign_end
done_testing
