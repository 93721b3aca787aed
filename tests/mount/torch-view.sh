# SPDX-License-Identifier: MIT
# torch/checkpoint.pt: records, sizes, bytes and names for every fixture, by a reader without PyTorch
# (torch-view.py). Also root=, entries that are left out, damage, a commit, more than 4 GiB, and the
# commands without a mount.
need python3 getfattr jq
torch() {
	python3 -B "$HERE/torch-view.py" "$mnt" "$@"
}
file=$mnt/torch/checkpoint.pt

# --- every fixture -----------------------------------------------------------------------

every() {
	local name=$1
	check "$name: torch/" torch
}
each_fixture torch every tp_fsdp2_bad values

# --- the file -----------------------------------------------------------------------------

mounted "$FIXTURES/optimizer"
equal 'one file' "$(ls -A "$mnt/torch")" checkpoint.pt
fails 'canary: other bytes' 'other bytes' torch --canary
fails 'it cannot be written' 'Read-only file system' sh -c 'echo >"$1"' - "$file"
fails 'nothing can be put there' 'Read-only file system' sh -c 'echo >"$1/torch/new"' - "$mnt"
fails 'no other name' 'No such file' stat "$mnt/torch/checkpoint"
cp "$file" mounted.pt
cp -r "$mnt/full" full
unmounted
for root in model optim optim.state ''; do
	mounted "$FIXTURES/optimizer" -o root="$root"
	check "root=$root" torch --root "$root"
	unmounted
done
mounted "$FIXTURES/sample" -o root=model.layers.0
check 'root= inside of a part' torch --root model.layers.0
unmounted
"$CKPTFS" mount "$FIXTURES/optimizer" "$mnt" -o root=nothing,views=torch 2>/dev/null
check 'root= of nothing: absent' test ! -e "$mnt/torch"
check 'and the log has a line' grep -q 'torch: absent: option root=nothing: ' "$mnt/.ckptfs/log"
unmounted
mounted "$FIXTURES/objects"
equal 'status reads no objects' "$(grep -c '^torch: left out' "$mnt/.ckptfs/status")" 0
equal 'left_out' "$(getfattr --only-values -n user.ckptfs.left_out "$file" | jq -r 'join(" ")')" 'frozenset path range slice tensors_in_tuple'
check 'status: why' grep -qx 'torch: left out: tensors_in_tuple: it contains tensors' "$mnt/.ckptfs/status"
check 'status: a class' grep -qx 'torch: left out: range: torch.load refuses its classes by default' "$mnt/.ckptfs/status"
unmounted
mounted "$FIXTURES/ranks_flat_2"
check 'a file without flat parameters' test -f "$file"
check 'status: a flat parameter' grep -q '^torch: left out: net1._flat_param: it is a flat parameter' "$mnt/.ckptfs/status"
unmounted
mounted "$FIXTURES/dtypes"
check 'a file without quantized tensors' test -f "$file"
check 'status: quantized' grep -q '^torch: left out: qint8.matrix: its dtype is quantized' "$mnt/.ckptfs/status"
unmounted

# Lists keep their length without their last entries; keys that are ints of 64 bits.
python3 -B - <<'END'
import datetime, os, sys
sys.path.insert(0, os.path.join(os.environ["HERE"], "../damage"))
import source as s
t, out = s.Tensor((4, 3), key="a"), datetime.date(2026, 1, 2)
value = {"list": [t, out, out], "dicts": [{"a": 1}, {"a": out}], "lists": [[t, out], [out, out, {}], [[out, {"a": out}]]],
         "first": [out, t], "gone": [{"a": out}, {"a": out}], 1 << 62: 1, -1 << 63: 2, (1 << 63) - 1: 3, 1 << 63: 4, -(1 << 63) - 1: 5}
rows = [("data.pkl", s.dumps(value)), ("byteorder", b"little"), ("data/a", s.values("a")), ("version", b"3\n")]
open("lengths.pt", "wb").write(s.archive(rows, "archive/"))
END
mounted lengths.pt
equal 'lists keep their length, and keys of 64 bits' "$(python3 -B - "$file" <<'END'
import io, pickle, sys
class Values(pickle.Unpickler):
    def find_class(self, module, name):
        return lambda *args: "T"
    def persistent_load(self, pid):
        return None
