# SPDX-License-Identifier: MIT
# Names on a mount for writing: removing, creating and replacing them, and permissions.
need python3 cmp

source=$(fixture sample)
one=model.layers.0.attention.wk.weight
size=1024

# released COMMAND...: unmounts and waits for the daemon, which locks the checkpoint until it
# ends.
released() {
	local pid
	pid=$(daemon)
	"$@" >"$WORK/out" 2>&1 || result 1 "$*"
	gone "$pid" || result 1 'the daemon ends'
}

# mknod(2) creates a removed name again, with the effect of O_TRUNC.
mounted "$source" -o write
raw=$mnt/raw/$one
box=$mnt/local/rank-1/$one.npy
made() {
	python3 - "$1" <<'PYTHON'
import errno
import os
import stat
import sys

path = sys.argv[1]
data = open(path, 'rb').read()
header = 128 if path.endswith('.npy') else 0
other = data[:header] + data[header:][::-1]
before = os.stat(path)


def refused(number, call, *args):
    try:
        call(*args)
    except OSError as e:
        assert e.errno == number, (e, call, args)
    else:
        raise AssertionError((call, args))


refused(errno.EEXIST, os.mknod, path)
os.unlink(path)
os.mknod(path, 0o600)
assert os.path.basename(path) in os.listdir(os.path.dirname(path))
assert open(path, 'rb').read() == data
assert os.stat(path).st_mode == before.st_mode
os.chmod(path, 0o600)  # of the new one: dropped
assert os.stat(path).st_mode == before.st_mode
os.unlink(path)
refused(errno.ENOENT, os.stat, path)
os.mknod(path)
fd = os.open(path, os.O_WRONLY)  # writing starts from an empty file
os.write(fd, other[:header + 8])
refused(errno.EINVAL, os.close, fd)
assert open(path, 'rb').read() == data
fd = os.open(path, os.O_WRONLY)  # and the next open is an ordinary one
os.pwrite(fd, other[:-8], 0)
os.pwrite(fd, other[-8:], len(other) - 8)
os.close(fd)
assert open(path, 'rb').read() == other
os.unlink(path)
os.mknod(path)
refused(errno.EPERM, os.mkfifo, path + '.fifo')
refused(errno.EPERM, os.mknod, path + '.node', stat.S_IFCHR, os.makedev(1, 3))
PYTHON
}
check 'mknod of a tensor' made "$raw"
check 'mknod of a box' made "$box"
check 'mknod of a NumPy file' made "$mnt/full/$one.npy"
check 'mknod of a scratch file' python3 -c '
import os, stat, sys
path = sys.argv[1]
os.mknod(path, 0o640)
assert stat.S_IMODE(os.stat(path).st_mode) == 0o640
open(path, "wb").write(b"x")
assert open(path).read() == "x"
os.unlink(path)' "$mnt/raw/x"
fails 'mknod of a new tensor' 'Operation not permitted' python3 -c '
import os, sys; os.mknod(sys.argv[1])' "$mnt/full/new.npy"
cp "$raw" old.bin
rm "$raw"
python3 -c 'import os, sys; os.mknod(sys.argv[1])' "$raw"
released "$CKPTFS" umount "$mnt"
mounted "$source" -o write
check 'mknod alone commits nothing' cmp old.bin "$raw"
released "$CKPTFS" umount "$mnt"

# Scratch files: probable typos are reported at the close, by commit, by status and at the
# end of the mount.
mounted "$source" -o write,commit=manual,log=lines
said() {
	grep -c "not part of the checkpoint: $1" "$mnt/.ckptfs/log"
}
field() {
	sed -n "s/^$1: //p" "$mnt/.ckptfs/status"
}
nothing="; no tensor has the name"
equal 'no scratch file: status' "$(field 'scratch files')$(field scratch)" 0
cp old.bin "$mnt/raw/model.norm.wieght"
equal 'a typo: the log' \
	"$(said "raw/model.norm.wieght$nothing\$")" 1
cat old.bin >>"$mnt/raw/model.norm.wieght"
cat "$mnt/raw/model.norm.wieght" >copied
equal 'a typo: logged once' "$(said raw/model)" 1
equal 'a typo: status' "$(field 'scratch files'), $(field scratch)" \
	'1, raw/model.norm.wieght'
cp old.bin "$mnt/raw/$one"
"$CKPTFS" commit "$mnt" >answer
equal 'a typo: commit' "$(cat answer)" "committed 1 tensor ($one); not part of \
the checkpoint: raw/model.norm.wieght$nothing"
cp old.bin "$mnt/full/model.norm.weight"
equal 'without .npy: the log' \
	"$(said "full/model.norm.weight$nothing\$")" 1
