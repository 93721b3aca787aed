# SPDX-License-Identifier: MIT
#
# ckptfs digest and check --digests: digests against xxhash, equal in all layouts of a state, and
# a flipped byte is named. Environment: CKPTFS_FLIPS.
need python3 xxhsum jq

# shellcheck disable=SC2046 # names of fixtures have no spaces
check 'every fixture: XXH3-128 of the bytes that PyTorch saved' python3 "$HERE/digest.py" \
	fixtures "$CKPTFS" $(for list in "$FIXTURES"/*.sha256; do echo "${list%.sha256}"; done)
sed 's/^/# /' "$WORK/out"

# digests SOURCE [ARGUMENT...]
digests() {
	"$CKPTFS" digest "$@" 2>"$WORK/err"
}

# The same state as other layouts and formats.
source=$(fixture sample)
digests "$source" >sample.xxh
for spec in 1 3 dp=2,tp=2; do
	"$CKPTFS" cp -r "$source" "dcp/$spec" "layout-$spec" >"$WORK/out" 2>&1
	digests "layout-$spec" >layout.xxh
	check "layout dcp/$spec" cmp sample.xxh layout.xxh
done
"$CKPTFS" cp "$source" torch/checkpoint.pt state.pt
digests state.pt >layout.xxh
check 'layout torch/' cmp sample.xxh layout.xxh
"$CKPTFS" cp -r "$source" hf layout-hf >"$WORK/out" 2>&1
digests layout-hf | cut -d' ' -f1 | sort >layout.xxh
digests "$source" 'model.*' | cut -d' ' -f1 | sort >model.xxh
check 'layout hf/' cmp model.xxh layout.xxh

# Tensors of more than one block, which are not read from a mapping; cat reads them from one.
python3 "$HERE/report.py" long "$WORK/long"
"$CKPTFS" cp -r "$WORK/long" dcp/3 long-3 >"$WORK/out" 2>&1
"$CKPTFS" cat long raw/long | xxhsum -H2 | cut -d' ' -f1 >long.xxh
equal 'a long tensor' "$(digests long | cut -d' ' -f1)" "$(cat long.xxh)"
equal 'a long tensor in 3 parts' "$(digests long-3 | cut -d' ' -f1)" "$(cat long.xxh)"
truncate -s 3M long/model.safetensors
equal 'a long tensor whose file is too short' "$(digests long; echo "$?")" 1

mounted "$source"
check 'xxhsum -c in the root of a mount' sh -c 'cd "$1" && xxhsum -c "$2"' - "$mnt" "$WORK/sample.xxh"
equal 'xxhsum: every tensor' "$(grep -c ': OK' "$WORK/out")" "$(stems sample | wc -l)"
unmounted

equal 'natural order' "$(cut -c39- sample.xxh)" "$("$CKPTFS" inspect --json "$source" |
	jq -r '.tensors[].stem')"
digests "$source" '*.layers.1.*' model.norm.weight >part.xxh
equal 'patterns' "$(cut -c39- part.xxh | sort)" "$(stems sample |
	grep -xE '.*[.]layers[.]1[.].*|model[.]norm[.]weight' | sort)"
check 'patterns: the same digests' sh -c '! grep -vxFf sample.xxh part.xxh'
equal 'no match: no line' "$(digests "$source" 'nothing*'; echo $?)" 0
equal 'no match: a message' "$(cat "$WORK/err")" 'ckptfs: nothing*: no name matches'
head -c 100000 /dev/zero >file.xxh
check '--output' "$CKPTFS" digest "$source" --output file.xxh
check '--output: the same lines' cmp sample.xxh file.xxh
cp -r "$FIXTURES/sample" own
for file in own/.metadata own/__0_0.distcp; do
	cp "$file" file.was
	fails "--output: $file of the source" "$file: a file of the source" "$CKPTFS" digest own --output "$file"
	check "--output: $file is as it was" cmp "$file" file.was
done
check '-o: a file' "$CKPTFS" digest "$source" -o short.xxh
check '-o: the same lines' cmp sample.xxh short.xxh
check '-o: options' "$CKPTFS" digest "$source" -o kind=dcp -o short.xxh
fails '-o: an option without a value is no file' 'option allhosts: only with hosts' "$CKPTFS" digest "$source" -o allhosts
fails '-o: a name with =' 'option d=d.txt: unknown; ckptfs help lists the options; a file of this name needs --output' \
	"$CKPTFS" digest "$source" -o d=d.txt
fails '-o: an option of mounts is no file' 'option write: only for mounts' "$CKPTFS" digest "$source" -o write
fails '--output: a directory that does not exist' 'no/file: No such file' \
	"$CKPTFS" digest "$source" --output no/file
for refused in should-fail-empty nothing; do
	digests "$FIXTURES/$refused" >"$WORK/out"
	equal "refused: $refused" "$?" 2
done
equal 'damage: exit status' "$(digests "$FIXTURES/tp_fsdp2_bad" >bad.xxh; echo $?)" 1
check 'damage: named with its errno' grep -q '^ckptfs: model.column7.weight: EIO: ' "$WORK/err"
equal 'damage: no line' "$(grep -c column7.weight bad.xxh)" 0

check 'a flipped byte in each of many places is named' python3 "$HERE/digest.py" flips \
	"$CKPTFS" "$(fixture fsdp2)" "$(seed 4100)" "$(cases CKPTFS_FLIPS 20 500)"

# findings FILE SOURCE: the exit status and the findings.
findings() {
	"$CKPTFS" check --json --digests "$@" >json 2>"$WORK/out"
	echo "$?"
	jq -r '.findings[] | select(.kind == "digest") | "\(.fqn): \(.errno) \(.what)"' json
}
equal 'check --digests: another layout' "$(findings sample.xxh layout-3)" 0
{
	grep -v 'raw/model.norm.weight$' sample.xxh
	echo "$(printf %032d 7)  raw/model.other"
} >others.xxh
equal 'check --digests: missing on each side' "$(findings others.xxh "$source")" \
	'1
model.norm.weight: null not in the file of digests
model.other: null no tensor, the file of digests has it'
sed "/raw.model.norm.weight$/s/^[0-9a-f]*/$(printf %032d 0)/" sample.xxh >other.xxh
check 'check --digests: lines' grep -q "expected $(printf %032d 0), found $(sed -n \
	's/  raw.model.norm.weight$//p' sample.xxh)" <("$CKPTFS" check --digests other.xxh "$source")
equal 'check --digests: damage is one finding' "$(findings bad.xxh "$FIXTURES/tp_fsdp2_bad")" 1
equal 'check --digests: its errno' "$(jq -r '.findings[] | "\(.fqn) \(.errno)"' json)" \
	'model.column7.weight EIO'
echo 'text' >text.xxh
fails 'check --digests: another file' 'text.xxh: line 1: expected 32 hex digits' \
	"$CKPTFS" check --digests text.xxh "$source"
fails 'check --digests: no file' 'none.xxh: No such file' \
	"$CKPTFS" check --digests none.xxh "$source"
done_testing
