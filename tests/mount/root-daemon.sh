# SPDX-License-Identifier: MIT
# Privileges of root's daemon once it serves, and the process that unmounts for it: after
# any end of the daemon, and never another mount.
need setpriv python3 unshare

[ "$(id -u)" = 0 ] || skip_all 'only root has something to give up'
id nobody >/dev/null 2>&1 || skip_all 'no user nobody'
source=$(fixture plain)
one=$(stems plain | head -n 1)
filter=2
if ldd "$CKPTFS" | grep -q 'lib[a-z]*san'; then
	filter=0
fi

# of PID FIELD: the distinct values of a status field in its threads.
of() {
	cat /proc/"$1"/task/*/status | sed -n "s/^$2:[[:space:]]*//p" | sort -u
}

# The process that unmounts for a daemon.
detacher() {
	child "$1" ckptfs-detacher
}

# ended PID WHAT OTHER: the daemon and its other process are gone; they may be zombies.
ended() {
	local pid=$1
	check "$2: the daemon is gone" gone "$pid"
	check "$2: so is the other process" gone "$3"
}

# has_only WHAT CAPABILITIES PID
has_only() {
	equal "$1: it has" "$(of "$3" CapEff)" "$2"
	equal "$1: it can have" "$(of "$3" CapPrm)" "$2"
	equal "$1: execve can give" "$(of "$3" CapBnd)" "$2"
	equal "$1: it passes on" "$(of "$3" CapInh) $(of "$3" CapAmb)" \
		'0000000000000000 0000000000000000'
	equal "$1: no_new_privs" "$(of "$3" NoNewPrivs)" 1
	equal "$1: system calls" "$(of "$3" Seccomp)" "$filter"
}

# --- capabilities ------------------------------------------------------------

mounted "$source"
pid=$(daemon)
other=$(detacher "$pid")
has_only 'a reader' 0000000000000004 "$pid"
has_only 'the process that unmounts' 0000000000200004 "$other"
equal 'the process that unmounts: descriptors' \
	"$(find "/proc/$other/fd" -mindepth 1 -printf '%f %l\n' |
		sed 's/:.*//' | sort | xargs)" \
	'0 /dev/null 1 /dev/null 2 /dev/null 3 pipe'
equal 'the process that unmounts: directory' "$(readlink "/proc/$other/cwd")" /
backing=$(child "$pid" ckptfs-backing)
cat "$mnt/files/.metadata" >metadata
case $(grep '^files/:' "$mnt/.ckptfs/status") in
*', passthrough')
	has_only 'the process for passthrough' 0000000000200000 "$backing"
	equal 'the process for passthrough: descriptors' \
		"$(find "/proc/$backing/fd" -mindepth 1 -printf '%f %l\n' |
			sed 's/:.*//' | sort | xargs)" \
		'0 /dev/null 1 /dev/null 2 /dev/null 3 socket'
	;;
*) equal 'the process for passthrough: there is none' "$backing" '' ;;
esac
unmounted
ended "$pid" 'a reader' "$other"
[ -z "$backing" ] || check 'a reader: so is the process for passthrough' gone "$backing"

mounted "$source" -o write
pid=$(daemon)
other=$(detacher "$pid")
has_only 'a writer' 000000000000001f "$pid"
creator=$(child "$pid" ckptfs-creator)
has_only 'the process that creates files' 00000000080000d2 "$creator"
equal 'the process that creates files: descriptors' \
	"$(find "/proc/$creator/fd" -mindepth 1 -printf '%f %l\n' |
		sed 's/:.*//' | sort | xargs)" \
	'0 /dev/null 1 /dev/null 2 /dev/null 3 socket'
check 'a writer: commits' cp "$FIXTURES/plain/../$(basename "$source")/.metadata" \
	"$mnt/raw/scratch"
kill -TERM "$pid"
ended "$pid" 'a writer' "$other"
check 'a writer: so is the process that creates files' gone "$creator"

