# SPDX-License-Identifier: MIT
# Several tensors in one commit: -o commit=manual, the commands commit, abort and status, and
# staged tensors at the end of the mount.
need python3 sha256sum

source=$(fixture sample)
chmod 644 "$source/.metadata"
one=model.layers.0.attention.wk.weight
two=model.norm.weight
log=$WORK/messages
staged() {
	sed -n 's/^staged tensors: //p' "$mnt/.ckptfs/status"
}
as_before() {
	env -C "$mnt" sha256sum --quiet -c "$FIXTURES/sample.sha256"
}
# New bytes for every tensor: new/STEM and new/STEM.npy.
mounted "$source"
mkdir new
for path in "$mnt"/raw/*; do
	stem=${path##*/}
	tr '\0-\377' '\1-\377\0' <"$path" >"new/$stem"
	head -c "$(($(stat -c %s "$mnt/full/$stem.npy") - \
		$(stat -c %s "$path")))" "$mnt/full/$stem.npy" |
		cat - "new/$stem" >"new/$stem.npy"
done
unmounted

# Words.
fails 'commit=: another word' 'expected close or manual' \
	"$CKPTFS" mount "$source" "$mnt" -o write,commit=often
fails 'commit=: without write' 'only with write' \
	"$CKPTFS" mount "$source" "$mnt" -o commit=manual
mounted "$source"
fails 'commit: of a mount for reading' 'not mounted for writing' \
	"$CKPTFS" commit "$mnt"
equal 'status: the command' "$("$CKPTFS" status "$mnt" | head -n 2)" \
	"$(head -n 2 "$mnt/.ckptfs/status")"
unmounted
for word in status commit abort; do
	fails "$word: no mount" 'not the mount point' "$CKPTFS" "$word" "$WORK"
	fails "$word: no argument" "usage: ckptfs $word MNT" "$CKPTFS" "$word"
done
mounted "$source" -o write
equal 'commit=close: there is nothing' "$("$CKPTFS" commit "$mnt")" \
	'nothing is staged: with commit=close each file is committed when it is closed'
unmounted

# Manual commits: no change is visible before, all changes are visible afterwards.
mounted "$source" -o write,commit=manual,log="$log"
equal 'manual: nothing is staged' "$("$CKPTFS" commit "$mnt")" \
	'nothing is staged'
inode=$(stat -c %i "$mnt/raw/$one")
exec 3<"$mnt/raw/$one"
cp "new/$one" "$mnt/raw/$one"
cp "new/$two.npy" "$mnt/full/$two.npy"
check 'manual: a close does not commit' as_before
cp "new/$one" "$mnt/raw/scratch"
truncate -s 100 "$mnt/raw/empty.tmp"
exec 4>"$mnt/raw/model.layers.0.attention.wq.weight"
printf part >&4
equal 'manual: blocks of all files' "$(find "$mnt" -type f -size +0c \
	-printf '%b %P\n' | grep '^0 ')" ''
exec 4>&- 2>/dev/null
rm "$mnt/raw/scratch" "$mnt/raw/empty.tmp"
equal 'manual: stat shows the committed state' "$(stat -c %i "$mnt/raw/$one")" \
	"$inode"
equal 'manual: status' "$(sed -n '/^commit: /p; /^staged tensors/p' \
	"$mnt/.ckptfs/status" | paste -sd' ')" \
	'commit: manual staged tensors: 2'
fails 'manual: chmod of a staged tensor' 'not permitted' \
	chmod 600 "$mnt/raw/$one"
check 'manual: fsync does not commit' sh -c \
	'dd if="$1" of="$2" conv=fsync status=none' - "new/$one" "$mnt/raw/$one"
check 'manual: fsync of a file for reading, and of a directory' sync "$mnt/raw/$two" "$mnt/raw"
equal 'manual: a second time is no second tensor' "$(staged)" 2
fails 'manual: umount is refused' 'staged and not committed: 2' \
	"$CKPTFS" umount "$mnt"
check 'manual: the checkpoint is as it was' sh -c '! ls -A "$1" |
	grep ckptfs' - "$source"
equal 'manual: commit' "$("$CKPTFS" commit "$mnt")" \
	"committed 2 tensors ($one, $two)"
check 'manual: committed, by raw' cmp "new/$one" "$mnt/raw/$one"
check 'manual: committed, by full' cmp "new/$two.npy" "$mnt/full/$two.npy"
check 'manual: a new inode' test "$(stat -c %i "$mnt/raw/$one")" != "$inode"
check 'manual: who had it open reads what it was' sh -c \
	'! cmp -s - "$1" <&3' - "new/$one"
exec 3<&-
equal 'manual: one file for each rank' \
	"$(find "$source" -name '*ckptfs-*' | wc -l)" 4
equal 'manual: status afterwards' "$(sed -n '/^commits/p; /^staged tensors/p' \
	"$mnt/.ckptfs/status" | paste -sd' ')" 'commits: 1 staged tensors: 0'

