# SPDX-License-Identifier: MIT
# Headers are read lazily. The mount, listings, attributes and reports read no item. Opening a
# tensor reads its headers, and so does reading its attribute `error`.
need getfattr find

source=$FIXTURES/tp_fsdp2_bad
bad=$(cut -f1 "$source.errors.tsv" | head -n 1)
good=$(stems tp_fsdp2_bad | grep -vxF "$bad" | head -n 1)
items=$("$CKPTFS" check "$source" | sed -n 's/^items checked .* of \(.*\);.*/\1/p')
checked() {
	sed -n 's/^items checked \(.*\) of .*/\1/p' "$mnt/.ckptfs/damage"
}
attributes() {
	getfattr --absolute-names "$1" | grep -c "^user.ckptfs.error$"
}

mounted "$source"
equal 'the mount reads no item' "$(checked)" 0
find "$mnt" -ls >"$WORK/out"
find "$mnt" -exec getfattr -d --absolute-names {} + >"$WORK/attributes"
cat "$mnt"/.ckptfs/[!s]* "$mnt"/.ckptfs/st* "$mnt"/.ckptfs/shards/* >/dev/null
equal 'listings, attributes and reports read no item' "$(checked)" 0
equal 'all were listed' "$(grep -c '^user.ckptfs.fqn=' "$WORK/attributes")" \
	"$(find "$mnt/full" "$mnt/raw" "$mnt/local" "$mnt/objects" "$mnt/sharded" "$mnt/f32" $(ls -d "$mnt/optim" 2>/dev/null) -type f |
		wc -l)"
equal 'a fault that no read met is not listed' "$(attributes "$mnt/raw/$bad")" 0

head -c 0 "$mnt/raw/$good"
equal 'an open reads the headers of its own boxes' "$(checked)" \
	"$(getfattr -n user.ckptfs.chunks --only-values --absolute-names \
		"$mnt/raw/$good")"
before=$(checked)
head -c 0 "$mnt/full/$good.npy"
equal 'and not again in another view' "$(checked)" "$before"

fails 'asking for error: a good tensor has no such attribute' 'No such attribute' \
	getfattr -n user.ckptfs.error "$mnt/raw/$good"
check 'asking for error finds the fault' \
	getfattr -n user.ckptfs.error "$mnt/raw/$bad"
equal 'now it is listed' "$(attributes "$mnt/raw/$bad")" 1
equal 'in the other view too' "$(attributes "$mnt/full/$bad.npy")" 1
check 'and in the report' grep -q "^$bad: " "$mnt/.ckptfs/damage"

cat "$mnt"/raw/* >/dev/null 2>&1
cat "$mnt"/objects/* >/dev/null 2>&1
equal 'in the end all were looked at' "$(checked)" "$items"
unmounted
done_testing
