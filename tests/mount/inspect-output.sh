# SPDX-License-Identifier: MIT
# The output of inspect, without a mount: globs match shown names and stems, boxes and grids
# are the stored ones, totals add up.
need jq python3

source=$FIXTURES/sample
wq=model.layers.0.attention.wq.weight
inspect() {
	"$CKPTFS" inspect "$@"
}
# The names that match a glob.
picked() {
	inspect "$FIXTURES/$1" --json -- "$2" 2>"$WORK/err" |
		jq -r '(.tensors[], .objects[]) | .fqn | strings' | xargs
}

equal 'glob: one name' "$(picked sample $wq)" $wq
equal 'glob: * passes dots' "$(picked sample 'model*0*wq*')" $wq
equal 'glob: ?' "$(picked sample 'model.layers.?.ffn_norm.weight')" \
	'model.layers.0.ffn_norm.weight model.layers.1.ffn_norm.weight'
equal 'glob: [1-9]' "$(picked sample 'model.layers.[1-9].ffn_norm.*')" \
	model.layers.1.ffn_norm.weight
equal 'glob: the whole name' "$(picked sample norm.weight)" ''
equal 'glob: no name' "$(picked sample 'nothing*')" ''
equal 'glob: other entries' "$(picked optimizer 'optim.param*.lr')" \
	optim.param_groups.0.lr
equal 'glob: a name that begins with a dash' "$(picked sample -x)" ''

# Each shown name and each stem matches at least itself, with any characters.
missing=$(python3 - "$CKPTFS" "$FIXTURES/keys" <<'END'
import json, subprocess, sys

def inspect(*glob):
    out = subprocess.run([sys.argv[1], 'inspect', '--json', '--', sys.argv[2],
                          *glob], capture_output=True, check=True).stdout
    return json.loads(out)['tensors']

tensors = inspect()
for t in tensors:
    if t not in inspect(t['stem']):
        print('stem', t['stem'])
    name = t['fqn']
    if isinstance(name, str) and '\0' not in name and t not in inspect(name):
        print('name', name)
if len(tensors) < 20:
    print('few names')
END
)
equal 'a name picks itself' "$missing" ''

# --- table -------------------------------------------------------------------

table=$(inspect "$FIXTURES/optimizer")
equal 'table: one row for each tensor and other entry' \
	"$(sed '1d;/^$/,$d' <<<"$table" | wc -l)" \
	$(($(stems optimizer | wc -l) + 5))
equal 'table: other entries' "$(grep -c '^object ' <<<"$table")" 5
equal 'table: last lines' "$(tail -n 2 <<<"$table")" \
	'dcp; tensors 12, bytes 384, chunks 21, elements 96; files 2; other entries 5
96 parameters (elements of 12 tensors), 384 bytes, float32; ranks 2, files 2, dead bytes 0'
equal 'table: totals by prefix' "$(grep '^prefix' <<<"$table")" \
	"$(printf '%s\n' \
		'prefix model: tensors 3, bytes 124, chunks 6, elements 31' \
		'prefix optim: tensors 9, bytes 260, chunks 15, elements 65')"
equal 'table: prefixes go one part further than all names agree' \
	"$(inspect "$FIXTURES/optimizer" 'optim.state.*' | grep '^prefix')" \
	"$(printf '%s\n' \
		'prefix optim.state.head: tensors 3, bytes 52, chunks 5, elements 13' \
		'prefix optim.state.layers: tensors 6, bytes 208, chunks 10, elements 52')"
equal 'table: prefixes of one tensor share a line' \
	"$(inspect "$source" 'model.*' | grep '^prefix')" \
	"$(printf '%s\n' \
		'prefix model.layers: tensors 18, bytes 25344, chunks 72, elements 6336' \
		'prefix model.layers.{0..1}: tensors 18, bytes 25344, chunks 72, elements 6336' \
		'prefixes of one tensor each: tensors 3, bytes 6464, chunks 12, elements 1616')"
