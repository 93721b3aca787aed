# SPDX-License-Identifier: MIT
#
# ckptfs report: the data of the page against inspect and check, damage, names with a meaning in
# HTML, sizes, and files that are replaced at once. Values are in the test report of the suite torch.
need jq python3

data() {
	python3 "$HERE/report.py" data "${1:-report.html}"
}

# Fixtures of each kind.
mapfile -t sources < <(for list in "$FIXTURES"/*.sha256; do echo "${list%.sha256}"; done)
mapfile -t sources < <(some "${sources[@]}")
for name in keys tp_fsdp2_bad sample hub_tied ranks_fsdp2_2 files_zip files_several items_2 hsdp optimizer replicated; do
	sources+=("$FIXTURES/$name")
done
check 'the tensors, boxes, ranks, aliases and faults of inspect and check' \
	python3 "$HERE/report.py" compare "$CKPTFS" "${sources[@]}"
sed 's/^/# /' "$WORK/out"

# One source, in all ways.
source=$(fixture sample)
check 'report.html in the working directory' "$CKPTFS" report "$source"
equal 'a message: none' "$(cat "$WORK/out")" ''
equal 'nothing is printed' "$("$CKPTFS" report "$source" 2>&1)" ''
python3 "$HERE/terminal.py" "$CKPTFS" report "$source" >seen 2>&1 </dev/null
check 'on a terminal: a line' grep -qE '^report.html: 84 tensors, [0-9]+\.[0-9] MiB' seen
"$CKPTFS" report -o - "$source" >out.html
check '-o -: the same page on stdout' cmp report.html out.html
check '--output, -o kind=' "$CKPTFS" report --output a=b.html -o kind=dcp "$source"
check '--output: the same page' cmp report.html a=b.html
fails '-o kind= of another kind' 'no checkpoint of kind torch' "$CKPTFS" report -o kind=torch -o other.html "$source"
check 'no file after a refusal' test ! -e other.html
equal 'optimizer state of a parameter' "$(data | jq -c '.names as $names | .optimizer[.names |
	index("model.norm.weight") | tostring] | map_values($names[.])')" \
	'{"exp_avg":"optim.state.norm.weight.exp_avg","exp_avg_sq":"optim.state.norm.weight.exp_avg_sq","step":"optim.state.norm.weight.step"}'
fails '-o: a name with =' 'option out=dir.html: unknown; ckptfs help lists the options; a file of this name needs --output' \
	"$CKPTFS" report -o out=dir.html "$source"
fails '-o: an option of mounts is no file' 'option ro: only for mounts' "$CKPTFS" report -o ro "$source"
check '-o: no file of a refused name' test ! -e ro
equal '-o only=' "$("$CKPTFS" report -o only='model.norm*' -o - "$source" >part.html; data part.html | jq -c .names)" \
	'["model.norm.weight"]'
for refused in should-fail-empty nothing; do
	"$CKPTFS" report "$FIXTURES/$refused" -o refused.html 2>"$WORK/out"
	equal "refused: $refused" "$? $(ls refused.html 2>/dev/null)" '2 '
done
mkdir run
cp -r "$source" run/step-1
cp -r "$source" run/step-2

# Damage.
bad=$FIXTURES/tp_fsdp2_bad
"$CKPTFS" report --values -o bad.html "$bad"
equal 'damage: exit status' "$?" 0
equal 'damage: the tensor is marked' "$(data bad.html | jq -r '.names[.damage | keys[] | tonumber]')" model.column7.weight
check 'damage: its errno' grep -q '^EIO' <(data bad.html | jq -r '.damage[]')
equal 'damage: no values of it' "$(data bad.html | jq -c '[.stats | .. | arrays | map(. == null) | index(true)] |
	map(select(. != null)) | unique | length')" 1
rm "$source/__1_0.distcp"
"$CKPTFS" report -o bad.html "$source"
equal 'a data file that is missing: exit status' "$?" 0
equal 'a data file that is missing: its tensors' "$(data bad.html | jq -c '[.names[.damage | keys[] | tonumber]] | sort')" \
	"$("$CKPTFS" check --json "$source" | jq -c --slurpfile all <("$CKPTFS" inspect --json "$source") \
		'[.findings[].fqn] as $bad | [$all[0].tensors[].fqn] | map(select(IN($bad[]))) | sort')"

# Only headers are read without --values: 1 TiB would take minutes.
python3 "$HERE/report.py" large large.safetensors
check 'without --values no tensor is read' timeout 60 "$CKPTFS" report large.safetensors
rm large.safetensors

# Names, and the size of the page.
python3 "$HERE/report.py" names "$WORK/names"
"$CKPTFS" report --values "$WORK/names"
check 'names are text, and the page loads nothing' python3 "$HERE/report.py" texts report.html "$WORK/names"
python3 "$HERE/report.py" many "$WORK/many" 10000
"$CKPTFS" cp -r "$WORK/many" dcp/4 four >"$WORK/out" 2>&1
"$CKPTFS" report four
check '10,000 tensors: less than 2 MiB' test "$(stat -c %s report.html)" -lt $((2 << 20))
equal '10,000 tensors: boxes of 4 ranks' "$(data | jq -c '[.layouts[].boxes | length] | max')" 4
"$CKPTFS" report --values many
check '10,000 tensors with values: less than 8 MiB' test "$(stat -c %s report.html)" -lt $((8 << 20))
equal '10,000 tensors: names' "$(data | jq '.names | length')" 10000
if [ -n "${CKPTFS_ALL:-}" ]; then
	python3 "$HERE/report.py" many "$WORK/more" 100000
	"$CKPTFS" report --values more
	equal '100,000 tensors: names and values' "$(data | jq -c '[.names, .stats.norm, .stats.bins] | map(length)')" \
		'[100000,100000,100000]'
fi
python3 "$HERE/report.py" rows "$WORK/rows"
"$CKPTFS" cp -r "$WORK/rows" dcp/300 boxes >"$WORK/out" 2>&1
"$CKPTFS" report boxes
equal 'more than 256 boxes: their number' "$(data | jq -c '.layouts[.layout[.names | index("rows")]]')" \
	'{"shape":[300,2],"boxes":[],"omitted":300,"total":300}'

# The file is replaced at once, or not at all.
echo old >kept.html
chmod 640 kept.html
(
	trap '' XFSZ
	ulimit -f 1
	"$CKPTFS" report rows -o kept.html
) 2>err
equal 'no space: exit status' "$?" 2
check 'no space: a message' grep -q 'kept.html: File too large' err
equal 'no space: the old file' "$(cat kept.html)" old
equal 'no space: no other file' "$(find . -maxdepth 1 -name '.*' -type f)" ''
ln -s kept.html link.html
check 'a link' "$CKPTFS" report rows -o link.html
check 'a link: the target has a page' grep -q '</html>' kept.html
equal 'a link: it stays' "$(readlink link.html) $(data kept.html | jq '.names | length')" 'kept.html 2'
equal 'the mode of the old file' "$(stat -c %a kept.html)" 640
check 'a device' "$CKPTFS" report rows -o /dev/null
check 'a device: it stays' test -c /dev/null
mkdir directory
fails 'a directory' 'directory: Is a directory' "$CKPTFS" report rows -o directory
fails 'a directory that does not exist' 'no/page.html: No such file' "$CKPTFS" report rows -o no/page.html
mkdir alone
check 'SIGINT: no other file stays' python3 "$HERE/report.py" interrupted "$CKPTFS" rows "$PWD/alone/page.html"
sed 's/^/# /' "$WORK/out"

# No file of the source is replaced.
cp -r "$FIXTURES/sample" own
mkdir own/beneath
echo text >own/beneath/notes
ln -s own/.metadata link-to-metadata
cp rows/model.safetensors one.safetensors
ln one.safetensors other-name
find own one.safetensors -type f -exec md5sum {} + >sums
for file in own/.metadata own/__0_0.distcp own/beneath/notes link-to-metadata; do
	fails "$file: a file of the source" "$file: a file of the source" "$CKPTFS" report own -o "$file"
done
for file in one.safetensors other-name; do
	fails "$file: the source" "$file: a file of the source" "$CKPTFS" report one.safetensors -o "$file"
done
fails 'a file of a step' '.metadata: a file of the source' "$CKPTFS" report run -o run/step-1/.metadata
check 'files of the source are as they were' md5sum --quiet -c sums
check 'a page in the directory of the source' "$CKPTFS" report own -o own/report.html
check 'a page there is replaced' "$CKPTFS" report own -o own/report.html
check 'a run directory' "$CKPTFS" report "$WORK/run" -o run.html
equal 'a run directory: its steps' "$(data run.html | jq -c '.run | [.steps, .all, .skipped]')" '[[1,2],2,{}]'
done_testing
