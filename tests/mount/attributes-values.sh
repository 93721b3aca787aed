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

placed() {
	for name in placements mesh; do
		getfattr --absolute-names --only-values -n "user.ckptfs.$name" "$mnt/$1" 2>/dev/null
		echo
	done | paste -sd ' '
}
# Source, tensor, placements and mesh.
while read -r source tensor want; do
	mounted "$FIXTURES/$source"
	for file in "full/$tensor.npy" "raw/$tensor" "local/rank-1/$tensor.npy"; do
		equal "$source: placements and mesh of $file" "$(placed "$file")" "$want"
	done
	equal "$source: both are listed" \
		"$(getfattr --absolute-names "$mnt/raw/$tensor" | grep -c -e placements -e mesh)" 2
	unmounted
done <<'EOF'
ranks_tp row7.weight ["S(0)","S(1)"] {"dp":2,"tp":2}
ranks_hsdp even ["R","S(0)"] {"replicate":2,"shard":2}
ranks_columns_2-2.1.2 columns ["S(1)"] [2]
EOF
mounted "$FIXTURES/ranks_tp"
equal 'ranks_tp: _StridedShard' "$(placed raw/column7.weight)" '["SS(0,2)","S(0)"] {"dp":2,"tp":2}'
unmounted
mounted "$FIXTURES/ranks_shards_2"
equal 'a ShardedTensor has no mesh' "$(placed raw/state.rows)" ' '
unmounted

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
