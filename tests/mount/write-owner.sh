# SPDX-License-Identifier: MIT
# Owners of new files. Root writes into another user's checkpoint; new files get the owner,
# group and mode of the old .metadata. A user who cannot set them is refused.
need getfacl setfacl setpriv
[ "$(id -u)" = 0 ] || skip_all 'only root can become another user'
for user in nobody games daemon; do
	id "$user" >/dev/null 2>&1 || skip_all "no user $user"
done

one=model.layers.0.attention.wk.weight
source=$(fixture sample)
setfacl -m u:games:r "$source/.metadata" 2>"$WORK/out" ||
	skip_all 'no ACLs here'
setfacl -b "$source/.metadata"
as() { # as USER GROUP COMMAND...
	setpriv --reuid="$1" --regid="$2" --clear-groups "${@:3}"
}
owners() {
	stat -c '%U:%G %a' "$@" | sort -u
}
acls() {
	local file
	for file; do getfacl -cpn "$file"; done | sort -u
}

# round WHAT: commits; then .metadata and new files have the owner, mode and ACL of the old
# .metadata.
round() {
	local owner acl
	owner=$(owners "$source/.metadata")
	acl=$(acls "$source/.metadata")
	rm -f "$source"/__*ckptfs-*
	mounted "$source" -o write
	cp "$mnt/raw/$one" raw.bin
	check "$1: a commit" cp raw.bin "$mnt/raw/$one"
	unmounted
	check "$1: a new file" test -e "$source"/__0_ckptfs-*.distcp
	equal "$1: owner, group, mode" \
		"$(owners "$source/.metadata" "$source"/__*ckptfs-*)" "$owner"
	equal "$1: ACL" \
		"$(acls "$source/.metadata" "$source"/__*ckptfs-*)" "$acl"
	fresh
}