cp old.bin "$mnt/full/$one.npz"
equal 'numpy.savez: the log' \
	"$(said "full/$one.npz$nothing\$")" 1
cp old.bin "$mnt/local/rank-1/${one}s"
equal 'in local/: the log' \
	"$(said "local/rank-1/${one}s$nothing\$")" 1
cp old.bin "$mnt/raw/something"
equal 'another name: the log' "$(said "raw/something$nothing\$")" 1
cp old.bin "$mnt/raw/x.tmp"
mv "$mnt/raw/x.tmp" "$mnt/raw/model.norm.wieghts"
equal 'renamed to a typo: the log' \
	"$(said "raw/model.norm.wieghts$nothing\$")" 1
fails 'a new tensor' 'not permitted' cp old.bin "$mnt/full/model.norm.wieght.npy"
check 'a new tensor: the log' grep -q "full/model.norm.wieght.npy: no tensor of \
this checkpoint; none can be added\$" \
	"$mnt/.ckptfs/log"
before=$(said .)
cp "$mnt/full/$one.npy" new.npy
: >"$mnt/raw/empty"
cp old.bin "$mnt/raw/$one.tmp" && mv "$mnt/raw/$one.tmp" "$mnt/raw/$one"
cp old.bin "$mnt/raw/.hidden"
cp old.bin "$mnt/raw/backup~"
LC_ALL=C sed -i s/a_word_that_is_not_there/x/ "$mnt/raw/$one"
! command -v rsync >"$WORK/out" ||
	rsync --ignore-times new.npy "$mnt/full/$one.npy"
equal 'names of tools: no line at a close' "$(said .)" "$before"
equal 'names of tools: they count' "$(field 'scratch files')" 8
rm "$mnt/raw/something" "$mnt/raw/backup~"
equal 'many: status' "$(field scratch)" "full/$one.npz, full/model.norm.weight, \
local/rank-1/${one}s, raw/.hidden, raw/model.norm.wieght, raw/model.norm.wieghts"
"$CKPTFS" commit "$mnt" >answer
equal 'many: commit' "$(grep -o 'not part of' answer | wc -l)" 6
for i in 1 2 3 4 5 6 7 8; do cp old.bin "$mnt/raw/m$i"; done
check 'more: status' grep -q '^scratch: .*, raw/m4 and 6 more$' \
	"$mnt/.ckptfs/status"
rm "$mnt"/raw/m? "$mnt"/raw/.hidden "$mnt"/full/model.norm.weight
rm "$mnt/full/$one.npz" "$mnt/local/rank-1/${one}s" "$mnt/raw/empty"
released umount "$mnt"
equal 'the end: the log' "$(grep dropped lines)" "ckptfs: dropped 2 scratch \
files: raw/model.norm.wieght, raw/model.norm.wieghts"
mounted "$source" -o write,log=lines
cp old.bin "$mnt/raw/model.norm.wieght"
"$CKPTFS" commit "$mnt" >answer
check 'commit=close: commit' grep -q "closed; not part of the checkpoint: \
raw/model.norm.wieght$nothing\$" answer
released kill "$(daemon)"
equal 'SIGTERM: the log' "$(tail -n 1 lines)" \
	'ckptfs: dropped 1 scratch file: raw/model.norm.wieght'
mounted "$source" -o write,log=none
cp old.bin "$mnt/raw/x"
rm "$mnt/raw/x"
released umount "$mnt"
equal 'nothing is dropped: the log' "$(grep -c dropped none)" 0

# The log also reports a second writer, without being flooded by it.
mounted "$source" -o write
busy() {
	grep -c "^ckptfs: $1: is being written already\$" "$mnt/.ckptfs/log"
}
two=model.norm.weight
cp old.bin "$mnt/raw/x"
exec 3>>"$mnt/raw/$one" 4>>"$mnt/raw/$two"
equal 'one writer: no line' "$(busy .*)" 0
fails 'a second writer' 'busy' cp old.bin "$mnt/raw/$one"
equal 'a second writer: the log' "$(busy "$one")" 1
for i in 1 2 3 4 5; do
	cp new.npy "$mnt/full/$one.npy" 2>"$WORK/out"
	mv -f "$mnt/raw/x" "$mnt/raw/$one" 2>"$WORK/out"
