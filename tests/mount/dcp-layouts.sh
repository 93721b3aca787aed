# SPDX-License-Identifier: MIT
# dcp/: names, sizes, bytes and attributes for every fixture and several meshes, compared with a
# second implementation in dcp_layouts.py. Also copies that are mounted, entries that are left out, damage, a
# commit, and the commands without a mount. PyTorch reads them in tests/torch/dcp-layouts.py.
need python3 getfattr jq
layout() {
	python3 -BS "$HERE/dcp_layouts.py" "$mnt" "$@"
}
attribute() {
	getfattr --absolute-names --only-values -n "user.ckptfs.$1" "$2"
}

# --- every fixture -----------------------------------------------------------------------

every() {
	local name=$1
	check "$name: 3 ranks and a mesh" layout 3 "${CKPTFS_ALL:+dp=2,}tp=2,cp=3"
}
each_fixture dcp every

# --- names ----------------------------------------------------------------------------------

mounted "$FIXTURES/fsdp2"
equal "the source's own number of ranks is listed" "$(ls "$mnt/dcp")" 4
check 'others exist on lookup' test -f "$mnt/dcp/3/.metadata" -a -f "$mnt/dcp/dp=2,tp=3/__5_0.distcp"
equal 'and are listed then' "$(ls -U "$mnt/dcp" | xargs)" '4 3 dp=2,tp=3'
equal 'files in their order' "$(ls -AU "$mnt/dcp/2" | xargs)" '.metadata __0_0.distcp __1_0.distcp'
for bad in 0 04 1000001 'dp=' 2/__2_0.distcp 2/__00_0.distcp 2/__0_1.distcp 2/__0_0.distcp2 2/___0.distcp 2/metadata 2/0; do
	fails "no such name: $bad" 'No such file' stat "$mnt/dcp/$bad"
done
fails 'canary: other placements' '' layout 'dp=2,tp=3' --canary
equal 'a rank without boxes: 0 bytes' "$(stat -c %s "$mnt/dcp/1000000/__999999_0.distcp")" 0
equal 'each name has an inode number' "$(find "$mnt/dcp/2" "$mnt/dcp/3" -printf '%i\n' | sort | uniq -d | wc -l)" 0
equal 'kind' "$(attribute kind "$mnt/dcp/2/__1_0.distcp")" dcp
equal 'tensors: those of the file' "$(attribute tensors "$mnt/dcp/1000/__0_0.distcp") $(attribute tensors "$mnt/dcp/1000/__999_0.distcp")" '29 0'
fails 'a file cannot be written' 'Read-only file system' sh -c 'echo >"$1"' - "$mnt/dcp/2/.metadata"
fails 'nothing can be put there' 'Read-only file system' mkdir "$mnt/dcp/new"
cp -r "$mnt/dcp/dp=2,tp=2" mounted
unmounted
printf '*.weight tp=S(-1)\n*.bias tp=S(0)\n' >rules
mounted "$FIXTURES/fsdp2" -o placements=rules,views=dcp+full+objects
equal 'views=' "$(ls "$mnt" | xargs)" 'dcp full objects'
fails 'placements=: another layout' '' layout dp=3,tp=2
unmounted

# --- entries that are left out ---------------------------------------------------------------------------

mounted "$FIXTURES/ranks_flat_2"
check 'flat parameters are left out' sh -c 'getfattr --absolute-names --only-values -n user.ckptfs.left_out "$1" | jq -e "any(.[]; endswith(\"_flat_param\"))"' - "$mnt/dcp/1/__0_0.distcp"
check 'status has the reason' grep -q '^dcp: left out: .*_flat_param: ' "$mnt/.ckptfs/status"
unmounted

python3 -B - <<'END'
import datetime, os, sys
sys.path.insert(0, os.path.join(os.environ["HERE"], "../damage"))
import source as s
value = {"w": s.Tensor((4, 3), key="a"), "when": datetime.date(2026, 1, 2), "step": 3,
         "pair": (s.Tensor((2,), key="b"), 1), "dated": (s.Tensor((2,), key="b"), datetime.date(2026, 1, 2))}
