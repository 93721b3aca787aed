# SPDX-License-Identifier: MIT
#
# A mount point that shows a checkpoint already, or has files: refused, since
# something would be hidden; the second is allowed by an option.
source=$FIXTURES/plain
one=$(stems plain | head -n 1)

mounted "$source"
fails 'a mount of ours' 'a checkpoint is mounted there; unmount it first' \
	"$CKPTFS" mount "$source" "$mnt"
fails 'a mount of ours: with -o nonempty' 'unmount it first' \
	"$CKPTFS" mount "$source" "$mnt" -o nonempty
ln -s mnt link
fails 'a mount of ours: by a link' 'unmount it first' \
	"$CKPTFS" mount "$source" link
fails 'a mount of ours: -f' 'unmount it first' \
	timeout 100 "$CKPTFS" mount "$source" "$mnt" -f
equal 'a mount of ours: it is the only one' \
	"$(grep -c " $mnt fuse.ckptfs " /proc/self/mounts)" 1
check 'a mount of ours: it works' cat "$mnt/full/$one.npy"
unmounted

for name in file .hidden dir/; do
	mkdir full
	case $name in */) mkdir "full/$name" ;; *) touch "full/$name" ;; esac
	"$CKPTFS" mount "$source" full >"$WORK/said" 2>&1
	equal "$name: exit status" $? 2
	check "$name: the reason" grep -qx \
		'ckptfs: .*/full: not empty; .* -o nonempty allows' "$WORK/said"
	fails "$name: not mounted" '' is_mounted "$WORK/full"
	check "$name: -o nonempty" "$CKPTFS" mount "$source" full -o nonempty
	check "$name: -o nonempty: bytes" cat "full/raw/$one"
	check "$name: umount" "$CKPTFS" umount full
	check "$name: it is there still" ls -d "full/$name"
	rm -r full
done
done_testing
