# SPDX-License-Identifier: MIT
#
# Readers beside writers: an open file stays what it was, an open after the
# close of a writer sees what was written, inode numbers and times change for
# that tensor alone, and lookups by many at once stop neither side.
need python3

source=$(fixture sample)
one=model.layers.0.attention.wk.weight
mounted "$source" -o write
check 'open files and mappings' timeout 300 python3 \
	"$HERE/write-isolation.py" "$mnt" "$one" files
check 'inode numbers and times' timeout 300 python3 \
	"$HERE/write-isolation.py" "$mnt" "$one" inodes
check 'readers at work' timeout 300 python3 \
	"$HERE/write-isolation.py" "$mnt" "$one" readers
check 'lookups at work' timeout 300 python3 \
	"$HERE/write-isolation.py" "$mnt" "$one" lookups
pid=$(daemon)
unmounted
gone "$pid"
# The kernel cannot be told that all names are old.
export MUTE_EPOCH=1 ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0
LD_PRELOAD=$LIBMUTE_BIN mounted "$source" -o write
for part in files inodes readers; do
	check "before Linux 6.16: $part" timeout 300 python3 \
		"$HERE/write-isolation.py" "$mnt" "$one" "$part"
done
unmounted
check 'a checkpoint without a fault' "$CKPTFS" check "$source" --full
done_testing
