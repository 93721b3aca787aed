# SPDX-License-Identifier: MIT
# Megatron's common.pt beside a checkpoint of DCP: the tree if common.pt or metadata.json,
# which identifies it, is damaged. The rest stays intact. Commits write the checkpoint but
# not that file.
need python3 getfattr
source=$(fixture megatron)
chmod -R u+w "$source"
one=decoder.layers.mlp.linear_fc1.weight
grep ' raw/' "$FIXTURES/megatron.sha256" | grep -v ' raw/common' >dcp.sha256
grep ' raw/common' "$FIXTURES/megatron.sha256" >common.sha256

beside() {
	sed -n 's/^not shown: //p' "$mnt/.ckptfs/status"
}
# damage: the report without its totals.
damage() {
	sed '/^damaged entries /d; /^items checked /d' "$mnt/.ckptfs/damage"
}
good() {
	(cd "$mnt" && sha256sum --quiet -c "$WORK/$1.sha256")
}
again() {
	rm -rf "$source/common.pt" "$source/metadata.json"
	cp "$FIXTURES"/megatron/common.pt "$FIXTURES"/megatron/metadata.json "$source"
	chmod u+w "$source"/*
}

# lost WHAT TEXT: common.pt is lost as a whole, with one line of damage.
lost() {
	mounted "$source"
	check "$1: the rest is good" good dcp
	equal "$1: none of it is shown" "$(find "$mnt" -path "$mnt/files" -prune -o -name 'common.*' -print | head -n 3)" ''
	equal "$1: lines of damage" "$(damage | wc -l)" 1
	check "$1: it says why" grep -qE "$2.*; common.pt" "$mnt/.ckptfs/damage"
	unmounted
	"$CKPTFS" check "$source" >found 2>&1
	equal "$1: status of check" $? 1
	check "$1: check says why" grep -qE "$2.*; common.pt" found
	again
}
# other WHAT: common.pt is not treated as a file of Megatron.
other() {
	mounted "$source"
	check "$1: the rest is good" good dcp
	equal "$1: none of it is shown" "$(find "$mnt" -path "$mnt/files" -prune -o -name 'common.*' -print | head -n 3)" ''
	equal "$1: status" "$(beside)" common.pt
	equal "$1: damage" "$(damage)" ''
	unmounted
	again
}

mounted "$source"
equal 'status: nothing is left out' "$(beside)" ''
equal 'an alias' "$(getfattr --absolute-names --only-values -n user.ckptfs.alias_of "$mnt/raw/common.again")" common.all
equal 'its bytes are of use' "$("$CKPTFS" inspect "$source" | grep -o 'dead bytes.*')" 'dead bytes 0'
unmounted

truncate -s 1000 "$source/common.pt"
lost cut 'end'
: >"$source/common.pt"
lost 'of no bytes' 'an empty file'
printf 'X' | dd of="$source/common.pt" bs=1 seek=64 conv=notrunc 2>/dev/null
lost 'a byte of its pickle' ''
printf 'no archive at all' >"$source/common.pt"
lost 'no archive' 'not made by torch.save'
rm "$source/common.pt"
mkdir "$source/common.pt"
lost 'a directory' 'regular file'
rm "$source/common.pt"
ln -s ../outside.pt "$source/common.pt"
cp "$FIXTURES/megatron/common.pt" outside.pt
lost 'a link that leads out' ''
ln -sf nothing "$source/common.pt"
lost 'a link to nothing' 'a link that is not followed'
python3 - "$source/common.pt" "$WORK/ran" <<'P'
import os, pickle, sys, zipfile
class Run:
    def __reduce__(self):
        return os.system, ("touch " + sys.argv[2],)
with zipfile.ZipFile(sys.argv[1], "w") as file:
    file.writestr("archive/data.pkl", pickle.dumps({"iteration": 1, "x": Run()}, 2))
    file.writestr("archive/byteorder", "little")
    file.writestr("archive/version", "3\n")
P
lost 'a global that runs' 'system'
check 'a global that runs: it did not' test ! -e ran

mkdir "$source/more"
mv "$source/common.pt" "$source/more/renamed"
ln -s more/renamed "$source/common.pt"
mounted "$source" -o shardlinks=beneath
check 'a link to a file of the directory' good common
unmounted
rm -r "$source/more" "$source/common.pt"
again

rm "$source/common.pt"
mounted "$source"
check 'without common.pt: the rest is good' good dcp
equal 'without common.pt: damage' "$(damage)" ''
unmounted
again
rm "$source/metadata.json"
other 'without metadata.json'
echo '{"sharded_backend":"zarr"}' >"$source/metadata.json"
other 'another backend'
echo '{"sharded_backend":["torch_dist"]}' >"$source/metadata.json"
other 'a backend that is no text'
echo '{"sharded_backend":"torch_dist"' >"$source/metadata.json"
other 'metadata.json, cut'
echo '{"sharded_backend":"torch_dist","sharded_backend":"torch_dist"}' >"$source/metadata.json"
other 'metadata.json, a key twice'
rm "$source/metadata.json"
ln -s ../outside.json "$source/metadata.json"
cp "$FIXTURES/megatron/metadata.json" outside.json
other 'metadata.json, a link that leads out'
rm "$source/metadata.json"
mkdir "$source/metadata.json"
other 'metadata.json, a directory'

# An entry of .metadata with the same prefix stays. The new name has the same length.
python3 - "$source/.metadata" <<'P'
import sys
data = open(sys.argv[1], "rb").read()
open(sys.argv[1], "wb").write(data.replace(b"decoder.final_norm.weight", b"common.iteration".ljust(25, b"_")))
P
mounted "$source"
check 'a key of DCP that begins so' cat "$mnt/raw/common.iteration_________"
check 'beside entries of common.pt' good common
unmounted
cp "$FIXTURES/megatron/.metadata" "$source"

# --- writing
mounted "$source" -o write
before=$(sha256sum <"$source/common.pt") inode=$(stat -c '%i %y' "$source/common.pt")
fails 'a tensor of common.pt: not supported' 'not supported' cp "$mnt/raw/common.all" "$mnt/raw/common.view"
head -c 24 /dev/urandom >new
fails 'of the same size' 'not supported' dd if=new of="$mnt/raw/common.all" conv=notrunc
fails 'its NumPy file' 'not supported' dd if=new of="$mnt/full/common.all.npy" conv=notrunc
fails 'an object' '' dd if=new of="$mnt/objects/common.iteration.json" conv=notrunc
head -c "$(stat -c %s "$mnt/raw/$one")" /dev/urandom >fresh
check 'a tensor of DCP' dd if=fresh of="$mnt/raw/$one" conv=notrunc
check 'it is there' cmp fresh "$mnt/raw/$one"
check 'common.pt is shown as before' good common
equal 'and is the file that it was' "$(sha256sum <"$source/common.pt") $(stat -c '%i %y' "$source/common.pt")" \
	"$before $inode"
unmounted
mounted "$source"
check 'mounted again: it is there' cmp fresh "$mnt/raw/$one"
check 'mounted again: common.pt is as before' good common
equal 'mounted again: damage' "$(damage)" ''
unmounted
done_testing
