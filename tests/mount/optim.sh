# SPDX-License-Identifier: MIT
# optim/: names, order and attributes, absent directories, damage, a commit, a run directory, and
# the commands without a mount. tests/torch/optim.py compares the content with PyTorch.
need python3 getfattr jq

# --- names ----------------------------------------------------------------------------------

mounted "$FIXTURES/fsdp2"
optim=$mnt/optim
equal 'a tree' "$(ls -U "$optim" | xargs)" 'by-name by-id param_groups.json'
equal "by-name has the checkpoint's order" "$(ls -U "$optim/by-name" | xargs)" 'first.weight first.bias second.weight second.bias inner.0.weight inner.0.bias inner.2.weight'
equal 'ids are positions in the groups' "$(ls -U "$optim/by-id" | xargs)" '0 1 2 3 4 5 6'
equal 'fqn is that of the entry' "$(getfattr --only-values -n user.ckptfs.fqn "$optim/by-name/inner.0.weight/exp_avg.npy")" optim.state.inner.0.weight.exp_avg
for path in by-id/4 by-name/inner.0.weight; do
	check "$path: bytes of full/" cmp "$optim/$path/exp_avg.npy" "$mnt/full/optim.state.inner.0.weight.exp_avg.npy"
done
for bad in by-id/7 by-id/00 by-id/-1 by-name/first by-name/first.weight/exp_avg by-name/by-name by-id/4/param_groups.json 4 by-name/param_groups.json; do
	fails "no such name: $bad" 'No such file' stat "$optim/$bad"
done
equal 'each name has an inode number' "$(find "$optim" -printf '%i\n' | sort | uniq -d | wc -l)" 0
equal 'sizes at the first stat' "$(find "$optim" -type f -exec sh -c 'for f; do stat -c %s "$f"; wc -c <"$f"; done | uniq -u' - {} +)" ''
fails 'it cannot be written' 'Read-only file system' sh -c 'echo >"$1"' - "$optim/by-id/4/exp_avg.npy"
fails 'nor can a name be added' 'Read-only file system' mkdir "$optim/by-name/new"
unmounted
mounted "$FIXTURES/fsdp2" -o views=optim
equal 'views=optim' "$(ls "$mnt")" optim
equal 'has all files' "$(find "$mnt/optim" -type f | wc -l)" 43
unmounted
for source in megatron:'param_groups.json' nested:'by-id param_groups.json' ranks_flat_state:'by-name param_groups.json'; do
	mounted "$FIXTURES/${source%%:*}"
	equal "${source%%:*}: what is known" "$(ls -U "$mnt/optim" | xargs)" "${source#*:}"
	unmounted
done
source=$(fixture ranks_flat_state)
rm "$source/ckptfs-flat.json"
mounted "$source"
equal 'flat parameters without a sidecar have no ids' "$(ls -U "$mnt/optim" | xargs)" 'param_groups.json'
equal 'status has the reasons' "$(grep -c '^optim: no by-[a-z]*/ of optim: ' "$mnt/.ckptfs/status")" 2
unmounted
rm -rf "$source"
for source in hub_one dtypes ranks_flat_2; do
	mounted "$FIXTURES/$source"
	check "$source: no optim/" test -d "$mnt/full" -a ! -e "$mnt/optim"
	unmounted
done

# --- damage ------------------------------------------------------------------------------------------

source=$(fixture sample)
one=layers.0.attention.wk.weight
mounted "$source"
cp -r "$mnt/optim" whole
unmounted
rm "$source/__3_0.distcp"
mounted "$source"
lost=$mnt/optim/by-name/$one/exp_avg.npy
fails 'a lost box: ENODATA' 'No data available' cat "$lost"
equal 'the size stays' "$(stat -c %s "$lost")" "$(stat -c %s "whole/by-name/$one/exp_avg.npy")"
check 'bytes before it are readable' cmp -n 512 "$lost" "whole/by-name/$one/exp_avg.npy"
check 'error names the file' sh -c 'getfattr --only-values -n user.ckptfs.error "$1" | grep -q __3_0.distcp' - "$lost"
fails 'groups that are lost: ENODATA' 'No data available' cat "$mnt/optim/param_groups.json"
equal 'they have size 0' "$(stat -c %s "$mnt/optim/param_groups.json")" 0
equal 'without their lists ids are unknown' "$(ls -U "$mnt/optim" | xargs)" 'by-name param_groups.json'
unmounted
cp "$FIXTURES/sample/__3_0.distcp" "$source"
rm "$source/__0_0.distcp"
mounted "$source"
check 'groups in other files are readable' cmp "$mnt/optim/param_groups.json" whole/param_groups.json
unmounted
rm -rf "$source"

# --- commits ------------------------------------------------------------------------------------------

sample_written
one=layers.0.attention.wk.weight
name=$mnt/optim/by-name/$one/exp_avg.npy
other=$(stat -c %i "$mnt/optim/by-name/$one/exp_avg_sq.npy")
dir=$(stat -c %i "$mnt/optim/by-name/$one")
groups=$(stat -c %i "$mnt/optim/param_groups.json")
cp "$name" old.npy
old=$(stat -c %i "$name")
python3 -c 'import sys; b = bytearray(open("old.npy", "rb").read()); b[-4:] = b"abcd"; open("new.npy", "wb").write(b)'
exec 7<"$name"
cp new.npy "$mnt/full/optim.state.$one.exp_avg.npy"
check 'an open file keeps its generation' cmp - old.npy <&7
exec 7<&-
check 'after a commit it is another file' test "$(stat -c %i "$name")" != "$old"
check 'with the new bytes' cmp "$name" new.npy
equal 'all others stay' "$(stat -c %i "$mnt/optim/by-name/$one/exp_avg_sq.npy" "$mnt/optim/by-name/$one" "$mnt/optim/param_groups.json" | xargs)" "$other $dir $groups"
fails 'it cannot be written, with -o write' 'Read-only file system' sh -c 'echo >"$1"' - "$name"
unmounted

# --- without a mount ------------------------------------------------------------------------------------

mounted "$FIXTURES/fsdp2"
cp -r "$mnt/optim" mounted
attributes=$(getfattr -d "$mnt/optim/by-id/0/exp_avg.npy" 2>/dev/null | grep -c '^user.ckptfs')
unmounted
check 'cp -r' "$CKPTFS" cp -r "$FIXTURES/fsdp2" optim offline
check 'the same files' diff -r mounted offline
equal 'ls' "$("$CKPTFS" ls "$FIXTURES/fsdp2" optim/by-id/3 | sort)" "$(ls mounted/by-id/3)"
check 'cat' sh -c '"$1" cat "$2" optim/by-name/first.bias/exp_avg.npy | cmp - mounted/by-name/first.bias/exp_avg.npy' - "$CKPTFS" "$FIXTURES/fsdp2"
equal 'getfattr' "$("$CKPTFS" getfattr "$FIXTURES/fsdp2" optim/by-id/0/exp_avg.npy | jq length)" "$attributes"
equal 'values' "$("$CKPTFS" cat "$FIXTURES/fsdp2" optim/param_groups.json | jq -c '.[0].betas')" '{"$tuple":[0.9,0.999]}'
mkdir everything
check 'cp -r of everything' "$CKPTFS" cp -r "$FIXTURES/fsdp2" . everything
equal 'leaves it out' "$(ls everything | xargs)" 'full hf local objects raw'
mkdir run
cp -r "$FIXTURES/fsdp2" run/step-1
mounted run
check 'a step has its own' diff -r "$mnt/step-1/optim" mounted
unmounted
done_testing
