# SPDX-License-Identifier: MIT
#
# The daemon is killed again and again while programs commit, make, remove,
# rename and look up names, as root and as an ordinary user: each of them ends,
# so does the daemon, and the next mount works. CKPTFS_KILLS: how often.
need python3

kills=$(cases CKPTFS_KILLS 6 50)
source=$(fixture sample)
check "killed, as root" python3 "$HERE/killed-daemon.py" "$CKPTFS" "$source" \
	"$mnt" $((kills / 2))
grep '^#' "$WORK/out"
mounted "$source" -o write
unmounted
check 'at the end: a checkpoint without a fault' "$CKPTFS" check "$source" \
	--full

if [ "$(id -u)" != 0 ] || ! id nobody >/dev/null 2>&1; then
	skip 'killed, as a user' 'only root can become another user'
	done_testing
fi
fuse_for_all
cp "$CKPTFS" "$WORK/ckptfs"
chown -R "nobody:$(id -gn nobody)" "$source" "$mnt"
check 'killed, as a user' python3 "$HERE/killed-daemon.py" "$WORK/ckptfs" \
	"$source" "$mnt" $((kills - kills / 2)) "$(id -u nobody)" "$(id -g nobody)"
grep '^#' "$WORK/out"
check 'at the end, of a user: a checkpoint without a fault' "$CKPTFS" check \
	"$source" --full
done_testing
