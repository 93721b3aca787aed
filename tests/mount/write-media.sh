# SPDX-License-Identifier: MIT
#
# Media that cannot be written, or can no longer, or are full: a mount for
# writing is refused, or answers EROFS or ENOSPC, and reads go on.
need python3 mkfs.ext4 mount umount
[ "$(id -u)" = 0 ] || skip_all 'only root can mount images'

one=model.layers.0.attention.wk.weight
truncate -s 64M disk.img
mkfs.ext4 -q -F -b 1024 disk.img || skip_all 'no ext4'
mkdir disk
mount -o loop,errors=remount-ro disk.img disk 2>"$WORK/out" ||
	skip_all "no loop images: $(cat "$WORK/out")"
cp -a "$FIXTURES/sample" disk/sample
source=$WORK/disk/sample
state() {
	(cd "$source" && ls -lA --time-style=full-iso && sha256sum .metadata *)
}
as_mounted() {
	env -C "$mnt" sha256sum --quiet -c "$FIXTURES/sample.sha256"
}

# refused WHAT SOURCE
refused() {
	"$CKPTFS" mount "$2" "$mnt" -o write >"$WORK/said" 2>&1
	equal "$1: exit status" $? 2
	check "$1: the reason" grep -qF \
		"$2: cannot be written: Read-only file system" "$WORK/said"
	equal "$1: one line" "$(wc -l <"$WORK/said")" 1
	equal "$1: not mounted" "$(ls "$mnt")" ''
	check "$1: for reading" "$CKPTFS" mount "$2" "$mnt"
	check "$1: is read" as_mounted
	unmounted
}

# lost WHAT: the mount for writing has a source that became read-only.
lost() {
	fails "$1: a write" 'Read-only file system' \
		dd if=raw.bin of="$mnt/raw/$one" conv=notrunc status=none
	fails "$1: cp" 'Read-only file system' cp raw.bin "$mnt/raw/$one"
	check "$1: the log says so" grep -q "$one: .*Read-only file system" \
		"$mnt/.ckptfs/log"
	check "$1: all is read" as_mounted
}

mount -o remount,ro disk
refused 'a read-only image' "$source"
mount -o remount,rw disk
mkdir bound
mount --bind "$source" bound
mount -o remount,bind,ro bound
refused 'a read-only bind mount' "$WORK/bound"

# df has the units of the mount, whatever those of the source.
mounted "$source" -o write
tensors=$(($(cat "$mnt"/raw/* | wc -c) / 4096 + 1))
equal 'df: in blocks of 4096' \
	"$(stat -fc '%S %b %f %a %d' "$mnt")" "$(stat -fc '%S %f %a %d' disk |
	awk -v tensors="$tensors" '{
		print 4096, tensors + int($2 * $1 / 4096),
			int($2 * $1 / 4096), int($3 * $1 / 4096), $4 }')"
# optim/ is counted once a program has looked into it, files/ is not.
found=$(find "$mnt" -path "$mnt/files" -prune -o -print | wc -l)
equal 'df -i: used' "$(df --output=iused "$mnt" | tail -n 1 | xargs)" "$found"
unmounted

# It becomes read-only while it is mounted for writing.
mount -o remount,bind,rw bound
before=$(state)
mounted "$WORK/bound" -o write
cp "$mnt/raw/$one" raw.bin
tr '\0-\377' '\1-\377\0' <raw.bin >two.bin
check 'remounted: ro' mount -o remount,bind,ro bound
lost 'remounted'
equal 'remounted: the source is untouched' "$(state)" "$before"
mount -o remount,bind,rw bound
check 'remounted rw: a commit' cp two.bin "$mnt/raw/$one"
check 'remounted rw: the new bytes' cmp two.bin "$mnt/raw/$one"
check 'remounted rw: and back' cp raw.bin "$mnt/raw/$one"

# With something staged a mount cannot be made read-only;
exec 3>"$mnt/raw/$one"
head -c 100 two.bin >&3 2>/dev/null
fails 'staged: ro' 'busy' mount -o remount,bind,ro bound
exec 3>&- 2>/dev/null
unmounted
umount bound

# a full disk does nothing worse than to be full (block by block in
# tests/crash),
mounted "$source" -o write
dd if=/dev/zero of=disk/filler bs=64k status=none 2>"$WORK/out"
dd if=/dev/zero of=disk/filler2 bs=1k status=none 2>"$WORK/out"
before=$(state)
fails 'a full disk: reported by a write' 'error writing' \
	cp raw.bin "$mnt/raw/$one"
fails 'a full disk: the messages' 'No space left on device' \
	cp raw.bin "$mnt/raw/$one"
check 'a full disk: all is read' as_mounted
equal 'a full disk: the source is untouched' "$(state)" "$before"
rm disk/filler disk/filler2
check 'room again: a commit' cp two.bin "$mnt/raw/$one"
check 'room again: and back' cp raw.bin "$mnt/raw/$one"
unmounted

# and a fault of the medium does it to the whole file system.
fault=/sys/fs/ext4/$(basename "$(findmnt -no SOURCE disk)")/trigger_fs_error
mounted "$source" -o write
before=$(state)
if [ -w "$fault" ]; then
	python3 - "$mnt/raw/$one" two.bin "$fault" >"$WORK/said" <<'END'
import errno
import os
import sys

fd = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
os.write(fd, open(sys.argv[2], 'rb').read())
with open(sys.argv[3], 'w') as fault:
    fault.write('of a test')
for name, call in ('fsync', os.fsync), ('close', os.close):
    try:
        call(fd)
        print(name, 0)
    except OSError as e:
        print(name, errno.errorcode[e.errno])
END
	equal 'a fault of the medium: the messages' "$(xargs <"$WORK/said")" \
		'fsync EROFS close EROFS'
	lost 'a fault of the medium'
	equal 'a fault of the medium: the source is untouched' "$(state)" \
		"$before"
	check 'a fault of the medium: mounted' is_mounted
else
	skip 'a fault of the medium' "no $fault"
fi
unmounted
umount disk
done_testing
