# SPDX-License-Identifier: MIT
# files/ of a mount with -o write: each call that changes files acts as in the source, but for
# files that make up the checkpoint, which no call changes.
need python3 setfattr

calls() {
	python3 -B "$HERE/files-calls.py" "$@"
}
digests() {
	(cd "$1" && find . -type f \( -name '*.distcp' -o -name '.metadata*' \) -exec stat -c '%n %a %u %g %s %Y' {} + -exec sha256sum {} + | sort)
}

# --- each call, in a plain directory of the same file system and in files/
source=$(fixture sample)
mkdir plain "$source/area"
chmod 755 "$WORK" "$source"
all=
[ "$(id -u)" != 0 ] || all=,allow_other
calls calls "$WORK/plain" >wanted
mounted "$source" -o "write$all"
calls calls "$mnt/files/area" >got
check 'each call is that of the source' diff wanted got
check 'canary: many calls, and many errors' test "$(grep -c ': E' wanted)" -gt 300
check 'canary: calls that succeed' test "$(grep -c ': fine' wanted)" -gt 150
check 'the source has the same tree' diff -r --no-dereference "$WORK/plain/data" "$source/area/data"
attributes_of() {
	(cd "$1" && find . -printf '%p %y %m %U %G %l\n' | sort)
}
check 'with the same owners and modes' diff <(attributes_of plain) <(attributes_of "$source/area")
equal 'status' "$(grep -c '^files/: writable, ' "$mnt/.ckptfs/status")" 1
check 'tools: rm -r' rm -r "$mnt/files/area"
unmounted

# --- files of the checkpoint
setfattr -n user.note -v 'a value' "$source/__0_0.distcp"
ln "$source/__0_0.distcp" "$source/old-link"
"$CKPTFS" mount "$source" "$mnt" -o "write,log=$WORK/log$all"
one=$(stems sample | head -n 1)
echo shard >"$source/__0_8_ckptfs-1-0123456789abcdef.distcp"
before=$(digests "$source")
check 'files of the checkpoint are not changed' calls protected "$mnt/files" old-link
equal 'the log has one line for each' "$(grep -c 'files/: .* is a file of the checkpoint' "$WORK/log")" 2
equal 'and one for each name' "$(grep -o 'files/: .* is a name for commits' "$WORK/log" | sort | uniq -c | grep -vc ' 1 files/')" 0
equal 'they are the same' "$(digests "$source")" "$before"
check 'between files/ and tensors' calls across "$mnt" "$one"
cp "$mnt/raw/$one" bytes
check 'a commit' cp bytes "$mnt/raw/$one"
new=$(cd "$source" && ls -t __*_ckptfs-* | head -n 1)
fails 'its new file is not changed either' 'not permitted' truncate -s 0 "$mnt/files/$new"
fails 'nor removed' 'not permitted' rm -f "$mnt/files/$new"
check 'the tensor is the same' cmp bytes "$mnt/raw/$one"
# A commit removes the old metadata, whose inode number the next file may get.
after_commits() {
	local i
	for i in 1 2 3 4 5; do
		touch -c "$mnt/files/__0_0.distcp" 2>/dev/null
		cp bytes "$mnt/raw/$one" && touch "$mnt/files/after-"{1..30} && rm "$mnt/files/after-"* || return 1
	done
}
check 'files made after a commit are changed' after_commits
check 'files/ is no part of commits' sh -c 'echo x >"$1/files/config.json" && cmp "$1/files/config.json" "$2/config.json"' - "$mnt" "$source"
check 'the checkpoint has no damage' "$CKPTFS" check --full "$source"
unmounted

