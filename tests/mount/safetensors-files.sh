# SPDX-License-Identifier: MIT
# Safetensors: one file, several files, with an index, from ranks, in a hub cache. Tests the tree
# of each, and refused files.
need python3 getfattr
find_numpy || skip_all 'no numpy'

"$NUMPY_PYTHON" "$HERE/hub.py" save "$WORK/hub"

# kind WHAT SOURCE REASON [ARGUMENT...]: mounts it; all tensors have their bytes.
kind() {
	mounted "$2" "${@:4}"
	check "$1: bytes" "$NUMPY_PYTHON" "$HERE/hub.py" compare "$mnt"
	equal "$1: kind" "$(sed -n 3p "$mnt/.ckptfs/status")" "kind: safetensors ($3)"
}

kind 'one file' hub/one/weights 'it begins as a safetensors file does'
equal 'one file: names' "$(ls -U "$mnt/raw" | tr '\n' ' ')" \
	'embed.weight layers.0.w layers.0.step layers.1.mask none bytes '
equal 'one file: what each saved' "$(ls "$mnt/local")" 'file-weights'
check 'one file: its notes' \
	grep -qxF 'metadata: format = pt' "$mnt/.ckptfs/status"
unmounted

kind 'tied' hub/tied 'it has safetensors files'
check 'tied: the name that was left out' \
	cmp "$mnt/raw/head.weight" "$mnt/raw/embed.weight"
equal 'tied: alias_of' \
	"$(getfattr --only-values -n user.ckptfs.alias_of "$mnt/full/head.weight.npy")" \
	'embed.weight'
fails 'tied: what is no alias has none' '' \
	getfattr --only-values -n user.ckptfs.alias_of "$mnt/full/embed.weight.npy"
check 'tied: model.safetensors alone' test ! -e "$mnt/raw/beside"
unmounted

kind 'several files' hub/several 'it has safetensors files'
equal 'several files: local' "$(ls "$mnt/local" | wc -l)" 6
unmounted

kind 'index' hub/index 'it has an index of safetensors files'
check 'index: what it does not name is counted' \
	grep -qxF 'tensors that the index does not name: 2' "$mnt/.ckptfs/status"
check 'index: what its file lacks is damage' grep -qF \
	'lost: EBADMSG: the index names it, its file has no such tensor; model-00001-of-00002.safetensors' \
	"$mnt/.ckptfs/damage"
check 'index: and is not shown' test ! -e "$mnt/raw/lost"
unmounted
fails 'index: check finds it' 'the index names it' "$CKPTFS" check hub/index

kind 'shards of ranks' hub/shards 'it has safetensors files'
equal 'shards: local' "$(ls "$mnt/local" | tr '\n' ' ')" 'rank-0 rank-1 rank-2 '
equal 'shards: the shape is a guess' \
	"$(getfattr --only-values -n user.ckptfs.shape_guessed "$mnt/full/bytes.npy")" 1
equal 'shards: offset of a box' \
	"$(getfattr --only-values -n user.ckptfs.offset "$mnt/local/rank-2/bytes.npy")" '[668]'
equal 'shards: boxes' \
	"$(getfattr --only-values -n user.ckptfs.chunks "$mnt/full/bytes.npy")" 3
unmounted
rm hub/shards/shard-00002-*
mounted hub/shards
fails 'a rank without a file: its bytes are lost' '' cat "$mnt/raw/bytes"
equal 'a rank without a file: others are there' \
	"$(head -c 334 "$mnt/raw/bytes" | wc -c)" 334
check 'a rank without a file: what others have, too' cat "$mnt/raw/layers.0.step"
unmounted

# huggingface_hub's cache: snapshots/REVISION/FILE are links to blobs/HASH.
kind 'hub cache' hub/cache/snapshots/main 'it has an index of safetensors files'
unmounted
kind 'hub cache: with linkroot=' hub/cache/snapshots/main 'it has an index of safetensors files' \
	-o linkroot=hub/cache
