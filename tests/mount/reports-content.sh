# SPDX-License-Identifier: MIT
# The files of the control directory have the right contents and the size shown by stat. An
# open file does not change.
need jq python3

# Parses CSV, and prints the columns of a fixture's table.
csv_rows() {
	python3 -c '
import csv, sys
for r in csv.DictReader(open(sys.argv[1], newline="")):
    print(r["stem"], r["dtype"], r["shape"], r["chunks"], r["kind"])
' "$1"
}

for name in sample keys dtypes_rare wrappers; do
	mounted "$FIXTURES/$name"
	dir=$mnt/.ckptfs
	table=$FIXTURES/$name.tensors.tsv
	for file in tensors.csv tensors.jsonl; do
		size=$(stat -c %s "$dir/$file")
		equal "$name: size of $file" "$(wc -c <"$dir/$file")" "$size"
	done
	equal "$name: csv" "$(csv_rows "$dir/tensors.csv" | sort)" \
		"$(awk -F'\t' '{ print $1, $2, $3, $5, "tensor" }' "$table" |
			sort)"
	equal "$name: jsonl" \
		"$(jq -r '[.stem, .dtype, (.shape | tostring), (.chunks |
			tostring)] | join("\t")' "$dir/tensors.jsonl" | sort)" \
		"$(cut -f1,2,3,5 "$table" | sort)"
	equal "$name: inspect --json is the same" \
		"$("$CKPTFS" inspect "$FIXTURES/$name" --json |
			jq -c '.version, .tensors[]')" \
		"1
$(jq -c . "$dir/tensors.jsonl")"
	equal "$name: inspect --csv is the same" \
		"$("$CKPTFS" inspect "$FIXTURES/$name" --csv | sha256sum)" \
		"$(sha256sum <"$dir/tensors.csv")"
	unmounted
done

source=$(fixture sample)
mounted "$source"
dir=$mnt/.ckptfs
equal 'names' "$(ls "$dir" | xargs)" \
	"damage log${CKPTFS_GPUS:+ paths} shards state_dict.json stats status tensors.csv tensors.jsonl"
equal 'natural order' "$(tail -n +2 "$dir/tensors.csv" | cut -d, -f1)" \
	"$(stems sample | python3 -c '
import re, sys
parts = lambda line: [int(x) if x.isdigit() else x
                      for x in re.split(r"(\d+)", line.strip())]
print("".join(sorted(sys.stdin, key=parts)), end="")')"
equal 'status: counts' "$(sed -n 's/^tensors: //p' "$dir/status")" \
	"$(stems sample | wc -l)"
check 'status: kind' grep -q '^kind: dcp ' "$dir/status"
equal 'status: size' "$(stat -c %s "$dir/status")" "$(wc -c <"$dir/status")"
fails 'a live report is not mapped shared' 'No such device' python3 -c '
import mmap, sys
f = open(sys.argv[1], "rb")
mmap.mmap(f.fileno(), 10, mmap.MAP_SHARED, mmap.PROT_READ)' "$dir/status"

# The same for programs.
"$CKPTFS" status "$mnt" --json >"$WORK/json"
equal 'status --json: version, kind' "$(jq -c '[.version, .kind, .why]' json)" \
	'[1,"dcp","it has the .metadata of torch.distributed.checkpoint"]'
equal 'status --json: every line, in order' "$(jq -r 'keys_unsorted[]' json |
	grep -vx 'version\|why')" \
	"$("$CKPTFS" status "$mnt" | sed -n 's/^\([^ ][^:]*\): .*/\1/p' | tr ' ' _)"
equal 'status --json: numbers' \
	"$(jq -c '[.tensors, .bytes, .boxes, .files, .daemon]' json)" \
	"[84,95508,273,4,$(daemon)]"
equal 'status --json: lists' "$(jq -c '[.options, .unknown_classes]' json)" \
	'[[],[]]'
equal 'status --json: a string' "$(jq -r .source json)" "$source"
fails 'status: an option' 'the nearest is --json' "$CKPTFS" status "$mnt" --jsn
fails 'status: two mounts' 'usage' "$CKPTFS" status "$mnt" "$mnt" --json

# An open handle keeps its snapshot; a new open shows the present state.
exec 3<"$dir/status"
cp "$source/.metadata" new
touch -d '2030-01-01' new
mv new "$source/.metadata"
check 'status: a new generation is seen' grep -q 'newer' "$dir/status"
check 'log: it has the line' grep -q 'saved anew' "$dir/log"
equal 'log: once' "$(cat "$dir/status" "$dir/log" | grep -c 'saved anew')" 1
fails 'an open status does not change' '' grep -q newer <&3
exec 3<&-
one=$(stems sample | head -n 1)
check 'the old catalog is still served' cat "$mnt/full/$one.npy"
unmounted

# reported WHAT STATUS LOG: status and log describe a change of the source.
reported() {
	equal "$1: status" "$(sed -n 's/^generation: //p' "$dir/status")" "$2"
	equal "$1: log" "$(grep -c "$3; this mount keeps" "$dir/log")" 1
}
mounted "$source"
equal 'nothing happened: status' \
	"$(sed -n 's/^generation: //p' "$dir/status")" "the source's present one"
mv "$source" moved
reported 'moved' 'the one mounted; its directory was moved' \
	'the directory was moved'
