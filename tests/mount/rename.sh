# SPDX-License-Identifier: MIT
# -o rename=: a file maps the names of the checkpoint to other ones, in every view and report, for
# every kind of source. Also refused maps, writing, and the names of hf/.
need jq getfattr

sample=$FIXTURES/sample
wk=model.layers.0.attention.wk.weight wq=model.layers.0.attention.wq.weight

# --- names -------------------------------------------------------------------------------------

# Swapped, a longer prefix before a shorter one, an object, and one that stays.
printf '%s\t%s\n' '# names' 'of a test' "$wk" "$wq" "$wq" "$wk" 'model.layers.*' 'L/*' 'model.layers.1.*' '.one.*' \
	model.norm.weight model.norm.weight step a/step 'missing*' 'other*' gone lost >map
: >want
while IFS= read -r key; do
	case $key in
	"$wk") name=$wq ;;
	"$wq") name=$wk ;;
	model.layers.1.*) name=.one.${key#model.layers.1.} ;;
	model.layers.*) name=L/${key#model.layers.} ;;
	step) name=a/step ;;
	*) name=$key ;;
	esac
	echo "$key $name" >>want
done < <("$CKPTFS" inspect "$sample" --json | jq -r '(.tensors[], .objects[]).fqn')
mounted "$sample" -o rename=map
equal 'fqn of all tensors' "$(jq -r '"\(.raw_key // .fqn) \(.fqn)"' "$mnt/.ckptfs/tensors.jsonl" | sort)" \
	"$(grep -v '^step\|param_groups' want | sort)"
equal 'canary: a name without the map' "$(grep -c 'L/0.attention.wk.weight' "$mnt/.ckptfs/tensors.jsonl")" 0
check 'a stem' test -e "$mnt/raw/L%2F0.ffn_norm.weight" -a -e "$mnt/full/%2Eone.ffn_norm.weight.npy"
check 'an object' test -e "$mnt/objects/a%2Fstep.json"
check 'local/' test -e "$mnt/local/rank-1/L%2F0.ffn_norm.weight.npy"
equal 'attributes' "$(getfattr --absolute-names --only-values -n user.ckptfs.fqn "$mnt/raw/$wq") $(getfattr --absolute-names --only-values -n user.ckptfs.raw_key "$mnt/raw/$wq")" \
	"$wq $wk"
equal 'regression: no raw_key of a name that stays' "$(getfattr --absolute-names -d "$mnt/raw/model.norm.weight" | grep -c raw_key)" 0
check 'swapped: the bytes of its key' cmp "$mnt/raw/$wq" <("$CKPTFS" cat "$sample" "raw/$wk")
equal 'tensors.csv' "$(grep -c '^L%2F0' "$mnt/.ckptfs/tensors.csv")" 7
equal 'state_dict.json' "$(jq -r .step "$mnt/.ckptfs/state_dict.json")" a/step
unused='rename: 2 of 8 lines apply to no name; the first is line 8: missing*'
equal 'status' "$(grep '^rename' "$mnt/.ckptfs/status")" "renamed names: 20
$unused"
equal 'status --json' "$("$CKPTFS" status "$mnt" --json | jq -c '[.renamed_names, .rename]')" "[20,\"${unused#rename: }\"]"
equal 'the log' "$(grep -c "$unused" "$mnt/.ckptfs/log")" 1
unmounted
for command in ls cat getfattr inspect check dump cp; do
	path=raw/L%2F0.ffn_norm.weight
	case $command in
	inspect) path=L/0.ffn_norm.weight ;;
	check | dump) path= ;;
	cp) path="$path copied" ;;
	esac
	check "$command" sh -c '"$1" $2 -o rename=map "$3" $4 >said 2>told' - "$CKPTFS" $command "$sample" "$path"
	equal "$command: lines that apply to no name" "$(cat said told | grep -aFc "${unused#rename: }")" 1
done
check 'cp: the bytes' cmp copied <("$CKPTFS" cat "$sample" raw/model.layers.0.ffn_norm.weight)

# --- every kind of source -------------------------------------------------------------------------

printf '*\tnew.*\n' >all
for name in sample hub_one files_zip ranks_fsdp2_2; do
	mounted "$FIXTURES/$name" -o rename=all
	check "$name: everything, under other names" sh -c 'cd "$1" && sha256sum --quiet -c "$2"' - "$mnt" \
		<(sed 's|/\([^/]*\)$|/new.\1|' "$FIXTURES/$name.sha256")
	unmounted
done
mkdir steps
cp -r "$sample" steps/step-1
cp -r "$FIXTURES/files_zip" steps/step-2
cp all changed
mounted steps -o rename=changed
rm changed
check 'a run: each step' test -e "$mnt/step-1/raw/new.$wk"
check 'a run: the map is that of the mount' sh -c 'cd "$1" && sha256sum --quiet -c "$2"' - "$mnt/step-2" \
	<(sed 's|/\([^/]*\)$|/new.\1|' "$FIXTURES/files_zip.sha256")
unmounted

# --- refused maps ------------------------------------------------------------------------------

# refused WHAT MESSAGE LINE...: unit rename has other maps.
refused() {
	printf '%b\n' "${@:3}" >bad
	"$CKPTFS" mount "$sample" "$mnt" -o rename=bad 2>told
	equal "$1: exit status" $? 2
	equal "$1: the message" "$(grep -cF -- "$2" told)" 1
	check "$1: nothing is mounted" sh -c '! "$@"' - mountpoint -q "$mnt"
}
refused 'no tab' 'option rename: bad: line 3: expected OLD, one tab, NEW' '# a' '' 'a b'
refused 'a * in the middle' 'bad: line 1: * is possible only at the end' 'layers.*.wq\tq'
refused 'not injective: two lines' "lines 1 and 2 have the same new name: $wk -> b, $wq -> b" "$wk\tb" "$wq\tb"
refused 'not injective: a name that stays' "$wk and model.norm.weight would have the same name: model.norm.weight" "$wk\tmodel.norm.weight"
refused 'not injective: a prefix' "$wq and model.layers.1.attention.wq.weight would have the same name: $wq" 'model.layers.1.*\tmodel.layers.0.*'
for path in nowhere . ; do
	fails "rename=$path" 'option rename: ' "$CKPTFS" inspect "$sample" -o rename=$path
done
fails 'rename= alone' 'option rename=: expected a value' "$CKPTFS" mount "$sample" "$mnt" -o rename=

# --- writing --------------------------------------------------------------------------------------

source=$(fixture sample)
"$CKPTFS" inspect "$source" --json | jq -c '.tensors[] | [.fqn, .shape]' >before
mounted "$source" -o write,rename=map
head -c "$(stat -c %s "$mnt/raw/$wq")" /dev/urandom >new.bin
check 'written under a new name' cp new.bin "$mnt/raw/$wq"
check 'renamed onto a new name' sh -c 'cp new.bin "$1/raw/.t" && mv "$1/raw/.t" "$1/raw/L%2F0.attention.wv.weight"' - "$mnt"
check 'read back' cmp new.bin "$mnt/raw/$wq"
unmounted
check 'without the map the old name has it' cmp new.bin <("$CKPTFS" cat "$source" "raw/$wk")
check 'and that of the other tensor' cmp new.bin <("$CKPTFS" cat "$source" raw/model.layers.0.attention.wv.weight)
check 'the new name is as it was' cmp <("$CKPTFS" cat "$source" "raw/$wq") <("$CKPTFS" cat "$sample" "raw/$wq")
equal 'keys are as they were' "$("$CKPTFS" inspect "$source" --json | jq -c '.tensors[] | [.fqn, .shape]')" "$(cat before)"

# --- hf/ -------------------------------------------------------------------------------------------

# hf_names OPTION...: of its only file.
hf_names() {
	"$CKPTFS" cat "$sample" hf/model.safetensors "$@" 2>told | python3 -c '
import json, struct, sys
data = sys.stdin.buffer.read()
print(*sorted(json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]]).keys() - {"__metadata__"}), sep="\n")'
}
equal 'hf/: without a map' "$(hf_names | grep -c '^model\.')" 0
printf 'model.*\tmodel.model.*\nmodel.norm.weight\tlm_head\n' >hf
equal 'hf/: names are those of the map' "$(hf_names -o rename=hf | grep -vc '^model\.model\.')" 1
equal 'hf/: all of them' "$(hf_names -o rename=hf | grep -c .)" "$(hf_names | grep -c .)"
equal 'hf/: root= is compared with new names' "$(hf_names -o rename=hf,root=model | grep -vc '^model\.')" 0
equal 'hf/: and not with old ones' "$(hf_names -o rename=hf,root=model | grep -c .)" "$(($(hf_names | grep -c .) - 1))"
done_testing
