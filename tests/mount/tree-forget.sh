# SPDX-License-Identifier: MIT
# The kernel forgets all unused inodes, as it does when memory is short. Open files, removed
# names, scratch files and inode numbers must not change. A remount makes the kernel forget;
# the debug log shows the FORGET requests.
need python3 cmp

source=$(fixture sample)
one=model.layers.0.attention.wk.weight
other=model.layers.1.attention.wk.weight
"$CKPTFS" mount "$source" "$mnt" -o write,debug -f >"$WORK/log" 2>&1 &
pid=$!
comes test -d "$mnt/raw"
forget() {
	mount -i -o remount,rw "$mnt" 2>"$WORK/out"
}
forget || skip_all 'this kernel does not remount'
forgotten() {
	grep -c 'FORGET' "$WORK/log"
}
has_forgotten() {
	[ "$(forgotten)" -gt "$first" ]
}
all() {
	find "$mnt" -path "$mnt/.ckptfs" -prune -o -printf '%i %s %m %T@ %P\n' |
		sort -k5
}

all >before.txt
check 'all names' test "$(wc -l <before.txt)" -gt 50
first=$(forgotten)
forget
all >after.txt
check 'the same again' cmp before.txt after.txt
check 'the kernel forgot' comes has_forgotten

cp "$mnt/raw/$one" one.bin
exec 3<"$mnt/raw/$one"
rm "$mnt/raw/$other"
printf 'no tensor' >"$mnt/raw/notes.bin"
mkdir names
ls "$mnt/raw" >names/before
for _ in 1 2 3; do
	forget
	ls "$mnt/raw" >names/after
	check 'names that are there' cmp names/before names/after
	fails 'removed' 'No such file' stat "$mnt/raw/$other"
	equal 'a scratch file' "$(cat "$mnt/raw/notes.bin")" 'no tensor'
	all >/dev/null
done
check 'what is open' cmp one.bin - <&3
exec 3<&-

# The same after a commit: the old inode number is not reused.
old=$(stat -c %i "$mnt/raw/$one")
tr '\000-\377' '\377\000-\376' <one.bin >two.bin
check 'a commit' cp two.bin "$mnt/raw/$one"
new=$(stat -c %i "$mnt/raw/$one")
check 'another number' test "$old" != "$new"
forget
equal 'it stays' "$(stat -c %i "$mnt/raw/$one")" "$new"
check 'its bytes' cmp two.bin "$mnt/raw/$one"
check 'made again' python3 -c 'import os, sys; os.mknod(sys.argv[1])' \
	"$mnt/raw/$other"
forget
check 'there again' test -f "$mnt/raw/$other"
unmounted
wait "$pid"
done_testing
