# SPDX-License-Identifier: MIT
#
# 64 threads fault random pages of 8 mapped tensors beside readers, while
# their pages are thrown out of the cache: it goes on, and every word is right.
need python3

python3 "$HERE/big.py" rows 6 4 2097152
python3 "$HERE/big.py" --columns columns 2 8 1048576 1024
for source in rows columns; do
	mounted "$WORK/$source"
	pid=$(daemon)
	check "$source" "$STORM_BIN" 6 "$mnt"/raw/t*
	sed 's/^/# /' "$WORK/out"
	check "$source: the daemon lives" kill -0 "$pid"
	for file in "$mnt"/raw/t*; do
		check "$source: ${file##*/} is right" python3 "$HERE/big.py" \
			--verify "${file##*/t}" "$file"
	done
	unmounted
done

# And eight at once, of both kinds.
mkdir second
mounted "$WORK/rows"
check 'mount of the second' "$CKPTFS" mount columns second
check 'two mounts' "$STORM_BIN" 6 "$mnt"/raw/t*
check 'umount of the second' "$CKPTFS" umount second
unmounted
done_testing
