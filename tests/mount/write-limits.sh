# SPDX-License-Identifier: MIT
# A daemon with limited resources. The writer gets the error of a limit of the file size, and the
# daemon continues. Without /proc a mount for writing is refused.
need python3 unshare

python3 "$HERE/big.py" big 2 4 65536
(cd big && find . -type f -exec sha256sum {} +) >before.sha256
size=$(stat -c %s "$(find big -name '*.distcp' | head -n 1)")
limit=$((size / 2048))
# Memory that a mount shares with what speaks with GPUs counts as a file, too: its limit
# comes when that is there.
limited() {
	if [ -n "$CKPTFS_GPUS" ]; then
		"$CKPTFS" mount big "$mnt" "$@" &&
			prlimit --pid "$(daemon)" --fsize=$((limit * 1024))
	else
		(ulimit -f "$limit" && "$CKPTFS" mount big "$mnt" "$@")
	fi
}

check 'a limit for files: mounted' limited -o "write,log=$WORK/log"
pid=$(daemon)
head -c "$(stat -c %s "$mnt/raw/t1")" /dev/urandom >new
fails 'a limit for files: the writer gets an error' 'File too large' \
	dd if=new of="$mnt/raw/t1" bs=64K
check 'a limit for files: the daemon lives' readlink "/proc/$pid/exe"
check 'a limit for files: all is read' python3 "$HERE/big.py" --verify 0 \
	"$mnt/raw/t0"
fails 'a limit for files: scratch, too' 'File too large' \
	sh -c 'cat new new new >"$1"' - "$mnt/raw/scratch"
check 'a limit for files: the daemon lives on' readlink "/proc/$pid/exe"
unmounted
gone "$pid"
check 'a limit for files: nothing changed' env -C big sha256sum --quiet -c \
	"$WORK/before.sha256"
equal 'a limit for files: nothing is left' "$(find big -type f | wc -l)" \
	"$(wc -l <before.sha256)"

# Its log, too.
limit=0
touch log
check 'no file may grow: mounted' limited -o "log=$WORK/log"
pid=$(daemon)
rm big/.metadata
cat "$mnt/.ckptfs/status" >status
check 'no file may grow: the daemon lives' readlink "/proc/$pid/exe"
unmounted

# By /proc a program that is not installed finds the part that speaks with GPUs.
[ -z "$CKPTFS_GPUS" ] || done_testing
source=$(fixture plain)
without_proc() {
	unshare -m sh -c 'mount -t tmpfs none /proc && exec "$@"' - "$@"
}
if [ "$(id -u)" = 0 ]; then
	fails 'without /proc: writing is refused' 'needs /proc' without_proc \
		"$CKPTFS" mount "$source" "$mnt" -o write
else
	skip 'without /proc' 'only root can go without'
fi
# A sanitizer reads its options there, and looks at the process.
if [ "$(id -u)" = 0 ] && ! ldd "$CKPTFS" | grep -q 'lib[a-z]*san'; then
	without_proc "$CKPTFS" mount "$source" "$mnt" -o write >said 2>&1
	equal 'without /proc: exit status' $? 2
	check 'without /proc: reading is not' without_proc sh -c \
		'"$1" mount "$2" "$3" && cat "$3/raw/$4" && umount "$3"' - \
		"$CKPTFS" "$source" "$mnt" "$(stems plain | head -n 1)"
fi
done_testing
