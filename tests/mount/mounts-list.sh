# SPDX-License-Identifier: MIT
# `ckptfs mounts` lists mount points, sources and users without a request to a mount. The record
# of a daemon exists as long as its mount.
need jq

mkdir 'with blank' second
other=$WORK/$'odd\n"name\\'
mkdir "$other"
fixture plain >/dev/null
cp -a plain 'a,source'
mounted "$WORK/plain"
check 'second' "$CKPTFS" "$WORK/a,source" "$other" -o write
check 'third' "$CKPTFS" plain 'with blank' -o fsname=elsewhere

# row MOUNTPOINT FIELD
row() {
	"$CKPTFS" mounts --json | jq -r --arg m "$1" \
		".mounts[] | select(.mountpoint == \$m) | .$2"
}
check 'JSON: one object' jq -e '.version == 1' <("$CKPTFS" mounts --json)
equal 'JSON: source' "$(row "$mnt" source)" "$WORK/plain"
equal 'JSON: source with a comma' "$(row "$other" source)" "$WORK/a,source"
equal 'JSON: fsname' "$(row "$WORK/with blank" source)" elsewhere
equal 'JSON: kind' "$(row "$mnt" kind)" dcp
equal 'JSON: ro' "$(row "$mnt" mode)" ro
equal 'JSON: write' "$(row "$other" mode)" write
equal 'JSON: pid' "$(row "$mnt" pid)" "$(daemon)"
equal 'JSON: alive' "$(row "$mnt" dead)" false
"$CKPTFS" mounts >"$WORK/table"
equal 'table: a row' "$(awk -v m="$mnt" '$1 == m { print $2, $3, $4, $5 }' \
	"$WORK/table")" "$WORK/plain dcp ro $(daemon)"
check 'table: no control character' grep -q 'odd%0A"name' "$WORK/table"
check 'table: a head' grep -q '^mount point  *source  *kind  *mode   pid$' \
	"$WORK/table"
mkdir hub
check 'a mount of another kind' "$CKPTFS" "$FIXTURES/hub_one" hub
"$CKPTFS" mounts >"$WORK/table"
equal 'regression: table: all kinds are in line' \
	"$(awk 'NR == 1 { at = index($0, "mode ") }
		substr($0, at - 1, 6) !~ /^ (mode |ro   |write)$/' "$WORK/table")" ''
check 'a mount of another kind ends' "$CKPTFS" umount hub
fails 'an operand' usage "$CKPTFS" mounts "$mnt"
fails 'a wrong option' 'nearest is --json' "$CKPTFS" mounts --jsno

# What the kernel does not escape separates nothing.
odd=$WORK/$'second\rx'
mkdir "$odd"
"$CKPTFS" plain "$odd" -o fsname=$'a\fb'
equal 'regression: a mount point with a carriage return: its source' \
	"$(row "$odd" source)" $'a\fb'
equal 'regression: a mount point with a carriage return: the text before it' \
	"$(row "$WORK/second" source)" ''
check 'regression: a mount point with a carriage return: umount' \
	"$CKPTFS" umount "$odd"

if [ "$(id -u)" = 0 ]; then
	mkdir bound
	mount --bind "$mnt" bound
	equal 'bound to another place: pid' "$(row "$WORK/bound" pid)" \
		"$(daemon)"
	umount bound
fi

pid=$(daemon)
number=$(findmnt -no MAJ:MIN "$mnt" | xargs)
if [ "$(id -u)" = 0 ]; then
	record=/run/ckptfs/$number
	equal 'record: its mode' "$(stat -c '%a %U' "$record")" '644 root'
	equal 'record: its directory' "$(stat -c '%a %U' /run/ckptfs)" '755 root'
	cp "$record" "$WORK/record"
	unmounted
	gone "$pid"
	check 'record: gone with the mount' test ! -e "$record"
	# One that its daemon could not remove, and one that is no record.
	sed 's/^pid: .*/pid: 4194303/' "$WORK/record" >/run/ckptfs/9999:1
	"$CKPTFS" mounts >/dev/null
	check 'record: stale: the next reader removes it' \
		test ! -e /run/ckptfs/9999:1
	sed "s/^pid: .*/pid: $$/; s/^start: .*/start: $(
		awk '{ print $22 }' /proc/$$/stat)/" "$WORK/record" \
		>/run/ckptfs/9999:2
	"$CKPTFS" mounts >/dev/null
	check 'record: of a process that lives: it stays' \
		test -e /run/ckptfs/9999:2
	rm /run/ckptfs/9999:2
else
	unmounted
fi
check 'umount with odd names' "$CKPTFS" umount "$other" 'with blank'
equal 'JSON: none of them' "$(row "$mnt" pid)$(row "$other" pid)" ''

mounted "$WORK/plain"
pid=$(daemon)
stop "$pid"
check 'stopped: mounts does not ask it' timeout -s KILL 100 "$CKPTFS" mounts
equal 'stopped: alive' "$(row "$mnt" dead)" false
kill -KILL "$pid"
gone "$pid"
is_dead() {
	[ "$(row "$mnt" dead)" = true ]
}
check 'killed: dead' comes is_dead
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	unshare -m sh -c 'umount -l "$1" && "$2" mounts' - "$mnt" "$CKPTFS" \
		>"$WORK/elsewhere"
	equal 'regression: killed: mounts in another namespace' \
		"$(grep -c "^$mnt " "$WORK/elsewhere"),$(row "$mnt" dead)" 0,true
fi
check 'killed: the table says so' grep -q "^$mnt .*  dead\$" \
	<<<"$("$CKPTFS" mounts)"
unmounted

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null &&
	setpriv --reuid=65534 --clear-groups test -x "$CKPTFS"; then
	mounted "$WORK/plain"
	equal 'another user does not see it' "$(setpriv --reuid=65534 \
		--clear-groups "$CKPTFS" mounts --json | jq '.mounts | length')" 0
	unmounted
else
	skip 'another user does not see it' 'cannot be another user here'
fi
done_testing
