# SPDX-License-Identifier: MIT
# hf/: names, headers and bytes for every fixture, compared with a second implementation of
# the rules in hf.py. Also the options, the small files beside the shards, damaged, lost and
# changed sources, and the effect of a commit.
need python3 getfattr jq
hf() {
	python3 -B "$HERE/hf.py" "$mnt" "$@"
}

# --- every fixture -----------------------------------------------------------------------

all=()
for place in "$FIXTURES"/*/; do
	name=$(basename "$place")
	case $name in should-fail* | __py* | tp_fsdp2_bad) ;; *) all+=("$name") ;; esac
done
looked=0 RANDOM=$(seed 1)
mapfile -t all < <(some "${all[@]}")
for name in "${all[@]}"; do
	shard=$((RANDOM % 2 * (RANDOM % 3000 + 1)))
	"$CKPTFS" mount "$FIXTURES/$name" "$mnt" ${shard:+$([ $shard = 0 ] || echo "-ohf_shard_size=$shard")} 2>/dev/null || continue
	check "$name, in files of $shard bytes" hf --shard $shard
	unmounted
	looked=$((looked + 1))
done
check 'most were looked at' test $((looked * 10)) -ge $((${#all[@]} * 8))

mounted "$FIXTURES/sample"
fails 'canary: another byte of a tensor' ': other bytes' hf --canary
list=$(ls -aU "$mnt" | tr '\n' ' ')
equal 'the order of directories' "$list" '. .. full raw local objects hf torch sharded dcp optim f32 .ckptfs files '
equal 'an attribute of others it has not' "$(getfattr -d "$mnt/hf/model.safetensors" 2>/dev/null | grep -c 'shape\|dtype\|fqn')" 0
fails 'it cannot be written' 'Read-only file system' sh -c 'echo >"$1"' - "$mnt/hf/model.safetensors"
fails 'nothing can be put there' 'Read-only file system' sh -c 'echo >"$1/hf/new"' - "$mnt"
cp "$mnt/hf/model.safetensors" mounted.safetensors
unmounted
check 'without a mount: the same bytes' sh -c '"$1" cat "$2" hf/model.safetensors | cmp - mounted.safetensors' - "$CKPTFS" "$FIXTURES/sample"
check 'a copy of it is a checkpoint' "$CKPTFS" cp -r "$FIXTURES/sample" hf/ copied
mounted copied
check 'and has the same bytes' sh -c 'cd "$1" && sha256sum --quiet -c "$2"' - "$mnt" <(grep ' full/' "$FIXTURES/sample.sha256" | grep -v optim | sed 's| full/model\.| full/|')
unmounted

lacks='hf: no config.json, which transformers and vLLM need; -o hf_template=DIR takes it'
mounted "$FIXTURES/sample"
check 'status: no config.json' grep -q "^$lacks" "$mnt/.ckptfs/status"
equal 'the log has no line before a program asks' "$(grep -c "$lacks" "$mnt/.ckptfs/log")" 0
cat "$mnt/hf/config.json" "$mnt/hf/config.json" 2>/dev/null
equal 'and then one' "$(grep -c "$lacks" "$mnt/.ckptfs/log")" 1
unmounted

mkdir foreign
echo '{"weight_map": {"other": "a.safetensors"}}' >foreign/model.safetensors.index.json
mounted "$FIXTURES/hub_one" -o hf_template="$PWD/foreign"
check 'a template of another model: status lists all names' \
	grep -q '^hf: left out: other: only the template has it$' "$mnt/.ckptfs/status"
unmounted

# --- options -------------------------------------------------------------------------------

for root in optim optim.state ''; do
	mounted "$FIXTURES/optimizer" -o root="$root"
	check "root=$root" hf --root "$root"
	unmounted
done
"$CKPTFS" mount "$FIXTURES/optimizer" "$mnt" -o root=nothing 2>said
check 'root= of nothing: hf/ is not there' test ! -e "$mnt/hf" -a -d "$mnt/raw"
equal 'one line says so' "$(cat said)" "ckptfs: $FIXTURES/optimizer: hf: absent: option root=nothing: no tensor for hf/; names begin with model, optim"
check 'and status' grep -q '^hf: absent: option root=nothing: ' "$mnt/.ckptfs/status"
unmounted
fails 'and cp' "$FIXTURES/optimizer: hf: absent: option root=nothing: " "$CKPTFS" cp -r "$FIXTURES/optimizer" hf none -o root=nothing
printf '*\toptim.*\n' >trainers
mounted "$FIXTURES/plain" -o rename=trainers
absent='hf: absent: no tensor for hf/; root=NAME selects those below NAME, and root= all'
check 'without a model: status has the reason' grep -qx "$absent" "$mnt/.ckptfs/status"
ls "$mnt/hf" "$mnt/hf" 2>/dev/null
equal 'and the log, once, when a program asks' "$(grep -c "^ckptfs: $absent" "$mnt/.ckptfs/log")" 1
unmounted
mounted "$FIXTURES/sample" -o views=hf+raw
equal 'views=' "$(ls -aU "$mnt" | tr '\n' ' ')" '. .. raw hf .ckptfs '
unmounted
for bad in views=hfx views=hf++raw views=+ views=hf+ hf_shard_size=0 hf_shard_size=x hf_shard_size=99999999999999999999G views=; do
	fails "$bad is refused" "${bad%%=*}" "$CKPTFS" mount "$FIXTURES/sample" "$mnt" -o "$bad"
done

# --- files beside the shards ------------------------------------------------------------------------

source=$(fixture sample)
chmod 755 "$source"
mkdir "$source/dir.json"
echo '{"model_type": "llama"}' >"$source/config.json"
echo a >"$source/merges.txt"
echo b >"$source/chat.jinja"
: >"$source/empty.py"
echo no | tee "$source/.hidden.json" "$source/a.bin" "$source/some.index.json" >/dev/null
truncate -s 64M "$source/large.model"
truncate -s $((64 * 1024 * 1024 + 1)) "$source/larger.json"
mkfifo "$source/pipe.json"
echo secret >outside.json
ln -s "$WORK/outside.json" "$source/link.json"
chmod 600 "$source/merges.txt"
chmod 640 "$source/chat.jinja"
mounted "$source"
equal 'small files' "$(cd "$mnt/hf" && ls | xargs)" 'chat.jinja config.json empty.py large.model merges.txt model.safetensors'
check 'as they are' cmp "$mnt/hf/config.json" "$source/config.json"
equal 'status: with a config.json' "$(grep -c "$lacks" "$mnt/.ckptfs/status")" 0
check 'of 64 MiB' cmp "$mnt/hf/large.model" "$source/large.model"
equal 'who may read one' "$(cd "$mnt/hf" && stat -c '%n %a' chat.jinja config.json merges.txt | xargs)" 'chat.jinja 440 config.json 444 merges.txt 400'
equal 'an empty one' "$(stat -c %s "$mnt/hf/empty.py")" 0
equal 'their times' "$(stat -c %y "$mnt/hf/config.json")" "$(stat -c %y "$source/config.json")"
equal 'they have no attributes' "$(getfattr -d "$mnt/hf/config.json" 2>&1)" ''
fails 'they cannot be written' 'Read-only file system' sh -c 'echo >"$1"' - "$mnt/hf/config.json"
exec 7<"$mnt/hf/merges.txt"
echo other >"$source/merges.txt"
rm "$source/chat.jinja"
fails 'one that has changed' 'Stale file handle' dd if="$mnt/hf/merges.txt" of=/dev/null iflag=direct
fails 'one that is gone' 'Stale file handle' cat "$mnt/hf/chat.jinja"
ln -s "$FIXTURES/README.md" "$source/chat.jinja"
fails 'one that is a link now' 'Stale file handle' cat "$mnt/hf/chat.jinja"
fails 'and if it is open' 'Stale file handle' cat <&7
exec 7<&-
check 'others are there' cat "$mnt/hf/config.json"
chmod 600 "$source/config.json"
fails 'regression: one that others may read no more' 'Stale file handle' dd if="$mnt/hf/config.json" of=/dev/null iflag=direct
unmounted

# --- a template ---------------------------------------------------------------------------------

names=($("$CKPTFS" cat "$FIXTURES/sample" hf/model.safetensors | python3 -c '
import json, struct, sys
data = sys.stdin.buffer.read()
head = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
print(*[name for name in head if name != "__metadata__"])'))
mkdir template hub
python3 - "${names[@]}" <<'P'
import json, sys
names = sys.argv[1:]
files = {name: f"part-{'ab'[i % 2]}.safetensors" for i, name in enumerate(names[1:])}
files["only.here"] = "part-c.safetensors"
with open("template/model.safetensors.index.json", "w") as f:
    json.dump({"weight_map": files}, f)
P
echo '{"of": "template"}' >hub/config
ln -s ../hub/config template/config.json
"$CKPTFS" mount "$source" "$mnt" -o hf_template=template 2>said
equal 'its files' "$(cd "$mnt/hf" && ls | xargs)" 'config.json model.safetensors.index.json part-a.safetensors part-b.safetensors'
equal 'its other files, links too' "$(cat "$mnt/hf/config.json")" '{"of": "template"}'
equal 'a line for absent files' "$(cat said)" "ckptfs: $(realpath "$source"): hf_template: 1 names of its index are not in the checkpoint; .ckptfs/status has them"
equal 'tensors that are left out' "$(getfattr --absolute-names --only-values -n user.ckptfs.left_out "$mnt/hf/part-a.safetensors")" \
	"[\"model.${names[0]}\",\"only.here\"]"
equal 'status says why' "$(grep -c '^hf: left out: ' "$mnt/.ckptfs/status")" 2
check 'each is where the template has it' python3 - "$mnt/hf" <<'P'
import json, struct, sys
want = json.load(open("template/model.safetensors.index.json"))["weight_map"]
del want["only.here"]
index = json.load(open(sys.argv[1] + "/model.safetensors.index.json"))
assert index["weight_map"] == want
for file in set(want.values()):
    with open(f"{sys.argv[1]}/{file}", "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    assert set(head) - {"__metadata__"} == {name for name in want if want[name] == file}
P
unmounted
for bad in '../x.safetensors' 'config.json' '.x.safetensors' '/x.safetensors'; do
	echo "{\"weight_map\": {\"a\": \"$bad\"}}" >template/model.safetensors.index.json
	fails "a template with a file $bad" 'hf_template=template: model.safetensors.index.json: weight_map' \
		"$CKPTFS" mount "$source" "$mnt" -o hf_template=template
done
printf '{"weight_map": ' >template/model.safetensors.index.json
fails 'a malformed one' 'hf_template=template: model.safetensors.index.json' "$CKPTFS" mount "$source" "$mnt" -o hf_template=template
fails 'none' 'hf_template=none: No such file' "$CKPTFS" ls "$source" hf -o hf_template=none
echo '{"weight_map": {"other": "a.safetensors"}}' >template/model.safetensors.index.json
fails 'one of another model' 'hf: absent: hf_template: its index names no tensor of the checkpoint; names begin with model, optim' \
	"$CKPTFS" cp -r "$source" hf none -o hf_template=template
rm template/model.safetensors.index.json
mkdir bare
"$CKPTFS" cp -r "$FIXTURES/sample" hf exported 2>said
equal 'an export without config.json: one line' "$(cat said)" "ckptfs: $lacks from a directory of the model"
"$CKPTFS" cp -r "$FIXTURES/sample" hf exported -o hf_template=bare 2>said
equal 'a template without one' "$(cat said)" "ckptfs: $FIXTURES/sample: hf_template: no config.json, which transformers and vLLM need"
"$CKPTFS" cp -r "$FIXTURES/sample" hf complete -o hf_template=template 2>said
equal 'canary: with one, no line' "$(cat said)" ''
equal 'one without an index' "$("$CKPTFS" ls "$source" hf -o hf_template=template | xargs)" 'model.safetensors config.json'

# --- damage ------------------------------------------------------------------------------------

source=$(fixture fsdp2)
chmod -R u+w "$source"
victim=$(ls "$source"/__1_*.distcp | head -n 1)
truncate -s $(($(stat -c %s "$victim") / 8)) "$victim"
mounted "$source"
check 'a file that is cut: good bytes are read' hf
check 'error names the first' test -n "$(getfattr --only-values --absolute-names -n user.ckptfs.error "$mnt/hf/model.safetensors")"
unmounted
rm "$victim"
mounted "$source"
check 'a file that is gone' hf
fails 'it cannot be read as a whole' 'No data available' cat "$mnt/hf/model.safetensors"
check 'the log refers to damage' grep -q '^ckptfs: model.safetensors: No data available; .*; .ckptfs/damage names the cause$' "$mnt/.ckptfs/log"
unmounted
mounted "$source" -o root=
check 'with what trains it' hf --root ''
unmounted
source=$(fixture hub_index)
chmod -R u+w "$source"
rm "$source/model-00002-of-00003.safetensors"
"$CKPTFS" cp -r "$source" hf lost 2>said
equal 'an export without the tensors of a lost file: status 1' $? 1
check 'and a line' grep -qE "^ckptfs: $source: files and names that cannot be read and are left out: [0-9]+; ckptfs check names them$" said
"$CKPTFS" cp "$source" hf/config.json config.copy 2>said
equal 'canary: one small file: status 0, no line' "$? $(cat said)" '0 '

# --- a commit -----------------------------------------------------------------------------------

sample_written
file=$mnt/hf/model.safetensors
cp "$file" before.safetensors
old=$(stat -c %i "$file")
exec 7<"$file"
fresh
cp full.npy "$npy"
sleep 1.1
check 'an open file keeps its generation' cmp - before.safetensors <&7
exec 7<&-
check 'after a commit it is another file' test "$(stat -c %i "$file")" != "$old"
check 'with other bytes' hf
fails 'which are others' differ cmp "$file" before.safetensors
fails 'it cannot be written, with -o write' 'Read-only file system' sh -c 'echo >"$1"' - "$file"
fails 'nor removed' 'Read-only file system' rm -f "$file"
fails 'nor can others be made' 'Read-only file system' mkdir "$mnt/hf/new"
other=$(stat -c %i "$file")
check 'nothing changes by itself' test "$(stat -c %i "$file")" = "$other"
unmounted
done_testing
