# SPDX-License-Identifier: MIT
# Other writers of the same checkpoint: a second mount, under any path of the directory, and a
# program that does not know ckptfs.
need python3 unshare

one=model.layers.0.attention.wk.weight
source=$(fixture sample)
mkdir other mnt2

# --- a second mount ---------------------------------------------------------------

mounted "$source" -o write
cp "$mnt/raw/$one" raw.bin
tr '\0-\377' '\1-\377\0' <raw.bin >new.bin
busy() { # busy WHAT COMMAND...
	fails "$1" "is mounted for writing already" "${@:2}"
	equal "$1: not mounted" "$(ls mnt2)" ''
}
busy 'a second writer' "$CKPTFS" mount "$source" "$WORK/mnt2" -o write
ln -s "$source" link
busy 'a second writer, by a link' \
	"$CKPTFS" mount "$WORK/link" "$WORK/mnt2" -o write
if unshare -m true 2>"$WORK/out"; then
	elsewhere() {
		unshare -m sh -ec 'mount --bind "$1" "$2"; shift 2; "$@"' - \
			"$source" "$WORK/other" "$@"
	}
	busy 'a second writer, in another namespace' elsewhere \
		"$CKPTFS" mount "$WORK/other" "$WORK/mnt2" -o write
	check 'a reader, in another namespace' elsewhere sh -ec '
		"$1" mount "$2" "$3"
		cmp "$3/raw/$4" "$5"
		"$1" umount "$3"' - \
		"$CKPTFS" "$WORK/other" "$WORK/mnt2" "$one" "$WORK/raw.bin"
	check 'refusals harm nobody: a commit' cp new.bin "$mnt/raw/$one"
	unmounted
	check 'the first is gone: the second writes' elsewhere sh -ec '
		"$1" mount "$2" "$3" -o write
		cp "$5" "$3/raw/$4"
		"$1" umount "$3"' - \
		"$CKPTFS" "$WORK/other" "$WORK/mnt2" "$one" "$WORK/raw.bin"
else
	skip 'another namespace' "$(cat "$WORK/out")"
	unmounted
fi
mounted "$source" -o write
check 'what he wrote is read' cmp raw.bin "$mnt/raw/$one"
unmounted

# --- another program ----------------------------------------------------------------

# No program may be run in between: its copy of the open file would be closed.
cat >staged.py <<'END'
import errno
import os
import shutil
import sys

file, new, source, what = sys.argv[1:]


def metadata():
    shutil.copy('.metadata', '.metadata.tmp')
    os.rename('.metadata.tmp', '.metadata')


def data():
    with open('__0_0.distcp', 'rb') as f:
        content = f.read()
    with open('__0_0.distcp', 'wb') as f:
        f.write(content)


def gone():
    os.rename('.metadata', 'kept')


def nothing():
    pass


with open(new, 'rb') as f:
    content = f.read()
os.chdir(source)
fd = os.open(file, os.O_WRONLY | os.O_TRUNC)
os.write(fd, content)
globals()[what]()
try:
    os.close(fd)
    print(0)
except OSError as e:
    print(errno.errorcode[e.errno])
END
# foreign WHAT HOW [WORD]: it is done while a tensor is staged; the log has WORD.
foreign() {
	local before what=${3:-changed}
	rm -rf "$source"
	fixture sample >/dev/null
	before=$(cd "$source" && sha256sum __*)
	mounted "$source" -o write
	equal "$1" "$(python3 staged.py "$mnt/raw/$one" "$WORK/new.bin" \
		"$source" "$2")" ESTALE
	check "$1: the log says so" grep -q \
		"$one: not saved: .* was $what by somebody else" \
		"$mnt/.ckptfs/log"
	equal "$1: his files are intact, ours are gone" \
		"$(cd "$source" && sha256sum __*)" "$before"
	fails "$1: and later" 'Stale file handle' cp raw.bin "$mnt/raw/$one"
	equal "$1: later: his files are intact, ours are gone" \
		"$(cd "$source" && sha256sum __*)" "$before"
}
mounted "$source" -o write
equal 'nobody else' "$(python3 staged.py "$mnt/raw/$one" "$WORK/new.bin" \
	"$source" nothing)" 0
unmounted
foreign 'another .metadata' metadata
check 'another .metadata: all is read' env -C "$mnt" \
	sha256sum --quiet -c "$FIXTURES/sample.sha256"
check 'another .metadata: status' grep -q \
	'^generation: .*the source has a newer one' "$mnt/.ckptfs/status"
unmounted
mounted "$source" -o write
check 'another .metadata: the next mount writes' cp new.bin "$mnt/raw/$one"
unmounted
foreign 'another data file' data
fails 'another data file: its boxes are stale' 'Stale file handle' \
	cat "$mnt/raw/$one"
check 'another data file: others are read' sh -c 'cd "$1" && for box in \
	local/rank-1/*; do cat "$box" || exit; done >"$2"' - "$mnt" "$WORK/out"
unmounted
foreign '.metadata is gone' gone removed
unmounted
done_testing
