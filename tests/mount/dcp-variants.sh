# SPDX-License-Identifier: MIT
# Variants of DCP: saved without collectives (each rank has its own metadata), with
# safetensors serialization, and with Megatron's common.pt. Tests bytes, objects, the damage
# if a rank is lost, and refused checkpoints.
need python3 jq getfattr

# good FIXTURE: all files of the mount have the saved contents.
good() {
	mounted "$1"
	check "$(basename "$1"): bytes" sh -c 'cd "$1" && sha256sum --quiet -c "$2"' - "$mnt" \
		"$FIXTURES/$(basename "$1").sha256"
	check "$(basename "$1"): objects" diff <(jq -c .json "$FIXTURES/$(basename "$1").objects.jsonl") \
		<(jq -r .stem "$FIXTURES/$(basename "$1").objects.jsonl" | while read -r stem; do
			jq -Rsc . "$mnt/objects/$stem.json"
		done)
	check "$(basename "$1"): state_dict.json" cmp "$mnt/.ckptfs/state_dict.json" \
		"$FIXTURES/$(basename "$1").state_dict.json"
	unmounted
	check "$(basename "$1"): check --full" "$CKPTFS" check --full "$1"
}

for name in alone_1 alone_2 alone_3 alone_4 alone_threads blobs_1 blobs_3 blobs_items blobs_alone megatron; do
	good "$FIXTURES/$name"
done

cp -r "$FIXTURES/alone_4" ranks
mounted ranks
equal 'kind' "$(sed -n 's/^kind: //p' "$mnt/.ckptfs/status")" \
	'dcp (it has the __<rank>.metadata of torch.distributed.checkpoint without collectives)'
equal 'regression: each of these is read' "$(grep -c '^not shown' "$mnt/.ckptfs/status")" 0
equal 'time, owner and mode are those of the lowest rank' "$(stat -c '%Y %u %g' "$mnt")" \
	"$(stat -c '%Y %u %g' ranks/__0.metadata)"
unmounted
fails 'it cannot be written' \
	'checkpoints of kind dcp with __<rank>.metadata cannot be written' \
	"$CKPTFS" mount -o write,views=full ranks "$mnt"
equal 'it cannot be written: status' "$("$CKPTFS" mount -o write,views=full ranks "$mnt" 2>/dev/null; echo $?)" 2

# lost REASON: exactly the data of rank 2 is lost.
lost() {
	mounted ranks
	fails "$1: its tensors are lost" 'No data available' cat "$mnt/raw/even"
	equal "$1: others have the rest" "$(head -c 96 "$mnt/raw/even" | wc -c)" 96
	check "$1: replicas are read" cat "$mnt/raw/plain"
	check "$1: what it alone had has no name" test ! -e "$mnt/raw/of.rank2"
	check "$1: tensors of other ranks are there" cat "$mnt/raw/of.rank3"
}
rm ranks/__2.metadata
lost 'a rank is missing'
check 'a rank is missing: status says so' \
	grep -qx 'ranks without metadata: 2' "$mnt/.ckptfs/status"
unmounted
head -c 1000 "$FIXTURES/alone_4/__2.metadata" >ranks/__2.metadata
lost 'a rank is malformed'
check 'a rank is malformed: one line of damage' \
	test "$(grep -c '__2.metadata' "$mnt/.ckptfs/damage")" = 1
unmounted
fails 'a rank is malformed: check finds it' '__2.metadata: ' "$CKPTFS" check ranks
for rank in 0 1 3; do
	head -c 1000 "$FIXTURES/alone_4/__$rank.metadata" >ranks/__$rank.metadata
done
fails 'all are malformed' 'damaged; no other one is any better' \
	"$CKPTFS" mount ranks "$mnt"
rm ranks/*.metadata
: >ranks/__3.metadata.tmp
fails 'saving did not end' 'no .metadata, but __3.metadata.tmp: saving this checkpoint did not end' \
	"$CKPTFS" mount ranks "$mnt"
cp "$FIXTURES"/alone_2/__*.metadata "$FIXTURES"/alone_2/*.distcp ranks
rm ranks/__0.metadata
mounted ranks
check 'without the lowest: its replicas are those of others' cat "$mnt/raw/plain"
unmounted

# Ranks with contradictory metadata.
cp "$FIXTURES"/alone_2/__*.metadata ranks
mounted ranks
equal 'a replica that is good is read' "$(sha256sum <"$mnt/raw/plain")" \
	"$(sed -n 's|  raw/plain$|  -|p' "$FIXTURES/alone_2.sha256")"
unmounted
printf 'XXXX' | dd of=ranks/__0_0.distcp bs=1 seek=11732 conv=notrunc 2>/dev/null
truncate -s 11732 ranks/__0_0.distcp
mounted ranks
equal 'a data file is cut: replicas in others' "$(sha256sum <"$mnt/raw/plain")" \
	"$(sed -n 's|  raw/plain$|  -|p' "$FIXTURES/alone_2.sha256")"
unmounted

# A blob.
cp -r "$FIXTURES/blobs_3" blobs
chmod -R u+w blobs
mounted blobs
check 'blob: another file is not touched' cat "$mnt/raw/plain"
unmounted
size=$(stat -c %s blobs/__1_0.distcp)
truncate -s $((size - 1)) blobs/__1_0.distcp
mounted blobs
fails 'blob, cut by a byte: one tensor is lost' '' sha256sum --quiet -c "$FIXTURES/blobs_3.sha256"
unmounted
equal 'blob, cut by a byte: it is the last one' "$("$CKPTFS" check --json blobs | jq -r '.findings[].name' | sort -u | wc -l)" 1
cp "$FIXTURES/blobs_3/__1_0.distcp" blobs
python3 - blobs/__1_0.distcp <<'P'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
open(sys.argv[1], "wb").write(data.replace(b'"even"', b'"evil"').replace(b'\\"even\\"', b'\\"evil\\"'))
P
mounted blobs
fails 'blob without the key' 'Bad message' cat "$mnt/raw/even"
check 'blob without the key: why' grep -q 'the safetensors at its place have no even' "$mnt/.ckptfs/damage"
check 'blob without the key: others' cat "$mnt/raw/uneven"
unmounted
cp "$FIXTURES/blobs_3/__1_0.distcp" blobs
python3 - blobs/__1_0.distcp <<'P'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
at = data.rindex(b'\\"even\\": {\\"saved_offsets\\": [4')
data[at:at + 32] = data[at:at + 32].replace(b"[4", b"[0")
open(sys.argv[1], "wb").write(data)
P
mounted blobs
fails 'blob of another box' 'Input/output error' cat "$mnt/raw/even"
check 'blob of another box: why' grep -q 'offsets of its item' "$mnt/.ckptfs/damage"
unmounted
done_testing
