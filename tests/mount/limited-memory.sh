# SPDX-License-Identifier: MIT
#
# A daemon that may have few addresses (ulimit -v), and data files longer than
# there are addresses: what cannot be mapped is read, and every byte is right.
python3 "$HERE/big.py" rows 1 4 2097152
python3 "$HERE/big.py" --columns columns 1 4 2097152 64
for source in rows columns; do
	mounted "$source"
	check "$source: the bytes" python3 "$HERE/big.py" --verify 0 \
		"$mnt/raw/t0"
	cp "$mnt/raw/t0" "$source.raw"
	cp "$mnt/local/rank-1/t0.npy" "$source.box"
	unmounted
	cp -r "$source" "huge-$source"
	truncate -s 8T "huge-$source"/__*.distcp
done

# limited KIB SOURCE [ARGUMENT...]: a mount whose daemon has so many addresses.
limited() {
	(ulimit -v "$1" && exec "$CKPTFS" mount "$2" "$mnt" "${@:3}") \
		>"$WORK/out" 2>&1
}

# log_is_empty: except for the line of each mount about cp -r, and libfuse's message when it
# cannot start a thread.
log_is_empty() {
	[ -z "$(grep -v -e 'cp -r of the mount' -e 'error creating thread' "$mnt/.ckptfs/log")" ]
}

# judge WHAT SOURCE: all bytes of all forms.
judge() {
	check "$1: the tensor" cmp "$2.raw" "$mnt/raw/t0"
	check "$1: directly, in odd pieces" sh -c \
		'dd if="$1" bs=100001 iflag=direct status=none | cmp - "$2"' - \
		"$mnt/raw/t0" "$2.raw"
	check "$1: a box" cmp "$2.box" "$mnt/local/rank-1/t0.npy"
	check "$1: the log" log_is_empty
}

for source in rows columns; do
	check "$source: mounts" limited 1000000 "$source"
	judge "$source" "$source"
	unmounted
	check "huge $source: mounts" limited 1000000 "huge-$source"
	judge "huge $source" "$source"
	unmounted
done

# What stays of a tensor that is cut by columns is read in the same way.
check 'to write: mounts' limited 1000000 huge-columns -o write,patch
printf x | dd of=columns.raw bs=1 seek=1000001 conv=notrunc status=none
check 'to write: a patch' sh -c 'printf x |
	dd of="$1" bs=1 seek=1000001 conv=notrunc' - "$mnt/raw/t0"
check 'to write: the bytes' cmp columns.raw "$mnt/raw/t0"
check 'to write: the log' log_is_empty
unmounted

# Nor does a commit take addresses that may be needed one day.
source=$(fixture sample)
one=full/model.layers.0.attention.wk.weight.npy
check 'a commit: mounts' limited 400000 "$source" -o write
cp "$mnt/$one" "$WORK/one.npy"
check 'a commit: 20 of them' sh -c \
	'for i in 1 2 3 4 5 6 7 8 9 10; do cp "$1" "$2" && cp "$1" "$2" || exit
	done' - "$WORK/one.npy" "$mnt/$one"
check 'a commit: the bytes' cmp "$WORK/one.npy" "$mnt/$one"
check 'a commit: the log' log_is_empty
unmounted
done_testing
