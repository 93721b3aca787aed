# SPDX-License-Identifier: MIT
# Every change is refused: by the kernel, and by the daemon if root has remounted the mount
# writable.
need python3

one=$(stems plain | head -n 1)
source=$(fixture plain)
before=$(cat "$source"/* "$source/.metadata" | sha256sum)
mounted "$source"
check 'mounted' python3 "$HERE/readonly-calls.py" "$mnt" "$one"
if mount -i -o remount,rw "$mnt" 2>"$WORK/out"; then
	check 'remounted rw' python3 "$HERE/readonly-calls.py" "$mnt" "$one"
else
	skip 'remounted rw' 'this kernel does not remount'
fi
check 'still there' env -C "$mnt" sha256sum --quiet -c \
	"$FIXTURES/plain.sha256"
unmounted
equal 'the source is untouched' \
	"$(cat "$source"/* "$source/.metadata" | sha256sum)" "$before"
done_testing
