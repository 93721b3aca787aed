# SPDX-License-Identifier: MIT
# files/, the directory of the checkpoint in place: names, attributes and bytes are those of
# the source, links are not followed, other file systems are not entered, and a source that
# does not answer delays no read of a tensor.
need python3 attr rsync

look() {
	python3 "$HERE/files-area.py" "$@"
}
for name in sample nested hub_shards files_index files_pieces items_2 ranks_tp dtensor; do
	mounted "$FIXTURES/$name"
	check "$name: diff -r" diff -r --no-dereference "$FIXTURES/$name" "$mnt/files"
	unmounted
done

for path in files files/ files/__0_0.distcp; do
	fails "without a mount: $path" 'files/ is in mounts only, and has the files of SRC itself' \
		"$CKPTFS" ls "$FIXTURES/sample" "$path"
done
equal 'without a mount: another name' "$("$CKPTFS" ls "$FIXTURES/sample" filesx 2>&1)" \
	'ckptfs: filesx: No such file or directory'

# --- a source with all types of files
source=$(fixture sample)
mkdir -p "$source/logs/deep/empty" "$source/many" outside
echo '{"hidden_size": 64}' >"$source/config.json"
echo secret >outside/secret
ln -s config.json "$source/relative"
ln -s "$WORK/outside/secret" "$source/absolute"
ln -s ../outside "$source/outside"
ln -s nowhere "$source/dangling"
ln -s ../relative "$source/logs/up"
ln "$source/config.json" "$source/logs/hard"
mkfifo "$source/fifo"
truncate -s 1M "$source/hole"
printf 'end' >>"$source/hole"
printf '%s' name >"$source/a name"$'\n\377'
chmod 2751 "$source/logs"
chmod 4700 "$source/logs/hard"
setfattr -n user.note -v 'a value' "$source/config.json"
setfattr -n user.note -v 'of a directory' "$source/logs"
if [ "$(id -u)" = 0 ]; then
	mknod "$source/zero" c 1 5
	chown 1234:4321 "$source/many"
fi
mounted "$source"
check 'every type of file' look same "$source" "$mnt/files"
cp -a "$mnt/files/." copied
check 'cp -a: rsync finds no difference' \
	test -z "$(rsync -a --checksum --dry-run --itemize-changes "$source/" copied/)"
check 'rsync of files/ finds no difference' \
	test -z "$(rsync -a --checksum --dry-run --itemize-changes "$source/" "$mnt/files/")"
equal 'a link is followed by the reader' "$(cat "$mnt/files/absolute")" secret
equal 'a link that leaves the source' "$(realpath "$mnt/files/outside")" "$mnt/outside"
equal 'df: the file system of the source' "$(stat -fc '%s %b %c' "$mnt/files")" "$(stat -fc '%s %b %c' "$source")"
[ "$(id -u)" != 0 ] || fails 'a device is not opened' '' dd if="$mnt/files/zero" of=/dev/null count=1
fails 'no ACL' '' getfattr -n system.posix_acl_access "$mnt/files/config.json"
equal 'no ioctl of tensors' "$(python3 -c 'import fcntl, sys
try: fcntl.ioctl(open(sys.argv[1]), 0x6b03)
except OSError as e: print(e.errno)' "$mnt/files/config.json")" 25
check 'a file is mapped' python3 -c 'import mmap, sys
f = open(sys.argv[1], "rb")
for flags in mmap.MAP_SHARED, mmap.MAP_PRIVATE:
    m = mmap.mmap(f.fileno(), 0, flags, mmap.PROT_READ)
    assert m[:] == open(sys.argv[2], "rb").read()' "$mnt/files/__0_0.distcp" "$source/__0_0.distcp"

# The copy is a checkpoint with the same tensors.
mkdir other
"$CKPTFS" mount copied other
check 'cp -a: the same tensors' diff -r "$mnt/full" other/full
"$CKPTFS" umount other

