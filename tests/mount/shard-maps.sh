# SPDX-License-Identifier: MIT
#
# .ckptfs/shards/: the shard map of each tensor, in a mount and without one: well-formed XML, the
# rectangles of its boxes, attributes of the files, damage, steps of a run, a commit.
need python3

mapfile -t sources < <(find "$FIXTURES" -mindepth 1 -maxdepth 1 -type d ! -name '__py*' \
	! -name 'should-fail*' | sort)
check 'every fixture: boxes, shares, owners, names' python3 "$HERE/shard_maps.py" sources \
	"$CKPTFS" "${sources[@]}"
sed 's/^/# /' "$WORK/out"

# rects FILE: its rectangles, a line each.
rects() {
	python3 "$HERE/shard_maps.py" rects <"$1"
}

# The same bytes in a mount, with their size at the first stat.
for name in sample keys ranks_columns_4 sharded_many; do
	mounted "$FIXTURES/$name"
	check "$name: the same bytes in a mount" python3 "$HERE/shard_maps.py" mounted \
		"$CKPTFS" "$FIXTURES/$name" "$mnt"
	unmounted
done

# FSDP x TP: two rows of two columns.
"$CKPTFS" cat "$FIXTURES/mesh2d" .ckptfs/shards/rows_columns.svg >cut.svg
equal 'a 2-D cut has its rectangles' "$(rects cut.svg)" \
	'data-rank=0 data-offset=0,0 data-size=2,3 x=28 y=24 width=300 height=200
data-rank=1 data-offset=0,3 data-size=2,3 x=328 y=24 width=300 height=200
data-rank=2 data-offset=2,0 data-size=2,3 x=28 y=224 width=300 height=200
data-rank=3 data-offset=2,3 data-size=2,3 x=328 y=224 width=300 height=200'
"$CKPTFS" cat "$FIXTURES/ranks_columns_4" .ckptfs/shards/all.svg >all.svg
equal 'a replicated box is one rectangle' "$(rects all.svg)" \
	'data-rank=0 data-offset=0,0 data-size=3,2 x=28 y=24 width=267 height=400'
check 'and names its other ranks' grep -q 'data-rank="0" data-copies="1,2,3"' all.svg

# Files of .ckptfs like the others there.
source=$(fixture sample)
one=model.layers.0.attention.wk.weight
mounted "$source"
dir=$mnt/.ckptfs
check 'ls -a lists the directory' sh -c 'ls -a "$1" | grep -qx shards' - "$dir"
equal 'its files' "$(find "$dir" -name '*.svg' | wc -l)" "$(stems sample | wc -l)"
equal 'mode, owner and time' "$(stat -c '%a %u %g %y' "$dir/shards/$one.svg")" \
	"$(stat -c '%a %u %g %y' "$dir/tensors.csv")"
equal 'the directory' "$(stat -c '%a %u %g' "$dir/shards")" "$(stat -c '%a %u %g' "$dir")"
for bad in "$one" "$one.npy" .svg "none.svg" "$one.svg.svg"; do
	fails "no such name: $bad" 'No such file' stat "$dir/shards/$bad"
done
fails 'it cannot be written' 'Read-only file system' touch "$dir/shards/$one.svg"
fails 'nothing can be put there' 'Read-only file system' cp cut.svg "$dir/shards/"
equal 'no attribute' "$(python3 -c 'import os, sys; print(os.listxattr(sys.argv[1]))' \
	"$dir/shards/$one.svg")" '[]'
cp "$dir/shards/$one.svg" one.svg
unmounted

# A copy of the checkpoint has no maps, unless a path names them.
check 'cp -r' "$CKPTFS" cp -r "$source" copied
equal 'cp -r leaves them out' "$(find copied -name '*.svg' | wc -l)" 0
check 'cp -r of the directory' "$CKPTFS" cp -r "$source" .ckptfs/shards maps
equal 'it has all' "$(find maps -name '*.svg' | wc -l)" "$(stems sample | wc -l)"
check 'with the same bytes' cmp one.svg "$(find maps -name "$one.svg")"

# Damage: the map stays.
rm "$source"/__1_*.distcp
"$CKPTFS" cat "$source" ".ckptfs/shards/$one.svg" >lost.svg
check 'a lost file' cmp one.svg lost.svg
"$CKPTFS" cat "$FIXTURES/tp_fsdp2_bad" .ckptfs/shards/model.column7.weight.svg >bad.svg
equal 'boxes that overlap' "$(rects bad.svg | wc -l)" \
	"$("$CKPTFS" inspect --csv "$FIXTURES/tp_fsdp2_bad" | grep -F model.column7.weight, |
		sed 's/.*,\([0-9]*\),[a-z]*$/\1/')"

# Names with a meaning in XML.
python3 - "$HERE/../crash" "$WORK/names" <<'PYTHON'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import made
plan = made.Plan(1, columns=2, rows=2)
plan.tensors = ["a<b>&\"'.w", "]]>", "<!--", "&amp;", "\ud800x", "\x01\x1f\x7f\x85", "\ufffe\U0001f600"]
plan.old = {t: plan.bytes_of(2) for t in plan.tensors}
plan.write_old(sys.argv[2])
PYTHON
check 'names with a meaning in XML' python3 -c '
import subprocess, sys, xml.etree.ElementTree as xml
ckptfs, source = sys.argv[1:]
run = lambda *a: subprocess.run([ckptfs, *a], stdout=subprocess.PIPE, check=True).stdout
names = run("ls", source, ".ckptfs/shards").split(b"\n")[:-1]
found = {xml.fromstring(run("cat", source, b".ckptfs/shards/" + n)).get("data-fqn") for n in names}
want = {"a<b>&\"\x27.w", "]]>", "<!--", "&amp;", "\ufffdx", "\ufffd\ufffd\x7f\x85", "\ufffd\U0001f600"}
assert found == want, found ^ want' "$CKPTFS" "$WORK/names"

# A run directory: each step has its own.
mkdir run
cp -a "$FIXTURES/sample" run/step-1
cp -a "$FIXTURES/mesh2d" run/step-2
mounted run
equal 'a run: its steps have maps' "$(ls "$mnt/step-1/.ckptfs/shards" | wc -l)" \
	"$(stems sample | wc -l)"
check 'a run: of their tensors' cmp cut.svg "$mnt/step-2/.ckptfs/shards/rows_columns.svg"
fails 'a run: the run has no tensors' 'No such file' ls "$mnt/.ckptfs/shards"
equal 'a run: not listed' "$(ls "$mnt/.ckptfs" | grep -c shards)" 0
unmounted

# A commit changes no map, and the time of all.
rm -r "$source"
sample_written
dir=$mnt/.ckptfs
exec 3<"$dir/shards/$one.svg"
fresh
check 'a commit' cp full.npy "$npy"
same_time() {
	[ "$(stat -c %y "$dir/shards/$1.svg")" = "$(stat -c %y "$source/.metadata")" ]
}
check 'after a commit: the time' comes same_time "$one"
check 'after a commit: of other maps too' comes same_time model.norm.weight
check 'after a commit: the same map' cmp one.svg "$dir/shards/$one.svg"
check 'an open file has it too' cmp one.svg - <&3
exec 3<&-
unmounted
done_testing
