# SPDX-License-Identifier: MIT
#
# Who may write a tensor but not read it learns nothing of it: not with patch,
# which fills in what he left out, and not from the new files.
need dd setpriv setfacl getfacl cmp python3
[ "$(id -u)" = 0 ] || skip_all 'only root can become another user'
for user in nobody games daemon; do
	id "$user" >/dev/null 2>&1 || skip_all "no user $user"
done

one=model.layers.0.attention.wk.weight # a box in each of four ranks
source=$WORK/sample
raw=$mnt/raw/$one
chmod 755 "$WORK"
as() { # as USER GROUPS COMMAND...
	setpriv --reuid="$1" --regid=nogroup --groups="$2" "${@:3}"
}
as nobody nogroup test -x "$WORK" || skip_all 'nobody cannot get here'
printf patched >piece
# opened MODE-OF-METADATA MODE-OF-SHARDS
opened() {
	rm -rf "$source"
	fixture sample >/dev/null
	chown -R daemon:games "$source"
	chmod 755 "$source"
	chmod "$1" "$source/.metadata"
	chmod "$2" "$source"/*.distcp
	mounted "$source" -o write,patch,allow_other
	cp "$raw" was
	tr '\0-\377' '\1-\377\0' <was >all.bin
	chmod 644 all.bin
}
patch() { # patch USER GROUPS
	as "$1" "$2" dd if=piece of="$raw" bs=7 seek=3 conv=notrunc \
		oflag=seek_bytes status=none
}
changed() { # changed WHAT
	cp was want
	dd if=piece of=want bs=7 seek=3 oflag=seek_bytes conv=notrunc \
		status=none
	check "$1" cmp want "$raw"
}
# kept WHAT USER GROUPS: he is refused, and nothing changes.
kept() {
	fails "$1" 'Permission denied' patch "$2" "$3"
	check "$1: the log says so" grep -q \
		"$one: bytes that were not written: user [0-9]*, who writes, may not read them" \
		"$mnt/.ckptfs/log"
	check "$1: nothing changes" cmp was "$raw"
	equal "$1: no new file" "$(echo "$source"/*ckptfs-*)" \
		"$source/*ckptfs-*"
}

opened 622 644
kept 'a user who may write and not read' nobody nogroup
fails 'fsync' 'Permission denied' as nobody nogroup dd if=piece of="$raw" \
	bs=7 seek=3 conv=notrunc,fsync oflag=seek_bytes status=none
fails 'O_RDWR' 'Permission denied' as nobody nogroup python3 -c '
import os, sys
os.open(sys.argv[1], os.O_RDWR)' "$raw"
check 'all that there is: nothing is filled in' \
	as nobody nogroup dd if=all.bin of="$raw" conv=notrunc status=none
check 'all that there is: bytes' cmp all.bin "$raw"
cp "$raw" was
check 'root' patch root root
changed 'root: bytes'
unmounted
opened 666 640
kept 'who may not read the shards' nobody nogroup
check 'a member of the group, by name' patch nobody nogroup,games
changed 'a member of the group, by name: bytes'
unmounted
opened 662 644
kept 'no member of the group' nobody nogroup
unmounted
opened 662 604
kept 'a group that may read only .metadata' nobody games
unmounted
opened 422 444
check 'the owner' patch root root
changed 'the owner: bytes'
unmounted

# --- copied bytes keep their permissions --------------------------------

modes() { # of the new files
	local rank
	for rank in 0 1 2 3; do
		stat -c '%a' "$source/__${rank}"_ckptfs-*.distcp
	done | paste -sd' '
}
has_acls() { getfacl -cps "$source"/__*ckptfs-* | grep -c ^user:; }
opened 644 644
chmod 600 "$source/__1_0.distcp"
chmod 640 "$source/__2_0.distcp"
chgrp daemon "$source/__3_0.distcp"
chmod 640 "$source/__3_0.distcp"
unmounted
mounted "$source" -o write,patch,allow_other
check 'private data files' patch root root
equal 'private data files: new ones' "$(modes)" '644 600 640 600'
changed 'private data files: bytes'
check 'private data files: again' sh -c \
	'printf Patched | dd of="$1" bs=7 seek=3 conv=notrunc oflag=seek_bytes \
		status=none' - "$raw"
rm -f "$source"/nothing
check 'private data files: all anew' cp all.bin "$raw"
unmounted
opened 644 644
setfacl -m u:nobody:r "$source/.metadata" || skip_all 'no ACLs here'
unmounted
mounted "$source" -o write,patch,allow_other
check 'an ACL of .metadata alone' patch root root
equal 'an ACL of .metadata alone: new files' "$(modes)" '600 600 600 600'
unmounted
opened 644 644
setfacl -m u:nobody:r "$source/.metadata" "$source"/*.distcp
unmounted
mounted "$source" -o write,patch,allow_other
check 'one ACL of all' patch root root
equal 'one ACL of all: new files' "$(modes)" '644 644 644 644'
equal 'one ACL of all: it is kept' "$(has_acls)" 8
rm "$source"/__*ckptfs-*
unmounted
opened 644 600
check 'nothing is carried over' cp all.bin "$raw"
equal 'nothing is carried over: new files' "$(modes)" '644 644 644 644'
unmounted
opened 644 644
exec 3<>"$raw"
printf x >&3
chmod 600 "$source"/*.distcp
exec 3>&- 2>"$WORK/out"
equal 'made private while it is written' "$(modes)" '600 600 600 600'
unmounted
done_testing