# Replaced, cut short, removed, renamed.
cp "new/$one" again
tr '\0-\377' '\5-\377\0-\4' <again >other
cp other "$mnt/raw/$one"
fails 'manual: a part is refused' 'Invalid argument' sh -c \
	'head -c 100 other >"$1"' - "$mnt/raw/$one"
equal 'manual: the complete one stays' "$(staged)" 1
rm "$mnt/raw/$one"
equal 'manual: rm takes nothing back' "$(staged)" 1
cp other "$mnt/raw/$one"
cp "new/$two" "$mnt/raw/scratch"
mv "$mnt/raw/scratch" "$mnt/raw/$two"
equal 'manual: a rename stages' "$(staged)" 2
check 'manual: the name has the tensor' cmp "new/$two" "$mnt/raw/$two"
check 'manual: scratch is gone' sh -c '! ls "$1" | grep scratch' - "$mnt/raw"
python3 - "$mnt" "$one" <<'PYTHON'
import sys
mnt, one = sys.argv[1:]
path = f"{mnt}/local/rank-0/{one}.npy"
data = open(path, "rb").read()
with open(path, "r+b") as f:
    f.write(data[:-256] + b"\7" * 256)
PYTHON
check 'manual: commit, a second' "$CKPTFS" commit "$mnt"
(printf '\7%.0s' $(seq 256); tail -c +257 other) >want
check 'manual: a box replaces its part' cmp want "$mnt/raw/$one"

# Dropped.
cp "new/$one" "$mnt/raw/$one"
exec 3>"$mnt/raw/$two"
head -c 10 "new/$two" >&3 2>"$WORK/out"
equal 'abort' "$("$CKPTFS" abort "$mnt")" \
	"dropped 1 tensor ($one); 1 file is being written and no part of it"
equal 'abort: nothing is staged' "$(staged)" 0
check 'abort: as it was' cmp want "$mnt/raw/$one"
cp "new/$one" "$mnt/raw/$one"
equal 'an open file is no part of a commit' "$("$CKPTFS" commit "$mnt")" \
	"committed 1 tensor ($one); 1 file is being written and no part of it"
check 'an open file: the others are committed' cmp "new/$one" "$mnt/raw/$one"
tail -c +11 "new/$two" >&3
exec 3>&-
check 'an open file is complete afterwards' test "$(staged)" = 1

# An interrupted commit command either commits completely or has no effect.
"$CKPTFS" commit "$mnt" >"$WORK/out" 2>&1 &
kill -INT $!
wait
check 'interrupted' "$CKPTFS" commit "$mnt"
check 'interrupted: all is there' cmp "new/$two" "$mnt/raw/$two"
check 'a foreign mount for reading' sh -c 'mkdir "$3" &&
	"$1" mount "$2" "$3" && cmp "$4" "$3/raw/$5" && "$1" umount "$3"' - \
	"$CKPTFS" "$source" "$WORK/mnt2" "new/$two" "$two"