unmounted
fails 'hub cache: not beneath that directory' 'is a symbolic link' \
	"$CKPTFS" mount -o linkroot=hub/one hub/cache/snapshots/main "$mnt"
mkdir -p hub/cache/snapshots/part/unet hub/cache/snapshots/out hub/whole/blobs hub/whole/snapshots/rev
cp hub/one/weights hub/whole/blobs/0
ln -s ../../blobs/0 hub/whole/snapshots/rev/model.safetensors
equal 'hub cache: its directory is a run directory' "$("$CKPTFS" ls hub/whole snapshots | xargs)" \
	'rev latest .ckptfs'
ln -s "../../../blobs/$(ls hub/cache/blobs | head -n 1)" hub/cache/snapshots/part/unet/config.json
ln -s "$WORK/hub/one/weights" hub/cache/snapshots/out/model.safetensors
cp hub/one/weights hub/cache/snapshots/part/unet/model.safetensors
equal 'hub cache: a directory in a snapshot' \
	"$("$CKPTFS" ls hub/cache/snapshots/part/unet hf | xargs)" 'model.safetensors config.json'
fails 'hub cache: a link out of blobs is not followed' 'is a symbolic link' \
	"$CKPTFS" mount hub/cache/snapshots/out "$mnt"
mv hub/cache/blobs hub/cache/blobs.d
ln -s blobs.d hub/cache/blobs
fails 'hub cache: blobs itself is no link' 'is a symbolic link' \
	"$CKPTFS" mount hub/cache/snapshots/main "$mnt"
rm hub/cache/blobs
mv hub/cache/blobs.d hub/cache/blobs
# A daemon is elsewhere when it opens a step.
mkdir -p hub/run/step-1
ln -s ../../one/weights hub/run/step-1/model.safetensors
mounted hub/run -o linkroot=hub/one
check 'regression: a relative linkroot of a run directory' "$NUMPY_PYTHON" \
	"$HERE/hub.py" compare "$mnt/step-1"
unmounted
one=$(ls hub/cache/snapshots/main/*.safetensors | head -n 1)
mounted "$one"
check 'hub cache, one file of it' sh -c 'test "$(ls "$1" | wc -l)" = 4' - "$mnt/raw"
unmounted
# Its own mount in linkroot is another file system, which no link is followed into.
mkdir hub/cache/place
ln -s ../../place/raw/bytes hub/cache/snapshots/main/z.safetensors
check 'hub cache: the mount point in linkroot' timeout 100 "$CKPTFS" mount \
	-o linkroot=hub/cache hub/cache/snapshots/main hub/cache/place
check 'hub cache: the mount point in linkroot: bytes' timeout 100 "$NUMPY_PYTHON" \
	"$HERE/hub.py" compare hub/cache/place
check 'hub cache: the mount point in linkroot: umount' "$CKPTFS" umount hub/cache/place
rm hub/cache/snapshots/main/z.safetensors
rmdir hub/cache/place
check 'linkroot of other commands' "$CKPTFS" inspect -o linkroot=hub/cache \
	hub/cache/snapshots/main

fails 'it cannot be written' 'checkpoints of kind safetensors cannot be written' \
	"$CKPTFS" mount -o write hub/one/weights "$mnt"
check 'without a mount: inspect' "$CKPTFS" inspect hub/index
check 'without a mount: dump' "$CKPTFS" dump hub/shards

# A file that is replaced while it is mounted.
mounted hub/one/weights
cat "$mnt/raw/bytes" >before
cp hub/one/weights hub/one/new
mv hub/one/new hub/one/weights
fails 'replaced: ESTALE' 'Stale file handle' cat "$mnt/raw/embed.weight"
check 'replaced: the status says so' \
	grep -qF 'the source has a newer one' "$mnt/.ckptfs/status"
unmounted
truncate -s -1 hub/one/weights
mounted hub/one/weights
fails 'cut by a byte: the last tensor' 'No data available' cat "$mnt/raw/bytes"
check 'cut by a byte: all others' cat "$mnt/raw/embed.weight"
unmounted
done_testing
