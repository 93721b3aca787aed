# SPDX-License-Identifier: MIT
# -o kind=: selects one of several kinds in a directory, with a message if that kind is
# missing. Files beside a checkpoint that are not shown are listed in the status.
need jq
source=$FIXTURES/sample

beside() {
	sed -n 's/^not shown: //p' "$mnt/.ckptfs/status"
}

mkdir both
cp "$source"/.metadata "$source"/*.distcp both
cp "$FIXTURES/hub_index"/* both
touch both/optimizer.pt both/.hidden.safetensors.tmp both/notes.txt
mkdir both/folder.pt

mounted both
equal 'dcp comes first' "$(sed -n 's/^kind: \([a-z]*\) .*/\1/p' "$mnt/.ckptfs/status")" dcp
hub=$(cd "$FIXTURES/hub_index" && ls ./*.safetensors* | LC_ALL=C sort | sed 's|./||' | paste -sd ' ')
equal 'dcp: beside it' "$(beside)" "${hub// /, }, optimizer.pt"
equal 'dcp: beside it, as JSON' \
	"$("$CKPTFS" status --json "$mnt" | jq -r '.not_shown | join(" ")')" "$hub optimizer.pt"
unmounted

mounted both -o kind=safetensors
equal 'safetensors is meant' \
	"$(sed -n 's/^kind: \([a-z]*\) .*/\1/p' "$mnt/.ckptfs/status")" safetensors
equal 'safetensors: beside it' "$(beside)" \
	".metadata, $(cd both && ls ./*.distcp | sed 's|./||' | paste -sd , | sed 's/,/, /g'), optimizer.pt"
touch both/{1..9}.pth
equal 'many: the first ones, and how many more' "$(beside)" \
	".metadata, 1.pth, 2.pth, 3.pth, 4.pth, 5.pth, 6.pth, 7.pth and 7 more"
rm both/*.pth both/.metadata both/*.distcp both/*.pt 2>/dev/null
unmounted
mounted both
equal 'nothing beside it: no line' "$(beside)" ''
unmounted

fails 'dcp is meant: what is missing' \
	'no checkpoint of kind dcp: it has no .metadata, it has no __<rank>.metadata; it is one of kind safetensors: it has an index' \
	"$CKPTFS" mount -o kind=dcp both "$mnt"
fails 'safetensors is meant: what is missing' \
	'no checkpoint of kind safetensors: it has no *.safetensors.index.json, it has no *.safetensors; it is one of kind dcp' \
	"$CKPTFS" mount -o kind=safetensors "$source" "$mnt"
fails 'a file' 'of kind safetensors: it does not begin as a safetensors file does' \
	"$CKPTFS" mount -o kind=safetensors "$source/.metadata" "$mnt"
fails 'a file is no dcp' 'of kind dcp: it is a file, not a directory' \
	"$CKPTFS" mount -o kind=dcp "$FIXTURES"/hub_one/*.safetensors "$mnt"
mkdir d && echo text >d/sys_info && tar -cf old.pt -C d sys_info
fails 'a tar container' 'a tar container, which is not read: load with torch and save again' \
	"$CKPTFS" mount old.pt "$mnt"
"$CKPTFS" mount -o kind=nothing "$source" "$mnt" 2>err
equal 'a kind that is not read: status' $? 2
check 'a kind that is not read: words' grep -qF \
	'option kind=nothing: not read by this version, which reads dcp, torch_checkpointing, safetensors, torch' err

cp "$source"/.metadata "$source"/*.distcp both
name=$("$CKPTFS" inspect -o kind=safetensors --csv both | sed -n '2s/,.*//p')
check 'inspect' test -n "$name"
check 'check' "$CKPTFS" check -o kind=safetensors both
check 'dump' sh -c '"$1" dump -o kind=safetensors "$2" | grep -q "^catalog kind=safetensors"' \
	- "$CKPTFS" both
check 'ls' "$CKPTFS" ls -o kind=safetensors both "raw/$name"
check 'cat' "$CKPTFS" cat -o kind=safetensors both "raw/$name"
check 'cp' "$CKPTFS" cp -o kind=safetensors both "raw/$name" copy
check 'getfattr' "$CKPTFS" getfattr -o kind=safetensors both "raw/$name"
fails 'cat: a tensor of the other' '' "$CKPTFS" cat -o kind=dcp both "raw/$name"

# --- torch_checkpointing: behind DCP, before safetensors and files of ranks
kind() {
	sed -n 's/^kind: \([a-z_]*\) .*/\1/p' "$mnt/.ckptfs/status"
}
mkdir items
cp -r "$FIXTURES"/items_2/* items
cp "$FIXTURES"/hub_one/*.safetensors items
mounted items
equal 'torch_checkpointing comes before safetensors' "$(kind)" torch_checkpointing
equal 'torch_checkpointing: beside it' "$(beside)" \
	"$(cd "$FIXTURES/hub_one" && ls ./*.safetensors | sed 's|./||' | paste -sd , | sed 's/,/, /g')"
equal 'torch_checkpointing: mounts has the kind' \
	"$("$CKPTFS" mounts --json | jq -r --arg at "$mnt" '.mounts[] | select(.mountpoint == $at).kind')" torch_checkpointing
unmounted
for kind in safetensors ranks; do
	mounted items -o "kind=$kind"
	equal "torch_checkpointing: $kind is meant" "$(kind)" "$kind"
	unmounted
done
cp "$source"/.metadata "$source"/*.distcp items
mounted items
equal 'dcp comes before torch_checkpointing' "$(kind)" dcp
unmounted
mounted items -o kind=torch_checkpointing
equal 'torch_checkpointing is meant' "$(kind)" torch_checkpointing
unmounted
rm items/metadata.pkl items/.metadata items/*.distcp items/*.safetensors
mounted items
equal 'a save without metadata.pkl is of ranks' "$(kind)" ranks
unmounted
fails 'torch_checkpointing is meant: what is missing' \
	'no checkpoint of kind torch_checkpointing: it has no metadata.pkl of torch_checkpointing; it is one of kind ranks' \
	"$CKPTFS" mount -o kind=torch_checkpointing items "$mnt"
mkdir parts
for rank in 0 1; do
	cp "$FIXTURES/items_2/rank_$rank/safe.safetensors" "parts/safe_$rank.safetensors"
done
fails 'safetensors of ranks without metadata.pkl' \
	'safe_0.safetensors and safe_1.safetensors both have weight' "$CKPTFS" mount parts "$mnt"
mv parts/safe_0.safetensors parts/own-0-name.safetensors
mv parts/safe_1.safetensors parts/own-1-name.safetensors
fails 'the same with names that the job chose' 'copy its metadata.pkl' "$CKPTFS" mount parts "$mnt"
mv parts/own-1-name.safetensors parts/copy.safetensors
fails 'files of other names' 'without sharding information' "$CKPTFS" cat parts full/weight.npy

# --- files that are of ranks by the numbers in their names alone
mkdir steps ranks
for step in 1000 2000 3000; do
	cp "$FIXTURES/files_zip/checkpoint.pt" "steps/checkpoint_$step.pt"
done
cp "$FIXTURES/files_zip/checkpoint.pt" ranks/model-rank0.pt
cp "$FIXTURES/files_zip/checkpoint.pt" ranks/model-rank1.pt
note='3 files such as checkpoint_1000.pt are read as one file per rank,'
"$CKPTFS" mount steps "$mnt" 2>err
equal 'regression: steps taken as ranks: the mount reports it' "$(grep -c "$note" err)" 1
equal 'and so does status' "$(grep -c "^ranks: $note" "$mnt/.ckptfs/status")" 1
equal 'regression: no rank of theirs is missing' "$(grep -c 'have no file' "$mnt/.ckptfs/damage")" 0
unmounted
mounted steps -o kind=torch
equal 'each by itself' "$(ls "$mnt/full" | sed 's/\..*//' | sort -u | paste -sd ' ')" \
	'checkpoint_1000 checkpoint_2000 checkpoint_3000'
equal 'of which no message' "$(grep -c '^ranks:' "$mnt/.ckptfs/status")" 0
unmounted
mounted ranks
equal 'nor of names with the word rank' "$(grep -c '^ranks:' "$mnt/.ckptfs/status")" 0
unmounted

# --- a step of verl: its own state in a file, and the models in subdirectories
mkdir -p verl/global_step_8/logs
cp -r "$FIXTURES/files_ranks" verl/global_step_8/actor
cp -r "$FIXTURES/files_ranks" verl/global_step_8/critic
cp "$FIXTURES/files_zip/checkpoint.pt" verl/global_step_8/data.pt
note="checkpoints in subdirectories are not shown; try $WORK/verl/global_step_8/actor, $WORK/verl/global_step_8/critic"
mounted verl/global_step_8
equal 'checkpoints in subdirectories: status' "$(grep -c "^$note\$" "$mnt/.ckptfs/status")" 1
equal 'checkpoints in subdirectories: not shown' "$(beside)" 'actor/, critic/'
equal 'checkpoints in subdirectories: the log' "$(grep -c "$note\$" "$mnt/.ckptfs/log")" 1
unmounted
"$CKPTFS" inspect verl/global_step_8 >out 2>&1
equal 'checkpoints in subdirectories: inspect' "$(grep -c "$note\$" out)" 1
mounted verl/global_step_8 -o kind=run
equal 'checkpoints in subdirectories: kind=run shows them' \
	"$(ls "$mnt" | paste -sd ' ') $(beside)" 'actor critic files latest data.pt'
unmounted

# --- the file of one rank, and config.json where verl saves it
"$CKPTFS" inspect "$FIXTURES/files_ranks/model_world_size_3_rank_1.pt" >out 2>&1
note="one file: rank 1 of 3; whole tensors need the files of all ranks: try the directory"
equal 'the file of one rank: inspect' "$(grep -c "$note .*/files_ranks\$" out)" 1
cp "$FIXTURES/files_ranks/model_world_size_3_rank_1.pt" alone.pt
mounted alone.pt
equal 'the file of one rank: status' "$(grep -c "^$note $WORK\$" "$mnt/.ckptfs/status")" 1
unmounted
mkdir verl/global_step_8/actor/huggingface
echo '{}' >verl/global_step_8/actor/huggingface/config.json
mounted verl/global_step_8/actor
note="hf: config.json is in a subdirectory: use -o hf_template=$WORK/verl/global_step_8/actor/huggingface"
equal 'config.json in huggingface/: status' "$(grep -c "^$note\$" "$mnt/.ckptfs/status")" 1
unmounted
mounted verl/global_step_8/actor -o "${note#*-o }"
check 'config.json in huggingface/: hf/ has it' test -e "$mnt/hf/config.json"
unmounted
done_testing