equal 'table: natural order' "$(inspect "$FIXTURES/many" |
	sed -n 's/^prefix layers\.\([0-9]*\):.*/\1/p' | head -n 12 | xargs)" \
	'0 1 2 3 4 5 6 7 8 9 10 11'
equal 'table: nothing picked' "$(inspect "$source" nothing 2>"$WORK/err" |
	tail -n 2)" \
	'dcp; tensors 0, bytes 0, chunks 0, elements 0; files 4; other entries 0
0 parameters (elements of 0 tensors), 0 bytes; ranks 4, files 4, dead bytes 0'
equal 'table: boxes as stored' "$(inspect "$source" $wq --chunks |
	sed -n '4,7s/ *pos.*//p' | xargs -n 3)" \
	"$(printf '[%s,0] [4,16] __%s_0.distcp\n' 0 0 4 1 8 2 12 3)"
check 'table: the grid' grep -qx '    grid \[4,1\]' \
	<<<"$(inspect "$source" $wq --chunks)"
damaged=$(fixture plain)
rm "$damaged/__0_0.distcp"
inspect "$damaged" --chunks >"$WORK/damaged"
equal 'table: a damaged checkpoint is shown' $? 0
check 'table: its faults' grep -q ' ! .*__0_0.distcp' "$WORK/damaged"

# --- globs ---------------------------------------------------------

equal 'glob: a file name' "$(picked sample $wq.npy)" $wq
equal 'glob: part of a file name' "$(picked sample '*.0.*wq.weight.npy')" $wq
equal 'glob: a stem' "$(picked keys '%2Fabs')" /abs
equal 'glob: a file name of another entry' \
	"$(picked optimizer optim.param_groups.0.lr.json)" \
	optim.param_groups.0.lr
# nothing GLOB: prints the message for a glob without a match, and the exit status.
nothing() {
	inspect "$source" "$@" 2>&1 >"$WORK/out"
	echo "$?"
}
equal 'nothing matches: a name is near' "$(nothing model.norm.wieght)" \
	'ckptfs: model.norm.wieght: no name matches; the nearest is model.norm.weight
0'
equal 'nothing matches: the end of a name is near' "$(nothing norm.wieght)" \
	'ckptfs: norm.wieght: no name matches; the nearest is model.norm.weight
0'
equal 'nothing matches: the end of a name' "$(nothing norm.weight)" \
	'ckptfs: norm.weight: no name matches; the nearest is model.norm.weight
0'
equal 'nothing matches: a part of a name' "$(nothing attention.wq)" \
	'ckptfs: attention.wq: no name matches; the nearest is model.layers.0.attention.wq.weight
0'
equal 'nothing matches: no name is near' "$(nothing 'zzzz*' --json)" \
	'ckptfs: zzzz*: no name matches
0'
equal 'something matches' "$(nothing 'model.norm*')" 0

# --- summary -------------------------------------------------------------------

equal 'summary: alone' "$(inspect "$source" --summary)" \
	'23.88 K parameters (23877 elements of 84 tensors), 93.27 KiB, float32; ranks 4, files 4, dead bytes 0'
equal 'summary: it ends the table' "$(inspect "$source" | tail -n 1)" \
	"$(inspect "$source" --summary)"
equal 'summary: of a glob' "$(inspect "$source" --summary "$wq")" \
	'256 parameters (elements of 1 tensor), 1.00 KiB, float32; ranks 4, files 4, dead bytes 0'
equal 'summary: several dtypes' "$(inspect "$FIXTURES/dtypes" --summary |
	grep -o 'bfloat16 [0-9]* bytes')" "bfloat16 $(
	inspect "$FIXTURES/dtypes" --json | jq '.totals.dtypes[] |
		select(.dtype == "bfloat16").bytes') bytes"
equal 'summary: many dtypes' "$(inspect "$FIXTURES/dtypes" --summary |
	grep -c 'and [0-9]* dtypes more;')" 1
fails 'summary: not with --csv' '--summary goes with --json' \
	"$CKPTFS" inspect "$source" --summary --csv
