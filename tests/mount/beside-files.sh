# SPDX-License-Identifier: MIT
#
# Files of torch.save beside a model, as Trainer saves the state of a job: their tensors
# and objects, the cost of a damaged file, and hf/ with the model alone. A model with a missing
# file, and a whole model beside an index.
need python3 sha256sum
damage() {
	sed '/^damaged entries /d; /^items checked /d' "$mnt/.ckptfs/damage"
}
# model WHAT FIXTURE: the tensors of the fixture have their bytes, and are all that hf/ has.
model() {
	check "$1: the model" sh -c 'cd "$1" && sha256sum --quiet -c "$2"' - "$mnt" \
		"$FIXTURES/$2.sha256"
	equal "$1: hf/ is as without the other files" "$(sha256sum <"$mnt/hf/model.safetensors")" \
		"$("$CKPTFS" cat "$FIXTURES/$2" hf/model.safetensors | sha256sum)"
}
# job WHAT: the state beside it.
job() {
	equal "$1: tensors of the job" "$(cd "$mnt/raw" && sha256sum \
		optimizer.state.0.exp_avg rng_state_1.cpu)" "$(cat expected)"
	equal "$1: objects of the job" "$(cat "$mnt"/objects/{optimizer.param_groups.0.lr,scheduler.last_epoch}.json |
		tr '\n' ' ')" '0.5 3 '
}
python3 - "$HERE/../damage" >expected <<'P'
import hashlib, sys
sys.path.insert(0, sys.argv[1])
import source
for name, file in ("a", "optimizer.state.0.exp_avg"), ("c", "rng_state_1.cpu"):
    print(hashlib.sha256(source.values(name)).hexdigest() + "  " + file)
P

# --- beside safetensors
one=$(fixture hub_one)
chmod -R u+w "$one"
"$HERE/beside-files.py" "$one"
mounted "$one"
equal 'the kind' "$(sed -n 's/^kind: \([a-z]*\) .*/\1/p' "$mnt/.ckptfs/status")" safetensors
model 'beside safetensors' hub_one
job 'beside safetensors'
equal 'local/ has each file' "$(ls "$mnt/local" | cut -d- -f2 | xargs)" \
	'model.safetensors optimizer.pt rng_state_0.pth rng_state_1.pth scheduler.pt training_args.bin'
equal 'no file is left out' "$(grep -c '^not shown' "$mnt/.ckptfs/status")" 0
equal 'a dangerous file costs only itself' "$(damage)" \
	'EBADMSG: data.pkl: pickle: dangerous global posix.system: refused; training_args.bin'
cp "$one/optimizer.pt" new
mv new "$one/optimizer.pt"
fails 'a replaced file: ESTALE' 'Stale file handle' cat "$mnt/raw/optimizer.state.0.exp_avg"
check 'a replaced file: all others' cat "$mnt/raw/rng_state_1.cpu"
unmounted
check 'a dangerous file: it did not run' test ! -e "$one.canary"
fails 'check names the dangerous file' 'training_args.bin' "$CKPTFS" check "$one"
equal 'root= with no text has them all' \
	"$("$CKPTFS" cat -o root= "$one" hf/model.safetensors | head -c 8000 | grep -ac 'optimizer.state.0.exp_avg')" 1
rm "$one/training_args.bin"
check 'check --full' "$CKPTFS" check --full "$one"
equal 'no byte is dead' "$("$CKPTFS" inspect "$one" | grep -o 'dead bytes.*')" 'dead bytes 0'
equal 'kind=torch has them alone' "$("$CKPTFS" ls -o kind=torch "$one" raw | cut -d. -f1 | sort -u | xargs)" \
	'optimizer rng_state_0 rng_state_1'
printf '\377' | dd of="$one/optimizer.pt" bs=1 conv=notrunc status=none \
	seek="$(grep -abo 'data/b' "$one/optimizer.pt" | head -n 1 | cut -d: -f1 | { read -r at; echo $((at + 6)); })"
fails 'check --full: another CRC-32' 'optimizer.state.0.exp_avg_sq' "$CKPTFS" check --full "$one"
truncate -s -1 "$one/optimizer.pt"
mounted "$one"
model 'a cut file' hub_one
equal 'a cut file: it is not shown' "$(find "$mnt" -path "$mnt/files" -prune -o -name 'optimizer.*' -print | head -n 3)" ''
equal 'a cut file: one line' "$(damage | sed 's/.*; //')" optimizer.pt
check 'a cut file: all others' cat "$mnt/raw/rng_state_1.cpu"
unmounted
mkdir run
mv "$one" run/step-1
equal 'a cut file: the step of a run is shown' "$("$CKPTFS" ls run | xargs)" 'step-1 latest .ckptfs'
truncate -s 9 run/step-1/model.safetensors
"$CKPTFS" mount run "$mnt" 2>found
unmounted
check 'a run without a complete step: a warning, and the file' \
	grep -q 'run directory: no step is complete; step-1: .*model.safetensors' found
mv run/step-1 "$one"
rmdir run
fails 'a cut model is refused' 'model.safetensors: ' "$CKPTFS" mount "$one" "$mnt"
rm -r "$one"

# --- beside an index, and beside pieces of a state dict
for fixture in files_index files_pieces hub_index; do
	source=$(fixture $fixture)
	chmod -R u+w "$source"
	"$HERE/beside-files.py" "$source"
	rm "$source/training_args.bin"
	mounted "$source"
	model $fixture $fixture
	job $fixture
	unmounted
	check "$fixture: check --full" "$CKPTFS" check --full "$source"
done

# --- a file of several is missing
rm files_pieces/pytorch_model-00002-* files_pieces/*.pt files_pieces/*.pth hub_index/*-00001-* hub_index/*.index.json
for source in files_pieces/pytorch_model-00002-of-00003.bin hub_index/model-00001-of-00003.safetensors; do
	"$CKPTFS" check "${source%/*}" >found 2>&1
	equal "$source: status of check" $? 1
	check "$source: check names it" grep -qF "${source#*/} is missing" found
	mounted "${source%/*}"
	equal "$source: one line of damage" "$(damage | grep -c "${source#*/} is missing")" 1
	unmounted
done
mkdir run
cp -r "$FIXTURES/files_pieces" run/step-1
mv files_pieces run/step-2
equal 'a step without a piece is not complete' "$("$CKPTFS" ls run | xargs)" 'step-1 latest .ckptfs'
check 'a step without a piece: why' grep -qF 'step-2: pytorch_model-00002-of-00003.bin' \
	<("$CKPTFS" cat run .ckptfs/status)

# --- a whole model beside an index, which names other files
cp "$FIXTURES"/files_several/model.pt files_index/pytorch_model.bin
cp "$FIXTURES"/hub_index/* "$FIXTURES"/hub_one/model.safetensors hub_index
for source in files_index/pytorch_model.bin hub_index/model.safetensors; do
	dir=${source%/*}
	mounted "$dir"
	equal "$source: it is shown, and not the index" "$(ls -U "$mnt/raw" | grep -vE '^(optimizer|rng_state)' | xargs)" \
		"$("$CKPTFS" ls "$source" raw | xargs)"
	line="${source#*/} is shown, as transformers loads it; ${source#*/}.index.json beside it is not used"
	equal "$source: a line of status" "$(grep -cxF "$line" "$mnt/.ckptfs/status")" 1
	unmounted
	equal "$source: a line of check" "$("$CKPTFS" check "$dir" | grep -cxF "warning: $line")" 1
done
done_testing
