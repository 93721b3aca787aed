# SPDX-License-Identifier: MIT
#
# What each rank saved, put together again, is every tensor; names of owners
# and of several boxes of one tensor in one rank.
need python3

for tsv in $(some "$FIXTURES"/*.tensors.tsv); do
	name=$(basename "$tsv" .tensors.tsv)
	case $name in
	*-* | many) continue ;; # nothing new about boxes
	ranks_flat_state | ranks_flat_pieces) continue ;; # pieces, which are no boxes
	esac
	[ -e "$FIXTURES/$name.errors.tsv" ] && continue
	mounted "$FIXTURES/$name"
	check "$name" python3 "$HERE/local.py" "$mnt"
	unmounted
done

mounted "$FIXTURES/sharded_many"
check 'several boxes of one rank have their offsets in the name' \
	sh -c "ls $mnt/local/rank-0 | grep -q '%@'"
unmounted

copy=$(fixture plain)
mv "$copy/__0_0.distcp" "$copy/no rank.bin"
sed -i 's/__0_0.distcp/no rank.bin\x2e/' "$copy/.metadata"
mv "$copy/no rank.bin" "$copy/no rank.bin."
mounted "$copy"
equal 'a data file of no rank' "$(ls "$mnt/local")" 'file-no rank.bin.'
unmounted
mounted "$copy" -o write
owner="$mnt/local/file-no rank.bin."
box=$owner/$(ls "$owner" | head -n 1)
tail -c +129 "$box" | tr '\0-\377' '\1-\377\0' >other.bin
(head -c 128 "$box" && cat other.bin) >other.npy
cp other.npy "$owner/new"
check 'a data file of no rank: a scratch file' cmp other.npy "$owner/new"
check 'a data file of no rank: rename onto a box' mv "$owner/new" "$box"
check 'a data file of no rank: the box is replaced' cmp other.npy "$box"
equal 'a data file of no rank: the name is free' \
	"$(ls "$owner" | grep -cxF new)" 0
unmounted
done_testing
