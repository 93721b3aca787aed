# SPDX-License-Identifier: MIT
# Ordinary tools on a mount copy, list and print the right bytes.
need rsync tar xxd od cmp find du

mounted "$FIXTURES/sample"
sums() {
	env -C "$1" sha256sum --quiet -c "$FIXTURES/sample.sha256"
}
one=$(stems sample | head -n 1)
number=$(stems sample | wc -l)

mkdir plain
check 'cp' cp -r "$mnt/full" "$mnt/raw" plain
check 'cp: bytes' sums plain
check 'cp -a' cp -a "$mnt" archive
check 'cp -a: bytes' sums archive
equal 'cp -a: time' "$(stat -c %y "archive/raw/$one")" \
	"$(stat -c %y "$mnt/raw/$one")"
check 'rsync -a' rsync -a "$mnt/" copy/
check 'rsync -a: bytes' sums copy
equal 'rsync -a: nothing left to do' \
	"$(rsync -ai --exclude=/.ckptfs "$mnt/" copy/)" ''
check 'rsync -aX' rsync -aX "$mnt/full/" withx/
check 'tar' tar -cf t.tar -C "$mnt" full raw
mkdir untarred
check 'tar: out' tar -xf t.tar -C untarred
check 'tar: bytes' sums untarred
check 'tar -S' tar -cSf s.tar -C "$mnt" .
mkdir sparse
check 'tar -S: out' tar -xf s.tar -C sparse
check 'tar -S: bytes' sums sparse
check 'tar -S: views' diff -r -x .ckptfs archive sparse
check 'tar -S: shard maps' diff -r archive/.ckptfs/shards sparse/.ckptfs/shards
for file in archive/.ckptfs/*; do
	[ -f "$file" ] || continue
	file=${file#*/}
	check "tar -S: $file" cmp "sparse/$file" <(tr -d '\0' <"sparse/$file")
done
# Tools take a file of no blocks for one of zeros.
equal 'blocks' "$(find "$mnt" -type f -size +0c -printf '%b %P\n' | grep '^0 ')" ''
chmod -R u+w sparse plain archive copy withx untarred

equal 'find' "$(find "$mnt/full" "$mnt/raw" -type f | wc -l)" $((2 * number))
equal 'find: nothing empty' "$(find "$mnt" -name '*.npy' -empty)" ''
equal 'find -size' "$(find "$mnt/raw" -name "$one" -size -2 | wc -l)" \
	"$(find plain/raw -name "$one" -size -2 | wc -l)"
equal 'du -b' "$(du -sb --apparent-size "$mnt/raw/$one" | cut -f1)" \
	"$(stat -c %s "plain/raw/$one")"
equal 'ls hides the control directory' "$(ls "$mnt" | xargs)" 'dcp f32 files full hf local objects optim raw sharded torch'
equal 'ls -a shows it' "$(ls -A "$mnt" | xargs)" '.ckptfs dcp f32 files full hf local objects optim raw sharded torch'
equal 'xxd' "$(xxd "$mnt/raw/$one" | sha256sum)" \
	"$(xxd "plain/raw/$one" | sha256sum)"
equal 'od from a place' "$(od -An -tx1 -j 33 -N 70 "$mnt/raw/$one")" \
	"$(od -An -tx1 -j 33 -N 70 "plain/raw/$one")"
equal 'tail' "$(tail -c 17 "$mnt/full/$one.npy" | xxd)" \
	"$(tail -c 17 "plain/full/$one.npy" | xxd)"
check 'cmp' cmp "$mnt/full/$one.npy" "plain/full/$one.npy"
check 'dd with small blocks' dd if="$mnt/raw/$one" of=small bs=7 status=none
check 'dd with small blocks: bytes' cmp small "plain/raw/$one"
check 'dd with O_DIRECT' dd if="$mnt/raw/$one" of=big bs=1M iflag=direct \
	status=none
check 'dd with O_DIRECT: bytes' cmp big "plain/raw/$one"
equal 'a read past the end' "$(tail -c +1000001 "$mnt/raw/$one" | wc -c)" 0
equal 'df' "$(df --output=fstype,size,avail -B4096 "$mnt" | tail -n 1 | xargs)" \
	"fuse.ckptfs $(($(cat "$mnt"/raw/* | wc -c) / 4096 + 1)) 0"
equal 'findmnt shows the source' "$(findmnt -no SOURCE "$mnt")" \
	"$FIXTURES/sample"
unmounted
done_testing
