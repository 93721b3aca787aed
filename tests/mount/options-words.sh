# SPDX-License-Identifier: MIT
#
# Mount options: known ones work, ignored ones are ignored, an unknown one is
# refused with the nearest name; and the forms in which mount(8) and users
# call the program.
need python3

source=$FIXTURES/plain
one=$(stems plain | head -n 1)

# refused OPTIONS TEXT
refused() {
	"$CKPTFS" mount "$source" "$mnt" -o "$1" >"$WORK/err" 2>&1
	equal "-o $1: exit status" $? 2
	check "-o $1: says $2" grep -F -- "$2" "$WORK/err"
	equal "-o $1: one line" "$(wc -l <"$WORK/err")" 1
	equal "-o $1: not mounted" "$(ls "$mnt")" ''
}

refused allow_othr 'allow_other'
refused dirct 'direct'
refused ro,nxattr 'noxattr'
refused shardlinks=all 'beneath'
refused uid=me 'decimal'
refused umask=9 'octal'
refused ro,wirte 'write'
refused "log=$WORK/no/such/dir" 'cannot open the log'

ignored=rw,ro,dev,nodev,suid,nosuid,exec,noexec,atime,noatime,auto,noauto
ignored=$ignored,user,users,nofail,_netdev,defaults,x-systemd.automount
ignored=$ignored,x-gvfs-hide,comment=hello,sync,async,relatime,norelatime
ignored=$ignored,nodiratime,lazytime,user_id=0,group_id=0,default_permissions
mounted "$source" -o "$ignored"
check 'ignored words' cat "$mnt/full/$one.npy"
flags=$(findmnt -no OPTIONS "$mnt")
for flag in ro nosuid nodev default_permissions; do
	check "always: $flag" grep -qw "$flag" <<<"$flags"
done
check 'status has the options' grep -q 'comment=hello' "$mnt/.ckptfs/status"
unmounted

mounted "$source" -o "fsname=a\\,b\\\\c d"
equal 'fsname= with comma, backslash and blank' "$(findmnt -no SOURCE "$mnt" |
	sed 's/\\x5c/\\/g')" 'a,b\c d'
unmounted
mkdir "odd,name \\x"
cp -a "$source/." "odd,name \\x"
mounted "$WORK/odd,name \\x"
check 'a source with comma, backslash and blank' cat "$mnt/full/$one.npy"
check 'df shows it' test "$(df --output=source "$mnt" | tail -n 1)" = \
	"$WORK/odd,name \\x"
unmounted

mounted "$source" -o "log=$WORK/messages"
check 'log=FILE' test -e "$WORK/messages"
unmounted

mkfifo fifo
fails 'regression: log=FIFO without a reader' 'cannot open the log' \
	timeout 100 "$CKPTFS" mount "$source" "$mnt" -o "log=$WORK/fifo"

linked=$(fixture plain)
mkdir "$linked/blobs"
for name in .metadata __0_0.distcp; do
	mv "$linked/$name" "$linked/blobs/${name#.}"
	ln -s "blobs/${name#.}" "$linked/$name"
done
fails 'a .metadata that is a link' 'option shardlinks=beneath' \
	"$CKPTFS" mount "$linked" "$mnt"
mounted "$linked" -o shardlinks=beneath
check 'shardlinks=beneath: bytes' \
	env -C "$mnt" sha256sum --quiet -c "$source.sha256"
unmounted
# Commands that mount nothing follow the same links.
mv "$linked/blobs/metadata" "$linked/.metadata"
fails 'check: a data file that is a link' \
	'a link that is not followed (-o shardlinks=beneath follows it)' \
	"$CKPTFS" check "$linked"
mounted "$linked"
check 'damage names the option' grep -qF '(-o shardlinks=beneath follows it)' \
	"$mnt/.ckptfs/damage"
unmounted
for command in check 'check --full' inspect 'inspect --chunks' dump; do
	# shellcheck disable=SC2086
	check "$command -o shardlinks=beneath" "$CKPTFS" $command "$linked" \
		-o shardlinks=beneath
	fails "$command -o: not what is only for mounts" 'only for mounts' \
		"$CKPTFS" $command -o write "$linked"
done
# Options of views have no effect on commands that show no tree.
for command in check inspect digest report dump; do
	for option in root=model views=hf ranks=0 hf_shard_size=1G hf_template=. placements=.; do
		fails "$command -o $option" "option $option: only for mounts, and for ls, cat, cp and getfattr" \
			"$CKPTFS" $command "$source" -o $option
	done
