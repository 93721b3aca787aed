#!/bin/bash
# SPDX-License-Identifier: MIT
# A run directory: its tree, and a concurrent saver and readers.
. "$(dirname "$0")/functions.sh"

run=$WORK/run
mkdir "$run" "$run/torn" "$run/logs"
cp -r "$FIXTURES/sample" "$run/step-2"
cp -r "$FIXTURES/sample" "$run/step-10"
cp "$FIXTURES"/sample/*.distcp "$run/torn"
ln -s step-2 "$run/best"
cp "$FIXTURES/files_ranks/model_world_size_3_rank_0.pt" "$run/rng_state_0.pth"
equal 'its names' "$("$CKPTFS" ls "$run" | tr '\n' ' ')" 'step-2 step-10 best latest .ckptfs '
for command in check dump 'inspect --summary'; do
	# shellcheck disable=SC2086
	"$CKPTFS" $command "$run" >"$WORK/out" 2>"$WORK/err"
	equal "$command: exit status" $? 2
	equal "$command: names its steps" "$(cat "$WORK/err")" \
		"ckptfs: $run: a run directory; give one of its steps: step-2, step-10"
done
# The mount has `latest`; the directory has none.
for command in check inspect report digest dump ls; do
	fails "$command RUN/latest" "$run/latest: No such file or directory; the newest step is $run/step-10" \
		"$CKPTFS" $command "$run/latest"
done
mkdir "$WORK/empty"
fails 'latest of no run directory' "$WORK/empty/latest: No such file or directory" "$CKPTFS" inspect "$WORK/empty/latest"
equal 'latest of no run directory: no step' "$("$CKPTFS" inspect "$WORK/empty/latest" 2>&1 | grep -c newest)" 0
mkdir "$run/tmp_step-20"
cp "$FIXTURES"/files_ranks/*.pt "$run/tmp_step-20"
"$CKPTFS" inspect "$run" >"$WORK/steps" 2>&1
equal 'inspect: exit status' $? 0
bytes=$("$CKPTFS" cat "$run/step-2" .ckptfs/status | sed -n 's/^bytes: //p')
tensors=$("$CKPTFS" ls "$run/step-2" raw | wc -l)
row() {
	tr -s ' ' <"$WORK/steps" | grep "^$1 " | sed 's/^[^ ]* //'
}
equal 'inspect: a step' "$(row step-10)" "dcp $tensors $bytes complete"
equal 'inspect: no checkpoint' "$(row logs)" '- - - no checkpoint is in it'
equal 'inspect: a save of torch_checkpointing that has not ended' "$(row tmp_step-20)" \
	'- - - torch_checkpointing gives this name to a save that has not ended'
equal 'inspect --json' "$("$CKPTFS" inspect --json "$run" |
	jq -c '[.kind, (.steps[] | select(.name == "step-2") | .kind, .tensors, .bytes, .complete),
		(.steps[] | select(.name == "torn") | .complete, .why)]')" \
	"[\"run\",\"dcp\",$tensors,$bytes,true,false,\"no checkpoint is in it\"]"
equal 'inspect --csv' "$("$CKPTFS" inspect --csv "$run" | grep '^"step-2"')" \
	"\"step-2\",dcp,$tensors,$bytes,\"complete\""
rm -r "$run/tmp_step-20"
fails 'hf/ of a run directory: it is in the steps' \
	'hf: No such file or directory; in a run directory, a PATH begins with the name of a step: ckptfs ls SRC' \
	"$CKPTFS" cp -r "$run" hf none
file=$("$CKPTFS" ls "$run" latest/full | head -n 1)
check 'without a mount: a file of a step' cmp \
	<("$CKPTFS" cat "$run" "latest/full/$file") \
	<("$CKPTFS" cat "$FIXTURES/sample" "full/$file")
check 'cp -r' "$CKPTFS" cp -r "$run" . "$WORK/copy"
equal 'cp: links are links' "$(readlink "$WORK/copy/best" "$WORK/copy/latest" | tr '\n' ' ')" \
	'step-2 step-10 '
check 'cp: and lead to what was copied' cmp "$WORK/copy/latest/full/$file" \
	<("$CKPTFS" cat "$FIXTURES/sample" "full/$file")
mkdir "$WORK/links" "$WORK/links/best"
ln -s elsewhere "$WORK/links/latest"
"$CKPTFS" cp "$run" latest best "$WORK/links" >"$WORK/out" 2>&1
equal 'cp: one that is there is replaced, a directory is not' \
	"$? $(readlink "$WORK/links/latest") $(grep -c 'best: is a directory' "$WORK/out")" \
	'2 step-10 1'
fails 'it cannot be written' 'checkpoints of kind run cannot be written' \
	"$CKPTFS" mount -o write,views=full "$run" "$mnt"
check 'mount' "$CKPTFS" mount "$run" "$mnt"
equal 'a link' "$(readlink "$mnt/best")" step-2
equal 'latest' "$(readlink "$mnt/latest")" step-10
check 'status: parts that are not shown' grep -q '^  torn: ' "$mnt/.ckptfs/status"
equal 'regression: status --json: steps and files that are not shown' \
	"$("$CKPTFS" status --json "$mnt" | jq -c '[.steps, .steps_not_shown, .not_shown]')" \
	'[2,["logs: no checkpoint is in it","torn: no checkpoint is in it"],["rng_state_0.pth"]]'
check 'a step has its own reports' grep -q "^source: $run/step-2" \
	"$mnt/step-2/.ckptfs/status"
python3 "$HERE/run_readers.py" "$run" "$mnt" "$FIXTURES/sample" >"$WORK/out" 2>&1
result $? 'a saver beside eight readers'
sed 's/^/# /' "$WORK/out"
ln -sfn ./step-2 "$run/latest"
said="latest says ./step-2, which is not the name of a step that is shown; it leads to step-"
is_said() {
	ls "$mnt" >/dev/null && grep -q "$said" "$mnt/.ckptfs/log"
}
comes is_said
equal 'a latest that names no step: logged once' \
	"$(sleep 2.2; ls "$mnt" >/dev/null; grep -c "$said" "$mnt/.ckptfs/log")" 1
check 'unmount' umount "$mnt"
done_testing
