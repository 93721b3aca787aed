# SPDX-License-Identifier: MIT
#
# What each rank saved, put together again, is every tensor; names of owners
# and of several boxes of one tensor in one rank.
need python3

for tsv in "$FIXTURES"/*.tensors.tsv; do
	name=$(basename "$tsv" .tensors.tsv)
	case $name in
	*-* | many) continue ;; # nothing new about boxes
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
done_testing
