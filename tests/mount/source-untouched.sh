# SPDX-License-Identifier: MIT
# After any use of a mount and of the commands all names, bytes, modes and times in the
# checkpoint's directory are unchanged. A read-only directory is served like any other.
need getfattr find

# Everything but the time of the last access, which is the kernel's.
picture() {
	find "$1" -printf '%P %y %i %s %m %U:%G %n %T@ %C@\n' | sort
	find "$1" -type f -exec sha256sum {} + | sort
}

for name in sample tp_fsdp2_bad values zstd; do
	source=$(fixture "$name")
	[ "$name" != values ] || rm "$source/__0_0.distcp"
	before=$(picture "$source")
	mounted "$source" -o "log=$WORK/log"
	equal "$name: by the mount" "$(picture "$source")" "$before"
	find "$mnt" -type f -exec cat {} + >/dev/null 2>&1
	find "$mnt" -exec getfattr -d --absolute-names {} + >/dev/null
	for file in "$mnt"/raw/* "$mnt"/objects/*; do
		getfattr -n user.ckptfs.error "$file"
		: >"$file"
		rm -f "$file"
	done >/dev/null 2>&1
	equal "$name: by all that can be done in it" "$(picture "$source")" \
		"$before"
	unmounted
	"$CKPTFS" check "$source" --full >/dev/null
	"$CKPTFS" inspect "$source" --chunks >/dev/null
	"$CKPTFS" dump "$source" >/dev/null
	equal "$name: by umount and commands" "$(picture "$source")" "$before"
done

touch "$source/new"
fails 'a file more is seen' '' test "$(picture "$source")" = "$before"

# A file system that is mounted read-only.
mkdir frozen
if mount -t tmpfs tmpfs frozen 2>/dev/null; then
	cp -a "$FIXTURES/sample/." frozen
	mount -o remount,ro frozen
	fails 'nobody can write there' 'Read-only' touch frozen/x
	mounted "$WORK/frozen"
	check 'a read-only source is served' env -C "$mnt" \
		sha256sum --quiet -c "$FIXTURES/sample.sha256"
	unmounted
	check 'and checked' "$CKPTFS" check --full "$WORK/frozen"
	umount frozen
else
	skip 'a read-only source is served' 'no tmpfs can be mounted here'
fi
done_testing
