# SPDX-License-Identifier: MIT
# `ckptfs umount` of mounts in every state. It never hangs, names the processes that keep a
# mount busy, and detaches a mount whose daemon is dead, so that the next mount works.
need python3 setpriv unshare

[ "$(id -u)" = 0 ] || skip_all 'only root can do what is done here'
# A private mount namespace, in which /dev/fuse is covered by a device that any user may open.
if [ -z "${INSIDE:-}" ]; then
	unshare -m --propagation private true 2>/dev/null ||
		skip_all 'no mount namespace can be made here'
	INSIDE=1 exec unshare -m --propagation private \
		bash -u -c '. "$HERE/functions.sh"; . "$0"' "$0"
fi
mknod fuse c 10 229
chmod 666 fuse
mount --bind fuse /dev/fuse
one=$(stems plain | head -n 1)
source=$(fixture plain)

# hold ARGUMENT...: starts holder.py in the background; its pid is in $holder.
hold() {
	: >"$WORK/ready"
	python3 "$HERE/holder.py" "$@" >"$WORK/ready" 2>&1 &
	holder=$!
	for _ in $(seq 100); do
		grep -q ready "$WORK/ready" && return
		sleep 0.05
	done
	cat "$WORK/ready"
}
release() {
	kill -KILL "$holder" && wait "$holder" 2>/dev/null
}

# quick COMMAND...: the command fails if it hangs.
quick() {
	timeout -s KILL 6 "$@"
}
umounts() {
	quick "$CKPTFS" umount "$@" 2>"$WORK/said"
	local status=$?
	cat "$WORK/said" >&2
	return $status
}
# next_works WHAT: the mount is gone, and a new mount at its path works.
next_works() {
	fails "$1: the mount is gone" '' is_mounted
	mounted "$source"
	check "$1: the next mount works" cat "$mnt/full/$one.npy"
	unmounted
}

# --- dead --------------------------------------------------------------------

killed() {
	mounted "$source" "$@"
	pid=$(daemon)
	exec 3<"$mnt/full/$one.npy"
	kill -KILL "$pid"
	gone "$pid"
}
killed
check 'dead, with an open file' umounts "$mnt"
next_works 'dead, with an open file'
fails 'dead: the open file' 'not connected' cat <&3
exec 3<&-

# hanging: another process keeps the FUSE device of a dead mount: requests wait forever.
hanging() {
	mounted "$source"
	pid=$(daemon)
	hold device "$pid"
	kill -KILL "$pid"
	gone "$pid"
	cat "$mnt/raw/$one" >"$WORK/client" 2>&1 &
	client=$!
}
hanging
fails 'dead, and hangs: canary' '' timeout -s KILL 1 stat -f "$mnt"
check 'dead, and hangs' umounts "$mnt"
check 'dead, and hangs: its client ends' gone "$client"
next_works 'dead, and hangs'
release
wait "$client"

hanging
check 'dead, and hangs: mounts lists it' \
	grep -q "^$mnt .* $pid  dead\$" <<<"$(quick "$CKPTFS" mounts)"
fails 'dead, and hangs: status' 'does not answer' quick "$CKPTFS" status "$mnt"
fails 'dead, and hangs: mounting over it' 'unmount it first' \
	quick "$CKPTFS" mount "$source" "$mnt"
check 'dead, and hangs: a second client' umounts "$mnt"
next_works 'dead, and hangs: a second client'
release
wait "$client"

# --- alive, but does not reply ----------------------------------------------

mounted "$source"
pid=$(daemon)
stop "$pid"
fails 'stopped' "does not answer; its process $pid lives" umounts "$mnt"
check 'stopped: still mounted' is_mounted
fails 'stopped: status' 'does not answer' quick "$CKPTFS" status "$mnt"
check 'stopped: -l' umounts -l "$mnt"
fails 'stopped: -l: the mount is gone' '' is_mounted
kill -CONT "$pid"
check 'stopped: -l: the daemon ends when it goes on' gone "$pid"

# --- busy --------------------------------------------------------------------

for what in file map cwd root; do
	mounted "$source"
	path=$mnt
	case $what in file | map) path=$mnt/full/$one.npy ;; esac
	hold $what "$path"
	fails "busy: $what" "used by $holder (python3)" umounts "$mnt"
	check "busy: $what: still served" cat "$mnt/raw/$one"
	release
	unmounted