# --- what users do
mounted "$source" -o write
cd "$mnt/files"
check 'locks do not reach the source' flock config.json flock -n "$source/config.json" true
fails 'canary: they hold in the mount' '' flock config.json flock -n config.json true
check 'an editor' sed -i 's/x/{"hidden_size": 64}/' config.json
equal 'the source has it' "$(cat "$source/config.json")" '{"hidden_size": 64}'
tail -n +1 -f train.log --retry >"$WORK/tailed" 2>/dev/null &
tailing=$!
echo 'step 1' >>"$source/train.log"
shows() {
	grep -q "$1" "$WORK/tailed"
}
check 'tail -f of a log that the job writes' comes shows 'step 1'
echo 'step 2' >>"$source/train.log"
check 'tail -f of its next line' comes shows 'step 2'
kill "$tailing"
wait "$tailing" 2>/dev/null
mkdir project
printf '#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n' >project/main.c
printf 'main: main.c\n\tcc -o $@ $<\n' >project/Makefile
if command -v git >/dev/null && command -v cc >/dev/null; then
	check 'git: a repository' sh -c 'cd project && git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm first && git fsck --strict && git status --porcelain'
	check 'a project is built' sh -c 'cd project && { make || cc -o main main.c; } && test "$(./main)" = built'
else
	skip 'git: a repository' 'no git or cc'
fi
cd "$WORK"
unmounted

# --- options, other kinds, run directories
mounted "$source" -o write,uid=77,gid=88
check 'uid=: a new file' sh -c 'echo x >"$1/files/owned"' - "$mnt"
equal 'uid=: it is shown with that owner' "$(stat -c %u:%g "$mnt/files/owned")" 77:88
equal 'uid=: in the source it is of the daemon' "$(stat -c %u:%g "$source/owned")" "$(id -u):$(id -g)"
fails 'uid=: another owner' 'not permitted' chown 5 "$mnt/files/owned"
unmounted
mkdir model
cp -r "$FIXTURES/hub_shards/." model
mounted "$WORK/model" -o write
check 'a kind that cannot be written: files/ can' sh -c 'echo "{}" >"$1/files/tokenizer.json"' - "$mnt"
equal 'it is in the source' "$(cat model/tokenizer.json)" '{}'
fails 'its data files cannot' 'not permitted' truncate -s 0 "$mnt/files/$(cd model && ls ./*.safetensors | head -n 1)"
fails 'its tensors cannot' 'Read-only' touch "$mnt/full/x.npy"
check 'the log names it' grep -q 'kind safetensors cannot be written, only files/ can' <("$CKPTFS" log "$mnt" 2>/dev/null || cat "$WORK/out")
unmounted
mkdir run
cp -r "$FIXTURES/sample" run/step-1
mounted "$WORK/run" -o write
check 'a run directory: its steps are not changed' calls steps "$mnt/files"
unmounted
fails 'views without files/' 'cannot be written' "$CKPTFS" mount "$WORK/model" "$mnt" -o write,views=full

# --- set-ID bits, files without a name
mkdir small unnamed "$source/unnamed" setid "$source/setid"
mounted "$source" -o "write$all"
if [ "$(id -u)" = 0 ]; then
	calls setid "$WORK/setid" >wanted
	calls setid "$mnt/files/setid" >got
	check 'set-group-ID without execution: as in the source' diff wanted got
	check 'canary: it stays, and goes' grep -qz 'append by a user: fine; f 0o100666.*append by one with the group: fine; f 0o102666' wanted
fi
calls unnamed "$WORK/unnamed" >wanted
calls unnamed "$mnt/files/unnamed" >got
check 'O_TMPFILE: each call is that of the source' diff wanted got
check 'canary: names are given' test "$(grep -c '^a name: fine' wanted)" -ge 2
"$CKPTFS" mount "$WORK/run" "$WORK/small" -o write 2>"$WORK/out"
check 'O_TMPFILE: the checkpoint is not changed' calls unnamed_refused "$mnt" "$WORK/small"
"$CKPTFS" umount "$WORK/small"
unmounted

