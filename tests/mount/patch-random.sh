# SPDX-License-Identifier: MIT
#
# -o patch over all forms of sharding: random patches against a model of the
# bytes. CKPTFS_PATCHES: how many.
need python3

seed=$(seed 1)
mkdir fast
[ "$(id -u)" != 0 ] || mount -t tmpfs none fast 2>"$WORK/out" || true

# rows, columns, 2-D, 3-D, other strides, uneven, several of a rank, dtypes
forms='sample dtensor_columns mesh2d mesh3d strides_sharded tp_fsdp2_uneven
	sharded_many dtypes_sharded assembled zstd'
for form in $forms; do
	cp -a "$FIXTURES/$form" fast/
done
# Some MiB, so that a write gathers more bytes than a page.
python3 "$HERE/big.py" fast/rows 2 8 131072
python3 "$HERE/big.py" --columns fast/columns 2 4 131072 512
each=$(($(cases CKPTFS_PATCHES 240 10000) / 12))
few=$((each < 400 ? each : 400)) # of the large ones, whose model is slow

patched() { # NAME COUNT
	python3 "$HERE/patch-random.py" "$CKPTFS" "$WORK/fast/$1" "$mnt" "$2" \
		"$seed"
}
for form in $forms; do
	check "$form" patched "$form" "$each"
	check "$form: no fault" "$CKPTFS" check "fast/$form" --full
done
for form in rows columns; do
	check "regression: $form of some MiB" patched $form $few
	check "$form: no fault" "$CKPTFS" check "fast/$form" --full
done
fails 'canary: a wrong model is found' 'bytes differ' \
	env CKPTFS_CANARY=1 python3 "$HERE/patch-random.py" "$CKPTFS" \
	"$WORK/fast/mesh2d" "$mnt" 200 2
! is_mounted || unmounted
[ "$(id -u)" != 0 ] || umount fast 2>"$WORK/out" || true
done_testing
