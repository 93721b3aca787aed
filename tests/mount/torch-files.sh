# SPDX-License-Identifier: MIT
# Files of torch.save: a single file in the zip and the legacy container, several files,
# pieces with and without an index. Tests the tree of each, damaged files, and refused ones.
need python3 getfattr jq sha256sum setpriv

# kind FIXTURE REASON TENSORS ENTRIES: mounts a fixture; all tensors have the right bytes.
kind() {
	mounted "$(fixture "$1")"
	check "$1: bytes" sh -c 'cd "$1" && sha256sum --quiet -c "$2"' - "$mnt" "$FIXTURES/$1.sha256"
	equal "$1: kind" "$(sed -n 3p "$mnt/.ckptfs/status")" "kind: torch ($2)"
	equal "$1: tensors" "$(ls "$mnt/raw" | wc -l)" "$3"
	equal "$1: as the reports count" \
		"$(grep -E '^(tensors|other entries): ' "$mnt/.ckptfs/status" | tr '\n' ' ')" \
		"tensors: $3 other entries: $4 "
	equal "$1: nothing is damaged" "$(head -n 1 "$mnt/.ckptfs/damage")" \
		"damaged entries 0 of $(($3 + $4))"
	equal "$1: order" "$(ls -U "$mnt/raw")" "$(cut -f1 "$FIXTURES/$1.tensors.tsv")"
}

# attribute NAME FILE
attribute() {
	getfattr --absolute-names --only-values -n "user.ckptfs.$1" "$mnt/$2"
}

for one in files_zip files_legacy; do
	kind $one 'it has files of torch.save' 18 10
	equal "$one: what the file saved" "$(ls "$mnt/local")" 'file-checkpoint.pt'
	check "$one: local: the same" cmp "$mnt/full/list.1.0.npy" \
		"$mnt/local/file-checkpoint.pt/list.1.0.npy"
	equal "$one: tied" "$(attribute alias_of full/model.head.weight.npy)" \
		'model.embed.weight'
	fails "$one: what is no alias has no such name" '' \
		attribute alias_of full/model.embed.weight.npy
	equal "$one: names" "$(attribute fqn 'full/7~2.npy'; attribute dtype 'raw/7~2'
		attribute shape full/list.1.0.npy; attribute kind objects/rng.json)" \
		'7~2int16[4,2]object'
	equal "$one: values" "$(cd "$mnt/objects" && cat 7.json args.tokens.json none.json flags.a.json \
		optimizer.param_groups.0.betas.json | tr '\n' ' ')" \
		'"seven" 1180591620717411303424 {} [true,null] {"$tuple":[0.9,0.95]} '
	equal "$one: a tuple with a tensor" "$(jq -c . "$mnt/objects/rng.json")" \
		'{"$tuple":[{"$tensor":{"dtype":"float32","shape":[6]}},5]}'
	check "$one: attributes of a directory can be listed" getfattr -d "$mnt/full"
	equal "$one: tensors.csv" "$(grep -c , "$mnt/.ckptfs/tensors.csv")" 19
	unmounted
	check "$one: check" "$CKPTFS" check --full "$WORK/$one"
	equal "$one: as one file, too" "$("$CKPTFS" ls "$WORK/$one/checkpoint.pt" raw | wc -l)" 18
done
kind files_protocol5 'it has files of torch.save' 8 0
unmounted
kind files_several 'it has files of torch.save' 16 3
equal 'several: each below its name' "$(ls "$mnt/raw" | cut -d. -f1 | sort | uniq -c | xargs)" \
	'6 model 10 optimizer'
equal 'several: local' "$(ls "$mnt/local" | tr '\n' ' ')" 'file-model.pt file-optimizer.pt '
# One of the files is replaced while mounted.
cp files_several/optimizer.pt new
mv new files_several/optimizer.pt
fails 'replaced: ESTALE' 'Stale file handle' cat "$mnt/raw/optimizer.state.1.exp_avg"
check 'replaced: all of the other file' cat "$mnt/raw/model.norm.weight"
unmounted
kind files_pieces 'it has pieces of a state dict of torch.save' 5 0
unmounted
kind files_index 'it has an index of files of torch.save' 5 0
unmounted

# A storage that belongs to a non-tensor entry only: 96 bytes at 4544.
printf '\377' | dd of=files_zip/checkpoint.pt bs=1 seek=4550 conv=notrunc status=none
fails 'regression: check --full: a tensor in a tuple' 'its storage has another CRC-32' \
	"$CKPTFS" check --full files_zip