# --- the daemon of a user
if [ "$(id -u)" = 0 ] && unshare -m true 2>"$WORK/out"; then
	fuse_for_all
	mkdir theirs
	cp -r "$FIXTURES/sample/." theirs/ck
	mkdir theirs/mnt
	chown -R "nobody:$(id -gn nobody)" theirs
	echo user_allow_other >fuse.conf
	cat >user.sh <<-'END'
		mount --bind fuse.conf /etc/fuse.conf
		group=$(id -gn nobody)
		as_nobody() { setpriv --reuid=nobody --regid="$group" --clear-groups "$@"; }
		as_nobody "$CKPTFS" mount "$PWD/theirs/ck" "$PWD/theirs/mnt" -o write,allow_other
		as_nobody sh -c 'echo x >theirs/mnt/files/his && mkdir theirs/mnt/files/dir'
		stat -c '%U' theirs/ck/his theirs/ck/dir
		echo x >theirs/mnt/files/others
		mkdir theirs/mnt/files/dir/others
		as_nobody "$CKPTFS" log "$PWD/theirs/mnt" >log-others
		echo y >>theirs/mnt/files/his && cat theirs/ck/his
		as_nobody "$CKPTFS" umount "$PWD/theirs/mnt"
	END
	CKPTFS=$CKPTFS unshare -m sh user.sh >"$WORK/said" 2>&1
	cp "$WORK/said" "$WORK/out"
	equal 'a user: a file of his' "$(grep -cx nobody "$WORK/said")" 2
	equal 'a user: for others' "$(grep -c 'not permitted' "$WORK/said")" 2
	equal 'a user: the log says why, once' "$(grep -c 'user 0 cannot create files, only the user of this mount' log-others)" 1
	equal 'a user: others may write' "$(tail -n 2 "$WORK/said" | xargs)" 'x y'
else
	skip 'a user: a file of his' 'only root can become another user'
fi

# --- the process that creates files does not answer, or is gone
mkdir -p "$source/many"
for i in $(seq 20); do
	mkdir -p "$source/many/$i"
done
"$CKPTFS" mount "$source" "$mnt" -o "write,log=$WORK/log-creator"
creator=$(child "$(daemon)" ckptfs-creator)
kill -STOP "$creator"
creating=
for i in $(seq 20); do
	touch "$mnt/files/many/$i/new" &
	creating="$creating $!"
done
wait_for_it() {
	local pid n=0
	for pid in $creating; do
		! grep -q wait "/proc/$pid/wchan" || n=$((n + 1))
	done
	[ "$n" = 20 ]
}
check 'many programs create files' comes wait_for_it
check 'others read meanwhile' cmp "$mnt/files/__0_0.distcp" "$source/__0_0.distcp"
check 'and change files' sh -c 'echo changed >"$1/config.json"' - "$mnt/files"
equal 'no file is created' "$(find "$source/many" -name new | wc -l)" 0
kill -CONT "$creator"
# shellcheck disable=SC2086
wait $creating
equal 'then all are' "$(find "$source/many" -name new | wc -l)" 20
kill -KILL "$creator"
for i in 1 2 3; do
	fails 'without it no file is created' 'Input/output error' mkdir "$mnt/files/many/$i/dir"
done
check 'others are changed' sh -c 'mv "$1/many/1/new" "$1/many/2/renamed" && echo x >"$1/many/2/renamed"' - "$mnt/files"
equal 'the log has one line' "$(grep -c 'the process that creates files is gone' "$WORK/log-creator")" 1
unmounted

# --- a source that is full
if mount -t tmpfs -o size=4m none small 2>"$WORK/out"; then
	cp -r "$FIXTURES/sample" small/ck
	mounted "$WORK/small/ck" -o write
	fails 'a full source' 'No space left' dd if=/dev/zero of="$mnt/files/large" bs=1M count=8 status=none
	check 'its tensors are read' sh -c 'cat "$1"/full/* "$1"/raw/* >/dev/null' - "$mnt"
	unmounted
	umount small
else
	skip 'a full source' 'only root can mount'
fi
done_testing