check 'moved: all is read' cat "$mnt/full/$one.npy"
mv moved "$source"
equal 'moved back: status' "$(sed -n 's/^generation: //p' "$dir/status")" \
	"the source's present one"
mv "$source/.metadata" kept
reported 'no .metadata' \
	'the one mounted; the source has no .metadata any more' \
	'.metadata was removed'
ln -s .metadata "$source/.metadata"
reported 'not to be looked at' "the one mounted; the source's .metadata cannot be looked at: Too many levels of symbolic links" \
	'.metadata cannot be looked at: Too many levels of symbolic links'
rm -r "$source"
reported 'no directory' 'the one mounted; its directory was removed' \
	'the directory was removed'
fixture sample >/dev/null
reported 'another directory' 'the one mounted; its directory was removed' \
	'the directory was removed'
equal 'removed: nobody saved anew' "$(grep -c 'saved anew' "$dir/log")" 0
unmounted

# Names that are equal without the prefixes of wrappers.
python3 - "$HERE/../crash" "$WORK/twice" <<'PYTHON'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import made
plan = made.Plan(1, columns=2, rows=2)
plan.tensors = [f"layers.{n}.{wrapper}w" for n in (10, 9, 8, 7, 6, 5, 4)
                for wrapper in ("", "_orig_mod.")] + ["_orig_mod.head.w"]
plan.old = {t: plan.bytes_of(2) for t in plan.tensors}
plan.write_old(sys.argv[2])
PYTHON
some=$(printf 'layers.%s._orig_mod.w, ' 4 5 6 7 8)
some="${some%, } and 2 more"
"$CKPTFS" mount "$WORK/twice" "$mnt" >"$WORK/out" 2>&1
equal 'prefixed: the mount' $? 0
equal 'prefixed: logged at the mount, once' "$(cat "$WORK/out")" \
	"ckptfs: $WORK/twice: shown with the prefixes of wrappers, since names would be equal without them: $some"
equal 'prefixed: the log' "$(grep -c 'prefixes of wrappers' "$dir/log")" 1
equal 'prefixed: status' "$(grep '^prefixed' "$dir/status")" \
	"prefixed names: 7
prefixed: $some"
equal 'prefixed: status --json' "$("$CKPTFS" status "$mnt" --json |
	jq -c '[.prefixed_names, .prefixed]')" \
	"[7,[$(printf '"layers.%s._orig_mod.w",' 4 5 6 7 8 | sed 's/,$//')]]"
equal 'prefixed: the tree' "$(ls "$mnt/raw" | grep -c _orig_mod)" 7
check 'prefixed: others are not' test -e "$mnt/raw/head.w"
check 'prefixed: inspect' grep -qF "without them: $some" \
	<<<"$("$CKPTFS" inspect "$WORK/twice")"
equal 'prefixed: inspect --json' "$("$CKPTFS" inspect "$WORK/twice" --json |
	jq -r '.prefixed[]' | sort)" \
	"$(ls "$mnt/raw" | grep _orig_mod | sort)"
unmounted
mounted "$FIXTURES/wrappers"
equal 'prefixed: none' "$(grep '^prefixed' "$dir/status")" 'prefixed names: 0'
equal 'prefixed: none, the log' "$(grep -c prefixes "$dir/log")" 0
unmounted
source=$(fixture wrappers)
rm "$source"/*.distcp
mounted "$source"
cat "$mnt/raw/head.weight" >/dev/null 2>&1
check 'lines of damage have shown names' grep -q '^head.weight: ' "$dir/damage"
equal 'lines of damage and of the log have no prefixes' \
	"$(cat "$dir/damage" "$dir/log" | grep -c '_wrapped_module\.')" 0
unmounted

mounted "$FIXTURES/tp_fsdp2_bad"
bad=$(cut -f1 "$FIXTURES/tp_fsdp2_bad.errors.tsv" | head -n 1)
cat "$mnt/raw/$bad" >/dev/null 2>&1
check 'damage: a fault that was met' grep -qxF \
	'model.column7.weight: 16 of 112 bytes are lost' "$mnt/.ckptfs/damage"
check 'damage: why' grep -qxF '  EIO: box [6,0] [1,4]: its item has another shape; __4_0.distcp at 0; expected [1,4], found [0,4]' "$mnt/.ckptfs/damage"
check 'damage: how much is known' grep -qxE 'items checked [1-9] of 38' \
	"$mnt/.ckptfs/damage"
check 'log: it is there too' grep -qF "$bad" "$mnt/.ckptfs/log"
unmounted

# Values that contain the separators of the text.
odd=$WORK/$(printf '50%% a, b\n')
cp -a "$FIXTURES/sample" "$odd"
chmod 644 "$odd/.metadata"
mounted "$odd" -o write,commit=manual,fsname=x
echo text >"$mnt/raw/a, b"
echo text >"$mnt/raw/10% off"
"$CKPTFS" status --json "$mnt" >"$WORK/json"
equal 'status --json: a path with a percent sign' "$(jq -r .source json)" "$odd"
equal 'status --json: options' "$(jq -c .options json)" \
	'["write","commit=manual","fsname=x"]'
equal 'status --json: scratch files' \
	"$(jq -c '[.scratch_files, .scratch]' json)" \
	'[2,["raw/10% off","raw/a, b"]]'
equal 'status --json: of a mount for writing' \
	"$(jq -c '[.commit, .staged_tensors, .dead_bytes]' json)" '["manual",0,0]'
unmounted
done_testing