equal 'summary: --json' "$(inspect "$source" --summary --json | jq -c \
	'[.version, .kind, .parameters, .tensors, .bytes, .chunks, .objects,
	.ranks, .files, .dead_bytes, .dtypes[].dtype]')" \
	'[1,"dcp",23877,84,95508,273,13,4,4,0,"float32"]'
equal 'summary: in the whole of --json' \
	"$(inspect "$source" --json | jq -c .summary)" \
	"$(inspect "$source" --summary --json | jq -c 'del(.version, .kind)')"

# --- layers --------------------------------------------------------------------

# layers NAME...: the prefixes of tensors with these names, and the number of tensors in each.
layers() {
	rm -rf layers
	python3 - "$HERE/../crash" layers "$@" <<'END'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import made
plan = made.Plan(1, columns=2, rows=2)
plan.tensors = sys.argv[3:]
plan.old = {t: plan.bytes_of(2) for t in plan.tensors}
plan.write_old(sys.argv[2])
END
	inspect layers | sed -n 's/^prefix \(.*\): tensors \([0-9]*\),.*/\1 \2/p' |
		paste -sd,
}
equal 'layers: of one form' "$(layers m.h.{2,10,9,8,11}.{a,b} m.z.a m.z.b)" \
	'm.h 10,m.z 2,m.h.{8..11} 8'
equal 'layers: at the top' "$(layers {0..12}.{a,b} n.a n.b)" \
	'n 2,{0..12} 26'
equal 'layers: a name more' "$(layers {0..5}.{a,b} 3.c)" \
	'{0..2} 6,3 3,{4..5} 4'
equal 'layers: numbers that are none' "$(layers {07,08,1a,1b}.{a,b})" \
	'1a 2,1b 2,07 2,08 2'
equal 'layers: of one tensor each' "$(layers h.{0..9} w.a w.b)" \
	'h 10,w 2,h.{0..9} 10'
equal 'layers: other shapes are another form' \
	"$(inspect "$FIXTURES/many" | grep -c '^prefix layers\.[0-9]*:')" 250
equal 'layers: json' "$(inspect "$source" 'model.*' --json |
	jq -c '.totals.layers[]')" \
	'{"stem":"model.layers.","first":0,"last":1,"tensors":18,"bytes":25344,"chunks":72,"elements":6336}'

# --- for programs -------------------------------------------------------------

for name in sample optimizer keys dtypes_rare shapes strides_sharded mesh2d; do
	inspect "$FIXTURES/$name" --json --chunks >json
	check "$name: json" jq -e '
		def sums(list): [list | map(.tensors, .bytes, .chunks,
				.elements)] |
			[.[0] | _nwise(4)] | transpose | map(add // 0);
		([.tensors | length, (map(.bytes) | add // 0),
			(map(.chunks) | add // 0),
			(map(reduce .shape[] as $n (1; . * $n)) | add // 0)])
			as $want |
		.version == 1 and .kind == "dcp"
		and sums(.totals.dtypes) == $want
		and sums(.totals.prefixes) == $want
		and all(.tensors[]; .chunks == (.boxes | length))
		and all(.tensors[] | select(.grid); .chunks ==
			reduce .grid[] as $n (1; . * $n))' json
done
# Grids with ranks that have no part, and boxes that form no grid.
grid() {
	inspect "$FIXTURES/$1" "$2" --json --chunks | jq -c '.tensors[].grid'
}
equal 'json: grid of rows' "$(grid sample $wq)" '[4,1]'
equal 'json: grid of columns, an empty one too' \
	"$(grid dtensor_columns empty_last)" '[1,3]'
equal 'json: no grid' "$(grid sharded_many quilt)" null
equal 'json: no boxes unless asked' \
	"$(inspect "$source" --json | jq '[.tensors[] | has("boxes")] | any')" false
equal 'csv: of a glob' "$(inspect "$source" $wq --csv)" \
	"stem,dtype,shape,bytes,chunks,kind
$wq,float32,\"[16,16]\",1024,4,tensor"
done_testing