done
equal 'a second writer, again and again: the log' "$(busy "$one")" 1
fails 'of another tensor' 'busy' cp old.bin "$mnt/raw/$two"
equal 'of another tensor: the log' "$(busy "$two")" 1
exec 3>&- 4>&-
check 'then a rename' mv "$mnt/raw/x" "$mnt/raw/$one"
released "$CKPTFS" umount "$mnt"

# Another user, in a directory that all may write: a name represents a tensor, and its removal
# needs write permission for that tensor.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null &&
	id nobody >/dev/null 2>&1; then
	group=$(id -g nobody)
	as_nobody() {
		setpriv --reuid=nobody --regid="$group" --clear-groups "$@"
	}
	in_group() {
		setpriv --reuid=nobody --regid="$group" --groups 4242 "$@"
	}
	call() {
		python3 -c 'import os, sys; getattr(os, sys.argv[1])(*sys.argv[2:])' \
			"$@"
	}
	export -f call
	chmod 777 "$source"
	chmod 644 "$source/.metadata"
	mounted "$source" -o write,allow_other
	raw=$mnt/raw/$one
	box=$mnt/local/rank-1/$one.npy
	cp "$raw" old.bin
	cp "$box" old.npy
	head -c $size /dev/urandom >new.bin
	fails 'another user: cp' 'Permission denied' as_nobody cp new.bin "$raw"
	check 'another user: a scratch file' as_nobody cp new.bin "$mnt/raw/x"
	check 'another user: a scratch file in local/' \
		as_nobody cp old.npy "$mnt/local/rank-0/x"
	fails 'another user: rename' 'PermissionError: [Errno 13]' \
		as_nobody bash -c 'call rename "$@"' - "$mnt/raw/x" "$raw"
	fails 'another user: rename onto a box' 'PermissionError: [Errno 13]' \
		as_nobody bash -c 'call rename "$@"' - "$mnt/local/rank-0/x" "$box"
	fails 'another user: unlink' 'PermissionError: [Errno 13]' \
		as_nobody bash -c 'call unlink "$@"' - "$raw"
	check 'another user: nothing has changed' cmp old.bin "$raw"
	rm "$raw" "$box"
	fails 'another user: create' 'Permission denied' \
		as_nobody cp new.bin "$raw"
	fails 'another user: mknod' 'PermissionError: [Errno 13]' \
		as_nobody bash -c 'call mknod "$@"' - "$raw"
	fails 'another user: rename onto a removed name' \
		'PermissionError: [Errno 13]' \
		as_nobody bash -c 'call rename "$@"' - "$mnt/raw/x" "$raw"
	check 'another user: the name stays free' test ! -e "$raw" -a ! -e "$box"
	check 'another user: the owner creates' cp old.bin "$raw"
	check 'another user: his scratch file is still there' \
		cmp new.bin "$mnt/raw/x"
	check 'another user: the owner renames it' mv "$mnt/raw/x" "$raw"
	check 'another user: the owner renames it: bytes' cmp new.bin "$raw"
	released "$CKPTFS" umount "$mnt"

	# The group may.
	chgrp 4242 "$source/.metadata" "$source"/*.distcp
	chmod 664 "$source/.metadata"
	mounted "$source" -o write,allow_other
	in_group cp old.bin "$mnt/raw/x"
	fails 'the group: who is not in it' 'PermissionError: [Errno 13]' \
		as_nobody bash -c 'call rename "$@"' - "$mnt/raw/x" "$raw"
	check 'the group: rename' in_group bash -c 'call rename "$@"' - \
		"$mnt/raw/x" "$raw"
	check 'the group: bytes' cmp old.bin "$raw"
	check 'the group: rm' in_group rm "$raw"
	check 'the group: a removed name' in_group cp new.bin "$raw"
	check 'the group: a removed name: bytes' cmp new.bin "$raw"

	# A tensor is readable by all users: renaming a file onto it needs read permission for
	# the file.
	install -m 600 old.bin "$mnt/raw/private"
	fails 'a private file: rename' 'PermissionError: [Errno 13]' \
		in_group bash -c 'call rename "$@"' - "$mnt/raw/private" "$raw"
	check 'a private file: nothing has changed' cmp new.bin "$raw"
	in_group install -m 200 old.bin "$mnt/raw/his"
	check 'a private file: its owner may' \
		in_group bash -c 'call rename "$@"' - "$mnt/raw/his" "$raw"
	check 'a private file: its owner may: bytes' cmp old.bin "$raw"
	released "$CKPTFS" umount "$mnt"
else
	skip 'another user' 'only root can become another user'
fi
done_testing