# fresh: a new checkpoint that belongs to the user `nobody`.
fresh() {
	rm -rf "$source"
	fixture sample >/dev/null
	chown -R nobody:games "$source"
	chmod 755 "$source"
	chmod 644 "$source"/* "$source/.metadata"
}

fresh
round "another's"
chmod 600 "$source/.metadata"
round 'private'
chmod 664 "$source/.metadata"
round 'of a group'
setfacl -m u:daemon:rw,g:daemon:r "$source/.metadata"
round 'with an ACL'
setfacl -d -m u:games:rwx,g:daemon:rx,o:- "$source"
round 'a default ACL of the directory'
setfacl -d -m u:games:rwx,o:- "$source"
setfacl -m u:daemon:rw,m:rw "$source/.metadata"
round 'a default ACL of the directory, and another'
chown nobody:daemon "$source"
chmod 2775 "$source"
round 'a setgid directory'
umask 077
round 'a umask'
umask 022
chown root:root "$source"
chown daemon:games "$source"/*.distcp
round 'a directory of root, data files of others'

# Changes of the attributes of .metadata while mounted are kept by commits.
fresh
mounted "$source" -o write
cp "$mnt/raw/$one" raw.bin
latest() { # the data files of the last commit
	local file generation
	file=$(cd "$source" && printf '%s\n' __0_ckptfs-* | sort -V | tail -n 1)
	generation=${file#__0_ckptfs-}
	echo "$source"/__?_ckptfs-"${generation%%-*}"-*
}
follows() { # follows WHAT COMMAND...
	local owner acl
	"${@:2}" "$source/.metadata"
	owner=$(owners "$source/.metadata")
	acl=$(acls "$source/.metadata")
	check "mounted, then $1: a commit" cp raw.bin "$mnt/raw/$one"
	equal "mounted, then $1: owner, group, mode" \
		"$(owners "$source/.metadata" $(latest))" "$owner"
	equal "mounted, then $1: ACL" \
		"$(acls "$source/.metadata" $(latest))" "$acl"
}
follows 'chmod 640' chmod 640
follows 'chmod 666' chmod 666
follows 'chown' chown daemon
follows 'chgrp' chgrp nogroup
follows 'setfacl' setfacl -m u:games:r,m:rw
follows 'another ACL' setfacl -m u:games:rw,u:nobody:r
follows 'no ACL' setfacl -b
follows 'chmod 600' chmod 600
check 'mounted, then chmod 600: shown' test \
	"$(stat -c '%U %a' "$mnt/raw/$one")" = 'daemon 600'

# No change is lost, at any moment of a commit.
lost=0
for i in $(seq 30); do
	mode=$((600 + i % 2 * 40))
	cp raw.bin "$mnt/raw/$one" &
	sleep "0.00$((i % 10))"
	chmod "$mode" "$source/.metadata"
	wait
	[ "$(owners "$source/.metadata")" = "daemon:nogroup $mode" ] ||
		lost=$((lost + 1))
done
equal 'chmod among commits: all are carried on' "$lost" 0
unmounted

# The user writes through the mount of root.
fresh
as nobody games test -x "$WORK" || skip_all 'nobody cannot get here'
setfacl -m u:daemon:rw "$source/.metadata"
acl=$(acls "$source/.metadata")
mounted "$source" -o write,allow_other
cp "$mnt/raw/$one" raw.bin
chmod 644 raw.bin
check 'allow_other: the owner writes' as nobody games cp raw.bin "$mnt/raw/$one"
fails 'allow_other: others do not' 'ermission denied' \
	as games daemon cp raw.bin "$mnt/raw/$one"
unmounted
equal 'allow_other: owner, group, mode' "$(owners "$source/.metadata" \
	"$source"/__*ckptfs-*)" 'nobody:games 664'
equal 'allow_other: ACL' "$(acls "$source/.metadata" "$source"/__*ckptfs-*)" \
	"$acl"

# cp makes a file private before it changes the owner: this is not an error of the copy.
fresh
mounted "$source" -o write
tr '\0-\377' '\1-\377\0' <raw.bin >new.bin
chmod 644 new.bin
for how in -p -a --preserve=all; do
	check "cp $how, another owner" cp $how new.bin "$mnt/raw/$one"
	check "cp $how, another owner: the bytes are there" cmp new.bin \
		"$mnt/raw/$one"
	equal "cp $how, another owner: whose it is" \
		"$(stat -c '%U:%G %a' "$mnt/raw/$one")" 'nobody:games 644'
	check "cp $how, another owner: and back" cp $how raw.bin "$mnt/raw/$one"
done
check 'cp -p, another owner: the log says what has no effect' grep -q \
	'its mode is that of .metadata; a change to' "$mnt/.ckptfs/log"
fails 'chmod, another owner' 'Operation not permitted' \
	chmod 600 "$mnt/raw/$one"
check 'cp, another owner' cp raw.bin "$mnt/raw/$one"
unmounted

# A user who may write the directory, but cannot create files with the attributes of .metadata.
fuse_for_all
as nobody games test -x "$CKPTFS" || {
	cp "$CKPTFS" "$WORK/ckptfs"
	CKPTFS=$WORK/ckptfs
}
mkdir theirs
chown nobody theirs
mnt=$WORK/theirs
refused() { # refused WHAT GROUP
	local before
	before=$(ls -lA --time-style=full-iso "$source")
	fails "$1: refused" 'the owner and group of .metadata' \
		as nobody "$2" "$CKPTFS" mount "$source" "$mnt" -o write
	equal "$1: not mounted" "$(ls "$mnt")" ''
	equal "$1: nothing changed" \
		"$(ls -lA --time-style=full-iso "$source")" "$before"
	check "$1: for reading" as nobody "$2" "$CKPTFS" mount "$source" "$mnt"
	check "$1: umount" as nobody "$2" "$CKPTFS" umount "$mnt"
}
fresh
refused "another group's .metadata" nogroup
chown daemon "$source/.metadata"
refused "another user's .metadata" games
fresh
mounted_by_him() {
	check "his own: mount $*" as nobody games "$CKPTFS" mount "$source" \
		"$mnt" -o "write$1"
}
state() {
	(cd "$source" && ls -lA --time-style=full-iso && sha256sum .metadata *)
}
given() { # given WHAT TEXT COMMAND...: .metadata changed its owner
	local before
	chown nobody:daemon "$source/.metadata"
	before=$(state)
	fails "$1: refused" "$2" "${@:3}"
	equal "$1: nothing changed" "$(state)" "$before"
}
mounted_by_him ''
given 'given away' 'Operation not permitted' \
	as nobody games cp raw.bin "$mnt/raw/$one"
check 'given away: the log says so' as nobody games grep -q \
	'the owner and group of .metadata' "$mnt/.ckptfs/log"
chown nobody:games "$source/.metadata"
check 'given back: a commit' as nobody games cp raw.bin "$mnt/raw/$one"
check 'given back: umount' as nobody games "$CKPTFS" umount "$mnt"
mounted_by_him ,commit=manual
check 'staged' as nobody games cp raw.bin "$mnt/raw/$one"
given 'staged, then given away' '1 tensor (model.layers.0.attention.wk.weight) stays staged' \
	as nobody games "$CKPTFS" commit "$mnt"
other=model.layers.0.attention.wq.weight
given 'given away, then staged' 'Operation not permitted' \
	as nobody games cp raw.bin "$mnt/raw/$other"
chown nobody:games "$source/.metadata"
check 'staged, then given back: a commit' as nobody games "$CKPTFS" commit \
	"$mnt"
check 'staged, then given back: umount' as nobody games "$CKPTFS" umount "$mnt"
check 'his own: mount' as nobody games "$CKPTFS" mount "$source" "$mnt" -o write
check 'his own: a commit' as nobody games cp raw.bin "$mnt/raw/$one"
check 'his own: umount' as nobody games "$CKPTFS" umount "$mnt"

[ ! -s "$WORK.restore" ] || sh "$WORK.restore"
done_testing