file = open(sys.argv[1], "rb").read()
print(Values(io.BytesIO(file[file.index(b"\x80\2"):])).load())
END
)" "{'list': ['T', None, None], 'dicts': [{'a': 1}, None], 'lists': [['T', None], [None, None, {}], None], 'first': [None, 'T'], 4611686018427387904: 1, -9223372036854775808: 2, 9223372036854775807: 3}"
equal 'status: ints of more than 64 bits' "$(grep -c '^torch: left out: -\?9223372036854775[0-9]*: an int in its path has more than 64 bits$' "$mnt/.ckptfs/status")" 2
unmounted

# --- damage -----------------------------------------------------------------------------------

# lost MNT-FILE OLD NAME...: tensors of other bytes than before, or that cannot be read
lost() {
	python3 -B "$HERE/torch-view.py" "$1" --lost "$2"
}
source=$(fixture sample)
mounted "$source" -o root=model
cp "$file" before.pt
fails 'no error' 'No such attribute' getfattr -n user.ckptfs.error "$file"
unmounted
rm "$source/__3_0.distcp"
mounted "$source" -o root=model
equal 'a lost file: ENODATA, for the elements in it alone' "$(lost "$file" before.pt)" 'ENODATA only inside of tensors'
equal 'its size stays' "$(stat -c %s "$file")" "$(stat -c %s before.pt)"
check 'error names the first tensor' sh -c 'getfattr --only-values -n user.ckptfs.error "$1" | grep -q "__3_0.distcp"' - "$file"
equal 'tensors of lost items stay' "$(getfattr --only-values -n user.ckptfs.left_out "$file" 2>/dev/null)" '[]'
unmounted
mounted "$source"
equal 'lost objects are left out' "$(getfattr --only-values -n user.ckptfs.left_out "$file" 2>/dev/null | jq -r '.[0]')" optim.param_groups.0.eps
unmounted
rm -rf "$source"

# --- a commit -------------------------------------------------------------------------------------

sample_written
cp "$file" old.pt
old=$(stat -c %i "$file")
exec 7<"$file"
fresh
cp full.npy "$npy"
sleep 1.1
check 'an open file keeps its generation' cmp - old.pt <&7
exec 7<&-
check 'after a commit it is another file' test "$(stat -c %i "$file")" != "$old"
check 'with other bytes' torch
fails 'which are others' differ cmp "$file" old.pt
fails 'it cannot be written, with -o write' 'Read-only file system' sh -c 'echo >"$1"' - "$file"
unmounted

# --- more than 4 GiB -----------------------------------------------------------------------------------

python3 - <<'END'
import json
size = (1 << 32) - 1
sizes = {"almost": size - 1, "just": size, "more": size + 5, "small": 3}
header, at = {}, 0
for name, n in sizes.items():
    header[name] = {"dtype": "U8", "shape": [n], "data_offsets": [at, at + n]}
    at += n
text = json.dumps(header).encode()
with open("large.safetensors", "wb") as f:
    f.write(len(text).to_bytes(8, "little") + text)
    f.truncate(8 + len(text) + at)
    f.seek(8 + len(text) + at - 3)
    f.write(b"abc")
END
mounted large.safetensors
check 'records above 4 GiB' python3 -B "$HERE/torch-view.py" "$file" --large
unmounted

# --- without a mount -------------------------------------------------------------------------------

check 'cat' sh -c '"$1" cat "$2" torch/checkpoint.pt | cmp - mounted.pt' - "$CKPTFS" "$FIXTURES/optimizer"
check 'cp' "$CKPTFS" cp "$FIXTURES/optimizer" torch/checkpoint.pt copied.pt
check 'the same bytes' cmp copied.pt mounted.pt
check 'cp -r torch' "$CKPTFS" cp -r "$FIXTURES/optimizer" torch copied
check 'the same bytes again' cmp copied/checkpoint.pt mounted.pt
equal 'ls' "$("$CKPTFS" ls "$FIXTURES/optimizer" torch)" checkpoint.pt
equal 'getfattr' "$("$CKPTFS" getfattr "$FIXTURES/optimizer" torch/checkpoint.pt | jq -r '."user.ckptfs.tensors"')" 12
check 'cp -r of everything' "$CKPTFS" cp -r "$FIXTURES/optimizer" . whole
equal 'leaves it out' "$(ls whole | xargs)" 'full hf local objects raw'
mounted copied.pt
check 'a copy is a checkpoint' torch
check 'with the same tensors' diff -r full "$mnt/full"
unmounted
done_testing
