# SPDX-License-Identifier: MIT
#
# ckptfs diff: lines, JSON, patterns and exit statuses; the test diff of the suite torch compares
# the figures with NumPy.
need jq python3

# differs SOURCE SOURCE [ARGUMENT...]: the lines and the exit status.
differs() {
	"$CKPTFS" diff "$@" 2>"$WORK/err"
	echo "$?"
}

source=$(fixture sample)
"$CKPTFS" cp -r "$source" dcp/3 other >"$WORK/out" 2>&1
"$CKPTFS" cp "$source" torch/checkpoint.pt state.pt
same='tensors in both: 84, of which 0 differ; only in A: 0; only in B: 0
0'
equal 'another layout' "$(differs "$source" other)" "$same"
equal 'another format' "$(differs state.pt "$source")" "$same"
equal 'JSON: no difference' "$("$CKPTFS" diff --json --stats "$source" other | jq -c .)" \
	'{"version":1,"only_a":[],"only_b":[],"changed":[],"unreadable":[]}'

# One element of 16 is larger by 0.5.
norm=model.norm.weight
mounted other -o write
python3 - "$mnt/raw/$norm" <<'END'
import struct, sys
with open(sys.argv[1], "rb") as file:
    data = bytearray(file.read())
was, = struct.unpack_from("<f", data, 8)
struct.pack_into("<f", data, 8, was + 0.5)
with open(sys.argv[1], "wb") as file:
    file.write(data)
END
unmounted
equal 'a changed element' "$(differs "$source" other)" "$norm: other bytes
tensors in both: 84, of which 1 differ; only in A: 0; only in B: 0
1"
check '--stats' grep -qE "^$norm: other bytes; largest difference 0.(5|49999)[0-9]*, mean 0.03(125|12499)[0-9]*; changed 6.25 %$" \
	<(differs --stats "$source" other)
equal '--json' "$("$CKPTFS" diff --json --stats "$source" other |
	jq -c '.changed[] | [.fqn, .a, .b == .a, .bytes, (.max_abs * 1000 | round), .changed]')" \
	'["model.norm.weight",{"dtype":"float32","shape":[16]},true,true,500,0.0625]'
equal '--json without --stats' "$("$CKPTFS" diff --json "$source" other |
	jq -c '.changed[0] | keys')" '["a","b","bytes","fqn"]'
equal '--atol: within' "$(differs --atol 0.51 "$source" other)" \
	'tensors in both: 84, of which 0 differ, 1 within the tolerance; only in A: 0; only in B: 0
0'
equal '--atol: beyond' "$(differs --atol 0.4 "$source" other | tail -n 1)" 1
equal '--rtol: within' "$(differs --rtol 1 "$source" other | tail -n 1)" 0
fails '--rtol: not a number' 'option --rtol: expected a number of at least 0, found 1x' \
	"$CKPTFS" diff --rtol 1x "$source" other
equal 'a pattern without the tensor' "$(differs "$source" other '*.layers.*' | tail -n 1)" 0
equal 'patterns with it' "$(differs "$source" other '*.layers.*' "$norm" | tail -n 1)" 1
equal 'no match: exit status' "$(differs "$source" other 'nothing*' | tail -n 1)" 0
equal 'no match: a message' "$(cat "$WORK/err")" 'ckptfs: nothing*: no name matches'

# Names.
equal 'names on one side' "$(differs "$source" "$FIXTURES/empty" "$norm")" "$norm: only in $source
tensors in both: 0, of which 0 differ; only in A: 1; only in B: 0
1"
equal 'names on one side: JSON' "$("$CKPTFS" diff --json "$FIXTURES/empty" "$source" "$norm" |
	jq -c '[.only_a, .only_b]')" '[[],["model.norm.weight"]]'
"$CKPTFS" cp -r "$source" hf copy >"$WORK/out" 2>&1
equal 'a copy of hf/: no name in common' "$(differs "$source" copy | tail -n 2)" \
	"tensors in both: 0, of which 0 differ; only in A: 84; only in B: $("$CKPTFS" inspect --csv copy | tail -n +2 | wc -l)
1"
equal 'a copy of hf/: the options' "$(cut -d' ' -f4- "$WORK/err")" \
	"names of copy are names of $source below model.: try -o rename=NAMES,exclude='optim.*', where the file NAMES has the line model.*<TAB>*"
printf 'model.*\t*\n' >NAMES
equal 'with the options: equal' "$(differs copy "$source" -o rename=NAMES,exclude='optim.*' | tail -n 1)" 0
differs copy "$source" >"$WORK/out"
check 'the options, in the other order' grep -q 'names of copy are names of .* below model\.: try' "$WORK/err"
differs copy "$FIXTURES/fsdp2" >"$WORK/out"
equal 'other names: no line' "$(cat "$WORK/err")" ''
for refused in nothing should-fail-empty; do
	equal "refused: $refused" "$(differs "$source" "$FIXTURES/$refused")" 2
done
fails 'hosts' 'option hosts: both sources must be on this host' \
	"$CKPTFS" diff -o hosts=a "$source" other

# Damage.
bad=$FIXTURES/tp_fsdp2_bad
equal 'damage: exit status' "$(differs "$bad" "$bad" | tail -n 1)" 2
check 'damage: a line' grep -q 'tp_fsdp2_bad: model.column7.weight: EIO: ' "$WORK/err"
equal 'damage: JSON' "$("$CKPTFS" diff --json "$bad" "$bad" 2>"$WORK/err" | jq -c '.changed, .unreadable')" \
	'[]
["model.column7.weight"]'
rm other/__1_0.distcp
equal 'damage beside a difference' "$(differs "$source" other | tail -n 1)" 2
equal 'damage of a tensor that the pattern excludes' "$(differs "$source" other 'optim*step' | tail -n 1)" 0
done_testing
