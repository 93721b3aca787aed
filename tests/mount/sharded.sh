# SPDX-License-Identifier: MIT
# sharded/: names, sizes, bytes and attributes for every fixture and several meshes, compared
# with a second implementation in sharded.py. Also names that exist on lookup only, the rules
# file, damage, a commit, and the commands without a mount.
need python3 getfattr jq
sharded() {
	python3 -B "$HERE/sharded.py" "$mnt" "$@"
}

# --- every fixture -----------------------------------------------------------------------

# Ranks or a mesh, by turns; in tests/run --all both.
turn=0
every() {
	local name=$1
	turn=$((turn + 1))
	[ -z "${CKPTFS_ALL:-}" ] && [ $((turn % 2)) = 0 ] || check "$name: 3 ranks" sharded 3
	[ -z "${CKPTFS_ALL:-}" ] && [ $((turn % 2)) = 1 ] || check "$name: a mesh" sharded "${CKPTFS_ALL:+dp=2,}tp=2,cp=3"
}
each_fixture sharded every

# --- names ----------------------------------------------------------------------------------

mounted "$FIXTURES/fsdp2"
equal "the source's own number of ranks is listed" "$(ls "$mnt/sharded")" 4
check 'others exist on lookup' test -d "$mnt/sharded/3" -a -d "$mnt/sharded/dp=2,tp=3/rank-5"
equal 'and are listed then' "$(ls -U "$mnt/sharded" | xargs)" '4 3 dp=2,tp=3'
equal 'ranks in their order' "$(ls -U "$mnt/sharded/dp=2,tp=3" | xargs)" 'rank-0 rank-1 rank-2 rank-3 rank-4 rank-5'
for bad in 0 04 1000001 dp 'dp=' 'dp=0' 'dp=2,dp=2' 'dp=2,' 'dp=1001,tp=1000' 4/rank-4 4/rank-00 4/rank 4/rank-1/none.npy; do
	fails "no such name: $bad" 'No such file' stat "$mnt/sharded/$bad"
done
fails 'canary: other placements' 'other bytes' sharded 'dp=2,tp=3' --canary
one=$(ls "$mnt/sharded/3/rank-1" | head -n 1)
equal 'a name has one inode number' "$(stat -c %i "$mnt/sharded/3/rank-1/$one")" "$(stat -c %i "$mnt/sharded/3/rank-1/$one")"
equal 'each name another one' "$(find "$mnt/sharded" -printf '%i\n' | sort | uniq -d | wc -l)" 0
fails 'a file cannot be written' 'Read-only file system' sh -c 'echo >"$1"' - "$mnt/sharded/3/rank-1/$one"
fails 'nothing can be put there' 'Read-only file system' mkdir "$mnt/sharded/new"
equal 'a million ranks: the last one' "$(stat -c %s "$mnt/sharded/1000000/rank-999999/$one")" 128
many=$(cases CKPTFS_RANKS 20000 1000000)
equal 'they are listed' "$(ls -U "$mnt/sharded/$many" | wc -l)" "$many"
unmounted
mounted "$FIXTURES/hub_one"
equal 'a source without ranks lists none' "$(ls "$mnt/sharded")" ''
check 'and has all' sharded 5
seq -f "$mnt/sharded/%g" 1 4096 | xargs stat >/dev/null
fails 'the 4,097th: ENOSPC' 'No space left' stat "$mnt/sharded/4097"
check 'those before it are there' stat "$mnt/sharded/4000/rank-3999"
unmounted
mounted "$FIXTURES/ranks_flat_2"
check 'a flat parameter is not shown' test -d "$mnt/full" -a -z "$(find "$mnt/sharded" -name '*_flat_param*')"
unmounted
mounted "$FIXTURES/fsdp2" -o views=sharded
equal 'views=sharded' "$(ls "$mnt")" sharded
unmounted

# --- the rules file ------------------------------------------------------------------------------

cat >rules <<'END'
# tensor parallelism
model.first.*  tp=S(0)	cp=R # rows
*.weight       tp=S(-1)
END
mounted "$FIXTURES/fsdp2" -o placements=rules
check 'placements=: rules' sharded dp=2,tp=3,cp=2 --rule model.first.weight=tp:0 --rule model.first.weight=cp:R \
	--rule model.first.bias=tp:0 --rule model.first.bias=cp:R --rule model.second.weight=tp:1 \
	--rule model.inner.0.weight=tp:1 --rule model.inner.2.weight=tp:1
fails 'canary: without one of them' 'other bytes' sharded dp=2,tp=3,cp=2 --rule model.first.weight=tp:0 --rule model.first.weight=cp:R
equal 'placements=: each rule decides for a tensor' "$(grep -c 'rules decide' "$mnt/.ckptfs/log" "$mnt/.ckptfs/status" | sed 's/.*://' | xargs)" '0 0'
unmounted
printf '*.weight tp=R\n\n*.bais tp=R\n*.bias tp=S(1)\nmodel.first.weight tp=S(1)\n' >unused
text='placements=: 3 of 4 rules decide for no tensor; the first is line 3: \*.bais'
for views in sharded dcp sharded+dcp; do
	mounted "$FIXTURES/fsdp2" -o placements=unused,views=$views
	equal "placements=: rules without a tensor: $views" "$(grep -c "$text" "$mnt/.ckptfs/log") $(grep -cx "$text" "$mnt/.ckptfs/status")" '1 1'
	unmounted
