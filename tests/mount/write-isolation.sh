# SPDX-License-Identifier: MIT
# Concurrent readers and writers. An open file keeps its contents; an open after the close of
# a writer sees the new bytes. Inode numbers and times change for that tensor only. Many
# concurrent lookups block neither side.
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
# A kernel without FUSE_NOTIFY_INC_EPOCH, which expires all names.
export MUTE_EPOCH=1 ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0
LD_PRELOAD=$LIBMUTE_BIN mounted "$source" -o write
for part in files inodes readers; do
	check "before Linux 6.16: $part" timeout 300 python3 \
		"$HERE/write-isolation.py" "$mnt" "$one" "$part"
done
unmounted
check 'a checkpoint without a fault' "$CKPTFS" check "$source" --full
done_testing