# Files, and a path to the mount point, that only CAP_DAC_READ_SEARCH opens.
private=$(fixture sample)
stem=$(stems sample | head -n 1)
mkdir -p theirs/mnt
chown -R nobody "$private" theirs
chmod 700 "$private" theirs
find "$private" -type f -exec chmod 600 {} +
was=$mnt
mnt=$WORK/theirs/mnt
mounted "$private"
check "another user's private checkpoint" cat "$mnt/full/$stem.npy"
pid=$(daemon)
other=$(detacher "$pid")
kill -TERM "$pid"
ended "$pid" "another user's directory" "$other"
fails "another user's directory: unmounted" '' is_mounted "$mnt"
mnt=$was

# --- however it ends ------------------------------------------------------------

for signal in KILL ABRT TERM; do
	mounted "$source" -o auto_unmount
	pid=$(daemon)
	other=$(detacher "$pid")
	exec 3<"$mnt/full/$one.npy"
	kill -"$signal" "$pid"
	ended "$pid" "auto_unmount, SIG$signal" "$other"
	fails "auto_unmount, SIG$signal: unmounted" '' is_mounted "$mnt"
	fails "auto_unmount, SIG$signal: an open file" 'not connected' \
		dd iflag=direct bs=4096 count=1 <&3
	exec 3<&-
done

mounted "$source" -o auto_unmount
pid=$(daemon)
other=$(detacher "$pid")
check 'auto_unmount: umount(8)' umount "$mnt"
ended "$pid" 'auto_unmount: umount(8)' "$other"

# --- no mount but its own --------------------------------------------------------

# In a private mount namespace, since the test covers and leaves mounts.
export -f detacher child
unshare -m bash -u -c '. "$HERE/functions.sh"
for end in KILL TERM; do
	mounted "$1" -o auto_unmount
	pid=$(daemon)
	other=$(detacher "$pid")
	mount -t tmpfs cover "$mnt"
	kill -$end "$pid"
	check "covered, SIG$end: the process is gone" gone "$other"
	equal "covered, SIG$end: what covers is there" \
		"$(findmnt -rno SOURCE "$mnt" | xargs)" "$1 cover"
	umount "$mnt"
	umount -l "$mnt"

	mounted "$1" -o auto_unmount
	pid=$(daemon)
	other=$(detacher "$pid")
	exec 3<"$mnt/full/$2.npy"
	umount -l "$mnt"
	mount -t tmpfs next "$mnt"
	kill -$end "$pid"
	check "replaced, SIG$end: the process is gone" gone "$other"
	equal "replaced, SIG$end: the new mount is there" \
		"$(findmnt -rno SOURCE "$mnt")" next
	umount "$mnt"
	exec 3<&-
done
echo "failed=$failed"' - "$source" "$one" >said
while read -r verdict; do
	case $verdict in
	'ok '*) result 0 "${verdict#*- }" ;;
	'not ok '*) result 1 "${verdict#*- }" ;;
	'# '*) echo "$verdict" ;;
	esac
done <said
equal 'in a namespace: all was tried' "$(grep -c '^ok\|^not ok' said)" 8

# --- wherever it is ---------------------------------------------------------------

# The owner of a directory above the mount point may rename it.
for end in KILL TERM; do
	mkdir -p above/mnt
	mnt=$WORK/above/mnt
	mounted "$source" -o auto_unmount
	pid=$(daemon)
	other=$(detacher "$pid")
	mv above 'moved on'
	kill -$end "$pid"
	ended "$pid" "regression: renamed above, SIG$end" "$other"
	equal "regression: renamed above, SIG$end: unmounted" \
		"$(grep -c "$WORK/moved" /proc/self/mounts)" 0
	umount -l "moved on/mnt" 2>/dev/null
	rmdir 'moved on/mnt' 'moved on'
done
mnt=$was

