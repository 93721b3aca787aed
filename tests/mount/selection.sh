# SPDX-License-Identifier: MIT
# Options that select shown entries: only= and exclude= (names), ranks= (directories of local/ and
# sharded/), manifest= and strict (names, shapes and dtypes that are expected). Also writing beside
# names that are hidden, and commands without a mount.
need jq getfattr

sample=$FIXTURES/sample
wk=model.layers.0.attention.wk.weight wq=model.layers.0.attention.wq.weight

# --- names -------------------------------------------------------------------------------------

# An oracle: names of the whole checkpoint, by the patterns of bash.
"$CKPTFS" inspect "$sample" --json | jq -r '(.tensors[], .objects[]).fqn' | sort >names
wanted() {
	local name
	while IFS= read -r name; do
		case $name in
		*.wk.weight) ;;
		model.layers.0.* | step) echo "$name" ;;
		esac
	done <names
}
wanted >want
mounted "$sample" -o 'only=model.layers.0.*+step+none*,exclude=*.wk.weight'
(cd "$mnt" && ls full raw local/*/ objects hf/ sharded/3/*/ >/dev/null) || : # each can be listed
shown() {
	(cd "$mnt" && find "$@" -type f | sed 's|.*/||; s/\.npy$//; s/\.json$//; s/\.pt$//; s/%@.*//' | sort -u)
}
equal 'full/ and objects/' "$(shown full objects)" "$(cat want)"
equal 'raw/' "$(shown raw)" "$(grep -v step want)"
equal 'local/' "$(shown local)" "$(grep -v step want)"
equal 'sharded/' "$(shown sharded)" "$(grep -v step want)"
equal 'hf/' "$(python3 -c '
import json, struct, sys
data = open(sys.argv[1], "rb").read()
print(*sorted("model." + n for n in json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]]) if n != "__metadata__"), sep="\n")' \
	"$mnt/hf/model.safetensors")" "$(grep -v step want)"
equal 'tensors.csv' "$(sed 1d "$mnt/.ckptfs/tensors.csv" | cut -d, -f1 | sort)" "$(grep -v step want)"
equal 'state_dict.json' "$(jq -r '.. | strings' "$mnt/.ckptfs/state_dict.json" | sort)" "$(cat want)"
check 'the bytes of a name that is shown' cmp "$mnt/raw/$wq" <("$CKPTFS" cat "$sample" "raw/$wq")
fails 'a name that is hidden' 'No such file' stat "$mnt/full/$wk.npy"
equal 'status: names' "$(grep '^names not selected' "$mnt/.ckptfs/status")" "names not selected: $(($(wc -l <names) - $(wc -l <want)))"
equal 'status: tensors' "$(grep '^tensors:' "$mnt/.ckptfs/status")" "tensors: $(grep -vc step want)"
equal 'status: bytes' "$(sed -n 's/^bytes: //p' "$mnt/.ckptfs/status")" "$(cat "$mnt"/raw/* | wc -c)"
equal 'a pattern that matches no name: the log' "$(grep -c 'only=: 1 of 4 patterns match no name; the first is none\*' "$mnt/.ckptfs/log")" 1
unmounted
for command in ls cat getfattr cp; do
	path=raw/$wk
	[ $command != cp ] || path="$path copied"
	fails "$command: a name that is hidden" 'No such file' sh -c '"$1" $2 -o exclude=*.wk.* "$3" $4' - "$CKPTFS" $command "$sample" "$path"
done
equal 'inspect' "$("$CKPTFS" inspect "$sample" -o 'only=*.norm.*' --json | jq -c '[.tensors[].fqn]')" \
	"$(grep -F .norm. names | grep -v param_groups | jq -R . | jq -sc .)"
equal 'check: items' "$("$CKPTFS" check "$sample" -o only=model.norm.weight)" 'items checked 4 of 4; 0 findings'
equal 'no name is selected' "$("$CKPTFS" ls "$sample" full -o only=none 2>err)" ''
check 'no name is selected: a line' grep -q 'no name is selected' err
equal 'no name is selected: a note' "$("$CKPTFS" check "$sample" -o only=none | head -n 1)" \
	"warning: only=, exclude=: no name is selected; the checkpoint has $(wc -l <names)"
