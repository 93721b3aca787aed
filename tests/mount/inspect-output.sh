# SPDX-License-Identifier: MIT
#
# What inspect prints: globs pick by shown name and by stem, boxes and grids
# are those stored, totals add up; without a mount.
need jq python3

source=$FIXTURES/sample
wq=model.layers.0.attention.wq.weight
inspect() {
	"$CKPTFS" inspect "$@"
}
# Names that a glob picks.
picked() {
	inspect "$FIXTURES/$1" --json -- "$2" |
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

# Each shown name and each stem picks at least itself, whatever is in it.
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
equal 'table: last line' "$(tail -n 1 <<<"$table")" \
	'dcp; tensors 12, bytes 384, chunks 21; files 2; other entries 5'
equal 'table: totals by prefix' "$(grep '^prefix' <<<"$table")" \
	"$(printf '%s\n' 'prefix model: tensors 3, bytes 124, chunks 6' \
		'prefix optim: tensors 9, bytes 260, chunks 15')"
equal 'table: prefixes go one part further than all names agree' \
	"$(inspect "$FIXTURES/optimizer" 'optim.state.*' | grep '^prefix')" \
	"$(printf '%s\n' \
		'prefix optim.state.head: tensors 3, bytes 52, chunks 5' \
		'prefix optim.state.layers: tensors 6, bytes 208, chunks 10')"
equal 'table: prefixes of one tensor share a line' \
	"$(inspect "$source" 'model.*' | grep '^prefix')" \
	"$(printf '%s\n' \
		'prefix model.layers: tensors 18, bytes 25344, chunks 72' \
		'prefixes of one tensor each: tensors 3, bytes 6464, chunks 12')"
equal 'table: natural order' "$(inspect "$FIXTURES/many" |
	sed -n 's/^prefix layers\.\([0-9]*\):.*/\1/p' | head -n 12 | xargs)" \
	'0 1 2 3 4 5 6 7 8 9 10 11'
equal 'table: nothing picked' "$(inspect "$source" nothing | tail -n 1)" \
	'dcp; tensors 0, bytes 0, chunks 0; files 4; other entries 0'
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

# --- for programs -------------------------------------------------------------

for name in sample optimizer keys dtypes_rare shapes strides_sharded mesh2d; do
	inspect "$FIXTURES/$name" --json --chunks >json
	check "$name: json" jq -e '
		def sums(list): [list | map(.tensors, .bytes, .chunks)] |
			[.[0] | _nwise(3)] | transpose | map(add // 0);
		([.tensors | length, (map(.bytes) | add // 0),
			(map(.chunks) | add // 0)]) as $want |
		.version == 1 and .kind == "dcp"
		and sums(.totals.dtypes) == $want
		and sums(.totals.prefixes) == $want
		and all(.tensors[]; .chunks == (.boxes | length))
		and all(.tensors[] | select(.grid); .chunks ==
			reduce .grid[] as $n (1; . * $n))' json
done
# Grids of what ranks save who got nothing, and what is no grid.
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