# Files without read permission are listed, and are reported as damage to that user.
mkdir private
for name in alpha beta; do
	cp "$FIXTURES/files_zip/checkpoint.pt" "private/$name.pt"
done
chmod 600 private/beta.pt
chmod 755 "$WORK" private
fails 'regression: a file that may not be read is not passed over' 'Permission denied; beta.pt' \
	setpriv --reuid=nobody --regid="$(id -gn nobody)" --clear-groups "$CKPTFS" check private
equal 'and the names of others are the same' \
	"$(setpriv --reuid=nobody --regid="$(id -gn nobody)" --clear-groups "$CKPTFS" ls private raw | head -n 1)" \
	alpha.model.embed.weight

# Damage of one file does not affect the others.
rm files_pieces/pytorch_model-00002-*
mounted files_pieces
equal 'a piece that is not there: what is' "$(ls "$mnt/raw" | wc -l)" 3
unmounted
rm files_index/pytorch_model-00002-*
mounted files_index
equal 'index: a file that is not there' "$(grep -c \
	'the index names it, its file cannot be read' "$mnt/.ckptfs/damage")" 2
check 'index: what others have' cat "$mnt/raw/embed.weight"
unmounted
truncate -s -1 files_several/model.pt
mounted files_several
equal 'several: the one that is cut' "$(ls "$mnt/raw" | cut -d. -f1 | uniq -c | xargs)" \
	'10 optimizer'
check 'several: damage names it' grep -qF 'model.pt' "$mnt/.ckptfs/damage"
unmounted
fails 'check finds it' 'model.pt' "$CKPTFS" check files_several
truncate -s -1 files_zip/checkpoint.pt
fails 'an archive that is cut' 'checkpoint.pt: ' "$CKPTFS" mount files_zip "$mnt"

# The end of the last tensor in the file.
read -r end last <<<"$("$CKPTFS" dump files_legacy | awk '
	/^tensor / { name = $2 }
	/^ chunk / { match($0, / pos=[0-9]+/); at = substr($0, RSTART + 5, RLENGTH - 5)
		match($0, / length=[0-9]+/); print at + substr($0, RSTART + 8, RLENGTH - 8), name }' |
	sort -n | tail -n 1)"
truncate -s $((end - 1)) files_legacy/checkpoint.pt
mounted files_legacy
fails 'before 1.6: cut by a byte: the last tensor' 'No data available' cat "$mnt/raw/$last"
(cd "$mnt/raw" && sha256sum -- *) 2>/dev/null | sed 's|  |  raw/|' | sort >read
grep -F '  raw/' "$FIXTURES/files_legacy.sha256" | grep -vF "/$last" | sort >expected
equal 'before 1.6: cut by a byte: how many' "$(wc -l <read)" 17
equal 'before 1.6: cut by a byte: all others' "$(cat read)" "$(cat expected)"
unmounted

# No code of a pickle runs, and a small file must not need much memory.
mkdir one
"$HERE/torch-files.py" value one/value.pt
equal 'a bare value' "$("$CKPTFS" cat one objects/value.json)" '[1,"two"]'
"$HERE/torch-files.py" dangerous one/evil.pt
fails 'a dangerous file' "evil.pt: pickle: dangerous global posix.system: refused" \
	"$CKPTFS" mount one "$mnt"
fails 'a dangerous file: alone' 'posix.system' "$CKPTFS" mount one/evil.pt "$mnt"
check 'a dangerous file: nothing ran' test ! -e one/evil.pt.canary
python3 -c 'import pickle, sys
file = open(sys.argv[1], "rb")
for _ in range(4):
    pickle.load(file)' one/evil.pt
check 'canary: it would have, in Python' test -e one/evil.pt.canary
"$HERE/torch-files.py" many many.pt
mounted many.pt
equal 'a key of very many paths: all have a name' "$(ls -U "$mnt/objects" | wc -l)" $((2 * 46368))
peak=$(sed -n 's/^VmHWM:\t *\([0-9]*\) kB/\1/p' "/proc/$(daemon)/status")
echo "# $(stat -c %s many.pt) bytes: $peak KiB"
# ASan keeps freed memory, and has its own tables.
most=$((128 << 10))
! grep -q -a __asan_init "$CKPTFS" || most=$((1024 << 10))
check 'a key of very many paths: memory' [ "$peak" -lt "$most" ]
unmounted
fails 'it cannot be written' 'checkpoints of kind torch cannot be written' \
	"$CKPTFS" mount -o write many.pt "$mnt"
done_testing