# --- every call that changes files
check 'changes are refused' python3 "$HERE/readonly-calls.py" "$mnt" config.json files ''
unmounted
mounted "$source" -o write
one=$(stems sample | head -n 1)
cp "$mnt/raw/$one" bytes
check 'a commit' cp bytes "$mnt/raw/$one"
check 'files/ after a commit' diff -r --no-dereference -x fifo -x zero "$source" "$mnt/files"
unmounted

# --- a large directory, whose names the kernel forgets
(cd "$source/many" && seq -f 'file-%g' 10000 | xargs touch)
"$CKPTFS" mount "$source" "$mnt"
names_in_use() {
	sed -n 's|^files/: read-only, \([0-9]*\) names in use.*|\1|p' "$mnt/.ckptfs/status"
}
few_names() {
	[ "$(names_in_use)" -lt 10 ]
}
equal 'names before' "$(names_in_use)" 1
check 'a listing from any cookie' look listing "$mnt/files/many"
equal 'all attributes' "$(find "$mnt/files/many" -type f -size 0 -printf 'x\n' | wc -l)" 10000
# The kernel forgets names also when another program drops its caches.
many_names() {
	find "$mnt/files/many" -type f -size 0 >"$WORK/out" && [ "$(names_in_use)" -gt 10000 ]
}
check 'their names are in use' comes many_names
check 'their descriptors are bounded' test "$(sed -n 's,^files/:.* \([0-9]*\) descriptors.*,\1,p' "$mnt/.ckptfs/status")" -le 1025
exec 3<"$mnt/files/config.json"
if mount -i -o remount,rw "$mnt" 2>"$WORK/out"; then
	check 'forgotten names are freed' comes few_names
	equal 'an open file stays' "$(cat <&3)" '{"hidden_size": 64}'
	check 'changes are refused after a remount' python3 "$HERE/readonly-calls.py" "$mnt" config.json files ''
else
	skip 'forgotten names are freed' 'this kernel does not remount'
fi
exec 3<&-
unmounted
rm -r "$source/many"

# --- the source changes; few descriptors, so that they are closed and opened again
(
	ulimit -n 200
	"$CKPTFS" mount "$source" "$mnt" -o write
)
check 'tensors beside many open files' look crowd "$mnt"
check 'the source changes' look changes "$source" "$mnt/files"
echo large >"$source/removed"
mkdir -p "$source/kept"
check 'a file is looked up' stat "$mnt/files/removed" "$mnt/files/kept"
rm "$source/removed"
held() {
	readlink "/proc/$(daemon)"/fd/* | grep -c "/$1\( (deleted)\)\?$"
}
is_kept() {
	stat "$mnt/files/kept" && [ "$(held kept)" = 1 ]
}
check 'the descriptor of a directory is kept' comes is_kept
equal 'a removed file is not held' "$(held removed)" 0
unmounted

# --- other file systems below the source, one of which is the mount itself
mkdir "$source/disk" "$source/loop"
if mount -t tmpfs none "$source/disk" 2>"$WORK/out"; then
	echo inside >"$source/disk/x"
	mounted "$source"
	mount --bind "$mnt" "$source/loop"
	for name in disk loop; do
		check "$name: a directory" test -d "$mnt/files/$name"
		equal "$name: it is empty" "$(ls "$mnt/files/$name")" ''
		fails "$name: a name in it" 'Invalid cross-device link' cat "$mnt/files/$name/x"
	done
	check 'all files' find "$mnt/files" -printf '%p %s\n'
	umount "$source/loop"
	umount "$source/disk"
	check 'unmounted: it is the directory' rmdir "$source/disk"
	fails 'removed' 'No such file' stat "$mnt/files/disk"
	unmounted
else
	skip 'another file system' 'only root can mount'
fi

# --- a source that does not answer
for i in $(seq 40); do
	head -c 2000000 /dev/urandom >"$source/held-$i.log"
done
touch hold
MUTE_NAME=held- MUTE_HOLD=$WORK/hold LD_PRELOAD=$LIBMUTE_BIN mounted "$source" -o nopassthrough
for i in $(seq 40); do
	cat "$mnt/files/held-$i.log" >"read-$i" &
done
waiting() {
	[ "$(ls read-* | wc -l)" = 40 ] && [ "$(daemon_readers)" -ge 16 ]
}
# Threads of the daemon in a read that is held.
daemon_readers() {
	grep -l 'nanosleep' /proc/"$(daemon)"/task/*/wchan 2>/dev/null | wc -l
}
check 'readers wait' comes waiting
check 'tensors are read meanwhile' sh -c 'cat "$1"/full/* "$1"/raw/* "$1"/hf/*.safetensors' - "$mnt"
check 'so are reports and listings' sh -c 'cat "$1/.ckptfs/status" && ls -R "$1/local"' - "$mnt"
equal 'no reader has got bytes' "$(cat read-* | wc -c)" 0
rm hold
wait
for i in $(seq 40); do
	cmp -s "$source/held-$i.log" "read-$i" || echo "$i"
