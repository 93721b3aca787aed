# SPDX-License-Identifier: MIT
#
# What a mount for writing refuses, with which error; and then nothing has
# changed, in the mount and in the checkpoint's directory.
need python3 sha256sum

source=$(fixture sample)
one=model.layers.0.attention.wk.weight
state() {
	(cd "$source" && sha256sum .metadata * | sha256sum)
}
before=$(state)
mounted "$source" -o write
check 'refused calls' python3 "$HERE/write-refused.py" "$mnt" "$one"
check 'the log has the reason, with both sides' grep -q \
	"$one: .*expected 1024 bytes, found 100;" "$mnt/.ckptfs/log"
fails 'a file of no tensor' 'not permitted' cp "$mnt/full/$one.npy" \
	"$mnt/full/$one.copy.npy"
check 'a file of no tensor: the log has the reason' grep -q \
	"full/$one.copy.npy: no tensor of this checkpoint; none can be added" \
	"$mnt/.ckptfs/log"
fails 'a file of no box' 'not permitted' cp "$mnt/full/$one.npy" \
	"$mnt/local/rank-1/$one.copy.npy"
check 'a file of no box: the log has the reason' grep -q \
	"local/rank-1/$one.copy.npy: no tensor of this checkpoint" \
	"$mnt/.ckptfs/log"

# Interrupted tools.
cp "$mnt/raw/$one" raw.bin
fails 'head' 'Invalid argument' sh -c 'head -c 100 raw.bin >"$1"' - \
	"$mnt/raw/$one"
fails 'too much' 'File too large' sh -c 'cat raw.bin raw.bin >"$1"' - \
	"$mnt/raw/$one"
fails 'cat >>' 'File too large' sh -c 'cat raw.bin >>"$1"' - "$mnt/raw/$one"
chmod 600 raw.bin
check 'cp -p of a private file' cp -p raw.bin "$mnt/raw/$one"
check 'cp -p of a private file: the log says that it stays readable' grep -q \
	"$one: its mode is that of .metadata; a change to 0600 has no effect" \
	"$mnt/.ckptfs/log"
fails 'chmod afterwards' 'not permitted' chmod 600 "$mnt/raw/$one"
check 'nothing written: nothing changes' sh -c ': >"$1"' - "$mnt/raw/$one"
(python3 -c '
import os, signal, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
os.write(fd, b"x" * 100)
os.kill(os.getpid(), signal.SIGKILL)' "$mnt/raw/$one"; true) 2>"$WORK/out"
check 'killed in the middle: the next one writes' cp raw.bin "$mnt/raw/$one"

check 'the mount is as it was' env -C "$mnt" sha256sum --quiet -c \
	"$FIXTURES/sample.sha256"
unmounted

# The copied bytes were the same; refused calls alone change no file.
rm -rf "$source"
source=$(fixture sample)
mounted "$source" -o write
check 'refused calls again' python3 "$HERE/write-refused.py" "$mnt" "$one"
unmounted
equal 'the source is untouched' "$(state)" "$before"
done_testing