for bad in only= only=a++b exclude=+a exclude=a+; do
	fails "refused: $bad" "option ${bad%%=*}" "$CKPTFS" mount "$sample" "$mnt" -o "$bad"
done

# Every kind of source. Damage of a name that is hidden is not reported.
for name in alone_4 hub_index files_zip ranks_fsdp2_4 ranks_flat_3 items_4; do
	one=$("$CKPTFS" inspect "$FIXTURES/$name" --json | jq -r '.tensors[0].fqn')
	[ "${one#*[*?[+]}" = "$one" ] || continue
	mounted "$FIXTURES/$name" -o "only=$one"
	equal "$name: one tensor" "$(find "$mnt/raw" "$mnt/objects" -type f | wc -l)" 1
	check "$name: its bytes" cmp "$mnt"/raw/* <("$CKPTFS" cat "$FIXTURES/$name" "raw/$(ls "$mnt/raw")")
	check "$name: local/ has no other name, and no empty directory" sh -c \
		'for file in $(find "$1"/local -mindepth 2) $(find "$1"/local -mindepth 1 -empty); do case ${file##*/} in "$2".npy | "$2"%@*) ;; *) exit 1 ;; esac; done' - "$mnt" "$(ls "$mnt/raw")"
	unmounted
done
source=$(fixture sample)
truncate -s 5000 "$source/__2_0.distcp"
lost=$("$CKPTFS" check "$source" --json | jq -r '[.findings[].fqn | strings] | unique | .[]')
check 'canary: damage' test -n "$lost"
equal 'damage of names that are hidden' "$("$CKPTFS" check "$source" -o "exclude=$(echo "$lost" | paste -sd+)" | grep -c '^model\|^optim')" 0
rm -r "$source"

# --- a run directory ------------------------------------------------------------------------------

mkdir steps
cp -r "$sample" steps/step-1
cp -r "$FIXTURES/files_zip" steps/step-2
mounted steps -o "only=$wq,exclude=none"
equal 'a run: each step' "$(cd "$mnt" && ls step-*/raw | sort | xargs)" "$wq step-1/raw: step-2/raw:"
unmounted

# --- writing --------------------------------------------------------------------------------------

source=$(fixture sample)
"$CKPTFS" cat "$source" "raw/$wk" >before.bin
mounted "$source" -o "write,only=*.wq.weight"
head -c "$(stat -c %s "$mnt/raw/$wq")" /dev/urandom >new.bin
inode=$(stat -c %i "$mnt/raw/$wq")
check 'written' cp new.bin "$mnt/raw/$wq"
check 'a new inode' test "$inode" != "$(stat -c %i "$mnt/raw/$wq")"
for file in "full/$wk.npy" "raw/$wk" "local/rank-0/$wk.npy"; do
	fails "a copy over a name that is hidden: ${file%%/*}" 'Operation not permitted' cp new.bin "$mnt/$file"
done
fails 'a rename onto one' 'Operation not permitted' sh -c 'cp new.bin "$1/raw/.t" && mv "$1/raw/.t" "$1/raw/$2"' - "$mnt" "$wk"
equal 'the log' "$(grep -c "raw/$wk: a tensor that options only= and exclude= hide; none can be added" "$mnt/.ckptfs/log")" 2
check 'written again' cp new.bin "$mnt/raw/$wq"
equal 'names are as they were' "$(ls "$mnt/raw" | wc -l)" "$(grep -c '\.wq\.weight$' names)"
unmounted
check 'the tensor' cmp new.bin <("$CKPTFS" cat "$source" "raw/$wq")
check 'a tensor that was hidden has its bytes' cmp before.bin <("$CKPTFS" cat "$source" "raw/$wk")
equal 'check --full' "$("$CKPTFS" check --full "$source" | grep -v 'dead bytes')" "$("$CKPTFS" check --full "$sample" | tail -n 1)"

# --- ranks ------------------------------------------------------------------------------------------