done
mounted "$source"
hold cwd "$mnt/full"
first=$holder
hold file "$mnt/raw/$one"
fails 'busy: two' "used by $first (python3), $holder (python3)" umounts "$mnt"
pid=$(daemon)
check 'busy: -l' umounts -l "$mnt"
fails 'busy: -l: the mount is gone' '' is_mounted
check 'busy: -l: still served to who has it' readlink "/proc/$pid/exe"
release
holder=$first
release
check 'busy: -l: the daemon ends after the last' gone "$pid"
mounted "$source" -o umask=0
mount --bind "$mnt/raw" "$mnt/full"
fails 'busy: a mount in it' "mounted in it: $mnt/full" umounts "$mnt"
umount "$mnt/full"
unmounted

# --- several mounts, and their names -----------------------------------------

mkdir second
mounted "$source"
"$CKPTFS" mount "$source" second
fails 'several, one is none' 'none: No such file' umounts "$mnt" none second
equal 'several, one is none: the others are gone' \
	"$(grep -c " $WORK/.* fuse.ckptfs " /proc/self/mounts)" 0
ln -s mnt link
ln -s "$WORK/link" links
for path in mnt mnt/// ./mnt "$WORK/../$(basename "$WORK")/mnt" link links; do
	mounted "$source"
	check "named ${path//$WORK/.}" umounts "$path"
done
mounted "$source"
check 'named . from inside' \
	bash -c 'cd "$2" && exec "$1" umount -l .' - "$CKPTFS" "$mnt"
fails 'a loop of links' 'symbolic links' \
	bash -c 'ln -s a b; ln -s b a; exec "$1" umount a' - "$CKPTFS"
fails 'an option that is none' 'option -x' umounts -x "$mnt"

# --- other mounts beside it and on top of it ------------------------------------------

# foreign PLACE: mounts another filesystem there.
foreign() {
	mount -t tmpfs foreign "$1"
	echo data >"$1/data"
}
mkdir $'second\rx'
foreign second
"$CKPTFS" mount "$source" $'second\rx'
fails 'regression: a mount point with a carriage return beside' \
	'second: not the mount point of a checkpoint' umounts second
check 'regression: a mount point with a carriage return beside: it stays' \
	cat second/data
check 'regression: a mount point with a carriage return: umount' \
	umounts $'second\rx'
umount second

mounted "$source"
foreign "$mnt"
fails 'regression: covered' 'is covered by another mount' umounts "$mnt"
check 'regression: covered: the other stays' cat "$mnt/data"
rm "$mnt/data"
check 'regression: covered: a place to mount on' "$CKPTFS" mount "$source" \
	"$mnt"
check 'regression: covered: the one that shows ends' umounts "$mnt"
umount "$mnt"
unmounted
# A mount covers a directory above, and has a mount of the same name, which the kernel lists
# before the covered one.
mkdir -p above/mnt cover/mnt
foreign cover/mnt
mount --bind above above
"$CKPTFS" mount "$source" above/mnt
umount cover/mnt
foreign cover
mkdir cover/mnt
foreign cover/mnt
mount --move cover above
fails 'regression: covered from above' 'is covered by another mount' \
	umounts above/mnt
check 'regression: covered from above: the other stays' cat above/mnt/data
umount above/mnt
umount above
check 'regression: covered from above: it shows again' umounts above/mnt
umount above
# The last row of the mount table with a path is not the visible mount.
mkdir shown
"$CKPTFS" mount "$source" second
foreign shown
mount --move second shown
check 'regression: moved onto another' umounts shown
check 'regression: moved onto another: the other stays' cat shown/data
umount shown

# swapped WORD...: while `ckptfs umount` waits for a reply, another directory replaces the
# parent of the mount point.
swapped() {
	mkdir -p parent/precious victim/precious
	foreign victim/precious
	"$CKPTFS" mount "$source" parent/precious
	local pid asker status
	pid=$("$CKPTFS" mounts |
		awk -v m="$WORK/parent/precious" '$1 == m { print $5 }')
	stop "$pid"
	umounts "$@" parent/precious &
	asker=$!
	sleep 0.7
	mv parent moved
	mv victim parent
	kill -CONT "$pid"
	wait "$asker"
	status=$?
	cat parent/precious/data || status=0
	umount parent/precious
	umount moved/precious
	rm -rf parent moved
	return $status
}
fails 'regression: a directory above is swapped' 'another mount is at this path' \
	swapped
fails 'regression: a directory above is swapped: -l' \
	'another mount is at this path' swapped -l

# --- lost tensors ------------------------------------------------------------

mounted "$source" -o write
echo x >"$mnt/raw/wieght"
check 'scratch files: umount' umounts "$mnt"
check 'scratch files: named' grep -qx \
	"ckptfs: $mnt: dropped 1 scratch file: raw/wieght" "$WORK/said"