done
for command in inspect digest report dump; do
	fails "$command -o manifest=" 'option manifest=m: only for mounts, and for check, ls, cat, cp and getfattr' \
		"$CKPTFS" $command "$source" -o manifest=m
	fails "$command -o strict" 'option strict: only for mounts' "$CKPTFS" $command "$source" -o strict
done
fails 'diff -o root=' 'option root=model: only for mounts, and for' "$CKPTFS" diff "$source" "$source" -o root=model
fails 'bisect -o root=' 'option root=model: only for mounts, and for' "$CKPTFS" bisect --nan "$source" -o root=model
for command in ls cat getfattr cp; do
	fails "$command -o strict" 'option strict: only for mounts' "$CKPTFS" $command "$source" -o strict
done
check 'ls -o root=,views=' "$CKPTFS" ls "$source" -o root=model,views=hf
fails 'an option that resembles none' 'option d.txt: unknown; ckptfs help lists the options' \
	"$CKPTFS" inspect "$source" -o d.txt
ln -sf nowhere "$linked/__0_0.distcp"
fails 'check: a link that leads nowhere' 'is a link that is not followed;' \
	"$CKPTFS" check "$linked"
ln -sf "$source/__0_0.distcp" "$linked/__0_0.distcp"
fails 'check: a link that leads out' 'is a link that is not followed;' \
	"$CKPTFS" check "$linked"
mv "$linked/.metadata" "$linked/blobs/metadata"
ln -sf "$source/.metadata" "$linked/.metadata"
fails 'shardlinks=beneath: a link that leaves' 'leads out' \
	"$CKPTFS" mount "$linked" "$mnt" -o shardlinks=beneath
rm -rf "$linked"

mounted "$source" -o direct
check 'direct: bytes' env -C "$mnt" sha256sum --quiet -c "$source.sha256"
fails 'direct: no shared mapping' 'No such device' python3 -c '
import mmap, sys
f = open(sys.argv[1], "rb")
mmap.mmap(f.fileno(), 8, mmap.MAP_SHARED, mmap.PROT_READ)' "$mnt/full/$one.npy"
check 'direct: a private mapping' python3 -c '
import mmap, sys
f = open(sys.argv[1], "rb")
m = mmap.mmap(f.fileno(), 8, mmap.MAP_PRIVATE, mmap.PROT_READ)
assert m[:6] == b"\x93NUMPY"' "$mnt/full/$one.npy"
unmounted

check 'ckptfs SRC MNT' "$CKPTFS" "$source" "$mnt"
unmounted
check 'ckptfs SRC MNT -o' "$CKPTFS" "$source" "$mnt" -o rw,nosuid
unmounted
check 'ckptfs -o SRC MNT' "$CKPTFS" -o rw "$source" "$mnt"
unmounted
ln -s "$CKPTFS" mount.ckptfs
check 'mount.ckptfs -f is fake' ./mount.ckptfs "$source" "$mnt" -f -o rw
equal 'mount.ckptfs -f: not mounted' "$(ls "$mnt")" ''
check 'mount.ckptfs' ./mount.ckptfs "$source" "$mnt" -sv -n -t ckptfs -o rw,noatime
unmounted
check 'regression: options last with POSIXLY_CORRECT' \
	env POSIXLY_CORRECT=1 ./mount.ckptfs "$source" "$mnt" -o rw
unmounted
cd "$FIXTURES" || exit
check 'a relative source' "$CKPTFS" plain "$mnt"
equal 'its path is shown whole' "$(findmnt -no SOURCE "$mnt")" "$source"
check 'it is read after the daemon left' cat "$mnt/full/$one.npy"
cd "$WORK" || exit
unmounted

# exits STATUS ARGUMENT...: the exit status, with one line on stderr if it is not 0
exits() {
	local want=$1
	shift
	"$CKPTFS" "$@" >"$WORK/out" 2>"$WORK/err" </dev/null
	equal "exit status: ${*//$WORK/.}" $? "$want"
	[ "$want" = 0 ] ||
		equal "one line: ${*//$WORK/.}" "$(grep -c '^ckptfs: ' "$WORK/err")" 1
}