# The mount point is exchanged while mounted: another mount is at its path then.
cat >exchange.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <fcntl.h>
struct fuse_session;
int fuse_session_mount(struct fuse_session *se, const char *at);
int fuse_session_mount(struct fuse_session *se, const char *at)
{
	int (*real)(struct fuse_session *, const char *) =
		(int (*)(struct fuse_session *, const char *))dlsym(
			RTLD_NEXT, "fuse_session_mount");
	int rc = real(se, at);

	renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE);
	return rc;
}
END
if ldd "$CKPTFS" | grep -q libfuse3 && cc -shared -fPIC -o exchange.so exchange.c; then
	mkdir -p a/mnt b/mnt
	mount -t tmpfs another b/mnt
	mnt=$WORK/a/mnt
	ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 \
		LD_PRELOAD=$WORK/exchange.so mounted "$source" -o auto_unmount
	mnt=$WORK/b/mnt
	pid=$(daemon)
	other=$(detacher "$pid")
	kill -TERM "$pid"
	ended "$pid" 'regression: exchanged above' "$other"
	equal 'regression: exchanged above: the mount of another is there' \
		"$(findmnt -rno SOURCE "$WORK/a/mnt")" another
	equal 'regression: exchanged above: unmounted' \
		"$(findmnt -rno SOURCE "$WORK/b/mnt")" ''
	umount a/mnt
	# Its record is not applied to the other mount.
	"$CKPTFS" plain b/mnt
	mnt=$WORK/b/mnt
	other=$(daemon)
	mnt=$WORK/a/mnt
	ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 \
		LD_PRELOAD=$WORK/exchange.so "$CKPTFS" "$source" "$mnt"
	equal 'regression: exchanged above: the record of another' \
		"$("$CKPTFS" mounts | awk -v m="$mnt" '$1 == m { print $5 }')" \
		"$other"
	umount a/mnt
	umount b/mnt
	mnt=$was
else
	skip 'regression: exchanged above' 'nothing can be preloaded'
fi

# --- syslog -------------------------------------------------------------------------

# In a namespace with a private /dev/log, which is closed and opened again.
cat >listen.py <<'END'
import os, socket, subprocess, sys
ckptfs, source, mnt = sys.argv[1:]
def listen():
    if os.path.exists('/dev/log'):
        os.unlink('/dev/log')
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind('/dev/log')
    s.settimeout(100)
    return s
def heard(s, what):
    while True:
        said = s.recv(4096).decode()
        if what in said:
            return
def refused(name):
    try:
        with open(f'{mnt}/full/{name}.npy', 'wb'):
            pass
    except OSError:
        pass
s = listen()
subprocess.run([ckptfs, 'mount', source, mnt, '-o', 'write,log=syslog'],
               check=True)
refused('one')
heard(s, 'one')
s.close()
s = listen()
refused('two')
heard(s, 'two')
subprocess.run([ckptfs, 'umount', mnt], check=True)
END
check 'log=syslog: a new listener is found' unshare -m sh -c '
	mkdir dev && touch dev/null dev/fuse &&
	mount -t tmpfs dev dev && touch dev/null dev/fuse &&
	mount --bind /dev/null dev/null && mount --bind /dev/fuse dev/fuse &&
	mount --rbind dev /dev && exec python3 listen.py "$@"' - \
	"$CKPTFS" "$source" "$mnt"

# --- a user's ------------------------------------------------------------------------

# A user needs fusermount3, which is setuid.
fuse_for_all
cp "$CKPTFS" ckptfs
mkdir his
chown -R "nobody:$(id -gn nobody)" "$source" his
as_nobody() {
	setpriv --reuid=nobody --regid="$(id -gn nobody)" --clear-groups "$@"
}
check 'a user mounts' as_nobody "$WORK/ckptfs" mount "$source" "$WORK/his" \
	-o auto_unmount
pid=$(as_nobody sed -n 's/^daemon: //p' his/.ckptfs/status)
equal 'a user: no_new_privs' "$(of "$pid" NoNewPrivs)" 0
kill -TERM "$pid"
check 'a user: the daemon is gone' gone "$pid"
fails 'a user: unmounted' '' is_mounted "$WORK/his"
done_testing
