# SPDX-License-Identifier: MIT
#
# mount(8), fstab and umount(8), with the types ckptfs (its helper is
# mount.ckptfs) and fuse.ckptfs (its helper is mount.fuse, whose shell finds
# ckptfs; mount(8) takes PATH away, so that the shell's own one holds).
# mount(8) looks for helpers in /sbin only: in a mount namespace of this
# test's own that is a directory of links to the true one and to ours, so that
# nothing of it is seen outside or left behind.
need mount umount unshare setpriv

[ "$(id -u)" = 0 ] || skip_all 'only root may use mount(8)'
if [ -z "${INSIDE:-}" ]; then
	unshare -m --propagation private true 2>/dev/null ||
		skip_all 'no mount namespace can be made here'
	INSIDE=1 exec unshare -m --propagation private \
		bash -u -c '. "$HERE/functions.sh"; . "$0"' "$0"
fi

sbin=$(realpath /sbin)
mkdir helpers
mount --bind "$sbin" helpers
mount -t tmpfs -o mode=755 none "$sbin"
ln -s "$WORK"/helpers/* "$sbin"
ln -sf "$CKPTFS" "$sbin/mount.ckptfs"
[ -x "$sbin/mount.fuse" ] || skip_all 'no mount.fuse (package fuse3)'
ln -sf "$CKPTFS" "$sbin/ckptfs"

source=$FIXTURES/plain
one=$(stems plain | head -n 1)

# served WHAT: it can be read, mount(8) shows it, umount(8) ends the daemon.
served() {
	local pid
	check "$1: bytes" env -C "$mnt" sha256sum --quiet -c "$source.sha256"
	equal "$1: as findmnt shows it" \
		"$(findmnt -rno SOURCE,TARGET,FSTYPE "$mnt")" \
		"$source $mnt fuse.ckptfs"
	pid=$(daemon)
	check "$1: umount" umount "$mnt"
	check "$1: the daemon is gone" gone "$pid"
	fails "$1: the mount is gone" '' is_mounted
	equal "$1: the directory is empty" "$(ls -A "$mnt")" ''
}

for type in ckptfs fuse.ckptfs; do
	check "-t $type" mount -t $type "$source" "$mnt"
	served "-t $type"
	check "-t $type -o" mount -t $type "$source" "$mnt" \
		-o ro,noatime,nosuid,nodev,noexec,allow_other,umask=077
	equal "-t $type -o: options reach us" \
		"$(stat -c %a "$mnt/full/$one.npy")" 400
	check "-t $type -o: allow_other" grep -q \
		" $mnt fuse.ckptfs ro,.*,allow_other" /proc/self/mounts
	served "-t $type -o"
	check "-t $type -r" mount -r -v -t $type "$source" "$mnt"
	served "-t $type -r"
	fails "-t $type: an unknown option" 'the nearest is direct' \
		mount -t $type "$source" "$mnt" -o dirct
	fails "-t $type: no such source" 'No such file' \
		mount -t $type "$WORK/none" "$mnt"
	mount -t $type "$WORK/none" "$mnt" 2>/dev/null
	equal "-t $type: no such source: exit status" $? 2
	fails "-t $type: nothing is mounted" '' is_mounted
done
# mount.fuse does not know -f and mounts.
check '-t ckptfs -f' mount -f -t ckptfs "$source" "$mnt"
fails '-t ckptfs -f: not mounted' '' is_mounted

# --- fstab -------------------------------------------------------------------

[ -e /etc/fstab ] || skip_all 'no /etc/fstab that could be covered'
rm "$sbin/mount.ckptfs" "$sbin/ckptfs"
check 'meson install' meson install -C "$(build_directory)" --no-rebuild \
	--destdir "$WORK/root"
if [ -x root/usr/local/bin/ckptfs ]; then
	mount --bind root/usr/local /usr/local
	CKPTFS=/usr/local/bin/ckptfs
else
	skip 'fstab' 'the prefix is not /usr/local'
	done_testing
fi
fails 'type ckptfs needs what is in /sbin' 'unknown filesystem type' \
	mount -t ckptfs "$source" "$mnt"
words=ro,noauto,nofail,_netdev,comment=x,x-systemd.automount
words=$words,x-systemd.idle-timeout=600
mkdir second 'with blank'
cp -a "$source/." 'with blank'
cat >fstab <<END
$source $mnt fuse.ckptfs $words 0 0
$source $WORK/second fuse.ckptfs defaults,nofail 0 0
END

mount --bind fstab /etc/fstab

check 'fstab: mount DIRECTORY' mount "$mnt"
served 'fstab: mount DIRECTORY'
check 'fstab: mount -a' mount -a
mnt=$WORK/second
served 'fstab: mount -a'
mnt=$WORK/mnt
fails 'fstab: noauto is left alone' '' is_mounted
echo "$WORK/none $mnt fuse.ckptfs nofail 0 0" >fstab
fails 'fstab: the source is away' 'No such file' mount -a
fails 'fstab: the source is away: nothing is mounted' '' is_mounted

printf '%s %s fuse.ckptfs ro 0 0\n' "$WORK/with\\040blank" "$mnt" >fstab
check 'fstab: a source with a blank' mount "$mnt"
check 'fstab: a source with a blank, bytes' cat "$mnt/full/$one.npy"
check 'fstab: a source with a blank, umount' umount "$mnt"

# The lines of the documents, as they are.
docs=$HERE/../..
lines='s,^ *\(`*\)/ckpt/step-1000 /mnt/ck \([^`]*\)\1$,\2,p'
sed -n "$lines" "$docs/mount-helpers/man/mount.ckptfs.8.scd" >lines
equal 'the manual has lines for fstab' "$(wc -l <lines)" 2
while read -r line; do
	echo "$source $mnt $line" >fstab
	check "documents: $line" mount "$mnt"
	served "documents: $line"
done <lines
fails 'documents: no line has the type ckptfs' '' grep -E \
	'^[^ ]+ [^ ]+ ckptfs [^ ]+ 0 0|(SRC|/[^ ]+) (MNT|/[^ ]+) ckptfs ' \
	"$docs/README.md" "$docs"/mount-helpers/man/*.scd

# --- an ordinary user --------------------------------------------------------

as_nobody() {
	setpriv --reuid=nobody --regid="$(id -gn nobody)" --clear-groups "$@"
}
if [ ! -u "$(command -v fusermount3)" ] || ! id nobody >/dev/null 2>&1 ||
	! as_nobody test -x "$CKPTFS" -a -r "$source/.metadata"; then
	skip 'fstab: user' 'nobody cannot mount, or cannot get here'
	done_testing
fi
# Device nodes of the namespace are everyone's: cover /dev/fuse by one that
# any user may open.
mknod fuse c 10 229
chmod 666 fuse
mount --bind fuse /dev/fuse
chown nobody second
mnt=$WORK/second
for word in user users; do
	echo "$source $mnt fuse.ckptfs $word,noauto 0 0" >fstab
	as_nobody mount "$mnt" >out 2>&1
	equal "fstab: $word" "$?$(cat out)" 0
	check "fstab: $word: reads" as_nobody cat "$mnt/full/$one.npy"
	pid=$(as_nobody sed -n 's/^daemon: //p' "$mnt/.ckptfs/status")
	check "fstab: $word: umount" as_nobody umount "$mnt"
	check "fstab: $word: the daemon is gone" gone "$pid"
done
done_testing