exits 0 --help
exits 0 --version
exits 0 help
exits 2 help nothing
exits 2 help mount umount
exits 2
exits 2 frobnicate
exits 2 mount "$source"
exits 2 mount "$source" "$WORK/none"
exits 2 mount "$WORK/none" "$mnt"
exits 2 mount "$HERE" "$mnt"
exits 2 mount "$source" "$CKPTFS"
exits 2 umount "$mnt"
exits 2 umount /proc
exits 2 umount
exits 2 inspect
exits 2 inspect "$WORK/none"
exits 2 inspect "$source" --nothing
exits 2 inspect "$source" --csv --chunks
exits 0 inspect "$source"
exits 0 inspect "$source" --chunks
exits 0 inspect "$source" 'no match'
exits 0 dump "$source"
exits 2 dump
# --- help --------------------------------------------------------------------

"$CKPTFS" --help >"$WORK/help"
for command in $(sed -n 's/^  ckptfs \([a-z]*\) .*/\1/p' "$WORK/help"); do
	"$CKPTFS" "$command" --help >"$WORK/said" 2>"$WORK/err"
	equal "$command --help: exit status" $? 0
	check "$command --help: on stdout" grep -q "^usage: ckptfs $command" \
		"$WORK/said"
	equal "$command --help: nothing on stderr" "$(cat "$WORK/err")" ''
	equal "help $command" "$("$CKPTFS" help "$command")" \
		"$(cat "$WORK/said")"
done
check '--help among arguments' grep -q '^usage: ckptfs check' \
	<<<"$("$CKPTFS" check "$source" --full --help)"
check 'mount.ckptfs --help' grep -q '^usage: ckptfs mount' \
	<<<"$(./mount.ckptfs --help)"
equal '--help: the first option is write' \
	"$(sed -n '/^Options/,$ { s/^  \([a-z_]*\).*/\1/p; }' "$WORK/help" |
		head -n 1)" write
# Those that the table has a function for, and no others.
equal '--help: every option that does something' \
	"$(sed -n '/^Options/,$ { s/^  \([a-z_]*\).*/\1/p; }' "$WORK/help" |
		sort | xargs)" \
	"$(sed -n 's/^\t{ "\([a-z_]*\)=*", set_.*/\1/p' \
		"$HERE/../../core/options/options.c" | sort | xargs)"
equal '--help: no line is too long' "$(awk 'length > 80' "$WORK/help" |
	grep -v 'every tensor is a file\|^  ckptfs ')" ''
check 'help mount has them, too' grep -q '^  commit=close|manual ' \
	<<<"$("$CKPTFS" help mount)"

fails 'an unknown command' 'the nearest command is inspect' \
	"$CKPTFS" instpect "$source"
fails 'an unknown command alone' 'the nearest command is umount' \
	"$CKPTFS" umout
fails 'help of an unknown command' 'the nearest command is status' \
	"$CKPTFS" help statu
fails 'an unknown option of the program' 'the nearest is --version' \
	"$CKPTFS" --verison
fails 'an unknown option of a command' \
	'inspect: option --chunk_: unknown; the nearest is --chunks' \
	"$CKPTFS" inspect "$source" --chunk_
fails 'an unknown letter' 'mount: option -x: unknown' \
	"$CKPTFS" "$source" "$mnt" -x
"$CKPTFS" --version >"$WORK/said"
for line in '^ckptfs [0-9.]*$' '^built with: ' '^libfuse 3' \
	'FUSE kernel interface version 7\.[0-9]*$'; do
	check "--version: $line" grep -q "$line" "$WORK/said"
done
fails '--version: a full disk is told' 'No space' \
	bash -c '"$1" --version >/dev/full' - "$CKPTFS"

# hint WHAT TEXT ARGUMENT...: the mount succeeds and prints TEXT.
hint() {
	"${@:3}" 2>"$WORK/err"
	equal "$1" "$(cat "$WORK/err")" "$2"
	unmounted
}
read_only='ckptfs: option rw: the mount is read-only; -o write allows to replace tensors'
copy=$(fixture plain)
hint 'rw without write: a hint' "$read_only" "$CKPTFS" "$copy" "$mnt" -o rw
hint 'rw without write, among others: a hint' "$read_only" \
	"$CKPTFS" mount "$copy" "$mnt" -o umask=0,rw
hint 'rw with write: none' '' "$CKPTFS" "$copy" "$mnt" -o rw,write
hint 'rw and ro: none' '' "$CKPTFS" "$copy" "$mnt" -o rw,ro
hint 'rw of mount(8): none' '' ./mount.ckptfs "$copy" "$mnt" -o rw
hint 'rw of mount.fuse3: no hint' '' "$CKPTFS" "$copy" "$mnt" -o rw,dev,suid

"$CKPTFS" dump "$source" >/dev/full 2>"$WORK/err"
equal 'a full disk is told' $? 2
done_testing