mounted "$source" -o write
echo x >"$mnt/raw/a"
rm "$mnt/raw/a"
check 'no scratch files: umount' umounts "$mnt"
equal 'no scratch files: no message' "$(cat "$WORK/said")" ''

# umount -l does not commit; a log line has the number of lost tensors.
fixture sample >/dev/null
norm=$(stems sample | grep attention_norm | head -n 1)
mounted "$WORK/sample" -o write,commit=manual
pid=$(daemon)
cat "$mnt/raw/$norm" >"$WORK/bytes"
cat "$WORK/bytes" >"$mnt/raw/$norm"
exec 3<"$mnt/full/$norm.npy"
check 'staged, manual: umount -l' umounts -l "$mnt"
equal 'staged, manual: umount -l: reported' "$(cat "$WORK/said")" \
	"ckptfs: $mnt: tensors were staged and not committed: 1; they are dropped"
exec 3<&-
gone "$pid"

mkdir empty
mounted "$source"
mount --bind empty "$mnt/.ckptfs"
fails 'no status: refused' 'cannot read which tensors would be lost' umounts "$mnt"
umount "$mnt/.ckptfs"
unmounted

# --- bound to other places ---------------------------------------------------

mounted "$WORK/sample" -o write,commit=manual
cat "$WORK/bytes" >"$mnt/raw/$norm"
staged() {
	sed -n 's/^staged tensors: //p' "$mnt/.ckptfs/status"
}
mkdir -p bound
mount --bind "$mnt/raw" bound
check 'regression: a part that is bound: umount' umounts bound
equal 'regression: a part that is bound: nothing said' "$(cat "$WORK/said")" ''
mount --bind "$mnt" bound
fails 'bound: what is staged is asked for' 'tensors are staged' umounts bound
check 'regression: bound: umount -l' umounts -l bound
equal 'regression: bound: nothing is said to be dropped' \
	"$(cat "$WORK/said")" ''
equal 'bound: what was staged is' "$(staged)" 1
mount --bind "$mnt/raw" bound
pid=$(daemon)
check 'the mount itself, while a part is bound' umounts -l "$mnt"
check 'the mount itself, while a part is bound: what is dropped' \
	grep -q 'they are dropped' "$WORK/said"
umount bound
check 'bound: the daemon ends with the last' gone "$pid"

# --- false records --------------------------------------------------------

if [ -d /run/ckptfs ]; then
	mounted "$WORK/sample" -o write,commit=manual
	number=$(findmnt -no MAJ:MIN "$mnt" | xargs)
	record=/run/ckptfs/$number
	equal 'record: who has it' "$(stat -c '%U %a' "$record")" 'root 644'
	cat "$WORK/bytes" >"$mnt/raw/$norm"
	cp "$record" "$WORK/record"
	sed 's/^pid: .*/pid: 4194303/' "$WORK/record" >"$record"
	fails 'record of a dead process, daemon alive: it is asked' \
		'tensors are staged' umounts "$mnt"
	cp "$WORK/record" "$record"
	chown nobody "$record"
	pid_of() {
		"$CKPTFS" mounts | awk -v m="$mnt" '$1 == m { print $5 }'
	}
	equal "record of another user: not believed" "$(pid_of)" -
	chown root "$record"
	equal "record of root: believed" "$(pid_of)" "$(daemon)"
	chmod 666 "$record"
	equal "record that others may write: not believed" "$(pid_of)" -
	rm "$record"
	ln -s "$WORK/record" "$record"
	equal "record that is a link: not believed" "$(pid_of)" -
	rm "$record"
	check 'without record: abort' "$CKPTFS" abort "$mnt"
	check 'without record: umount' umounts "$mnt"
else
	skip 'records' 'no /run'
fi

# --- an ordinary user --------------------------------------------------------

nobody=(setpriv --reuid=nobody --regid="$(id -gn nobody)" --clear-groups
	env XDG_RUNTIME_DIR="$WORK/run")