done
fails 'placements=: without a mount' 'rules decide for no tensor' sh -c '"$1" ls "$2" -o placements=unused; false' - "$CKPTFS" "$FIXTURES/fsdp2"
for bad in 'w' 'w tp' 'w tp=S(x)' 'w tp=R tp=R' 'w tp=SS(0,2)'; do
	printf '# \n%s\n' "$bad" >malformed
	fails "refused: $bad" 'option placements: malformed: line 2: ' "$CKPTFS" mount "$FIXTURES/fsdp2" "$mnt" -o placements=malformed
done
fails 'no such file' 'option placements: absent: No such file' "$CKPTFS" ls "$FIXTURES/fsdp2" -o placements=absent
fails 'a directory' 'option placements: .: not a regular file' "$CKPTFS" ls "$FIXTURES/fsdp2" -o placements=.
mkfifo pipe
fails 'a FIFO' 'not a regular file' "$CKPTFS" ls "$FIXTURES/fsdp2" -o placements=pipe
truncate -s 1048577 large
fails 'a large one' 'larger than' "$CKPTFS" ls "$FIXTURES/fsdp2" -o placements=large

# --- damage ------------------------------------------------------------------------------------------

source=$(fixture sample)
stem=model.layers.0.attention.wk.weight
mounted "$source"
mkdir before
for r in 0 1; do cp "$mnt/sharded/2/rank-$r/$stem.npy" "before/$r.npy"; done
equal 'chunks: the boxes of the file' "$(getfattr --only-values -n user.ckptfs.chunks "$mnt/sharded/2/rank-1/$stem.npy")" 2
fails 'no error' 'No such attribute' getfattr -n user.ckptfs.error "$mnt/sharded/2/rank-1/$stem.npy"
unmounted
rm "$source/__3_0.distcp"
mounted "$source"
check 'a lost box: files of others are whole' cmp "before/0.npy" "$mnt/sharded/2/rank-0/$stem.npy"
fails 'they have no error' 'No such attribute' getfattr -n user.ckptfs.error "$mnt/sharded/2/rank-0/$stem.npy"
fails 'the file that has it: ENODATA' 'No data available' cat "$mnt/sharded/2/rank-1/$stem.npy"
check 'error names it' sh -c 'getfattr --only-values -n user.ckptfs.error "$1" | grep -q __3_0.distcp' - "$mnt/sharded/2/rank-1/$stem.npy"
total=$(stat -c %s "$mnt/sharded/2/rank-1/$stem.npy")
half=$(((total - 128) / 2 + 128))
check 'its other bytes are readable' cmp -n "$half" "before/1.npy" "$mnt/sharded/2/rank-1/$stem.npy"
equal 'its size stays' "$total" "$(stat -c %s before/1.npy)"
unmounted
rm -rf "$source"

# --- a commit -----------------------------------------------------------------------------------------

sample_written
file=$mnt/sharded/2/rank-1/$one.npy
cp "$file" old.npy
old=$(stat -c %i "$file")
exec 7<"$file"
fresh
cp full.npy "$npy"
sleep 1.1
check 'an open file keeps its generation' cmp - old.npy <&7
exec 7<&-
check 'after a commit it is another file' test "$(stat -c %i "$file")" != "$old"
check 'with other bytes' sharded 2
fails 'which are others' differ cmp "$file" old.npy
fails 'it cannot be written, with -o write' 'Read-only file system' sh -c 'echo >"$1"' - "$file"
unmounted

# --- without a mount ------------------------------------------------------------------------------------

mounted "$FIXTURES/fsdp2" -o placements=rules
cp -r "$mnt/sharded/dp=2,tp=2" mounted
find "$mnt/sharded/dp=2,tp=2/rank-1" -type f -printf '%f\n' | sort >names
attributes=$(getfattr -d "$mnt/sharded/dp=2,tp=2/rank-1/model.first.weight.npy" 2>/dev/null | grep -c '^user.ckptfs')
unmounted
offline=("$CKPTFS" cp -r "$FIXTURES/fsdp2" 'sharded/dp=2,tp=2' offline -o placements=rules)
check 'cp -r of a mesh' "${offline[@]}"
check 'the same files' diff -r mounted offline
equal 'ls' "$("$CKPTFS" ls "$FIXTURES/fsdp2" 'sharded/dp=2,tp=2/rank-1' | sort)" "$(cat names)"
check 'cat' sh -c '"$1" cat "$2" sharded/dp=2,tp=2/rank-1/model.first.weight.npy -o placements=rules | cmp - mounted/rank-1/model.first.weight.npy' - "$CKPTFS" "$FIXTURES/fsdp2"
equal 'getfattr' "$("$CKPTFS" getfattr "$FIXTURES/fsdp2" sharded/dp=2,tp=2/rank-1/model.first.weight.npy | jq length)" "$attributes"
fails 'no such layout' 'No such file' "$CKPTFS" ls "$FIXTURES/fsdp2" sharded/04
mkdir whole
check 'cp -r of everything' "$CKPTFS" cp -r "$FIXTURES/fsdp2" . whole
equal 'leaves it out' "$(ls whole | xargs)" 'full hf local objects raw'
mkdir -p run steps
cp -r "$FIXTURES/fsdp2" run/step-1
check 'of a step' "$CKPTFS" cp -r run step-1 steps
equal 'too' "$(ls steps/step-1 | xargs)" 'full hf local objects raw'
mounted run
equal 'a step has its own' "$(ls "$mnt/step-1/sharded")" 4
unmounted
done_testing
