# SPDX-License-Identifier: MIT
# FUSE passthrough of files/: all opens of a file share bytes, whichever of them the kernel
# serves. With passthrough, reads and writes need no daemon. Without it, on a kernel before
# Linux 6.9 or with an option, the same checks must hold.
need python3

source=$(fixture sample)
one=$(stems sample | head -n 1)

# The end of the line of files/ in the report.
passthrough() {
	sed -n 's|^files/: .* descriptors, ||p' "$mnt/.ckptfs/status"
}
uses() {
	python3 "$HERE/files-passthrough.py" "$1" "$source" "$mnt/files" "${2-}"
}
touch grows
if chattr +a grows 2>"$WORK/out"; then
	chattr -a grows
	grows=yes
else
	grows=
	echo '# there is no chattr +a here'
fi
for options in write write,nopassthrough write,direct; do
	rm -rf "$source/area"
	mkdir "$source/area"
	mounted "$source" -o "$options"
	first=$(passthrough)
	cat "$mnt/files/.metadata" >metadata
	state=$(passthrough)
	case $state in
	passthrough) equal "$options: status before the first open" "$first" 'no passthrough: no file was opened yet' ;;
	esac
	case $options,$state in
	write,passthrough | write,'no passthrough: the '*) ;;
	write,nopassthrough,'no passthrough: by the option nopassthrough') ;;
	write,direct,'no passthrough: by the option direct') ;;
	*) false ;;
	esac
	result $? "$options: status: $state"
	check "$options: opens of one file" uses shared
	exec 3>>"$mnt/files/area/log"
	equal "$options: status: a log" "$(passthrough)" "$(echo "$state" | sed 's/^passthrough$/passthrough of 0 of 1 open files/')"
	exec 3>&-
	check "$options: appending first" uses appending
	check "$options: direct, and not any more" uses direct
	check "$options: the source after a writer" uses leased
	check "$options: a file without a name, hard links" uses names
	check "$options: many threads" uses threads
	if [ "$options" != write,direct ]; then
		check "$options: mappings" uses mapped
		[ -z "$grows" ] || check "$options: mappings of a file that only grows" uses growing
	fi
	exec 3<"$mnt/files/.metadata"
	sum=$(sha256sum <"$source/.metadata")
	cp "$mnt/full/$one.npy" bytes
	check "$options: a commit" cp bytes "$mnt/full/$one.npy"
	equal "$options: the open metadata stays" "$(sha256sum <&3)" "$sum"
	fails "$options: a protected file" 'not permitted' sh -c 'echo >>"$1"' - "$mnt/files/.metadata"
	exec 3<&-
	case $state in
	passthrough)
		check "$options: the daemon is stopped" uses stopped
		backing=$(child "$(daemon)" ckptfs-backing)
		exec 4<>"$source/area/kept" 3<>"$mnt/files/area/kept"
		# Opens and closes wait for it for 10 s together; the report does not.
		check "$options: the process is stopped: many closes" uses closes "$backing"
		touch "$source/area/slow"
		cat "$mnt/files/area/slow" &
		check "$options: the process is stopped: status" passthrough
		wait $!
		result $? "$options: the process is stopped: an open"
		equal "$options: the process is stopped: status is" "$(passthrough)" \
			'no passthrough: the process that registers files does not answer'
		kill -CONT "$backing"
		kill -KILL "$backing"
		echo kept >&3
		equal "$options: the process is gone: an open file" "$(cat <&4)" kept
		check "$options: the process is gone: others" uses shared
		equal "$options: the process is gone: status" "$(passthrough)" \
			'no passthrough: the process that registers files does not answer'
		exec 3<&- 4<&-
		unmounted
		mounted "$source" -o "$options"
		exec 3<>"$mnt/files/area/kept"
		pid=$(daemon)
		kill -KILL "$pid"
		check "$options: the daemon is killed" gone "$pid"
		echo still >&3
		equal "$options: the daemon is killed: an open file" "$(cat "$source/area/kept")" still
		exec 3<&-
		;;
	esac
	unmounted
done

# A file system without O_DIRECT.
mkdir small
if mount -t ramfs none small 2>"$WORK/out"; then
	rm -rf "$source/area"
	cp -r "$source" small/sample
	source=$WORK/small/sample
	mkdir "$source/area"
	mounted "$source" -o write
	check 'no O_DIRECT, as in the source' uses undirected
	unmounted
	umount small
fi
done_testing
