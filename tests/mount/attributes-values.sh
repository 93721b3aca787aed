# SPDX-License-Identifier: MIT
#
# Extended attributes of every tensor of the fixtures with something special,
# in both views; no attributes with noxattr.
need python3 getfattr

for name in sample keys wrappers wrappers_kept shapes dtypes dtypes_rare \
	tp_fsdp2_bad sharded_many; do
	errors=$FIXTURES/$name.errors.tsv
	[ -e "$errors" ] || errors=
	mounted "$FIXTURES/$name"
	check "$name" python3 "$HERE/attributes.py" "$mnt" \
		"$FIXTURES/$name.tensors.tsv" "$errors"
	unmounted
done

mounted "$FIXTURES/sample"
one=$(stems sample | head -n 1)
equal 'getfattr' "$(getfattr -n user.ckptfs.fqn --only-values --absolute-names \
	"$mnt/full/$one.npy")" "$one"
fails 'setfattr' 'Read-only file system' \
	setfattr -n user.ckptfs.fqn -v x "$mnt/full/$one.npy"
unmounted
mounted "$FIXTURES/sample" -o noxattr
fails 'noxattr' 'Operation not supported' \
	getfattr -n user.ckptfs.fqn --absolute-names "$mnt/full/$one.npy"
unmounted
mounted "$(fixture sample)" -o noxattr,write
fails 'noxattr, to set' 'Operation not supported' \
	setfattr -n user.ckptfs.fqn -v x "$mnt/full/$one.npy"
unmounted
done_testing