done >"$WORK/out"
check 'then all are read' test ! -s "$WORK/out"
unmounted
rm "$source"/held-* read-*

# --- options
mounted "$source" -o uid=77,gid=88,umask=027
equal 'uid, gid, umask' "$(stat -c '%u %g %a' "$mnt/files/config.json")" '77 88 4700'
unmounted
mounted "$source" -o noxattr
fails 'noxattr' 'not supported' getfattr -n user.note "$mnt/files/config.json"
unmounted
mounted "$source" -o views=full
check 'views=full: no files/' test ! -e "$mnt/files"
unmounted
mounted "$source" -o views=files
equal 'views=files: alone' "$(ls -A "$mnt" | xargs)" '.ckptfs files'
unmounted
mounted "$FIXTURES/hub_one/model.safetensors"
check 'a source that is one file: no files/' test ! -e "$mnt/files"
unmounted

# --- a run directory
mkdir run
cp -r "$FIXTURES/sample" run/step-1
cp -r "$FIXTURES/plain" run/step-2
echo notes >run/notes.txt
mounted "$WORK/run"
equal 'a run: its entries' "$(ls "$mnt" | xargs)" 'files latest step-1 step-2'
check 'a run: its directory' diff -r run "$mnt/files"
check 'a run: of each step' diff -r run/step-1 "$mnt/step-1/files"
check 'a run: by latest' diff -r run/step-2 "$mnt/latest/files"
cp -r "$FIXTURES/plain" run/files
appears() {
	[ -d "$mnt/files/full" ]
}
check 'a run: a step of that name' comes appears
equal 'a run: listed once' "$(ls "$mnt" | xargs)" 'files latest step-1 step-2'
unmounted

# --- other users
if [ "$(id -u)" = 0 ] && command -v setpriv setfacl >/dev/null && id nobody >/dev/null 2>&1; then
	as_nobody() {
		setpriv --reuid=nobody --regid="$(id -gn nobody)" --clear-groups "$@"
	}
	chmod 755 "$source" "$WORK"
	echo private >"$source/private"
	chmod 600 "$source/private"
	echo 'for all but one' >"$source/denied"
	setfacl -m u:nobody:- "$source/denied"
	mounted "$source" -o allow_other
	if as_nobody test -d "$mnt/files"; then
		check 'another user reads' as_nobody cat "$mnt/files/__0_0.distcp"
		fails 'a private file' 'Permission denied' as_nobody cat "$mnt/files/private"
		fails 'an ACL that denies' 'Permission denied' as_nobody cat "$mnt/files/denied"
		chmod 644 "$source/private"
		check 'after chmod' as_nobody cat "$mnt/files/private"
	else
		skip 'another user' 'nobody cannot get here'
	fi
	unmounted
fi
done_testing
