# SPDX-License-Identifier: MIT
# Files that are incomplete when they are closed: no bytes are written, bytes are skipped, or
# a write fails. The tensor stays unchanged, and the close or the log reports the error. The
# open and close of a shell before a program writes is not an error.
need python3 tar dd cmp truncate
in_memory

sample_written

lines() { wc -l <"$mnt/.ckptfs/log"; }
is_logged() { tail -n +$((before + 1)) "$mnt/.ckptfs/log" | grep -F "$1" >found; }
# logged WHAT TEXT: the log gets a line with TEXT, at the latest after the last close.
logged() {
	comes is_logged "$2"
	check "$1" grep -qF "$2" <(tail -n +$((before + 1)) "$mnt/.ckptfs/log")
	before=$(lines)
}
not_logged() { # not_logged WHAT: the log has no new line
	sleep 0.1
	equal "$1" "$(tail -n +$((before + 1)) "$mnt/.ckptfs/log")" ''
}
# not WHAT COMMAND...: the command fails, and the tensor does not change.
not() {
	cp "$raw" was
	fails "$1" '' "${@:2}"
	check "$1: nothing changes" cmp was "$raw"
}

# --- no bytes are written ------------------------------------------------------

before=$(lines)
: >nothing
not 'cp of nothing' cp /dev/null "$npy"
logged 'cp of nothing: the log has it' "$one: was truncated, and nothing"
not 'python, opened and closed' python3 -c '
import sys
open(sys.argv[1], "wb").close()' "$raw"
logged 'python, opened and closed: the log has it' 'nothing was written'
not 'install of nothing' install nothing "$raw"
logged 'install of nothing: the log has it' 'nothing was written'
if command -v rsync >/dev/null; then
	not 'rsync of nothing' rsync -I --inplace nothing "$raw"
	logged 'rsync of nothing: the log has it' 'nothing was written'
fi
not 'truncate to nothing' truncate -s 0 "$raw"
logged 'truncate to nothing: the log has it' 'nothing was written'
not 'mv of nothing' sh -c 'cp nothing "$1/x"; mv "$1/x" "$2"' - "$mnt/raw" \
	"$raw"
rm -f "$mnt/raw/x"
logged 'mv of nothing: the log has it' 'nothing was written'
not 'fsync of nothing' python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
try:
    os.fsync(fd)
finally:
    os._exit(1)' "$raw"
logged 'fsync of nothing: the log has it' 'nothing was written'
not_logged 'fsync of nothing: logged once'
not 'fsync of nothing, then of a part' python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
for data in b"", b"x" * 9:
    os.write(fd, data)
    try:
        os.fsync(fd)
    except OSError:
        pass
os.close(fd)' "$raw"
logged 'then of a part: the log has that, too' 'expected 1024 bytes, found 9;'
check 'cut to the present size' truncate -s "$size" "$raw"
not_logged 'cut to the present size: no message'

# A tensor without elements needs no bytes.
shapes=$(fixture shapes)
mkdir other
"$CKPTFS" mount "$shapes" other -o write
check 'nothing is all: raw' cp /dev/null other/raw/2x0x3
check 'nothing is all: raw, removed and made again' \
	install /dev/null other/raw/0x2
check 'nothing is all: rename' sh -c ': >other/raw/x && mv other/raw/x other/raw/0'
fails 'nothing is not a header' 'Invalid argument' cp /dev/null \
	other/full/2x0x3.npy
"$CKPTFS" umount other

# --- shells close a duplicate of their file descriptor ------------------------------------

# shells NAME COMMAND...: the command reads raw.bin and writes to $F.
shells() {
	local what=$1 script=$2 shell
	for shell in bash dash zsh 'busybox sh'; do
		if ! command -v "${shell%% *}" >/dev/null; then
			skip "$shell: $what" "no $shell"
			continue
		fi
		fresh
		before=$(lines)
		# shellcheck disable=SC2086
		check "$shell: $what" env F="$raw" $shell -e -c "$script"
		check "$shell: $what: bytes" cmp raw.bin "$raw"
		not_logged "$shell: $what: no message"
	done
}
shells 'cat >' 'cat raw.bin >"$F"'
shells 'dd' 'dd if=raw.bin of="$F" bs=100 2>dd.out'
shells 'a subshell' '(:; cat raw.bin; :) >"$F"'
shells 'a group' '{ cat raw.bin; } >"$F"'
shells 'a descriptor' 'exec 3>"$F"; cat raw.bin >&3; exec 3>&-'
shells 'parts' 'head -c 1024 /dev/zero | tr "\0" x >raw.bin
	exec 3>"$F"; printf xxxxx >&3; (printf xxxxxxx >&3); :>&3
	dd if=raw.bin bs=1012 count=1 status=none >&3; exec 3>&-'
shells 'a pipe' 'cat raw.bin | (cat; :) >"$F"'
shells 'a background job' '(cat raw.bin; true) >"$F" & wait'
if command -v busybox >/dev/null; then
	fresh
	check 'busybox dd' busybox dd if=raw.bin of="$raw" bs=64
	check 'busybox dd: bytes' cmp raw.bin "$raw"
fi
check 'python: a child writes, waited for' python3 -c '
import subprocess, sys
with open(sys.argv[1], "wb") as f:
    subprocess.Popen(["cat", "raw.bin"], stdout=f).wait()' "$raw"
before=$(lines)
check 'a shell that opens, and nothing else' sh -c ': >"$1"' - "$raw"
logged 'a shell that opens: the log has it' 'nothing was written'

# --- bytes are skipped --------------------------------------------------------

