# SPDX-License-Identifier: MIT
#
# Two ways, one tree, for a user who may not read all, where there is no
# /dev/fuse.
need python3

# A user who may not read one of the shards.
[ "$(id -u)" = 0 ] && [ -e /dev/fuse ] && command -v setpriv >/dev/null || {
	skip 'another user' 'only root can become one'
	done_testing
}
fuse_for_all
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
as_nobody() {
	$nobody "$@"
}
# alone COMMAND...: runs as the user nobody, with an empty /dev except /dev/null.
alone() {
	unshare -m sh -c 'mkdir -p dev && mount -t tmpfs tmpfs dev &&
		touch dev/null && mount --bind /dev/null dev/null &&
		mount --move dev /dev && ! [ -e /dev/fuse ] && exec "$@"' \
		sh $nobody "$@"
}
source=$(fixture dtensor)
chmod 755 "$source"
chmod 644 "$source"/* "$source/.metadata"
chmod 640 "$source/__1_0.distcp"
as_nobody test -x "$CKPTFS" || {
	cp "$CKPTFS" "$WORK/ckptfs"
	CKPTFS=$WORK/ckptfs
}
as_nobody test -r "$HERE/two-ways.py" || skip_all 'nobody cannot get here'
for python in python3 /usr/bin/python3; do
	as_nobody "$python" -c '' 2>/dev/null && break
done
mkdir -m 777 theirs kept
chown 65534 theirs
mounted "$source"
check 'what root sees' python3 "$HERE/two-ways.py" --take "$mnt" kept/roots
unmounted
mnt=$WORK/theirs
check 'a user mounts' as_nobody "$CKPTFS" mount "$source" "$mnt"
check 'what he sees' as_nobody "$python" "$HERE/two-ways.py" --take "$mnt" \
	kept/theirs
check 'he umounts' as_nobody "$CKPTFS" umount "$mnt"
fails 'here a mount fails, which says what does not' 'ls, cat, cp and getfattr do not need it' \
	alone "$CKPTFS" mount "$source" "$mnt"
check 'without a mount' alone "$python" "$HERE/two-ways.py" --compare \
	"$source" kept/theirs kept/roots
fails 'root sees more' 'Permission denied' \
	"$python" "$HERE/two-ways.py" --compare "$source" kept/theirs
done_testing
