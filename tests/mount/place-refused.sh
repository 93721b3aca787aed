# SPDX-License-Identifier: MIT
#
# A mount point in its own source, or a source in the mount point: refused at
# once, since the daemon would wait for itself (S-F5).

source=$(fixture plain)
mkdir -p "$source/inside/deeper" beside
one=$(stems plain | head -n 1)
for place in "$source" "$source/inside" "$source/inside/deeper"; do
	fails "in the source: ${place#"$WORK/"}" 'lies in the checkpoint' \
		timeout 100 "$CKPTFS" mount "$source" "$place"
done
ln -s "$source/inside" link
fails 'in the source, by a link' 'lies in the checkpoint' \
	timeout 100 "$CKPTFS" mount "$source" link
fails 'above the source' 'lies in the mount point' \
	timeout 100 "$CKPTFS" mount "$source" "$WORK"
equal 'nothing is mounted' "$(grep -c "$WORK" /proc/self/mounts)" 0
check 'beside it' timeout 100 "$CKPTFS" mount "$source" beside
check 'beside it: bytes' cat "beside/full/$one.npy"
check 'a mount of a mount is another checkpoint' \
	test ! -e "beside/full/.metadata"
check 'umount' "$CKPTFS" umount beside
done_testing
