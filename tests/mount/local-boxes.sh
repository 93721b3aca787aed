# SPDX-License-Identifier: MIT
#
# What each rank saved, put together again, is every tensor; names of owners
# and of several boxes of one tensor in one rank; flat parameters of jobs that
# have none.
need python3

for tsv in $(some "$FIXTURES"/*.tensors.tsv); do
	name=$(basename "$tsv" .tensors.tsv)
	case $name in
	*-* | many) continue ;; # nothing new about boxes
	ranks_flat_state | ranks_flat_pieces) continue ;; # pieces, which are no boxes
	esac
	[ -e "$FIXTURES/$name.errors.tsv" ] && continue
	mounted "$FIXTURES/$name"
	check "$name" python3 "$HERE/local.py" "$mnt"
	unmounted
done

mounted "$FIXTURES/sharded_many"
check 'several boxes of one rank have their offsets in the name' \
	sh -c "ls $mnt/local/rank-0 | grep -q '%@'"
unmounted

copy=$(fixture plain)
mv "$copy/__0_0.distcp" "$copy/no rank.bin"
sed -i 's/__0_0.distcp/no rank.bin\x2e/' "$copy/.metadata"
mv "$copy/no rank.bin" "$copy/no rank.bin."
mounted "$copy"
equal 'a data file of no rank' "$(ls "$mnt/local")" 'file-no rank.bin.'
unmounted
mounted "$copy" -o write
owner="$mnt/local/file-no rank.bin."
box=$owner/$(ls "$owner" | head -n 1)
tail -c +129 "$box" | tr '\0-\377' '\1-\377\0' >other.bin
(head -c 128 "$box" && cat other.bin) >other.npy
cp other.npy "$owner/new"
check 'a data file of no rank: a scratch file' cmp other.npy "$owner/new"
check 'a data file of no rank: rename onto a box' mv "$owner/new" "$box"
check 'a data file of no rank: the box is replaced' cmp other.npy "$box"
equal 'a data file of no rank: the name is free' \
	"$(ls "$owner" | grep -cxF new)" 0
unmounted

# --- flat parameters of a job with a device mesh ---------------------------

mounted "$FIXTURES/ranks_fsdp2_2"
flat=local/rank-0/net.1._flat_param.npy
for name in "$flat" local/rank-1/_flat_param.npy; do
	fails "a job with a mesh: $name" 'Operation not supported' cat "$mnt/$name"
done
equal 'a job with a mesh: the log' "$(grep -F LOCAL_STATE_DICT "$mnt/.ckptfs/log" | sed 's/.* local:/local:/')" 'local: net.1._flat_param: DeviceMesh is not compatible with LOCAL_STATE_DICT.'
for name in local/rank-0/my_flat_param.npy local/rank-0/_flat_param full/_flat_param.npy local/_flat_param.npy; do
	fails "a job with a mesh: no such name: $name" 'No such file' cat "$mnt/$name"
done
check 'a job with a mesh: the mount works' cmp "$mnt/full/$(ls "$mnt/full" | head -n 1)" "$mnt/full/$(ls "$mnt/full" | head -n 1)"
unmounted
fails 'a job with a mesh: without a mount' 'DeviceMesh is not compatible with LOCAL_STATE_DICT.' "$CKPTFS" cat "$FIXTURES/items_2" "$flat"
mounted "$FIXTURES/ranks_fsdp1_2"
fails 'a job without a mesh: no such name' 'No such file' cat "$mnt/$flat"
unmounted
done_testing