mounted "$sample" -o ranks=0+2-3
equal 'ranks=: local/' "$(ls "$mnt/local" | xargs)" 'rank-0 rank-2 rank-3'
fails 'ranks=: another one' 'No such file' stat "$mnt/local/rank-1"
equal 'ranks=: sharded/' "$(ls "$mnt/sharded/3" | xargs) $(ls "$mnt/sharded/1000000" | xargs)" 'rank-0 rank-2 rank-0 rank-2 rank-3'
fails 'ranks=: another one in sharded/' 'No such file' stat "$mnt/sharded/8/rank-4"
equal 'ranks=: full/ has all' "$(ls "$mnt/full" | wc -l)" "$("$CKPTFS" ls "$sample" full | wc -l)"
unmounted
equal 'ranks=: without a mount' "$("$CKPTFS" ls "$sample" local -o 'ranks=1\,3' | xargs)" 'rank-1 rank-3'
fails 'refused: ranks=' 'expected ranks and ranges' "$CKPTFS" ls "$sample" -o ranks=3-1

# --- manifests --------------------------------------------------------------------------------------

"$CKPTFS" inspect "$sample" --json >manifest
jq -c '{tensors: (.tensors | map({key: .fqn, value: {shape, dtype}}) | from_entries | del(.["model.norm.weight"])
	| .["new.9"] = {} | .["new.10"] = {} | .["'$wq'"].shape = [16] | .["'$wk'"].dtype = "torch.bfloat16")}' manifest >other
mounted "$sample" -o strict,manifest=manifest
equal 'strict.json without a difference' "$(jq -c . "$mnt/.ckptfs/strict.json")" '{"missing_keys":[],"unexpected_keys":[],"mismatched":[]}'
unmounted
mounted "$sample" -o manifest=other
want='{"missing_keys":["new.9","new.10"],"unexpected_keys":["model.norm.weight"],"mismatched":[{"fqn":"'$wk'","expected":{"dtype":"bfloat16","shape":[16,16]},"found":{"dtype":"float32","shape":[16,16]}},{"fqn":"'$wq'","expected":{"dtype":"float32","shape":[16]},"found":{"dtype":"float32","shape":[16,16]}}]}'
equal 'strict.json' "$(jq -c . "$mnt/.ckptfs/strict.json")" "$want"
unmounted
equal 'strict.json without a mount' "$("$CKPTFS" cat "$sample" .ckptfs/strict.json -o manifest=other | jq -c .)" "$want"
equal 'no manifest, no report' "$("$CKPTFS" ls "$sample" .ckptfs | grep -c strict)" 0
fails 'strict: refused' "option strict: $sample: differs from the manifest: 2 tensors are missing, 1 unexpected, 2 have another dtype or shape; the first is $wk" \
	"$CKPTFS" mount "$sample" "$mnt" -o strict,manifest=other
check 'strict: nothing is mounted' sh -c '! "$@"' - mountpoint -q "$mnt"
fails 'strict alone' 'option strict: only with manifest' "$CKPTFS" mount "$sample" "$mnt" -o strict
fails 'strict: a run directory' 'option strict: not for a run directory' "$CKPTFS" mount steps "$mnt" -o strict,manifest=manifest
"$CKPTFS" check "$sample" -o manifest=other --json >found
equal 'check: exit status' $? 1
equal 'check: findings' "$(jq -c '[.ok, (.findings[] | select(.kind == "strict") | .fqn)]' found)" \
	"[false,\"$wk\",\"$wq\",\"model.norm.weight\",\"new.9\",\"new.10\"]"
check 'check: a manifest that fits' "$CKPTFS" check "$sample" -o manifest=manifest
check 'names that are hidden are not missing' "$CKPTFS" check "$sample" -o manifest=manifest,exclude=model.*
for bad in nowhere . "$sample/.metadata"; do
	fails "refused: manifest=$bad" 'option manifest: ' "$CKPTFS" ls "$sample" -o "manifest=$bad"
done
mounted steps -o manifest=manifest
equal 'a run: each step' "$(jq -c '[.missing_keys, .unexpected_keys | length]' "$mnt/step-1/.ckptfs/strict.json") $(ls "$mnt/.ckptfs" | grep -c strict)" '[0,0] 0'
unmounted
done_testing
