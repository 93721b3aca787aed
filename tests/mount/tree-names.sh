# SPDX-License-Identifier: MIT
# Names, order, inode numbers, sizes, modes and times of the tree. The mode and time of a tensor
# come from its shard.
need python3

for name in sample many keys wrappers wrappers_clash dtypes_rare shapes empty; do
	source=$(fixture "$name")
	chmod 755 "$source"
	mounted "$source"
	check "$name" python3 "$HERE/tree-names.py" "$mnt" "$source" \
		"$FIXTURES/$name.tensors.tsv"
	unmounted
done

source=$(fixture dtensor)
chmod 750 "$source"
chmod 644 "$source"/* "$source/.metadata"
touch -d '2001-02-03 04:05:06' "$source"/*.distcp "$source/.metadata"
touch -d '2011-12-13 14:15:16' "$source/__1_0.distcp"
chmod 604 "$source/__2_0.distcp"
mounted "$source"
equal 'directory' "$(stat -c %a "$mnt" "$mnt/full" | xargs)" '550 550'
equal 'reports: .metadata and the directory' \
	"$(stat -c %a "$mnt/.ckptfs/status")" 440
mode() {
	"$CKPTFS" inspect "$source" "$1" --chunks | grep -q __2_0 &&
		echo 400 || echo 440
}
time_of() {
	"$CKPTFS" inspect "$source" "$1" --chunks | grep -q __1_0 &&
		echo 2011-12-13 || echo 2001-02-03
}
for stem in $(stems dtensor); do
	equal "mode of $stem" "$(stat -c %a "$mnt/raw/$stem")" "$(mode "$stem")"
	equal "time of $stem" "$(stat -c %.10y "$mnt/full/$stem.npy")" \
		"$(time_of "$stem")"
done
equal 'time of a directory' "$(stat -c %.10y "$mnt/full")" 2001-02-03
unmounted

mounted "$source" -o uid=1234,gid=4321,umask=027
first=$(stems dtensor | head -n 1)
equal 'uid= and gid=' "$(stat -c %u:%g "$mnt/raw/$first")" 1234:4321
equal 'umask= only removes bits' "$(stat -c %a "$mnt" "$mnt/.ckptfs/log" | xargs)" \
	'550 440'
unmounted

fails 'names that are not there' 'No such file' ls "$mnt/full"
mounted "$source"
fails 'no such tensor' 'No such file' cat "$mnt/full/no.such.tensor.npy"
fails 'no suffix, no tensor' 'No such file' cat "$mnt/full/$first"
fails 'a suffix in raw' 'No such file' cat "$mnt/raw/$first.npy"
fails 'a directory is no file' 'Is a directory' cat "$mnt/full"
unmounted
done_testing
