# SPDX-License-Identifier: MIT
# Tools that write to a temporary name first, or remove a file and create it again, and the
# files that they leave after a failure. Each has the outcome stated in the section Tools of
# ckptfs(5). write-tools tests the tools that write in place.
need python3 tar install sed cmp sha256sum flock

sample_written
box=$mnt/local/rank-2/$one.npy
names() {
	ls -a "$mnt/raw" "$mnt/full" "$mnt"/local/* | sha256sum
}
entries=$(names)

# released: unmounts and waits for the daemon, which locks the checkpoint until it ends.
released() {
	local pid
	pid=$(daemon)
	unmounted
	gone "$pid" || result 1 'the daemon ends'
}

# renewed: new bytes as by fresh, with raw.want and full.want as expected contents.
renewed() {
	fresh
	cp raw.bin raw.want
	cp full.npy full.want
}

# replaced WHAT: both views have the new bytes, and no additional name exists.
replaced() {
	check "$1: bytes" cmp raw.want "$raw"
	check "$1: the other view" cmp full.want "$npy"
	equal "$1: names" "$(names)" "$entries"
}

# into WHAT COMMAND...: the command succeeds and has replaced the tensor.
into() {
	renewed
	check "$@"
	replaced "$1"
}

# refused WHAT TEXT COMMAND...: the command fails with this error; the tensor and all names
# are unchanged.
refused() {
	cp "$raw" raw.want
	cp "$npy" full.want
	new_bytes >raw.bin
	fails "$@"
	replaced "$1"
}

# --- removed and created again --------------------------------------------------

into 'install' install -m 644 raw.bin "$raw"
into 'install of a NumPy file' install full.npy "$npy"
into 'cp --remove-destination' cp --remove-destination raw.bin "$raw"
cp_from_other() {
	cp "$1" moved && mv moved "$2"
}
into 'mv from another filesystem' cp_from_other raw.bin "$raw"
into 'mv of a NumPy file' cp_from_other full.npy "$npy"
mkdir -p tree/raw tree/full
extract() {
	cp "$1" "tree/$2" && tar -C tree -cf tree.tar "$2" &&
		tar -C "$mnt" -xf tree.tar "${@:3}"
}
into 'tar -x' extract raw.bin "raw/$one"
into 'tar -x of a NumPy file' extract full.npy "full/$one.npy"
into 'tar -xp' extract raw.bin "raw/$one" -p
into 'tar -x --overwrite' extract raw.bin "raw/$one" --overwrite
# back COMMAND... FILE DEST: copies a file back with the attributes that the mount shows,
# which were copied from it.
back() {
	cp --preserve=xattr "${@: -1}" with && cat "${@: -2:1}" >with &&
		"${@:1:$#-2}" with "${@: -1}"
}
extract_with() {
	cp with "tree/raw/$one" --preserve=xattr &&
		tar -C tree --xattrs -cf tree.tar "raw/$one" &&
		tar -C "$mnt" --xattrs -xf tree.tar
}
attributes=
if cp --preserve=xattr "$raw" with 2>"$WORK/out"; then
	attributes=yes
	equal 'attributes are copied out' "$(python3 -c '
import os; print(os.getxattr("with", "user.ckptfs.dtype").decode())')" float32
	into 'tar --xattrs -x' back extract_with raw.bin "$raw"
	into 'cp --preserve=xattr' back cp --preserve=xattr raw.bin "$raw"
	into 'cp -a --remove-destination' back cp -a --remove-destination \
		full.npy "$npy"
else
	skip 'tar --xattrs -x' 'no attributes where the tests are'
fi
into 'rm, then cp' sh -c 'rm "$1" && cp raw.bin "$1"' - "$raw"

check 'rm' rm "$raw"
fails 'rm: the name is gone' 'No such file' cat "$raw"
fails 'rm: not listed' '' grep -qxF "$one" <(ls "$mnt/raw")
check 'rm: the other view stays' cmp full.want "$npy"
(cd "$source" && "$CKPTFS" check . --full) >"$WORK/out" 2>&1
result $? 'rm: nothing is committed'
fails 'rm, then a part' 'Invalid argument' \
	sh -c 'head -c 100 raw.bin >"$1"' - "$raw"
replaced 'rm, then a part'
cp "$box" box.npy
check 'rm of a box' rm "$box"
fails 'rm of a box: the name is gone' 'No such file' cat "$box"
check 'rm of a box, then cp' cp box.npy "$box"

# --- renamed -----------------------------------------------------------------

into 'save by rename' sh -c 'cat raw.bin >"$1.tmp" && mv "$1.tmp" "$1"' - \
	"$raw"
into 'temporary name, chmod, rename' python3 -c '
import os, sys
name = os.path.dirname(sys.argv[1]) + "/.save"
with open(name, "xb") as f:
    f.write(open("full.npy", "rb").read())
    os.fsync(f.fileno())
os.chmod(name, 0o600)
os.utime(name, (1, 1))
s = os.stat(name)
assert (s.st_mode & 0o777, s.st_mtime, s.st_nlink) == (0o600, 1, 1)
os.replace(name, sys.argv[1])
s = os.stat(sys.argv[1])
assert s.st_mode & 0o044 == 0o044 and s.st_mtime > 1, s' "$npy"
into 'rename from the other view' sh -c '
	cp full.npy "$1/raw/x" && mv "$1/raw/x" "$2"' - "$mnt" "$npy"
into 'sed -i' sh -c '
	cp raw.bin "$1" && LC_ALL=C sed -i s/a_word_that_is_not_there/x/ "$1"' \
	- "$raw"
if command -v rsync >/dev/null; then
	into 'rsync' rsync --ignore-times raw.bin "$raw"
	into 'rsync -a' rsync -a --ignore-times full.npy "$npy"
	[ -z "$attributes" ] || into 'rsync -aX' \
		back rsync -aX --ignore-times raw.bin "$raw"
	into 'rsync --partial-dir' rsync --ignore-times --partial-dir=part \
		raw.bin "$raw"
	# The exit status of rsync does not show the failure.
	renewed
	rsync --ignore-times --delay-updates raw.bin "$raw" >said 2>&1
	check 'rsync --delay-updates: says that it did not' grep -q \
		'Unable to create partial-dir' said
	fails 'rsync --delay-updates: did not' '' cmp raw.bin "$raw"
	rm -f "$mnt"/raw/."$one".*
else
	skip 'rsync' 'no rsync'
fi
if command -v ed >/dev/null; then
	into 'ed' sh -c 'cp raw.bin "$1" && printf "w\nq\n" | ed -s "$1"' - \
		"$raw"
fi
if command -v vim >/dev/null; then
	into 'vim' sh -c 'cp raw.bin "$1" &&
		vim -u NONE -b -N -es -c wq "$1" </dev/null' - "$raw"
fi
if find_numpy; then
	into 'numpy.save to a temporary name' "$NUMPY_PYTHON" -c '
import numpy, os, sys
with open(sys.argv[1] + ".tmp", "wb") as f:
    numpy.save(f, numpy.load("full.npy"))
os.rename(sys.argv[1] + ".tmp", sys.argv[1])' "$npy"
else
	skip 'numpy.save to a temporary name' 'no numpy'
fi
rm -f "$mnt/raw/x"
boxed() {
	head -c 128 "$mnt/local/rank-1/$one.npy" >box.npy
	head -c $(($(stat -c %s "$mnt/local/rank-1/$one.npy") - 128)) \
		/dev/urandom >>box.npy
	cp box.npy "$mnt/full/x" && mv "$mnt/full/x" "$1" && cmp box.npy "$1"
}
check 'rename onto a box' boxed "$mnt/local/rank-1/$one.npy"
rm "$box"
check 'rename onto a box that was removed' boxed "$box"

# --- in local/ ----------------------------------------------------------------

box=$mnt/local/rank-1/$one.npy
boxes() {
	for rank in 0 1 2 3; do
		tail -c +$((header + 1)) "$mnt/local/rank-$rank/$one.npy"
	done
}

# into_box WHAT COMMAND...: like into(), with box.npy and the box.
into_box() {
	head -c "$header" "$box" >box.npy
	head -c $(($(stat -c %s "$box") - header)) /dev/urandom >>box.npy
	cp box.npy box.want
	check "local: $1" "${@:2}"
	check "local: $1: bytes" cmp box.want "$box"
	check "local: $1: the tensor has them" cmp <(boxes) "$raw"
	equal "local: $1: names" "$(names)" "$entries"
}

check 'local: the boxes are rows' cmp <(boxes) "$raw"
into_box 'cp, then mv' sh -c 'cp box.npy "$1.tmp" && mv "$1.tmp" "$1"' - "$box"
into_box 'mv from another directory' sh -c \
	'cp box.npy "$2/new" && mv "$2/new" "$1"' - "$box" "$mnt/local/rank-0"
into_box 'mv from raw/' sh -c 'cp box.npy "$2/new" && mv "$2/new" "$1"' - \
	"$box" "$mnt/raw"
into_box 'mv from another filesystem' cp_from_other box.npy "$box"
# The other ways as above: in tests/run --all.
if [ -n "${CKPTFS_ALL:-}" ]; then
	into_box 'install' install -m 644 box.npy "$box"
	into_box 'sed -i' sh -c '
		cp box.npy "$1" && LC_ALL=C sed -i s/a_word_that_is_not_there/x/ "$1"' \
		- "$box"
	into_box 'cp --remove-destination' cp --remove-destination box.npy "$box"
fi
extract_box() {
	mkdir -p tree/local/rank-1
	cp box.npy "tree/local/rank-1/$one.npy"
	tar -C tree -cf tree.tar "local/rank-1/$one.npy" &&
		tar -C "$mnt" -xf tree.tar "$@"
}
into_box 'tar -x' extract_box
if [ -n "$attributes" ]; then
	extract_box_with() {
		cp --preserve=xattr with "tree/local/rank-1/$one.npy" &&
			tar -C tree --xattrs -cf tree.tar \
				"local/rank-1/$one.npy" &&
			tar -C "$mnt" --xattrs -xf tree.tar
	}
	into_box 'tar --xattrs -x' back extract_box_with box.npy "$box"
	into_box 'cp --preserve=xattr' back cp --preserve=xattr box.npy "$box"
fi
if command -v rsync >/dev/null; then
	[ -z "${CKPTFS_ALL:-}" ] || into_box 'rsync' rsync --ignore-times box.npy "$box"
	into_box 'rsync -a' rsync -a --ignore-times box.npy "$box"
	[ -z "$attributes" ] || into_box 'rsync -aX' \
		back rsync -aX --ignore-times box.npy "$box"
else
	skip 'local: rsync' 'no rsync'
fi
if [ -n "${CKPTFS_ALL:-}" ] && command -v vim >/dev/null; then
	into_box 'vim' sh -c 'cp box.npy "$1" &&
		vim -u NONE -b -N -es -c wq "$1" </dev/null' - "$box"
fi
if [ -n "${CKPTFS_ALL:-}" ] && command -v ed >/dev/null; then
	into_box 'ed' sh -c 'cp box.npy "$1" && printf "w\nq\n" | ed -s "$1"' - \
		"$box"
fi
if find_numpy; then
	into_box 'numpy.save to a temporary name' "$NUMPY_PYTHON" -c '
import numpy, os, sys
with open(sys.argv[1] + ".tmp", "wb") as f:
    numpy.save(f, numpy.load("box.npy"))
os.rename(sys.argv[1] + ".tmp", sys.argv[1])' "$box"
fi
cp box.want box.npy
fails 'local: a part is refused' 'Invalid argument' sh -c '
	head -c 200 box.npy >"$1.tmp" && python3 -c "
import os, sys; os.rename(*sys.argv[1:])" "$1.tmp" "$1"' - "$box"
rm "$box.tmp"
check 'local: a part is refused: bytes' cmp box.want "$box"
fails 'local: a new box' 'Operation not permitted' cp box.npy \
	"$mnt/local/rank-1/new.npy"
printf x >>box.npy
fails 'canary: local: a box that was not replaced is found' 'EOF' cmp box.npy \
	"$box"

# --- refused and interrupted tools --------------------------------------------------

renamed() {
	"${@:2}" >"$mnt/raw/x" && sync -f "$mnt/raw/x" &&
		python3 -c 'import os, sys; os.rename(*sys.argv[1:])' \
			"$mnt/raw/x" "$1"
}
# left: the scratch file still exists, and can be removed.
left() {
	local status=0
	"$@" || status=$?
	rm "$mnt/raw/x" || return 0
	return $status
}
refused 'rename of a part' 'Invalid argument' left renamed "$raw" \
	head -c 100 raw.bin
refused 'rename of nothing' 'Invalid argument' left renamed "$raw" true
refused 'rename of too much' 'File too large' left renamed "$raw" \
	cat raw.bin raw.bin
refused 'rename of another form' 'Invalid argument' left renamed "$npy" \
	cat raw.bin
refused 'mv of a part' 'Invalid argument' sh -c '
	head -c 100 raw.bin >moved && mv moved "$1"' - "$raw"
refused 'install of too much' 'File too large' sh -c '
	cat raw.bin raw.bin >big && install big "$1"' - "$raw"
refused 'tar -x of a part' '' sh -c '
	head -c 100 raw.bin >"tree/raw/$2" &&
	tar -C tree -cf tree.tar "raw/$2" && tar -C "$1" -xf tree.tar' - \
	"$mnt" "$one"
refused 'rename while it is written' 'Device or resource busy' \
	left sh -c 'exec 3>"$1" && cp raw.bin "$2/x" && python3 -c "
import os, sys; os.rename(*sys.argv[1:])" "$2/x" "$1"' - "$raw" "$mnt/raw"
refused 'a tensor renamed' 'Operation not permitted' \
	python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[1] + "~")' \
	"$raw"
refused 'a new tensor' 'Operation not permitted' cp full.npy "$mnt/full/new.npy"
refused 'numpy.save of a new tensor' 'Operation not permitted' python3 -c '
import os, sys
with open(sys.argv[1] + "/new", "wb") as f:
    f.write(b"x")
try:
    os.rename(sys.argv[1] + "/new", sys.argv[1] + "/new.npy")
finally:
    os.unlink(sys.argv[1] + "/new")' "$mnt/full"
killed() {
	python3 -c '
import os, signal, sys
os.unlink(sys.argv[1])
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
os.write(fd, b"x" * 100)
os.kill(os.getpid(), signal.SIGKILL)' "$raw"
}
cp "$raw" raw.want
cp "$npy" full.want
(killed; true) 2>"$WORK/out"
replaced 'killed while it rewrites'
into 'the next one writes' cp raw.bin "$raw"

check 'scratch files' python3 "$HERE/tools-scratch.py" "$mnt" "$one"
check 'nothing else has changed' env -C "$mnt" sha256sum --quiet -c \
	"$WORK/others.sha256"

# --- afterwards ---------------------------------------------------------------------

cp "$raw" raw.want
released
check 'a checkpoint without a fault' "$CKPTFS" check "$source" --full
equal 'nothing of scratch files is left' \
	"$(ls -A "$source" | grep -vE '^(\.metadata|__.*\.distcp)$')" ''
mounted "$source" -o write
check 'mounted again' cmp raw.want "$raw"
released
flock "$source" true # the last daemon holds the lock until it ends
mounted "$source" -o write
stems=$(find "$mnt/raw" -size -1025c -size +1023c -printf '%f\n' | head -n 3)
check 'renames, commits and lookups at work' timeout 300 \
	python3 "$HERE/tools-crowd.py" "$mnt" "$(cases CKPTFS_SECONDS 1 4)" $stems
released
check 'at the end: a checkpoint without a fault' "$CKPTFS" check "$source" \
	--full
done_testing