rows = [("data.pkl", s.dumps(value)), ("byteorder", b"little"), ("data/a", s.values("a")), ("data/b", s.values("b")), ("version", b"3\n")]
open("classes.pt", "wb").write(s.archive(rows, "archive/"))
END
mounted classes.pt
for kind in torch/checkpoint.pt dcp/1/__0_0.distcp; do
	equal "$kind: classes that torch.load refuses" "$(attribute left_out "$mnt/$kind")" "$([ "${kind%%/*}" = dcp ] && echo '["when","dated"]' || echo '["when","pair","dated"]')"
done
check 'status names the classes' grep -qx 'dcp: left out: dated: torch.load refuses its classes by default' "$mnt/.ckptfs/status"
cp -r "$mnt/dcp/2" "$mnt/objects" .
unmounted
mounted 2
check 'an object with tensors stays' cmp objects/pair.pt "$mnt/objects/pair.pt"
unmounted
rm -rf 2 objects

# --- copies ---------------------------------------------------------------------------------------

mkdir shown
for name in fsdp2 hub_index hub_tied files_zip ranks_fsdp2_3 items_2 zstd; do
	mounted "$FIXTURES/$name"
	cp -r "$mnt/full" "$mnt/objects" shown
	cp -r "$mnt/dcp/3" copy
	unmounted
	mounted copy
	check "$name: a copy of dcp/3 shows the same tensors" diff -r shown/full "$mnt/full"
	check "$name: and the same objects" diff -r shown/objects "$mnt/objects"
	check "$name: and no damage" "$CKPTFS" check --full copy
	unmounted
	rm -rf copy shown/*
done

# --- damage ---------------------------------------------------------------------------------------

source=$(fixture sample)
stem=model.layers.0.attention.wk.weight
mounted "$source"
mkdir before
cp "$mnt/dcp/2/"*.distcp "$mnt/dcp/2/.metadata" before
fails 'no error' 'No such attribute' attribute error "$mnt/dcp/2/__0_0.distcp"
unmounted
rm "$source/__3_0.distcp"
mounted "$source"
check '.metadata is whole' cmp before/.metadata "$mnt/dcp/2/.metadata"
check 'error names a tensor' sh -c 'getfattr --absolute-names --only-values -n user.ckptfs.error "$1" | grep -q "^model.*__3_0.distcp"' - "$mnt/dcp/2/__1_0.distcp"
check 'a read ends before the first lost byte' python3 - before "$mnt" <<'END'
import os, sys
before, mnt = sys.argv[1:]
ends = 0
for name in sorted(os.listdir(before)):
    want = open(f"{before}/{name}", "rb").read()
    file = os.open(f"{mnt}/dcp/2/{name}", os.O_RDONLY)
    for begin in range(0, len(want), 97):
        try:
            found = os.pread(file, 4096, begin)
        except OSError:
            continue
        assert found and found == want[begin:begin + len(found)], (name, begin)
        ends += begin + len(found) < len(want) and len(found) < 4096
assert ends
END
check 'exactly the lost bytes fail' python3 -B - before "$mnt" <<'END'
import errno, os, sys
sys.path.insert(0, os.environ["HERE"])
import dcp_layouts
before, mnt = sys.argv[1:]
lost = good = 0
meta, _ = dcp_layouts.metadata_of(before)
for key, place in meta.storage_data.items():
    item = open(f"{before}/{place.relative_path}", "rb").read()[place.offset:place.offset + place.length]
    file = os.open(f"{mnt}/dcp/2/{place.relative_path}", os.O_RDONLY)
    for begin in range(0, len(item), 16):
        want = item[begin:begin + 16]
        try:
            assert os.pread(file, len(want), place.offset + begin) == want, (key.fqn, begin)
            good += 1
        except OSError as error:
            assert error.errno == errno.ENODATA, error
            lost += 16
    os.close(file)
whole = 0
for name in os.listdir(f"{mnt}/raw"):
    size, file = os.stat(f"{mnt}/raw/{name}").st_size, os.open(f"{mnt}/raw/{name}", os.O_RDONLY)
    for begin in range(0, size, 16):
        try:
            os.pread(file, 16, begin)
        except OSError:
            whole += 16
    os.close(file)
print(lost, whole, good)
assert good and whole and abs(lost - whole) <= whole // 4
END
unmounted
rm -rf "$source"
source=$(fixture objects)
mounted "$source"
cp "$mnt/dcp/1/.metadata" before/objects
file=$(ls -S "$source" | grep distcp | head -n 1)
unmounted
truncate -s 1000 "$source/$file"
mounted "$source"
check 'lost objects stay in .metadata' cmp before/objects "$mnt/dcp/1/.metadata"
fails 'and cannot be read' 'No data available' cat "$mnt/dcp/1/__0_0.distcp"
unmounted
rm -rf "$source"

# --- a commit -------------------------------------------------------------------------------------

sample_written
file=$mnt/dcp/2/__1_0.distcp
cp "$file" old
old=$(stat -c %i "$file")
meta=$(stat -c %i "$mnt/dcp/2/.metadata")
exec 7<"$file"
fresh
cp full.npy "$npy"
sleep 1.1
check 'an open file keeps its generation' cmp - old <&7
exec 7<&-
check 'after a commit it is another file' test "$(stat -c %i "$file")" != "$old"
equal '.metadata is the same' "$(stat -c %i "$mnt/dcp/2/.metadata")" "$meta"
check 'with other bytes' layout 2
fails 'which are others' differ cmp "$file" old
fails 'it cannot be written, with -o write' 'Read-only file system' sh -c 'echo >"$1"' - "$file"
unmounted

# --- without a mount --------------------------------------------------------------------------------

check 'cp -r' "$CKPTFS" cp -r "$FIXTURES/fsdp2" 'dcp/dp=2,tp=2' offline
check 'the same files' diff -r mounted offline
equal 'ls' "$("$CKPTFS" ls "$FIXTURES/fsdp2" dcp/3 | xargs)" '.metadata __0_0.distcp __1_0.distcp __2_0.distcp'
check 'cat' sh -c '"$1" cat "$2" dcp/dp=2,tp=2/.metadata | cmp - mounted/.metadata' - "$CKPTFS" "$FIXTURES/fsdp2"
equal 'getfattr' "$("$CKPTFS" getfattr "$FIXTURES/fsdp2" dcp/3/__1_0.distcp | jq -r '."user.ckptfs.kind"')" dcp
mkdir whole
check 'cp -r of everything' "$CKPTFS" cp -r "$FIXTURES/fsdp2" . whole
equal 'leaves it out' "$(ls whole | xargs)" 'full hf local objects raw'
mkdir run
cp -r "$FIXTURES/fsdp2" run/step-1
check 'of a step' "$CKPTFS" cp -r run step-1/dcp/2 step
equal 'too' "$(ls -A step | xargs)" '.metadata __0_0.distcp __1_0.distcp'
done_testing
