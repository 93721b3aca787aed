# SPDX-License-Identifier: MIT
# Mounts for writing: permissions, contents, and the end of the mount.
need python3 findmnt

one=model.layers.0.attention.wk.weight
source=$(fixture sample)
chmod 644 "$source/.metadata"

# Without `write`, or with `ro`, the mount is read-only.
for options in rw ro,write write,ro; do
	mounted "$source" -o "$options"
	check "-o $options: read-only" grep -qw ro \
		<<<"$(findmnt -no OPTIONS "$mnt")"
	fails "-o $options: refused" 'Read-only' cp "$mnt/full/$one.npy" \
		"$mnt/full/$one.npy.new"
	equal "-o $options: modes" "$(stat -c %A "$mnt/raw/$one")" '-r--r--r--'
	fails "-o $options: status" '' grep -q '^staged' "$mnt/.ckptfs/status"
	unmounted
done

mounted "$source" -o write
flags=$(findmnt -no OPTIONS "$mnt")
for flag in rw nosuid nodev default_permissions; do
	check "always: $flag" grep -qw "$flag" <<<"$flags"
done
equal 'modes: a tensor' "$(stat -c %a "$mnt/raw/$one")" 644
equal 'modes: a box' "$(stat -c %a "$mnt/local/rank-0/$one.npy")" 644
equal 'modes: an object' "$(stat -c %a "$mnt/objects/step.json")" 444
equal 'modes: a report' "$(stat -c %a "$mnt/.ckptfs/tensors.csv")" 444
equal 'modes: a directory' "$(stat -c %a "$mnt/raw")" \
	"$(stat -c %a "$source")"
equal 'status: nothing was written' \
	"$(sed -n 's/^commits: //p' "$mnt/.ckptfs/status")" 0
mkdir mnt2
fails 'a second mount for writing' 'for writing already' \
	"$CKPTFS" mount "$source" "$WORK/mnt2" -o write
check 'a second mount for reading' "$CKPTFS" mount "$source" "$WORK/mnt2"
exec 3>"$mnt/raw/$one"
equal 'status: a writer' \
	"$(sed -n 's/^staged writers: //p' "$mnt/.ckptfs/status")" 1
fails 'a second writer' 'busy' cp "$mnt/full/$one.npy" "$mnt/raw/$one"
exec 3>&-
cp "$mnt/raw/$one" raw.bin
check 'a commit' cp raw.bin "$mnt/raw/$one"
equal 'status: a commit' \
	"$(sed -n 's/^commits: //p' "$mnt/.ckptfs/status")" 1
check 'status: unused bytes' grep -q '^dead bytes: [1-9]' \
	"$mnt/.ckptfs/status"
check 'status: our commit is no other' grep -q \
	"^generation: the source's present one" "$mnt/.ckptfs/status"
check 'log: our commit is no other' sh -c '! grep "saved anew" "$1"' - \
	"$mnt/.ckptfs/log"
free=$(df --output=avail -B1M "$WORK" | tail -n 1)
shown=$(df --output=avail -B1M "$mnt" | tail -n 1)
check 'df: what the source has free' test \
	"$((shown > free ? shown - free : free - shown))" -lt 500
