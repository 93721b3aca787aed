# SPDX-License-Identifier: MIT
#
# Plain tensors that ranks saved with one shape: a sample of them decides whether there is a whole one.
need python3

mkdir ranks
python3 "$HERE/rank-files.py" --plain ranks
differ='all.sample all.small block first last'
equal='between beyond equal none'
text='the ranks hold different values of equal shape, so that reading it in full/ or hf/ fails'

# Names that cannot be opened, of the files of a directory.
closed() {
	for path in "$mnt/$1"/*; do
		name=${path##*/}
		name=${name%.npy}
		head -c 0 "$path" 2>/dev/null || echo "$name"
	done | paste -sd ' '
}

mounted ranks
equal 'before an open nothing is known: damage' "$(grep -c "$text" "$mnt/.ckptfs/damage")" 0
equal 'full/: EIO at open' "$(closed full)" "$differ"
equal 'raw/: EIO at open' "$(closed raw)" "$differ"
equal 'local/: the values of each rank' "$(closed local/rank-1)" ''
for name in $equal; do
	check "$name: the lowest rank's" cmp "$mnt/full/$name.npy" "$mnt/local/rank-0/$name.npy"
done
equal 'log: one line for each' "$(grep "$text" "$mnt/.ckptfs/log" | sed 's/ckptfs: \(.*\): EIO.*/\1/' |
	sort | paste -sd ' ')" "$differ"
for pair in all.small:0:1 block:0:2 last:0:2 first:0:1; do
	IFS=: read -r name low high <<<"$pair"
	files="read local/rank-$low/$name.npy and local/rank-$high/$name.npy"
	check "$name: the log names files" grep -qF "$files" "$mnt/.ckptfs/log"
	check "$name: and so does damage" grep -qF "$files" "$mnt/.ckptfs/damage"
	equal "$name: and error" "$(getfattr --absolute-names --only-values -n user.ckptfs.error \
		"$mnt/raw/$name")" "EIO: no whole tensor: $text; $files"
	cmp -s "$mnt/local/rank-$low/$name.npy" "$mnt/local/rank-$high/$name.npy"
	equal "$name: the files are there, and differ" $? 1
done
differ_of() {
	getfattr --absolute-names --only-values -n user.ckptfs.replicas_differ "$mnt/$1" 2>&1
}
equal 'replicas_differ: ranks that differ from the lowest' "$(differ_of raw/first)" '[1,2]'
equal 'listed after the open' "$(getfattr --absolute-names "$mnt/raw/last" | grep -c replicas_differ)" 1
equal 'outside of the sample: replicas_differ finds it' "$(differ_of raw/between)" '[1]'
check 'and no read fails' cat "$mnt/full/between.npy"
equal 'status' "$(grep -c '^tensors with a known fault: 5;' "$mnt/.ckptfs/status")" 1
python3 - "$mnt/hf/model.safetensors" "$differ" <<'PY'
import errno, json, os, struct, sys
file = os.open(sys.argv[1], os.O_RDONLY)
head = struct.unpack("<Q", os.pread(file, 8, 0))[0]
names = json.loads(os.pread(file, head, 8))
failed = set()
for name, entry in names.items():
    begin, end = entry.get("data_offsets", (0, 0))
    try:
        assert len(os.pread(file, end - begin, 8 + head + begin)) == end - begin
    except OSError as error:
        assert error.errno == errno.EIO
        failed.add(name)
print('#', *sorted(failed))
sys.exit(failed != set(sys.argv[2].split()))
PY
result $? 'hf/: lists them, EIO for their bytes alone'
unmounted

names() {
	"$CKPTFS" check "$@" ranks 2>&1 |
		sed -n "s/^warning: //;s|: EIO: no whole tensor: $text; read local.*||p" | paste -sd ' '
}
equal 'check' "$(names)" "$differ"
"$CKPTFS" check ranks >warned
equal 'check: exit status' $? 0
check 'check: warns' grep -q '^warning: first: EIO: no whole tensor' warned
"$CKPTFS" check --full ranks >/dev/null
equal 'check --full: exit status' $? 1
equal 'check --full' "$(names --full)" "$differ"
check 'check --full: the ranks' sh -c '"$1" check --full ranks |
	grep -q "^first: EIO: .*; ranks that differ from the lowest: \[1,2\]$"' - "$CKPTFS"
equal 'check --full: outside of the sample' \
	"$("$CKPTFS" check --full ranks | grep -c '^between: ranks have other bytes than are shown: \[1\]')" 1
"$CKPTFS" cat ranks raw/first >/dev/null 2>err
equal 'cat: exit status' $? 2
check 'cat: words' grep -qF "$text; read local/rank-0/first.npy and local/rank-1/first.npy" err
"$CKPTFS" cp -r ranks full copy >/dev/null 2>&1
equal 'cp: exit status' $? 1
equal 'cp: what is good' "$(cd copy && ls | sed 's/\.npy//' | paste -sd ' ')" "$equal"

# What the lowest rank has of it is lost: the others are compared.
python3 - ranks/model_rank_0.pt <<'PY'
import pathlib, sys
path = pathlib.Path(sys.argv[1])
data = path.read_bytes()
path.write_bytes(data[:len(data) // 4])
PY
mounted ranks
equal 'rank 0 is cut: ranks 1 and 2 are compared' "$(closed full)" "$differ"
check 'rank 0 is cut: words' grep -qF 'read local/rank-1/first.npy and local/rank-2/first.npy' \
	"$mnt/.ckptfs/log"
unmounted
done_testing
