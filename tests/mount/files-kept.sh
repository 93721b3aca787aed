# SPDX-License-Identifier: MIT
# What programs cannot lose in files/ of a mount with -o write: a file that mv takes to the
# tree, and the directories and links through which data files of the checkpoint are reached.
need python3 setfattr

kept() {
	python3 -B "$HERE/files-kept.py" "$@"
}

# --- files that are moved to the tree, where they would be scratch files
source=$(fixture sample)
"$CKPTFS" mount "$source" "$mnt" -o "write,log=$WORK/log"
one=$(stems sample | head -n 1)
check 'a file that is moved to the tree' kept moved "$mnt" "$one"
echo x >"$mnt/files/moved.txt"
fails 'mv: to full/' 'not permitted' mv "$mnt/files/moved.txt" "$mnt/full/"
equal 'mv: the file stays' "$(cat "$source/moved.txt")" x
equal 'mv: the log names both' "$(grep -c 'files/: moved.txt is not removed: its copy full/moved.txt is no tensor' "$WORK/log")" 1
check 'another process removes it' rm "$mnt/files/moved.txt"
unmounted

# --- data files in directories, and behind links
# made NAME FIRST SECOND: a checkpoint whose two data files have these paths.
made() {
	PYTHONPATH=$HERE/../damage python3 -B - "$@" <<-'END'
		import os, sys
		import source
		_, name, *paths = sys.argv
		c = source.Checkpoint()
		for item in c.items.values():
		    item[0] = paths[item[0] == source.SECOND]
		for path in paths:
		    os.makedirs(f'{name}/{os.path.dirname(path)}', exist_ok=True)
		os.makedirs = lambda path: None
		c.write(name)
	END
}
state_of() {
	(cd "$1" && find . -mindepth 1 -printf '%p %y %m %U %G %T@ %l\n' | sort)
}
# stays WHAT DIRECTORY OPTIONS PATH...: no call changes these paths, and the checkpoints $steps
# in the directory are whole.
steps=.
stays() {
	local what=$1 dir=$2 options=$3 beside=$4/mine before step
	shift 3
	setfattr -n user.note -v 'a value' "$dir"/*/
	before=$(state_of "$dir" | grep -v "^./${beside%/mine} ")
	mounted "$PWD/$dir" -o "write$options"
	check "$what: they are not changed" kept paths "$mnt/files" "$@"
	[ "$steps" != . ] || check "$what: other files in them are" \
		sh -c 'touch "$1" && chmod 600 "$1" && mv "$1" "$1-2" && rm "$1-2"' - "$mnt/files/$beside"
	unmounted
	equal "$what: the source is as before" "$(state_of "$dir" | grep -v "^./${beside%/mine} ")" "$before"
	for step in $steps; do
		check "$what: no damage" "$CKPTFS" check --full "$dir/$step" ${options:+-o "${options#,}"}
	done
}
made prefixes 000/epoch_5/__0_0.distcp 111/epoch_5/__1_0.distcp
mkdir prefixes/000/other
stays 'directories' prefixes '' 000 000/epoch_5 000/epoch_5/__0_0.distcp 111 111/epoch_5

made linked __0_0.distcp sub/__1_0.distcp
mkdir -p linked/links linked/store/a
mv linked/__0_0.distcp linked/store/a/real
mv linked/sub linked/store/b
ln -s ./links/../links/first linked/__0_0.distcp
ln -s ../store/a/../a/real linked/links/first
ln -s store/b linked/sub
stays 'links' linked ,shardlinks=beneath store __0_0.distcp links links/first store/a store/a/real sub store/b \
	store/b/__1_0.distcp

# --- checkpoints below a directory, which are steps whatever their names
mkdir nested
cp -r "$FIXTURES/sample" nested/model
cp -r "$FIXTURES/plain" nested/optim
steps='model optim'
stays 'checkpoints in a directory' nested '' model model/.metadata model/__0_0.distcp optim

# --- permissions that the mount hides
# modes WHAT ARGUMENT...: after chmod(1) of a file, its modes in the mount and in the source.
modes() {
	local what=$1 want=$2
	shift 2
	chmod "$@" "$mnt/files/hidden"
	equal "$what" "$(stat -c %a "$mnt/files/hidden" "$source/hidden" | paste -sd' ')" "$want"
}
echo x >"$source/hidden"
chmod 664 "$source/hidden"
mounted "$source" -o write,umask=027
modes 'umask=: chmod u+x' '740 764' u+x
modes 'umask=: chmod u-x' '640 664' u-x
modes 'umask=: chmod g-r' '600 600' g-r
modes 'umask=: chmod 644' '640 644' 644
modes 'umask=: chmod g+w' '640 664' 664
modes 'umask=: chmod 600' '600 600' 600
unmounted
if [ "$(id -u)" = 0 ] && command -v setfacl >/dev/null && setfacl -m u:1234:- "$source/hidden" 2>"$WORK/out"; then
	chmod 664 "$source/hidden"
	mounted "$source" -o write,allow_other
	modes 'an ACL: chmod u+x' '700 764' u+x
	check 'an ACL: it is the same' grep -qx 'mask::rw-' <(getfacl -c "$source/hidden")
	chown 5 "$mnt/files/hidden"
	modes 'an ACL: chown' '600 664' u-x
	modes 'an ACL: chmod g+r' '600 640' g+r
	unmounted
else
	skip 'an ACL: chmod u+x' 'no setfacl, or not root'
fi

# --- a source that does not answer, while programs change files
source=$(fixture sample)
for i in $(seq 10); do
	mkdir "$source/dir-$i"
	head -c 100000 /dev/zero | tee "$source/held-write-$i" "$source/held-map-$i" "$source/held-sync-$i" >/dev/null
done
touch hold
MUTE_NAME=held- MUTE_HOLD=$WORK/hold LD_PRELOAD=$LIBMUTE_BIN mounted "$source" -o write,nopassthrough
serving=$(daemon)
creator=$(child "$serving" ckptfs-creator)
kill -STOP "$creator"
python3 -B "$HERE/files-kept.py" change "$mnt/files" &
changing=$!
# A line for each process that is in a system call which does not end, with the place in the kernel.
all_wait() {
	local child
	for child in $(cat "/proc/$changing/task/$changing/children"); do
		sed -n 's/^State:\t\([SD]\).*/\1/p' "/proc/$child/status" | tr '\n' ' '
		cat "/proc/$child/wchan"
		echo
	done >"$WORK/waits"
	[ "$(grep -c '^[SD] ' "$WORK/waits")" = 40 ] && [ "$(wc -l <"$WORK/waits")" = 40 ]
}
shown_wait() {
	"$@" && return
	sort "$WORK/waits" | uniq -c
	return 1
}
check 'programs that write, map, sync and create wait' shown_wait comes all_wait
check 'tensors are read meanwhile' sh -c 'cat "$1"/full/* "$1"/raw/* "$1"/hf/*.safetensors' - "$mnt"
check 'so are reports and listings' sh -c 'cat "$1/.ckptfs/status" && ls -R "$1/local"' - "$mnt"
cp "$mnt/raw/$one" bytes
check 'and a tensor is committed' cp bytes "$mnt/raw/$one"
check 'all still wait' shown_wait all_wait
fails 'umount ends: busy' 'busy' "$CKPTFS" umount "$mnt"
check 'umount -l ends' "$CKPTFS" umount -l "$mnt"
fails 'it is unmounted' '' is_mounted
rm hold
kill -CONT "$creator"
check 'then each call succeeds' wait "$changing"
equal 'the source has all bytes' "$(cat "$source"/held-write-* "$source"/held-map-* | tr -d 'x' | wc -c)" 0
equal 'and all files' "$(find "$source" -name new | wc -l)" 10
check 'the daemon ends' gone "$serving"
done_testing
