# SPDX-License-Identifier: MIT
#
# ckptfs check: exit status, lines, JSON, and that nothing but damage is found
# in what PyTorch wrote.
need python3 jq

# findings SOURCE [ARGUMENT...]: the exit status, and each finding but the warnings.
findings() {
	"$CKPTFS" check --json "$@" >"$WORK/json" 2>"$WORK/out"
	echo "$?" "$(jq -r '.findings[] | select(.severity != "warning") | "\(.fqn) \(.errno) \(.pos)"' \
		"$WORK/json" | xargs)"
}

for dir in $({ some "$FIXTURES"/*/; ls -d "$FIXTURES"/{should-fail-*,dtypes_rare,tp_fsdp2_bad}/; } | sort -u); do
	name=$(basename "$dir")
	case $name in
	should-fail-*)
		equal "$name: refused" "$(findings "$dir")" '2 '
		;;
	dtypes_rare)
		equal "$name: two dtypes" "$(findings "$dir" --full)" \
			'1 quint2x4 EBADMSG null quint4x2 EBADMSG null'
		;;
	tp_fsdp2_bad)
		equal "$name: one box" "$(findings "$dir" --full)" \
			'1 model.column7.weight EIO 0'
		;;
	*)
		equal "$name: nothing" "$(findings "$dir" --full)" '0 '
		equal "$name: all items" "$(jq .checked "$WORK/json")" \
			"$(jq .total "$WORK/json")"
		;;
	esac
done

source=$(fixture fsdp2)
check 'lines: nothing found' "$CKPTFS" check "$source"
equal 'lines: a summary' "$(cat "$WORK/out")" \
	'items checked 90 of 90; 0 findings'
python3 - "$source/__2_0.distcp" <<'END'
import sys
with open(sys.argv[1], "r+b") as f:
    data = f.read()
    at = data.find(b"data/0") + 70
    f.seek(at)
    f.write(bytes([data[at] ^ 1]))
END
equal 'a flipped bit: not in a header' "$(findings "$source")" '0 '
equal 'a flipped bit: in the data' "$(findings "$source" --full | cut -d' ' -f1)" 1
equal 'a flipped bit: both checksums' "$(jq -r '.findings[0] |
	"\(.expected | length) \(.found | length) \(.what)"' "$WORK/json")" \
	'8 8 record data/0 has another CRC-32'

# The file that was changed is newer than .metadata, which is a warning alone.
newer=$WORK/newer
cp -r "$FIXTURES/sample" "$newer"
touch -d '2026-01-01 00:00:00 UTC' "$newer"/__*.distcp "$newer/.metadata"
equal 'newer: nothing' "$("$CKPTFS" check "$newer" --json | jq -c .findings)" '[]'
touch -d '2026-01-01 00:00:02 UTC' "$newer/__0_0.distcp"
touch -d '2026-01-01 00:00:03 UTC' "$newer/__2_0.distcp"
check 'newer: the exit status stays' "$CKPTFS" check "$newer"
equal 'newer: lines' "$(cat "$WORK/out")" 'warning: __2_0.distcp is newer than .metadata: the save or copy may be incomplete; expected at most 2026-01-01T00:00:02Z, found 2026-01-01T00:00:03Z
items checked 286 of 286; 0 findings'
equal 'newer: JSON' "$("$CKPTFS" check "$newer" --json |
	jq -c '.ok, (.findings[] | [.severity, .file, .errno, .found])')" 'true
["warning","__2_0.distcp",null,"2026-01-01T00:00:03Z"]'
mounted "$newer" -o write
equal 'newer: status' "$(grep '^newer' "$mnt/.ckptfs/status")" \
	'newer than metadata: __2_0.distcp'
cat "$mnt/raw/model.norm.weight" >norm.bin
cp norm.bin "$mnt/raw/model.norm.weight"
equal 'newer: no more after a commit' "$(grep '^newer' "$mnt/.ckptfs/status")" ''
unmounted

# Beside .metadata lie those of a later save without collectives.
touch -d '2026-01-01 00:00:00 UTC' "$newer"/__*.distcp "$newer/.metadata"
: >"$newer/__0.metadata"
: >"$newer/__1.metadata"
: >"$newer/__2.metadata"
touch -d '2025-12-31 00:00:00 UTC' "$newer/__0.metadata"
touch -d '2026-01-01 00:00:07.5 UTC' "$newer/__1.metadata"
touch -d '2026-01-01 00:00:01 UTC' "$newer/__2.metadata"
other='a save without collectives beside .metadata, newer by 8 s: __1.metadata and 1 more; .metadata is read, as PyTorch does; without it, in a copy of the directory, the other save is'
check 'another save: the exit status stays' "$CKPTFS" check "$newer"
equal 'another save: a line' "$(grep '^warning' "$WORK/out")" "warning: $other"
equal 'another save: JSON' "$("$CKPTFS" check "$newer" --json |
	jq -r '.ok, (.findings[] | [.severity, .file, .errno, .what] | join("|"))')" "true
warning|__1.metadata||$other"
mounted "$newer"
equal 'another save: status' "$(sed -n '/^warnings/,/^[^ w]/p' "$mnt/.ckptfs/status" | head -n 2)" "warnings: 1
  $other"
equal 'another save: status as JSON' "$("$CKPTFS" status "$mnt" --json | jq -r '.warnings[]')" "$other"
unmounted
rm "$newer"/__?.metadata

# Data files that were copied into a directory below.
mkdir -p "$newer/apart" "$newer/copy-0/more"
mv "$newer"/__[01]_0.distcp "$newer/copy-0/more/"
misplaced='misplaced files: __0_0.distcp, __1_0.distcp lie in copy-0/more/, not where .metadata names them: move them there'
fails 'misplaced files: check' "warning: $misplaced" "$CKPTFS" check "$newer"
check 'misplaced files: inspect' "$CKPTFS" inspect "$newer" --summary
equal 'misplaced files: inspect names them' "$(grep misplaced "$WORK/out")" "ckptfs: $newer: $misplaced"
mounted "$newer"
check 'misplaced files: status' grep -qxF "$misplaced" "$mnt/.ckptfs/status"
check 'misplaced files: log' grep -qF "$misplaced" "$mnt/.ckptfs/log"
unmounted
: >"$newer/copy-0/more/.metadata"
equal 'misplaced files: beside a .metadata of their own' "$("$CKPTFS" check "$newer" | grep '^warning')" \
	"warning: ${misplaced%move*}give that directory, which has its own"

rm "$source/__1_0.distcp"
"$CKPTFS" check "$source" >"$WORK/lines" 2>"$WORK/out"
equal 'a missing shard: exit' $? 1
equal 'a missing shard: natural order, one line each' \
	"$(head -n 1 "$WORK/lines")" \
	'model.first.bias: ENODATA: box [2] [2]: its file is missing; __1_0.distcp at 4227'
equal 'a missing shard: the rest was looked at' "$(tail -n 1 "$WORK/lines")" \
	'items checked 64 of 90; 26 findings'
equal 'no progress but on a terminal' "$(cat "$WORK/out")" ''

# progress NAME MSEC LINE [ARGUMENT...]: on a terminal, with reads of MSEC each, LINE is shown with time left.
progress() {
	ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 LD_PRELOAD=$LIBMUTE_BIN MUTE_PREAD=$2 \
		python3 "$HERE/terminal.py" "$CKPTFS" check "${@:4}" >seen 2>&1 </dev/null
	check "progress: $1" grep -aqE $'\r'"ckptfs: [0-9.]+ of $3, [0-9]+:[0-9]{2} left"$'\033\\[K' seen
	check "progress: $1: the line is cleared" grep -aq $'\r\033\\[Kitems checked' seen
}
progress headers 20 '90 items, [0-9]+ items/s' "$FIXTURES/fsdp2"
progress 'all bytes' 5 '134[.]7 KiB, [0-9]+ MiB/s' --full "$FIXTURES/fsdp2"
"$CKPTFS" digest "$FIXTURES/fsdp2" >fsdp2.xxh
progress digests 20 '1[.]4 KiB, [0-9]+ MiB/s' --digests fsdp2.xxh "$FIXTURES/fsdp2"

# What nothing needs: inside of files that are named, and beside them.
source=$(fixture sample)
chmod 644 "$source/.metadata"
dead() {
	"$CKPTFS" check "$source" --json | jq .dead_bytes
}
one=$(stems sample | head -n 1)
equal 'dead bytes: none' "$(dead)" 0
mounted "$source" -o write
cat "$mnt/raw/$one" >bytes
cp bytes "$mnt/raw/$one"
replaced=$(dead)
check 'dead bytes: of a tensor that was replaced' test "$replaced" -gt 0
equal 'dead bytes: as status has them' \
	"$(sed -n 's/^dead bytes: //p' "$mnt/.ckptfs/status")" "$replaced"
cp bytes "$mnt/raw/$one"
unnamed=$(find "$source" -name '*ckptfs-1-*' -printf '%s\n' |
	awk '{ n += $1 } END { print n }')
equal 'dead bytes: files that no commit needs any more' "$(dead)" \
	$((replaced + unnamed))
equal 'dead bytes: those as status has them' \
	"$(sed -n 's/^dead bytes: //p' "$mnt/.ckptfs/status")" "$(dead)"
unmounted
mounted "$source" -o write
unmounted
equal 'dead bytes: the next mount for writing removes these' "$(dead)" \
	"$replaced"
head -c 1000 /dev/zero >"$source/__77_0.distcp"
: >"$source/notes.txt"
ln -s __0_0.distcp "$source/__78_0.distcp"
ln "$source/__0_0.distcp" "$source/__79_0.distcp"
mkdir "$source/__80_0.distcp"
equal 'dead bytes: a file that nothing names' "$(dead)" $((replaced + 1000))
equal 'dead bytes: lines' "$("$CKPTFS" check "$source" | grep dead)" \
	"dead bytes: $((replaced + 1000))"
mv "$source/__1_0.distcp" "$source/real.distcp"
ln -s real.distcp "$source/__1_0.distcp"
check 'dead bytes: not what a link leads to that is not followed' \
	test "$(dead)" -le $((replaced + 1000))

# Warnings about the state dict as a whole.
python3 - state.pt <<'END'
import pickle, sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as file:
    state = {"optimizer": {"state": {}, "param_groups": [{"lr": 0.1, "params": [0]}]}}
    file.writestr("state/data.pkl", pickle.dumps(state, 2))
    file.writestr("state/version", "3\n")
END
equal 'no model, and no state' "$("$CKPTFS" check state.pt | sed -n 's/^warning: //p' | paste -sd ';')" \
	'no tensor of a model: hf/ is absent;optimizer optimizer has param_groups, but no state: it was saved before its first step, or keeps none'
check 'no model: exit status' "$CKPTFS" check state.pt
equal 'a model and an optimizer' "$("$CKPTFS" check "$FIXTURES/fsdp2" | grep -c warning:)" 0

fails 'usage' 'usage: ckptfs check SRC' "$CKPTFS" check
fails 'an unknown option' 'the nearest is --full' \
	"$CKPTFS" check --fast "$source"
fails 'no such directory' 'No such file' "$CKPTFS" check "$WORK/none"
done_testing