# Many at once.
for path in new/*.npy; do cat "$path" >"$mnt/full/${path#new/}"; done
before=$(find "$source" -name '*ckptfs-*' | wc -l)
check 'many' "$CKPTFS" commit "$mnt"
check 'many: all are there' sh -c 'for f in new/*.npy; do
	cmp "$f" "$1/full/${f#new/}" || exit 1; done' - "$mnt"
equal 'many: one file for each rank' \
	"$(($(find "$source" -name '*ckptfs-*' | wc -l) - before))" 4
check 'many: no fault' "$CKPTFS" check "$source" --full

# Not committed when the mount ends.
cp other "$mnt/raw/$one"
pid=$(daemon)
umount "$mnt" 2>"$WORK/out" || fusermount3 -u "$mnt"
check 'umount(8): gone' gone "$pid"
check 'umount(8): the log names the losses' grep -q \
	"unmounted without a commit: dropped 1 tensor ($one)" "$log"
mounted "$source" -o write,commit=manual
check 'umount(8): as it was' cmp "new/$one" "$mnt/raw/$one"

# Another program saves the checkpoint.
cp other "$mnt/raw/$one"
touch "$source/.metadata"
fails 'a foreign save' "1 tensor ($one) stays staged" \
	"$CKPTFS" commit "$mnt"
equal 'a foreign save: exit status' "$("$CKPTFS" commit "$mnt" \
	>"$WORK/out" 2>&1; echo $?)" 2
check 'a foreign save: abort' "$CKPTFS" abort "$mnt"
unmounted

# Who may.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null &&
	id nobody >/dev/null 2>&1; then
	as_nobody() {
		setpriv --reuid=nobody --regid="$(id -gn nobody)" \
			--clear-groups "$@"
	}
	chmod 755 "$WORK"
	as_nobody test -x "$CKPTFS" || {
		cp "$CKPTFS" "$WORK/ckptfs"
		CKPTFS=$WORK/ckptfs
	}
	mounted "$source" -o write,commit=manual,allow_other
	cp again "$mnt/raw/$one"
	fails 'another user: commit' 'users who may write' \
		as_nobody "$CKPTFS" commit "$mnt"
	fails 'another user: abort' 'users who may write' \
		as_nobody "$CKPTFS" abort "$mnt"
	check 'another user: status' as_nobody "$CKPTFS" status "$mnt"
	equal 'another user: it is still staged' "$(staged)" 1
	check 'another user: root commits' "$CKPTFS" commit "$mnt"
	unmounted
else
	skip 'another user' 'only root can become another user'
fi

# The writer gets the error of a full disk; staged tensors are kept. The disk has four tensors
# of 1 MiB and room for two more.
if mkdir small && mount -t tmpfs -o size=6400k none small 2>"$WORK/out"; then
	python3 - "$HERE/../crash" "$WORK/small/cp" <<'PYTHON'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import made
made.Plan(1, tensors=4, columns=1 << 16).write_old(sys.argv[2])
PYTHON
	head -c 1048576 /dev/urandom >big
	mounted "$WORK/small/cp" -o write,commit=manual
	check 'full disk: two fit' cp big "$mnt/raw/t0"
	cp big "$mnt/raw/t1"
	fails 'full disk: a third does not' 'No space' cp big "$mnt/raw/t2"
	equal 'full disk: two are staged' "$(staged)" 2
	check 'full disk: abort' "$CKPTFS" abort "$mnt"
	check 'full disk: there is room again' cp big "$mnt/raw/t2"
	cp big "$mnt/raw/t3"
	head -c "$(($(stat -f -c '%a * %S' small)))" /dev/zero >small/filler
	fails 'full disk: no room for .metadata' \
		'2 tensors (t2, t3) stay staged' "$CKPTFS" commit "$mnt"
	rm small/filler
	check 'full disk: commit' "$CKPTFS" commit "$mnt"
	check 'full disk: committed' cmp big "$mnt/raw/t3"
	check 'full disk: the others are as they were' sh -c \
		'! cmp -s big "$1"' - "$mnt/raw/t0"
	unmounted
	umount small
else
	skip 'full disk' 'no tmpfs can be mounted here'
fi

# A tensor that is written repeatedly before a commit reuses its space: the new files do not
# grow.
python3 "$HERE/big.py" "$WORK/rewritten" 2 2 65536
mounted "$WORK/rewritten" -o write,commit=manual
cat "$mnt/raw/t0" >t0.bin
for byte in 1 2 3 4; do
	head -c 131072 /dev/zero | tr '\0' "\\$byte" >"t1.$byte"
done
truncate -s 131072 sparse
printf end | dd of=sparse bs=1 seek=70000 conv=notrunc status=none
cat t0.bin >"$mnt/raw/t0"
for round in $(seq 10); do
	for byte in 1 2 3 4; do cat "t1.$byte" >"$mnt/raw/t1"; done
done
cp --sparse=always sparse "$mnt/raw/t1"
check 'rewritten: commit' "$CKPTFS" commit "$mnt"
check 'rewritten: the last is there, with zeros for holes' \
	cmp sparse "$mnt/raw/t1"
check 'rewritten: the other is as it was' cmp t0.bin "$mnt/raw/t0"
check 'rewritten: the new files have not grown each time' sh -c \
	'[ "$(cat "$1"/*ckptfs-* | wc -c)" -lt 800000 ]' - "$WORK/rewritten"
unmounted

# Lists of tensors are in natural order, not in that of the checkpoint.
python3 - "$HERE/../crash" "$WORK/ordered" <<'PYTHON'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import made
plan = made.Plan(1, columns=2, rows=2)
plan.tensors = [f"layers.{n}" for n in (10, 2, 30, 1)]
plan.old = {t: plan.bytes_of(2) for t in plan.tensors}
plan.write_old(sys.argv[2])
PYTHON
mounted "$WORK/ordered" -o write,commit=manual
stage_all() {
	for path in "$mnt"/raw/*; do
		cat "$path" >bytes
		cat bytes >"$path"
	done
}
names='(layers.1, layers.2, layers.10, layers.30)'
stage_all
equal 'natural order: commit' "$("$CKPTFS" commit "$mnt")" \
	"committed 4 tensors $names"
stage_all
equal 'natural order: abort' "$("$CKPTFS" abort "$mnt")" \
	"dropped 4 tensors $names"
stage_all
touch "$WORK/ordered/.metadata"
fails 'natural order: a commit that fails' "4 tensors $names" \
	"$CKPTFS" commit "$mnt"
check 'natural order: abort what stays' "$CKPTFS" abort "$mnt"
unmounted

# Large metadata.
python3 - "$HERE/../crash" "$WORK/large" <<'PYTHON'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import made
plan = made.Plan(1, columns=2, rows=2)
plan.tensors = [f"t{n}" + "x" * 2 ** 20 for n in range(17)]
plan.old = {t: plan.bytes_of(2) for t in plan.tensors}
plan.write_old(sys.argv[2])
PYTHON
mounted "$WORK/large" -o write
first=$(ls "$mnt/raw" | head -n 1)
cp "$mnt/raw/$first" raw.bin
cp raw.bin "$mnt/raw/$first"
cp raw.bin "$mnt/raw/$first"
equal 'large metadata: one commit of many is recommended' \
	"$(grep -c 'mount with commit=manual' "$mnt/.ckptfs/log")" 1
unmounted
done_testing
