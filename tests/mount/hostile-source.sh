# SPDX-License-Identifier: MIT
#
# Checkpoints that no torch writes: each is refused or served, and the daemon
# lives.
need python3

# hostile KIND: makes it and mounts it.
hostile() {
	python3 "$HERE/hostile.py" "$1" "$WORK/$1" || return
	mounted "$WORK/$1"
}

hostile empty-boxes
check 'empty boxes without a file: the tensor is read' \
	cmp "$mnt/raw/w" <(printf '\0\0\0\0\0\0\x80?\0\0\0@\0\0@@\0\0\x80@\0\0\xa0@')
fails 'and has no error' 'No such attribute' \
	getfattr -n user.ckptfs.error "$mnt/raw/w"
unmounted

done_testing
