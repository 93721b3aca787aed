# SPDX-License-Identifier: MIT
#
# A checkpoint in pieces, on hosts some of which have copies of the same files: each host
# is a directory and a process that serves it.
need python3 sha256sum pgrep

one=model.layers.0.attention.wk.weight

# dealt: SRC is h0; the two others have copies of two files, and one has the last.
dealt() {
	rm -rf h0 h1 h2
	mkdir h0 h1 h2
	cp -a "$FIXTURES"/sample/{.metadata,__0_0.distcp} h0
	cp -a "$FIXTURES"/sample/{__1_0.distcp,__2_0.distcp} h1
	cp -a "$FIXTURES"/sample/{.metadata,__1_0.distcp,__2_0.distcp,__3_0.distcp} h2
}

export CKPTFS_HOSTS=h0=$WORK/h0:h1=$WORK/h1:h2=$WORK/h2

apart() {
	mounted "$WORK/h0"
}

# server HOST: the process that serves it.
server() {
	pgrep -f -- "serve --mpi .* $WORK/$1\$"
}

all_is_there() {
	(cd "$mnt" && sha256sum -c --quiet "$FIXTURES/sample.sha256")
}

# flip FILE: another first byte, and the same time.
flip() {
	python3 - "$1" <<-'END'
		import os, sys
		st = os.stat(sys.argv[1])
		with open(sys.argv[1], "r+b") as f:
		    byte = f.read(1)[0]
		    f.seek(0)
		    f.write(bytes([byte ^ 1]))
		os.utime(sys.argv[1], ns=(st.st_atime_ns, st.st_mtime_ns))
	END
}

dealt
apart
check 'every byte is there' all_is_there
equal 'and nothing is damaged' \
	"$(grep -c 'damaged entries 0 of' "$mnt/.ckptfs/damage")" 1
unmounted

apart
pid=$(server h1)
check 'one host has a process' test -n "$pid"
kill -9 "$pid"
check 'it is killed: all bytes are there, of another host' all_is_there
unmounted

for how in 'rm' 'truncate -s 1000'; do
	dealt
	cp -a "$FIXTURES"/sample/{__1_0.distcp,__2_0.distcp} h0
	apart
	check "the copy here is read: $how" all_is_there
	exec 7<"$mnt/raw/$one"
	$how h0/__1_0.distcp h0/__2_0.distcp
	check "$how: those of other hosts are read" all_is_there
	check "$how: and by who has a file open" \
		cmp -s /dev/fd/7 <(cat "$mnt/raw/$one")
	exec 7<&-
	check "$how: the log has it" grep -q \
		'__1_0.distcp: Stale file handle; it is read on other hosts' \
		"$mnt/.ckptfs/log"
	unmounted
done

dealt
flip h2/__1_0.distcp
apart
text='its file differs between hosts: h1 has [0-9]* bytes, XXH3-128 of a sample [0-9a-f]\{32\}; h2 has [0-9]* bytes, XXH3-128 of a sample [0-9a-f]\{32\}; __1_0.distcp at'
check 'copies that differ are damage' \
	grep -q "EIO: box .*: $text" "$mnt/.ckptfs/damage"
fails 'what needs one of them cannot be read' 'Input/output error' \
	cat "$mnt/raw/$one"
error_of() {
	python3 -c 'import os, sys
print(os.getxattr(sys.argv[1], "user.ckptfs.error").decode())' "$1"
}
check 'and says why' grep -q "$text" <(error_of "$mnt/raw/$one")
unmounted

for host in 1 2; do
	dealt
	flip "h$((3 - host))/__1_0.distcp"
	CKPTFS_HOSTS_PREFER=$host apart
	check "h$host is preferred: its copy counts" all_is_there
	unmounted
done

dealt
truncate -s 100 h1/__2_0.distcp
apart
check 'one that is too short is not used' all_is_there
unmounted

dealt
printf x >>h2/.metadata
fails 'metadata that differs is refused' 'differs between hosts' \
	"$CKPTFS" mount "$WORK/h0" "$mnt"
CKPTFS_HOSTS_PREFER=0 apart
check 'unless one of them is preferred' all_is_there
unmounted

# serve SRC: a process of such a job, which is the only one.
serve() {
	CKPTFS_HOSTS_RANK=0/1:$WORK timeout 60 "$CKPTFS" serve --mpi "$1"
}
long=$(printf 'x%.0s' $(seq 300))
fails 'SRC is a file' 'Not a directory' serve "$WORK/h0/.metadata"
fails "SRC's name is too long" 'File name too long' serve "$WORK/$long"
done_testing
