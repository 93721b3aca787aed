# SPDX-License-Identifier: MIT
#
# Who may mount and who may read: an ordinary user mounts for himself alone;
# allow_other lets others in, but only to what the checkpoint's own modes
# allow them.
need setpriv

[ "$(id -u)" = 0 ] || skip_all 'only root can become another user'
id nobody >/dev/null 2>&1 || skip_all 'no user nobody'
group=$(id -gn nobody)
as_nobody() {
	setpriv --reuid=nobody --regid="$group" --clear-groups "$@"
}

fuse_for_all
has_line() {
	grep -q '^[[:space:]]*user_allow_other[[:space:]]*$' /etc/fuse.conf
}

one=$(stems plain | head -n 1)
source=$(fixture plain)
chmod 755 "$source"
chmod 644 "$source"/* "$source/.metadata"
as_nobody test -x "$CKPTFS" || {
	cp "$CKPTFS" "$WORK/ckptfs"
	CKPTFS=$WORK/ckptfs
}
as_nobody test -r "$source/.metadata" || skip_all 'nobody cannot get here'

mkdir theirs
chown nobody theirs
mnt=$WORK/theirs
check 'a user mounts' as_nobody "$CKPTFS" mount "$source" "$mnt"
check 'a user reads' as_nobody cat "$mnt/full/$one.npy"
equal 'a user sees the source' "$(findmnt -no SOURCE,FSTYPE "$mnt" | xargs)" \
	"$source fuse.ckptfs"
for flag in ro nosuid nodev default_permissions; do
	check "a user's mount has $flag" \
		grep -qw "$flag" <<<"$(findmnt -no OPTIONS "$mnt")"
done
pid=$(as_nobody sed -n 's/^daemon: //p' "$mnt/.ckptfs/status")
check 'a user umounts' as_nobody "$CKPTFS" umount "$mnt"
check 'his daemon is gone' gone "$pid"

check 'a user mounts with odd names' as_nobody "$CKPTFS" mount "$source" \
	"$mnt" -o 'fsname=x\,y\\z'
equal 'odd names' "$(findmnt -rno SOURCE "$mnt" | sed 's/\\x5c/\\/g')" 'x,y\z'
pid=$(as_nobody sed -n 's/^daemon: //p' "$mnt/.ckptfs/status")
check 'SIGTERM' kill -TERM "$pid"
check 'SIGTERM: gone' gone "$pid"
fails 'SIGTERM: unmounted' '' is_mounted "$mnt"

check 'root mounts for others' "$CKPTFS" mount "$source" "$mnt" -o allow_other
fails 'a user cannot unmount that' 'mounted by user 0; only that user and root can unmount it' as_nobody "$CKPTFS" umount "$mnt"
check 'root unmounts it' "$CKPTFS" umount "$mnt"

if has_line; then
	check 'allow_other with user_allow_other' as_nobody "$CKPTFS" mount \
		"$source" "$mnt" -o allow_other
	check 'allow_other: umount' as_nobody "$CKPTFS" umount "$mnt"
else
	fails 'allow_other without user_allow_other' 'user_allow_other' \
		as_nobody "$CKPTFS" mount "$source" "$mnt" -o allow_other
fi

mnt=$WORK/mnt
mounted "$source"
fails 'a mount without allow_other' 'Permission denied' \
	as_nobody cat "$mnt/full/$one.npy"
unmounted
mounted "$source" -o allow_other
check 'allow_other' as_nobody cat "$mnt/full/$one.npy"
fails 'allow_other: still read-only' 'Read-only file system' \
	as_nobody touch "$mnt/full/$one.npy"
unmounted

chmod 600 "$source"/__*
mounted "$source" -o allow_other
fails 'a shard of mode 0600' 'Permission denied' \
	as_nobody cat "$mnt/full/$one.npy"
check 'its report may be read' as_nobody cat "$mnt/.ckptfs/tensors.csv"
unmounted
chmod 644 "$source"/__*
chmod 600 "$source/.metadata"
mounted "$source" -o allow_other
fails 'a .metadata of mode 0600' 'Permission denied' \
	as_nobody cat "$mnt/full/$one.npy"
unmounted
chmod 644 "$source/.metadata"
chmod 700 "$source"
mounted "$source" -o allow_other
fails 'a directory of mode 0700' 'Permission denied' as_nobody ls "$mnt"
unmounted
mounted "$source" -o allow_other,uid="$(id -u nobody)"
check 'uid= gives it to another' as_nobody cat "$mnt/full/$one.npy"
unmounted

[ ! -s "$WORK.restore" ] || sh "$WORK.restore"
done_testing
