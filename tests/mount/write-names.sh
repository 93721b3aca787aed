# SPDX-License-Identifier: MIT
#
# Names on a mount for writing: who may replace what they stand for.
need python3 cmp

source=$(fixture sample)
one=model.layers.0.attention.wk.weight
size=1024

# Another user, in a directory that all may write: a name stands for a tensor,
# and it takes the right to write that.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null &&
	id nobody >/dev/null 2>&1; then
	group=$(id -g nobody)
	as_nobody() {
		setpriv --reuid=nobody --regid="$group" --clear-groups "$@"
	}
	in_group() {
		setpriv --reuid=nobody --regid="$group" --groups 4242 "$@"
	}
	call() {
		python3 -c 'import os, sys; getattr(os, sys.argv[1])(*sys.argv[2:])' \
			"$@"
	}
	export -f call
	chmod 777 "$source"
	chmod 644 "$source/.metadata"
	mounted "$source" -o write,allow_other
	raw=$mnt/raw/$one
	box=$mnt/local/rank-1/$one.npy
	cp "$raw" old.bin
	cp "$box" old.npy
	head -c $size /dev/urandom >new.bin
	fails 'another user: cp' 'Permission denied' as_nobody cp new.bin "$raw"
	check 'another user: a scratch file' as_nobody cp new.bin "$mnt/raw/x"
	check 'another user: a scratch file in local/' \
		as_nobody cp old.npy "$mnt/local/rank-0/x"
	fails 'another user: rename' 'PermissionError: [Errno 13]' \
		as_nobody bash -c 'call rename "$@"' - "$mnt/raw/x" "$raw"
	fails 'another user: rename onto a box' 'PermissionError: [Errno 13]' \
		as_nobody bash -c 'call rename "$@"' - "$mnt/local/rank-0/x" "$box"
	fails 'another user: unlink' 'PermissionError: [Errno 13]' \
		as_nobody bash -c 'call unlink "$@"' - "$raw"
	check 'another user: nothing has changed' cmp old.bin "$raw"
	rm "$raw" "$box"
	fails 'another user: create' 'Permission denied' \
		as_nobody cp new.bin "$raw"
	fails 'another user: rename onto a removed name' \
		'PermissionError: [Errno 13]' \
		as_nobody bash -c 'call rename "$@"' - "$mnt/raw/x" "$raw"
	check 'another user: the name stays free' test ! -e "$raw" -a ! -e "$box"
	check 'another user: the owner creates' cp old.bin "$raw"
	check 'another user: his scratch file is still there' \
		cmp new.bin "$mnt/raw/x"
	check 'another user: the owner renames it' mv "$mnt/raw/x" "$raw"
	check 'another user: the owner renames it: bytes' cmp new.bin "$raw"
	unmounted

	# The group may.
	chgrp 4242 "$source/.metadata" "$source"/*.distcp
	chmod 664 "$source/.metadata"
	mounted "$source" -o write,allow_other
	in_group cp old.bin "$mnt/raw/x"
	fails 'the group: who is not in it' 'PermissionError: [Errno 13]' \
		as_nobody bash -c 'call rename "$@"' - "$mnt/raw/x" "$raw"
	check 'the group: rename' in_group bash -c 'call rename "$@"' - \
		"$mnt/raw/x" "$raw"
	check 'the group: bytes' cmp old.bin "$raw"
	check 'the group: rm' in_group rm "$raw"
	check 'the group: a removed name' in_group cp new.bin "$raw"
	check 'the group: a removed name: bytes' cmp new.bin "$raw"

	# What a tensor shows all may read.
	install -m 600 old.bin "$mnt/raw/private"
	fails 'a private file: rename' 'PermissionError: [Errno 13]' \
		in_group bash -c 'call rename "$@"' - "$mnt/raw/private" "$raw"
	check 'a private file: nothing has changed' cmp new.bin "$raw"
	in_group install -m 200 old.bin "$mnt/raw/his"
	check 'a private file: its owner may' \
		in_group bash -c 'call rename "$@"' - "$mnt/raw/his" "$raw"
	check 'a private file: its owner may: bytes' cmp old.bin "$raw"
	unmounted
else
	skip 'another user' 'only root can become another user'
fi
done_testing
