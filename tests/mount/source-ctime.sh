# SPDX-License-Identifier: MIT
#
# Files of the source whose ctime changes under the mount while their size and mtime stay:
# after chmod and link all reads go on; items that were written over are read at their new
# place, or are an error.
#
# -o direct: every read reaches the daemon.
need python3

touched() {
	python3 "$HERE/source-ctime.py" "$@" || result 1 "source-ctime.py $*"
}

# The clock of ctimes stands still for up to 10 ms: two changes may have the same time.
tick() {
	sleep 0.02
}

# lines TEXT: how often the log has it.
lines() {
	grep -cF -- "$1" "$mnt/.ckptfs/log"
}

seen='its ctime changed'
source=$WORK/big
python3 "$HERE/big.py" "$source" 2 1 8192
data=$source/__0_0.distcp
mounted "$source" -o direct
cat "$mnt/raw/t0" >"$WORK/t0"
cat "$mnt/raw/t1" >"$WORK/t1"
check 'the bytes of t0' python3 "$HERE/big.py" --verify 0 "$WORK/t0"
equal 'both items are checked' "$(tail -n 1 "$mnt/.ckptfs/damage")" 'items checked 2 of 2'
exec 3<"$mnt/raw/t0"
equal 'no line before' "$(lines "$seen")" 0

chmod 640 "$data"
equal 'chmod: an open file is read' "$(head -c 8192 <&3 | cmp - "$WORK/t0" && echo same)" same
equal 'chmod: one line' "$(lines "__0_0.distcp: $seen")" 1
equal 'chmod: earlier checks do not count' \
	"$(tail -n 1 "$mnt/.ckptfs/damage")" 'items checked 1 of 2'
check 'chmod: t0' cmp "$mnt/raw/t0" "$WORK/t0"
check 'chmod: t1' cmp "$mnt/raw/t1" "$WORK/t1"
equal 'chmod: still one line' "$(lines "$seen")" 1
tick
ln "$data" "$source/backup"
check 'link: t0' cmp "$mnt/raw/t0" "$WORK/t0"
tick
rm "$source/backup"
mv "$data" "$source/away"
mv "$source/away" "$data"
check 'renamed and back: t0' cmp "$mnt/raw/t0" "$WORK/t0"
equal 'link and rename: a line for each change that was seen' "$(lines "$seen")" 3
cp -p "$data" "$WORK/data"
tick
cp -p "$WORK/data" "$data"
check 'the same bytes by cp -p: t1' cmp "$mnt/raw/t1" "$WORK/t1"

# Elements at another place of the item, which is as long.
touched move "$source"
check 'moved: an open file' cmp - "$WORK/t0" < <(exec 4<"$mnt/raw/t0"; cat <&4)
check 'moved: t0' cmp "$mnt/raw/t0" "$WORK/t0"
check 'moved: t1' cmp "$mnt/raw/t1" "$WORK/t1"
equal 'moved: one line' "$(lines "$seen")" 5
exec 3<&-

# A header that does not fit its box: found by a file that is open, and by a new one.
exec 3<"$mnt/raw/t0"
touched spoil "$source"
fails 'spoilt: an open file' 'Input/output error' cat <&3
fails 'spoilt: t0' 'Input/output error' cat "$mnt/raw/t0"
check 'spoilt: t1' cmp "$mnt/raw/t1" "$WORK/t1"
check 'spoilt: damage names it' grep -q '^t0: 8192 of 8192 bytes are lost' "$mnt/.ckptfs/damage"
fails 'spoilt: check --full finds it' 'EIO' "$CKPTFS" check --full "$source"
touched back "$source"
check 'back: an open file' cmp - "$WORK/t0" <&3
check 'back: t0' cmp "$mnt/raw/t0" "$WORK/t0"
exec 3<&-

# One bit of an element.
touched flip "$source"
fails 'a flipped bit: check --full' 'CRC-32' "$CKPTFS" check --full "$source"
check 'a flipped bit: check' "$CKPTFS" check "$source"
touched back "$source"

chmod 640 "$source/.metadata"
ls "$mnt/raw" >/dev/null
fails 'chmod of .metadata: no other save' '' grep -q 'a newer one' "$mnt/.ckptfs/status"
cp -p "$source/.metadata" "$WORK/metadata"
touched replace "$source/.metadata" t1 t2
check '.metadata with its old mtime: status' grep -q 'a newer one' "$mnt/.ckptfs/status"
equal '.metadata with its old mtime: the log' "$(lines 'saved anew')" 1
cp -p "$WORK/metadata" "$source/.metadata"
fails '.metadata is back: status' '' grep -q 'a newer one' "$mnt/.ckptfs/status"
unmounted

# Items of safetensors in a file of DCP.
source=$(fixture blobs_1)
mounted "$source" -o direct
mkdir "$WORK/blobs"
cp "$mnt/raw/short" "$mnt/raw/replicated" "$WORK/blobs"
touched blob "$source/__0_0.distcp"
for stem in short replicated; do
	check "moved in safetensors: $stem" cmp "$mnt/raw/$stem" "$WORK/blobs/$stem"
done
unmounted

# A commit changes the ctime of its own files, and no more is made of it.
source=$WORK/big
mounted "$source" -o write
for bytes in t1 t0; do
	check "commit of $bytes over t0" cp "$WORK/$bytes" "$mnt/raw/t0"
	check "$bytes: the written bytes" cmp "$mnt/raw/t0" "$WORK/$bytes"
	chmod 600 "$source/.metadata"
done
equal 'commits: no line' "$(lines "$seen")" 0
fails 'commits: no other save' '' grep -q 'a newer one' "$mnt/.ckptfs/status"
touched replace "$source/.metadata" t1 t2
fails 'another save with the old mtime: ESTALE' 'Stale file handle' cp "$WORK/t1" "$mnt/raw/t0"
unmounted

# The places of other kinds are known from their headers.
touched save "$WORK/two.safetensors"
mounted "$WORK/two.safetensors" -o direct
exec 3<"$mnt/raw/a" 4<"$mnt/raw/a"
chmod 640 "$WORK/two.safetensors"
check 'safetensors: chmod' cmp <(head -c 16 <&3) <(head -c 16 "$mnt/raw/a")
touched replace "$WORK/two.safetensors" '"b"' '"c"'
fails 'safetensors: another header' 'Stale file handle' cat "$mnt/raw/a"
fails 'safetensors: an open file' 'Stale file handle' cat <&4
equal 'safetensors: a line' "$(lines 'its header is not the one that was read')" 1
touched replace "$WORK/two.safetensors" '"c"' '"b"'
check 'safetensors: back' cmp <(cat "$mnt/raw/b") <(tail -c 16 "$WORK/two.safetensors")
exec 3<&- 4<&-
unmounted

source=$(fixture ranks_shards_1)
cp -p "$source/0.pth" "$WORK/file.pth"
"$CKPTFS" inspect "$WORK/file.pth" >"$WORK/list" 2>&1
mounted "$WORK/file.pth" -o direct
one=$(ls -U "$mnt/raw" | head -n 1)
cat "$mnt/raw/$one" >"$WORK/one"
chmod 640 "$WORK/file.pth"
check 'torch.save: chmod' cmp "$mnt/raw/$one" "$WORK/one"
touched replace "$WORK/file.pth" _rebuild _rebuilt
fails 'torch.save: another pickle' 'Stale file handle' cat "$mnt/raw/$one"
fails 'torch.save: check --full' 'CRC-32' "$CKPTFS" check --full "$WORK/file.pth"
unmounted
done_testing
