# SPDX-License-Identifier: MIT
#
# Entries that are no tensors: as JSON, and as the item that torch.load opens.
need python3 jq

for oracle in $(some "$FIXTURES"/*.objects.jsonl); do
	name=$(basename "$oracle" .objects.jsonl)
	mounted "$FIXTURES/$name"
	check "$name" python3 "$HERE/objects.py" "$mnt" "$oracle" "$CKPTFS" \
		"$FIXTURES/$name"
	unmounted
done

mounted "$FIXTURES/values"
check 'jq reads every one' sh -c "cat $mnt/objects/*.json | jq . >/dev/null"
fails 'nothing is written' 'Read-only file system' \
	sh -c "echo 1 >$mnt/objects/none.json"
unmounted

copy=$(fixture objects)
mounted "$copy"
one=$(basename "$(ls "$mnt"/objects/*.json | head -n 1)" .json)
check 'an object is read' cat "$mnt/objects/$one.json"
exec 9<"$mnt/objects/$one.pt"
cp -a "$copy/__0_0.distcp" "$copy/new"
touch "$copy/new"
mv "$copy/new" "$copy/__0_0.distcp"
fails 'an item whose file was replaced' 'Stale file handle' cat <&9
exec 9<&-
unmounted
mv "$copy/__0_0.distcp" "$copy/away"
mounted "$copy"
equal 'without its file: size 0' "$(stat -c %s "$mnt/objects/$one.json")" 0
fails 'and an error at open' 'No data available' cat "$mnt/objects/$one.json"
fails 'of the item, too' 'No data available' cat "$mnt/objects/$one.pt"
check 'it has the attribute error' \
	getfattr -n user.ckptfs.error "$mnt/objects/$one.json"
unmounted

# An entry whose pickle names a dangerous function.
python3 "$HERE/../damage/verify.py" --make "$WORK/bad" 'entry: a dangerous call'
mounted "$WORK/bad"
equal 'refused: size 0' "$(stat -c %s "$mnt/objects/o.json")" 0
fails 'refused: an error at open' 'Bad message' cat "$mnt/objects/o.json"
check 'refused: the item can be read as it is' grep -q system \
	"$mnt/objects/o.pt"
check 'refused: and says why' grep -q dangerous <<<"$(getfattr \
	-n user.ckptfs.error --absolute-names "$mnt/objects/o.json")"
unmounted
done_testing