check 'ways of writing' python3 "$HERE/write-incomplete.py" "$mnt" "$one"
head -c 8192 /dev/zero >zeros
before=$(lines)
not 'a part, without truncating' dd if=zeros of="$raw" bs=4 count=1 seek=3 conv=notrunc
logged 'a part, without truncating: the log names -o patch' \
	'bytes 0 to 11 were not written; a mount with -o patch keeps them'
head -c "$size" zeros >raw.bin
not 'cp --sparse=always of a hole' cp --sparse=always raw.bin "$raw"
logged 'cp --sparse=always of a hole: the log has it' 'nothing but holes'
check 'cp of zeros' cp --sparse=never raw.bin "$raw"
check 'cp of zeros: bytes' cmp raw.bin "$raw"
python3 "$HERE/big.py" big 1 1 1048576
mkdir big.mnt
"$CKPTFS" mount big big.mnt -o write
python3 -c '
import os
data = bytearray(os.urandom(1 << 20))
data[65536:524288] = bytes(524288 - 65536)
data[700000:] = bytes((1 << 20) - 700000)
with open("holes.bin", "wb") as f:
    f.write(data)'
sparse() {
	cp big.mnt/raw/t0 keep.bin
	check "$@"
	check "$1: bytes" cmp holes.bin big.mnt/raw/t0
	cp keep.bin big.mnt/raw/t0
}
sparse 'cp --sparse=always' cp --sparse=always holes.bin big.mnt/raw/t0
mkdir -p tree/raw
cp --sparse=always holes.bin tree/raw/t0
sparse 'tar -S' sh -c 'tar -S -C tree -cf t.tar raw/t0 &&
	tar -S -C big.mnt -xf t.tar'
# The program relies on the shown size of the file, and does not set it.
not_sparse() {
	cp big.mnt/raw/t0 keep.bin
	fails 'dd conv=sparse of zeros at the end' 'Invalid argument' dd \
		if=holes.bin of=big.mnt/raw/t0 bs=4096 conv=sparse status=none
	check 'dd conv=sparse of zeros at the end: nothing changes' \
		cmp keep.bin big.mnt/raw/t0
}
not_sparse
printf x | dd of=holes.bin bs=1 seek=1048575 conv=notrunc status=none
equal 'the log has the number of skipped bytes' "$(grep -c \
	't0: [0-9]* bytes that the program skipped are zeros' big.mnt/.ckptfs/log)" 2
sparse 'dd conv=sparse' dd if=holes.bin of=big.mnt/raw/t0 bs=4096 \
	conv=sparse status=none
# Copies inside the kernel, in pieces, also after an earlier error of copy_file_range(2).
cp holes.bin big.mnt/raw/inside
mkdir other.mnt
cp holes.bin big.mnt/raw/t0
"$CKPTFS" mount big other.mnt
cp keep.bin big.mnt/raw/t0
for from in big.mnt/raw/inside other.mnt/raw/t0; do
	sparse "cp from $from" cp --sparse=never "$from" big.mnt/raw/t0
	sparse "shutil.copyfile from $from" python3 -c '
import shutil, sys
shutil.copyfile(*sys.argv[1:])' "$from" big.mnt/raw/t0
done
rm big.mnt/raw/inside
"$CKPTFS" umount other.mnt
"$CKPTFS" umount big.mnt

# --- writes that fail ------------------------------------------------------------

full() {
	mkdir disk
	mount -t tmpfs -o size=24M none disk || return
	python3 "$HERE/big.py" disk/big 1 1 4194304
	"$CKPTFS" mount disk/big big.mnt -o write
	check 'writes that fail' python3 - big.mnt/raw/t0 disk/filler <<-'EOF2'
		import errno, os, sys
		path, filler = sys.argv[1:]
		def fill():
		    with open(filler, 'wb') as f:
		        try:
		            while True:
		                f.write(b'x' * 4096)
		                f.flush()
		        except OSError as e:
		            assert e.errno == errno.ENOSPC
		        # the close writes the last bytes again
		        f.detach()
		def refused(call, want):
		    try:
		        call()
		    except OSError as e:
		        assert e.errno == want, e
		        return
		    raise AssertionError('not refused')
		before = open(path, 'rb').read()
		data = os.urandom(len(before))
		n = 65536
		for flags in os.O_TRUNC, 0:
		    fd = os.open(path, os.O_WRONLY | flags)
		    try:
		        fill()
		    except OSError:
		        pass
		    for i in range(5):
		        refused(lambda: os.pwrite(fd, data[i * n:(i + 1) * n], i * n),
		                errno.ENOSPC)
		    os.unlink(filler)
		    for at in range(5 * n, len(data), n):
		        os.pwrite(fd, data[at:at + n], at)
		    refused(lambda: os.fsync(fd), errno.EINVAL)
		    refused(lambda: os.close(os.dup(fd)), errno.EINVAL)
		    assert open(path, 'rb').read() == before
		    os.pwrite(fd, data[:n], 0)
		    refused(lambda: os.fsync(fd), errno.EINVAL)
		    os.pwrite(fd, data[n:5 * n], n)
		    os.fsync(fd)
		    os.close(fd)
		    assert open(path, 'rb').read() == data
		    before, data = data, os.urandom(len(data))
	EOF2
	check 'writes that fail: the log names the bytes' grep -q \
		'bytes 0 to 327679 could not be written' big.mnt/.ckptfs/log
	"$CKPTFS" umount big.mnt
}
if [ "$(id -u)" = 0 ]; then full; else skip 'writes that fail' 'not root'; fi
unmounted
check 'a checkpoint without a fault' "$CKPTFS" check "$source" --full
done_testing
