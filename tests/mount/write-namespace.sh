# SPDX-License-Identifier: MIT
#
# A daemon in a process namespace of its own, as in a container: who writes from
# outside has no process number there. Tools that write whole files do so as
# anywhere; truncate(2) by another process loses nothing.
need python3 unshare dd truncate cmp

source=$(fixture sample)
one=model.layers.0.attention.wk.weight
unshare -pf --mount-proc true 2>"$WORK/out" || skip_all 'no namespaces'
# In the namespace of mounts, too, the way in is by the daemon's root.
unshare -pf --mount-proc "$CKPTFS" mount "$source" "$mnt" -o write -f \
	>"$WORK/said" 2>&1 &
parent=$!
is_inside() {
	inside=$(cat "/proc/$parent/task/$parent/children" 2>"$WORK/out")
	inside=/proc/${inside% }/root$mnt
	[ -d "$inside/raw" ]
}
comes is_inside
check 'mounted' test -f "$inside/raw/$one"
raw=$inside/raw/$one
npy=$inside/full/$one.npy
size=$(stat -c %s "$raw")
into() {
	head -c "$size" /dev/urandom >raw.bin
	head -c $(($(stat -c %s "$npy") - size)) "$npy" >full.npy
	cat raw.bin >>full.npy
	check "$@"
	check "$1: bytes" cmp raw.bin "$raw"
}
into 'cp' cp raw.bin "$raw"
into 'cp of a NumPy file' cp full.npy "$npy"
into 'cat >' sh -c 'cat raw.bin >"$1"' - "$raw"
into 'dd' dd if=raw.bin of="$raw" bs=100 status=none
into 'dd conv=notrunc' dd if=raw.bin of="$raw" conv=notrunc status=none
into 'install' install raw.bin "$raw"
into 'rename' sh -c 'cp raw.bin "$1~" && mv "$1~" "$1"' - "$raw"
into 'cut, then written' python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY)
os.truncate(sys.argv[1], 0)
os.write(fd, open("raw.bin", "rb").read())
os.close(fd)' "$raw"
into 'truncate(2) after the first write' python3 -c '
import errno, os, subprocess, sys
path, data = sys.argv[1], open("raw.bin", "rb").read()
for flags in os.O_TRUNC, 0:
    fd = os.open(path, os.O_WRONLY | flags)
    os.write(fd, data[:100])
    for size in 0, 100, len(data), 5000:
        try:
            os.truncate(path, size)
            sys.exit(f"{size}: not refused")
        except OSError as e:
            assert e.errno == errno.EBUSY, (size, e)
    code = "import os; os.truncate(%r, 0)" % path
    p = subprocess.run((sys.executable, "-c", code), stderr=subprocess.PIPE)
    assert b"Device or resource busy" in p.stderr, p
    os.write(fd, data[100:])
    os.close(fd)' "$raw"
chmod 600 raw.bin
fails 'cp -p of a private file' 'preserving permissions' cp -p raw.bin "$raw"
check 'cp -p of a private file: the bytes are there' cmp raw.bin "$raw"
# The mount cannot distinguish concurrent writers: bytes skipped by all of them are missing.
cp "$raw" was
head -c 500 raw.bin >part.bin
fails 'a hole' 'Invalid argument' python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
os.pwrite(fd, b"x" * 500, 0)
os.pwrite(fd, b"x" * 500, 524)
os.close(fd)' "$raw"
fails 'a part' 'Invalid argument' cp part.bin "$raw"
check 'a hole: nothing changes' cmp was "$raw"
kill "$(cat "/proc/$parent/task/$parent/children")"
wait $parent
check 'a checkpoint without a fault' "$CKPTFS" check "$source" --full
done_testing
