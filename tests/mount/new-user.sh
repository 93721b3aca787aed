# SPDX-License-Identifier: MIT
# The commands of the README and the manual for a user who lost a shard, or who received a
# checkpoint from an unknown source, and their output.
need getfattr jq python3 rsync

source=$(fixture sample)
mv "$source" step-1000
mkdir ck
mnt=$WORK/ck
mounted "$WORK/step-1000"
(cd ck && sha256sum full/*) >"$WORK/whole"
unmounted
rm step-1000/__2_0.distcp

"$CKPTFS" step-1000 ck >"$WORK/out" 2>&1
equal 'it mounts' $? 0
equal 'with the size of the loss, and where to look' "$(cat "$WORK/out")" \
	"ckptfs: $WORK/step-1000: 70 of 84 tensors and 4 of 13 other entries are damaged; .ckptfs/damage in the mount names them"
equal 'the report begins with a tensor, and why' "$(head -n 2 ck/.ckptfs/damage)" \
	'model.layers.0.attention.wk.weight: 256 of 1024 bytes are lost
  ENODATA: box [8,0] [4,16]: its file is missing; __2_0.distcp at 9286'
equal 'the report counts as the mount did' \
	"$(grep '^damaged' ck/.ckptfs/damage)" 'damaged entries 74 of 97'

rsync -a ck/full/ good/ >"$WORK/out" 2>&1
equal 'rsync: exit status of a partial copy' $? 23
equal 'rsync: the whole ones' "$(ls good | wc -l)" 14
equal 'rsync: none of them is empty or cut' "$(find good -type f -size 0)" ''
(cd good && printf '%s\n' *) | while read -r name; do
	grep -F "  full/$name" "$WORK/whole"
done | sed 's|full/|good/|' >"$WORK/expected"
equal 'rsync: each is known' "$(wc -l <"$WORK/expected")" 14
check 'rsync: with the bytes that it had' \
	sha256sum --quiet -c "$WORK/expected"
mkdir plain
cp ck/full/* plain/ >"$WORK/out" 2>&1
equal 'cp: says that it failed' $? 1
equal 'cp: names what it could not copy' \
	"$(grep -c "error reading.*No data available" "$WORK/out")" 70

one=model.layers.0.attention.wk.weight
fails 'a lost tensor' 'No data available' cat "ck/full/$one.npy"
equal 'its attribute says why' "$(getfattr -n user.ckptfs.error --only-values \
	"ck/full/$one.npy")" \
	'ENODATA: box [8,0] [4,16]: its file is missing; __2_0.distcp at 9286'
equal 'what other ranks saved of it is there' \
	"$(cd ck/local && cat rank-[013]/$one.npy | wc -c)" $((3 * 384))
fails 'what this one saved is not' 'No data available' \
	cat "ck/local/rank-2/$one.npy"
check 'other entries' jq . ck/objects/step.json
fails 'a mount is no source' 'ck: a mount of ckptfs; give its source' "$CKPTFS" inspect ck
equal 'but its hf/ is one' "$("$CKPTFS" inspect ck/hf --csv | wc -l)" 22
check 'umount' "$CKPTFS" umount ck

"$CKPTFS" check step-1000 --json | jq -r '.findings[].file' | sort | uniq -c |
	xargs >"$WORK/out"
equal 'check --json | jq: which file' "$(cat "$WORK/out")" '74 __2_0.distcp'
equal 'check --json | jq: which tensors' "$("$CKPTFS" check step-1000 --json |
	jq -r '.findings[].fqn' | sort -u | wc -l)" 74
equal 'check --json | jq: whether it is well' \
	"$("$CKPTFS" check step-1000 --json | jq .ok)" false
check 'check of a whole one: exit status' "$CKPTFS" check "$FIXTURES/sample"

# A checkpoint that would run code when PyTorch reads it.
python3 "$HERE/hostile.py" dangerous "$WORK/gift"
for command in mount inspect check dump; do
	arguments=("$WORK/gift")
	[ "$command" != mount ] || arguments+=(ck)
	"$CKPTFS" "$command" "${arguments[@]}" >"$WORK/out" 2>"$WORK/err"
	equal "malicious .metadata: $command: exit status" $? 2
	equal "malicious .metadata: $command: names its next action" \
		"$(cat "$WORK/err")" \
		"ckptfs: $WORK/gift: .metadata: pickle: dangerous global posix.system: refused"
	equal "malicious .metadata: $command: no output" "$(cat "$WORK/out")" ''
done
"$CKPTFS" check "$WORK/gift" --json >"$WORK/out" 2>"$WORK/err"
equal 'malicious .metadata: check --json: exit status' $? 2
equal 'malicious .metadata: check --json: no output' "$(cat "$WORK/out")" ''
check 'malicious .metadata: nothing ran' test ! -e "$WORK/gift-canary"
python3 - "$WORK/gift/.metadata" >"$WORK/out" 2>&1 <<'END'
import os, pickle, sys

class Anything:
    def __init__(self, *_): pass
    def __hash__(self): return id(self)
    def __setstate__(self, state): pass

class Loader(pickle.Unpickler):  # as pickle.load, without torch's classes
    def find_class(self, module, name):
        return os.system if name == "system" else Anything

Loader(open(sys.argv[1], "rb")).load()
END
check 'canary: it would have, in Python' test -e "$WORK/gift-canary"

# Wrong arguments: the message contains the remedy.
fails 'one word is no mount' 'usage: ckptfs SRC MNT' "$CKPTFS" step-1000
fails 'a directory that is no checkpoint' \
	'no checkpoint known here; expected .metadata' "$CKPTFS" good ck
fails 'the .metadata itself' 'give its directory: step-1000' "$CKPTFS" step-1000/.metadata ck
fails 'a data file' 'give its directory: step-1000' "$CKPTFS" step-1000/__0_0.distcp ck
mv "$WORK/gift/.metadata" "$WORK/gift/.metadata.tmp"
fails 'a save that did not end' 'saving this checkpoint did not end' \
	"$CKPTFS" gift ck
: >gift/.metadata
fails 'a .metadata of no bytes' 'it is empty' "$CKPTFS" gift ck
head -c 9000 "$FIXTURES/sample/.metadata" >gift/.metadata
fails 'a .metadata that is cut' 'it is cut short' "$CKPTFS" gift ck

# A wrong directory: the message lists its contents and the checkpoints nearby.
mkdir other
# here WHAT TEXT [FILE...]: with these files, TEXT is the diagnosis of `other`.
here() {
	local what=$1 text=$2
	shift 2
	rm -rf other
	mkdir other
	[ $# -eq 0 ] || (cd other && for file; do
		mkdir -p "$(dirname "$file")" && : >"$file"
	done)
	"$CKPTFS" check other >"$WORK/out" 2>&1
	equal "$what: exit status" $? 2
	equal "$what: what it is" "$(cat "$WORK/out")" "ckptfs: other: $text"
}
none='no checkpoint known here; expected .metadata of torch.distributed.checkpoint, safetensors, or files of torch.save'
here 'an empty directory' "$none, found nothing"
none="$none, found nothing of a checkpoint"
here 'something else' "$none: notes.txt" notes.txt
here 'many names' "$none: a/, f1, f2, f3, f4, f5, f6, f7 and 2 more" a/b f1 f2 f3 f4 f5 f6 f7 f8 f9
here 'safetensors of no bytes' \
	'model-00001-of-00002.safetensors: no safetensors file; expected at least 8 bytes, found 0' \
	config.json model-00001-of-00002.safetensors optimizer.pt
here 'weights of transformers' \
	'pytorch_model.bin.index.json: JSON: byte 0: no value' \
	pytorch_model.bin.index.json pytorch_model-00001-of-00002.bin
here 'a file of no bytes' "$none: rank_0.pt; rank_0.pt: an empty file" rank_0.pt
here 'a .bin of no checkpoint' "$none: training_args.bin; training_args.bin: an empty file" \
	training_args.bin
here 'three levels below' "$none: a/; try other/a/b/c" a/b/c/.metadata
here 'a directory of Orbax' \
	'Orbax, not read: found _CHECKPOINT_METADATA and 1 more; load it with orbax.checkpoint and save it as safetensors' \
	_CHECKPOINT_METADATA manifest.ocdbt d/1
here 'data files alone' \
	'no .metadata, but __0_0.distcp: saving this checkpoint did not end, or its .metadata is on another machine' \
	__0_0.distcp
none='a run directory of which no step is complete
ckptfs: other: run directory: no step is complete;'
here 'one level below' "$none optimizer_0: .metadata: is not written to its end" \
	pytorch_model_fsdp_0/.metadata optimizer_0/.metadata scheduler.txt
here 'two levels below' "$none step-2: none of its parts is complete" \
	notes.txt step-2/dcp/.metadata .hidden/.metadata
rm -rf other
mkdir other
ln -s ../step-1000 other/link
fails 'a link below is not followed' 'found nothing of a checkpoint' \
	"$CKPTFS" check other
fails 'no mount point' 'No such file' "$CKPTFS" step-1000 none
done_testing