equal 'df: used is what the tensors take' \
	"$(df --output=used -B4096 "$mnt" | tail -n 1 | xargs)" \
	$(($(cat "$mnt"/raw/* | wc -c) / 4096 + 1))
check 'df: a part of all' test "$(df --output=pcent "$mnt" | tail -n 1 |
	tr -dc 0-9)" -le 100
equal 'df -i: used is what the mount without write has' \
	"$(df --output=iused "$mnt" | tail -n 1 | xargs)" \
	"$(df --output=itotal mnt2 | tail -n 1 | xargs)"
equal 'the other mount is told' "$(sed -n 's/^generation: //p' \
	"$WORK/mnt2/.ckptfs/status")" \
	'the one mounted; the source has a newer one'
check 'the other mount serves what it has' env -C mnt2 sha256sum --quiet -c \
	"$FIXTURES/sample.sha256"
check 'the other mount: umount' "$CKPTFS" umount "$WORK/mnt2"

# Another program saves the checkpoint.
touch "$source/.metadata"
fails 'a foreign save' 'Stale' sh -c 'cat raw.bin >"$1"' - "$mnt/raw/$one"
check 'a foreign save: the log says so' grep -q "$one: not saved:" \
	"$mnt/.ckptfs/log"
unmounted

# At the end of the mount complete requested tensors are saved, partial ones are not.
tr '\0' '\1' <raw.bin | tr '\1-\377' '\2' >two.bin
mounted "$source" -o write
pid=$(daemon)
exec 3>"$mnt/raw/$one"
head -c 100 two.bin >&3 2>/dev/null
kill -TERM "$pid"
check 'SIGTERM with a part written' gone "$pid"
exec 3>&- 2>/dev/null
fails 'SIGTERM with a part written: unmounted' '' is_mounted
mounted "$source" -o write
check 'SIGTERM with a part written: nothing changed' cmp raw.bin \
	"$mnt/raw/$one"
pid=$(daemon)
(
	for i in $(seq 200); do
		cp two.bin "$mnt/raw/$one" 2>/dev/null || exit
		echo "$i" >done
	done
) &
comes test -s done
kill -TERM "$pid"
check 'SIGTERM among commits' gone "$pid"
wait
check 'SIGTERM among commits: there were some' test -s done
check 'SIGTERM among commits: no fault' "$CKPTFS" check "$source" --full
equal 'SIGTERM among commits: no file is left over' \
	"$(cd "$source" && ls -A | grep -v -e '^__._0.distcp' -e '^.metadata$' \
		-e '^__._ckptfs-[0-9]*-[0-9a-f]*.distcp$')" ''
mounted "$source" -o write
check 'SIGTERM among commits: the new bytes' cmp two.bin "$mnt/raw/$one"
pid=$(daemon)
umount -l "$mnt" 2>"$WORK/out"
check 'umount -l' gone "$pid"

# Who may not.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null &&
	id nobody >/dev/null 2>&1; then
	as_nobody() {
		setpriv --reuid=nobody --regid="$(id -gn nobody)" \
			--clear-groups "$@"
	}
	fuse_for_all
	as_nobody test -x "$CKPTFS" || {
		cp "$CKPTFS" "$WORK/ckptfs"
		CKPTFS=$WORK/ckptfs
	}
	mkdir theirs
	chown nobody theirs
	mnt=$WORK/theirs
	chmod 755 "$source"
	fails "a user, another's checkpoint" 'ermission denied' \
		as_nobody "$CKPTFS" mount "$source" "$mnt" -o write
	equal "a user, another's checkpoint: not mounted" "$(ls "$mnt")" ''
	chown -R "nobody:$(id -gn nobody)" "$source"
	check 'a user, his own' as_nobody "$CKPTFS" mount "$source" "$mnt" \
		-o write
	check 'a user writes' as_nobody cp raw.bin "$mnt/raw/$one"
	check 'a user writes: bytes' as_nobody cmp raw.bin "$mnt/raw/$one"
	equal 'a user writes: his file' "$(stat -c '%U %a' \
		"$source"/__0_ckptfs-*.distcp | tail -n 1)" 'nobody 644'
	check 'a user umounts' as_nobody "$CKPTFS" umount "$mnt"
	mnt=$WORK/mnt
else
	skip 'a user' 'only root can become another user'
fi
if mkdir -p read-only && mount --bind "$source" read-only 2>"$WORK/out" &&
	mount -o remount,bind,ro read-only 2>"$WORK/out"; then
	fails 'a read-only source' 'Read-only file system' \
		"$CKPTFS" mount read-only "$mnt" -o write
	check 'a read-only source: for reading' "$CKPTFS" mount read-only "$mnt"
	unmounted
	umount read-only
else
	skip 'a read-only source' 'no bind mounts here'
fi

# A .metadata with an unknown class, which a commit would copy.
python3 "$HERE/hostile.py" unknown "$WORK/unknown"
fails 'an unknown class' 'unknown' "$CKPTFS" mount "$WORK/unknown" "$mnt" \
	-o write
equal 'an unknown class: not mounted' "$(ls "$mnt")" ''
mounted "$WORK/unknown" -o write,keep_unknown
cp "$mnt/raw/w" w.bin
check 'keep_unknown' cp w.bin "$mnt/raw/w"
unmounted
mounted "$WORK/unknown"
check 'keep_unknown: it is kept' grep -q '^unknown classes: 1' \
	"$mnt/.ckptfs/status"
check 'keep_unknown: bytes' cmp w.bin "$mnt/raw/w"
unmounted
done_testing