as_nobody() {
	"${nobody[@]}" "$@"
}
chmod 755 "$source"
chmod 644 "$source"/* "$source/.metadata"
as_nobody test -x "$CKPTFS" || {
	cp "$CKPTFS" "$WORK/ckptfs"
	CKPTFS=$WORK/ckptfs
}
if [ ! -u "$(command -v fusermount3)" ] ||
	! as_nobody test -r "$source/.metadata"; then
	skip 'an ordinary user' 'nobody cannot mount, or cannot get here'
	done_testing
fi
mkdir -m 700 run
mkdir theirs
chown nobody run theirs
mnt=$WORK/theirs
as_nobody "$CKPTFS" mount "$source" "$mnt"
fails 'root: status of a user' 'allow_other' "$CKPTFS" status "$mnt"
"${nobody[@]}" env -C "$mnt" sleep 100 &
holder=$!
sleep 0.5
said=$(as_nobody timeout -s KILL 20 "$CKPTFS" umount "$mnt" 2>&1)
check 'user: busy, and processes that cannot be examined' grep -Eq "used by $holder \
\\(sleep\\); [0-9]+ process(es)? could not be examined\$" <<<"$said"
release
check 'user: umount' as_nobody "$CKPTFS" umount "$mnt"
if [ -f /etc/fuse.conf ]; then
	echo user_allow_other >fuse.conf
	mount --bind fuse.conf /etc/fuse.conf
	as_nobody "$CKPTFS" mount "$source" "$mnt" -o allow_other
	hold file "$mnt/full/$one.npy"
	said=$(as_nobody timeout -s KILL 20 "$CKPTFS" umount "$mnt" 2>&1)
	check 'user: busy, and no process can be examined' grep -Eq "^ckptfs: \
$mnt: busy; [0-9]+ process(es)? could not be examined\$" <<<"$said"
	check 'user: busy, and no process can be examined: it stays' is_mounted
	release
	check 'user: not busy any more' as_nobody "$CKPTFS" umount "$mnt"
	umount /etc/fuse.conf
else
	skip 'user: busy, and no process can be examined' 'no /etc/fuse.conf'
fi
fails 'user: missing fusermount3' 'install the package fuse3' \
	as_nobody bash -c '"$1" mount "$2" "$3" && PATH=/none "$1" umount "$3"' \
	- "$CKPTFS" "$source" "$mnt"
# In a second namespace /usr/bin has links to all programs except that one.
mkdir true-bin theirs2
chown nobody theirs2
fails 'user: missing fusermount3: mount' 'install the package fuse3' \
	unshare -m bash -c '
	mount --bind /usr/bin true-bin && mount -t tmpfs -o mode=755 none /usr/bin
	true-bin/ln -s "$PWD"/true-bin/* /usr/bin
	/usr/bin/rm /usr/bin/fusermount3
	"$@"' - "${nobody[@]}" "$CKPTFS" mount "$source" "$WORK/theirs2"
pid=$(as_nobody "$CKPTFS" mounts | awk -v m="$mnt" '$1 == m { print $5 }')
hold device "$pid"
kill -KILL "$pid"
gone "$pid"
"${nobody[@]}" cat "$mnt/raw/$one" >"$WORK/client" 2>&1 &
client=$!
sleep 0.2
check 'user: dead, and hangs' as_nobody timeout -s KILL 10 "$CKPTFS" umount \
	"$mnt"
fails 'user: dead, and hangs: the mount is gone' '' is_mounted "$mnt"
kill -KILL "$client"
check 'user: dead, and hangs: a client can be killed' gone "$client"
wait "$client"
check 'user: dead, and hangs: the next mount works' as_nobody "$CKPTFS" mount \
	"$source" "$mnt"
check 'user: the next mount is read' as_nobody cat "$mnt/raw/$one"
release
# With /sys/fs/fuse/connections a user can also end waiting requests.
if mountpoint -q /sys/fs/fuse/connections ||
	mount -t fusectl fusectl /sys/fs/fuse/connections 2>/dev/null; then
	pid=$(as_nobody "$CKPTFS" mounts | awk -v m="$mnt" '$1 == m { print $5 }')
	hold device "$pid"
	kill -KILL "$pid"
	gone "$pid"
	"${nobody[@]}" cat "$mnt/full/$one.npy" >"$WORK/client" 2>&1 &
	client=$!
	sleep 0.2
	check 'user: dead, and hangs: with fusectl' \
		as_nobody timeout -s KILL 10 "$CKPTFS" umount "$mnt"
	check 'user: dead, and hangs: with fusectl: its client ends' \
		gone "$client"
	wait "$client"
	release
	as_nobody "$CKPTFS" mount "$source" "$mnt"
else
	skip 'user: dead, and hangs: with fusectl' 'it cannot be mounted'
fi
kill -KILL "$(as_nobody "$CKPTFS" mounts --json | grep -o '"pid":[0-9]*' |
	cut -d: -f2)"
check "root: a user's mount, dead" umounts "$mnt"
fails "root: a user's mount, dead: it is gone" '' is_mounted "$mnt"
done_testing
