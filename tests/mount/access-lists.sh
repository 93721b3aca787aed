# SPDX-License-Identifier: MIT
# The mount shows no permission that the source does not give: for files with an ACL, data
# files below a closed directory, and files that others but not the group may read.
need getfacl setfacl setpriv
[ "$(id -u)" = 0 ] || skip_all 'only root can become another user'

owner=5000 group=6000 named=5001 else=7000
as() { # as USER GROUP COMMAND...
	setpriv --reuid="$1" --regid="$2" --clear-groups "${@:3}"
}
one=$(stems plain | head -n 1)
source=$WORK/plain
chmod 755 "$WORK"
as $else $else test -x "$WORK" || skip_all 'another user cannot get here'
# fresh MODE-OF-FILES: a new copy of the checkpoint, with one owner and group.
fresh() {
	rm -rf "$source"
	fixture plain >/dev/null
	chown -R $owner:$group "$source"
	chmod 755 "$source"
	chmod "$1" "$source"/*.distcp "$source/.metadata"
}
fresh 644
setfacl -m u:$named:r "$source/.metadata" 2>"$WORK/out" ||
	skip_all 'no ACLs here'

bits() { # bits FILE: what group and others may
	stat -c %A "$mnt/$1" | cut -c 5-10
}
may() { # may WHAT USER GROUP
	check "$1" as "$2" "$3" cat "$mnt/raw/$one"
}
may_not() { # may_not WHAT USER GROUP
	fails "$1" 'Permission denied' as "$2" "$3" cat "$mnt/raw/$one"
	check "$1: the owner may" as $owner $owner cat "$mnt/raw/$one"
}

# --- the mask is not the group ----------------------------------------------------

for what in .metadata __0_0.distcp; do
	fresh 644
	chmod 600 "$source/$what"
	setfacl -m u:$named:r "$source/$what"
	mounted "$source" -o allow_other
	fails "$what, a named user: a member, in the source" \
		'Permission denied' as $else $group cat "$source/$what"
	may_not "regression: $what, a named user: a member" $else $group
	equal "$what, a named user: bits" "$(bits "raw/$one")" '------'
	unmounted
	mounted "$source" -o allow_other,uid=$named
	check "$what, a named user: with uid=" \
		as $named $named cat "$mnt/raw/$one"
	unmounted
	setfacl -m g::r "$source/$what"
	mounted "$source" -o allow_other
	may "$what, a named user: a member, the group may, too" $else $group
	unmounted

	fresh 644
	setfacl -m u:$else:--- "$source/$what"
	mounted "$source" -o allow_other
	may_not "regression: $what, a user is denied: he" $else $else
	unmounted
	setfacl -x u:$else,m "$source/$what"
	mounted "$source" -o allow_other
	may "$what, an ACL without names" $else $else
	unmounted
done

fresh 644
chmod 750 "$source"
setfacl -m u:$named:rx,g::- "$source"
mounted "$source" -o allow_other
fails 'regression: the directory, a named user: a member' 'Permission denied' \
	as $else $group ls "$mnt/raw"
equal 'the directory, a named user: bits' "$(bits .)" '------'
unmounted

# Who may write.
fresh 644
chmod 600 "$source/.metadata"
setfacl -m u:$named:rw "$source/.metadata"
mounted "$source" -o allow_other,write,commit=manual
cp "$mnt/raw/$one" raw.bin
chmod 644 raw.bin
fails 'regression: writing, a named user: a member' 'Permission denied' \
	as $else $group cp raw.bin "$mnt/raw/$one"
check 'writing, a named user: the owner' as $owner $owner \
	dd if=raw.bin of="$mnt/raw/$one" conv=notrunc status=none
fails 'regression: writing, a named user: an order of a member' '' \
	as $else $group "$CKPTFS" commit "$mnt"
check 'writing, a named user: an order of root' "$CKPTFS" commit "$mnt"
equal 'writing, a named user: bits after a commit' \
	"$(bits "raw/$one")" '------'
check 'writing, a named user: the ACL stays' \
	grep -q "user:$named:rw-" <<<"$(getfacl -cpn "$source/.metadata")"
unmounted

# --- ACLs that change under a mount --------------------------------------------

fresh 644
mounted "$source" -o allow_other
for what in .metadata __0_0.distcp; do
	may "$what: before" $else $else
	setfacl -m u:$else:--- "$source/$what"
	may_not "regression: $what: a user was denied" $else $else
	setfacl -b "$source/$what"
	may "$what: the ACL was removed" $else $else
done
setfacl -m u:$else:--- "$source"
may_not 'regression: the directory: a user was denied' $else $else
setfacl -b "$source"
may 'the directory: the ACL was removed' $else $else
sleep 2.5 # from now on cached permissions are valid until the file changes
may 'long after' $else $else
setfacl -m u:$else:--- "$source"/*.distcp
may_not 'regression: long after: a user was denied' $else $else
setfacl -b "$source"/*.distcp
may 'long after: the ACL was removed' $else $else
unmounted

# --- a closed directory on the way --------------------------------------------------

# A new copy of the checkpoint, with its data file below p.
nested() {
	fresh 644
	mkdir "$source/p"
	chown $owner:$group "$source/p"
	chmod 755 "$source/p"
	mv "$source/__0_0.distcp" "$source/p/__0_0.disp"
	sed -i 's#__0_0.distcp#p/__0_0.disp#g' "$source/.metadata"
}
# way WHAT OPTIONS: tests modes of the directory p in the present source
way() {
	mounted "$source" -o "allow_other$2"
	may "$1: 755" $else $else
	chmod 700 "$source/p"
	may_not "regression: $1: 700" $else $else
	equal "$1: 700: bits" "$(stat -c %A "$mnt/raw/$one" | cut -c 2-10)" \
		'r--------'
	unmounted
	mounted "$source" -o "allow_other$2"
	may_not "regression: $1: 700 at the mount" $else $else
	chmod 750 "$source/p"
	may "$1: 750: a member" $else $group
	may_not "regression: $1: 750" $else $else
	chgrp 6001 "$source/p"
	may_not "regression: $1: 750, of another group: a member" $else $group
	chmod 705 "$source/p"
	may_not "regression: $1: 705, of another group" $else 6001
	chgrp $group "$source/p"
	chmod 755 "$source/p"
	may "$1: 755 again" $else $else
	setfacl -m u:$else:--- "$source/p"
	may_not "regression: $1: a user is denied" $else $else
	setfacl -b "$source/p"
	may "$1: the ACL was removed" $else $else
	chown $named "$source/p"
	chmod 750 "$source/p"
	fails "regression: $1: 750, of another user: the owner" \
		'Permission denied' as $owner $owner cat "$mnt/raw/$one"
	may "$1: 750, of another user: a member" $else $group
	chown $named "$source/.metadata"
	check "$1: 750, of the new owner of .metadata" \
		as $named $named cat "$mnt/raw/$one"
	chown $owner "$source/p" "$source/.metadata"
	unmounted
}
nested
way 'below a directory' ''
nested
way 'below a directory, shardlinks' ,shardlinks=beneath
fresh 644
mkdir "$source/p"
chown $owner:$group "$source/p"
mv "$source/__0_0.distcp" "$source/p/shard"
ln -s p/shard "$source/__0_0.distcp"
way 'a link to below a directory' ,shardlinks=beneath

nested
mkdir "$source/p/q"
chown $owner:$group "$source/p/q"
chmod 711 "$source/p/q"
mv "$source/p/__0_0.disp" "$source/p/q/_.disp"
sed -i 's#p/__0_0.disp#p/q/./_.disp#g' "$source/.metadata"
mounted "$source" -o allow_other
may 'two directories' $else $else
chmod 700 "$source/p/q"
may_not 'regression: two directories: the lower one' $else $else
unmounted

# Bytes that a commit copies into a new file leave the directory.
nested
chmod 700 "$source/p"
mounted "$source" -o write,patch,allow_other
check 'below a closed directory: written' dd if=/dev/zero \
	of="$mnt/raw/$one" bs=1 count=3 conv=notrunc status=none
equal 'regression: below a closed directory: the new file' \
	"$(stat -c '%u %a' "$source"/*ckptfs-*)" "$owner 600"
may_not 'below a closed directory: what was written' $else $else
unmounted
done_testing
