# SPDX-License-Identifier: MIT
# A shard is replaced, rewritten, truncated or removed under the mount: reads of its bytes
# fail, all other reads succeed, and the daemon keeps running.

need jq

# Stems with data in __1_0.distcp, and without.
sort_stems() {
	local boxes
	boxes='[.boxes[] | select(.size | all(. > 0)) | .file] | any(. == "__1_0.distcp")'
	"$CKPTFS" inspect "$source" --json --chunks >boxes
	mapfile -t hit < <(jq -r ".tensors[] | select($boxes) | .stem" boxes)
	mapfile -t spared < <(jq -r ".tensors[] | select($boxes | not) | .stem" boxes)
	equal 'each stem is of one kind' "$(printf '%s\n' "${hit[@]}" "${spared[@]}" | sort)" "$(stems sample | sort)"
}

replaced() {
	cp "$1" "$1.new"
	mv "$1.new" "$1"
}
rewritten() {
	printf x | dd of="$1" conv=notrunc bs=1 seek=100 status=none
	touch -d '2040-01-01' "$1"
}
cut_short() {
	truncate -s 100 "$1"
}
emptied() {
	: >"$1"
}
removed() {
	rm "$1"
}
renamed_away() {
	mv "$1" "$1.away"
}
a_fifo() {
	rm "$1"
	mkfifo "$1"
}
a_link() {
	mv "$1" "$1.away"
	ln -s "$(basename "$1").away" "$1"
}

# failing NAME...: the number of unreadable files; the errors are in $WORK/out
failing() {
	timeout 60 cat "${@/#/$mnt/raw/}" 2>"$WORK/out" >/dev/null
	wc -l <"$WORK/out"
}

for change in replaced rewritten cut_short removed a_fifo a_link \
	${CKPTFS_ALL:+emptied renamed_away}; do
	rm -rf "$WORK/sample"
	source=$(fixture sample)
	[ "$change" != replaced ] || sort_stems
	mounted "$source"
	# Some tensors were opened before, all through the other view.
	cat "$mnt/full/${hit[0]}.npy" "$mnt/full/${hit[1]}.npy" >/dev/null
	exec 3<"$mnt/raw/${hit[2]}"
	$change "$source/__1_0.distcp"
	equal "$change: what it held fails" \
		"$(failing "${hit[@]}")" "${#hit[@]}"
	equal "$change: as stale" "$(grep -vc 'Stale file handle' "$WORK/out")" 0
	equal "$change: nothing else fails" "$(failing "${spared[@]}")" 0
	fails "$change: an open file too" '' cat <&3
	exec 3<&-
	check "$change: attribute error" getfattr -n user.ckptfs.error \
		--absolute-names "$mnt/raw/${hit[0]}"
	check "$change: the daemon lives" grep -q '^daemon:' "$mnt/.ckptfs/status"
	unmounted
done

# A file that is restored unchanged is not a fault any more.
rm -rf "$WORK/sample"
source=$(fixture sample)
mounted "$source"
renamed_away "$source/__1_0.distcp"
failing "${hit[@]}" >/dev/null
check 'away: error is listed' grep -q error \
	<<<"$(getfattr --absolute-names "$mnt/raw/${hit[0]}")"
mv "$source/__1_0.distcp.away" "$source/__1_0.distcp"
equal 'back: nothing fails' "$(failing "${hit[@]}")" 0
equal 'regression: back: error is no longer listed' \
	"$(getfattr --absolute-names "$mnt/raw/${hit[0]}" | grep -c error)" 0
check 'back: no tensor has a known fault' \
	grep -qx 'tensors with a known fault: 0' "$mnt/.ckptfs/status"
unmounted

# A file that is missing at the mount differs: its bytes are lost.
rm -rf "$WORK/sample"
source=$(fixture sample)
rm "$source/__1_0.distcp"
"$CKPTFS" mount "$source" "$mnt" 2>"$WORK/err"
equal 'missing: mounts' $? 0
equal 'missing: one line reports it' "$(grep -c damaged "$WORK/err")" 1
equal 'missing: what it held fails' "$(failing "${hit[@]}")" "${#hit[@]}"
equal 'missing: as no data' "$(grep -vc 'No data available' "$WORK/out")" 0
equal 'missing: nothing else fails' "$(failing "${spared[@]}")" 0
unmounted

# Only the lost bytes fail: the first rows belong to another rank and can be read.
source=$WORK/big
python3 "$HERE/big.py" "$source" 1 4 1048576
mounted "$source"
head -c 1048576 "$mnt/raw/t0" >"$WORK/rank0"
unmounted
truncate -s 100 "$source/__1_0.distcp"
mounted "$source"
check 'bytes before the hole' cmp -n 1048576 "$mnt/raw/t0" "$WORK/rank0"
fails 'bytes of the hole' 'No data available' \
	dd if="$mnt/raw/t0" of=/dev/null bs=1048576 skip=1 count=1
fails 'one byte of it' 'No data available' \
	dd if="$mnt/raw/t0" of=/dev/null bs=1 skip=1048575 count=2
fails 'cp of it' 'No data available' cp "$mnt/raw/t0" copied
fails 'cp --sparse=always of it' 'No data available' \
	cp --sparse=always "$mnt/raw/t0" sparse
for copied in copied sparse; do
	check "$copied: good bytes alone" cmp -n "$(stat -c %s "$copied")" \
		"$copied" "$WORK/rank0"
	check "$copied: no hole in place of others" test \
		"$(stat -c %s "$copied")" -le 1048576
done
check 'bytes behind it' \
	dd if="$mnt/raw/t0" of=/dev/null bs=1048576 skip=2 count=2
fails 'no shared mapping' 'No such device' python3 -c '
import mmap, sys
f = open(sys.argv[1], "rb")
mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)' "$mnt/raw/t0"
check 'a private mapping of good pages' python3 -c '
import mmap, sys
f = open(sys.argv[1], "rb")
m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
assert m[:1048576] == open(sys.argv[2], "rb").read()' "$mnt/raw/t0" "$WORK/rank0"
unmounted

# Truncated during reads: an error or the old bytes, never zeros or an early end.
rm -rf "$source"
python3 "$HERE/big.py" "$source" 1 2 4194304
python3 "$HERE/big.py" --columns "$WORK/columns" 1 8 1048576 512
RANDOM=$(seed 1)
rounds=$(cases CKPTFS_CUTS 1 3)
for source in $(yes "$WORK/big $WORK/columns" | head -n "$rounds"); do
	what="${source##*/}, cut while read"
	mounted "$source"
	cp "$source/__0_0.distcp" "$WORK/whole"
	(sleep 0.00$((RANDOM % 10)) && truncate -s 4096 "$source/__0_0.distcp") &
	cat "$mnt/raw/t0" >"$WORK/read" 2>"$WORK/err"
	status=$?
	wait
	check "$what: a whole file or an error" \
		test "$status" != 0 -o "$(stat -c %s "$WORK/read")" = 8388608
	check "$what: the bytes had are right" \
		python3 "$HERE/big.py" --verify 0 "$WORK/read"
	check "$what: the daemon lives" ls "$mnt/.ckptfs/status"
	unmounted
	mv "$WORK/whole" "$source/__0_0.distcp"
done
done_testing
