# SPDX-License-Identifier: MIT
# -o patch: unwritten bytes keep their contents. Without truncation any part of a file may be
# written, in any number of pieces.
need python3 dd cmp

source=$(fixture sample)
one=model.layers.0.attention.wq.weight # 16 x 16 float32, 4 ranks
raw=$mnt/raw/$one
npy=$mnt/full/$one.npy

fails 'without write' 'only with write' "$CKPTFS" mount "$source" "$mnt" -o patch
fails 'keep_unknown without write' 'only with write' \
	"$CKPTFS" mount "$source" "$mnt" -o keep_unknown
fails 'with commit=manual' 'commit=close' "$CKPTFS" mount "$source" "$mnt" \
	-o write,patch,commit=manual

mounted "$source" -o write,patch
cp "$raw" want
cp "$mnt/raw/model.norm.weight" norm
patch() { # FROM COUNT: writes random bytes to the file and to the expected contents
	head -c "$2" /dev/urandom >piece
	dd if=piece of=want bs=1 seek="$1" conv=notrunc status=none
	dd if=piece of="$raw" bs="$2" seek="$1" oflag=seek_bytes conv=notrunc \
		status=none
}
check 'one element' patch 512 4
check 'one element: bytes' cmp "$raw" want
check 'the first bytes' patch 0 3
check 'the last bytes' patch 1021 3
check 'over boxes of two ranks' patch 200 700
check 'bytes' cmp "$raw" want
check 'the other view' cmp <(tail -c 1024 "$npy") want

scattered() {
	python3 - "$raw" want <<-'EOF'
		import os, random, sys
		random.seed(5)
		files = [os.open(path, os.O_RDWR) for path in sys.argv[1:]]
		for _ in range(40):
		    at, data = random.randrange(1000), random.randbytes(24)
		    for fd in files:
		        os.pwrite(fd, data, at)
		for fd in files:
		    os.fsync(fd)  # later pieces patch the committed contents
		for fd in files:
		    os.pwrite(fd, b'after', 333)
		    os.close(fd)
	EOF
}
check 'pieces, fsync, another piece' scattered
check 'pieces: bytes' cmp "$raw" want
check 'an element of an array' python3 - "$npy" want <<'EOF'
import sys
with open(sys.argv[1], 'r+b') as f, open(sys.argv[2], 'r+b') as want:
    f.seek(-1024 + 16, 2)
    f.write(b'ABCD')
    want.seek(16)
    want.write(b'ABCD')
EOF
check 'an element: bytes' cmp "$raw" want
box=$(find "$mnt/local/rank-1" -name "$one*" | head -n 1)
tail -c +129 "$box" >box.before
check 'a box' python3 -c 'import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(128)
    f.write(b"wxyz")' "$box"
equal 'a box: bytes' "$(tail -c +129 "$box" | head -c 4)" wxyz
check 'a box: all else' cmp <(tail -c +133 "$box") <(tail -c +5 box.before)
cp "$raw" want

# Pieces in descending order: in ascending order each piece would shift the data after it.
scatter() {
	python3 "$HERE/big.py" "$WORK/big" 1 1 4194304 && mkdir big.mnt &&
		"$CKPTFS" mount "$WORK/big" big.mnt -o write,patch &&
		timeout 300 python3 - <<-'EOF'
			import os
			fd = os.open('big.mnt/raw/t0', os.O_RDWR)
			for at in range(0, 1 << 22, 64):
			    os.pwrite(fd, b'1234', at)
			os.close(fd)
			data = open('big.mnt/raw/t0', 'rb').read()
			assert all(data[at:at + 4] == b'1234' and
			           data[at + 8:at + 16] == (at // 8 + 1).to_bytes(8, 'little')
			           for at in range(0, 1 << 22, 64))
		EOF
}
check 'many pieces' scatter
"$CKPTFS" umount big.mnt
fails 'too long' 'File too large' dd if=piece of="$raw" bs=700 seek=1000 \
	oflag=seek_bytes conv=notrunc
fails 'truncated: not whole' 'Invalid argument' cp norm "$raw"
fails 'another header' 'Invalid argument' python3 -c 'import sys
with open(sys.argv[1], "r+b") as f:
    f.write(open(sys.argv[2], "rb").read(100))' "$npy" \
	"$mnt/full/model.norm.weight.npy"
# The skipped bytes would be in C order.
in_fortran_order() {
	fails "$1" 'Invalid argument' python3 -c 'import sys
with open(sys.argv[1], "r+b") as f:
    head = f.read(128).replace(b"False", b"True ")
    f.seek(0)
    f.write(head + b"x" * int(sys.argv[2]))' "$npy" "$2"
}
in_fortran_order 'a header in Fortran order' 0
in_fortran_order 'a header in Fortran order, and a part' 700
check 'refused: nothing changed' cmp "$raw" want
unmounted
check 'no fault' "$CKPTFS" check "$source" --full

# Damaged bytes must not get a new checksum, which would hide the damage.
other=$mnt/raw/model.layers.0.attention.wk.weight
mounted "$source" -o write,patch
cp "$other" wk
unmounted
check 'a byte is damaged' python3 - wk "$source/__1_0.distcp" <<'EOF'
import sys
part = open(sys.argv[1], 'rb').read()[256:512]  # of rank 1
with open(sys.argv[2], 'r+b') as f:
    at = f.read().index(part) + 100
    f.seek(at)
    f.write(bytes([part[100] ^ 1]))
EOF
mounted "$source" -o write,patch
fails 'damaged bytes' 'Input/output error' dd if=piece of="$other" bs=4 \
	count=1 conv=notrunc
check 'damaged bytes: the log names the file' grep -q \
	'bytes that were not written are damaged: __1_0.distcp: .*CRC-32' \
	"$mnt/.ckptfs/log"
unmounted
fails 'damaged bytes: check finds them' '' "$CKPTFS" check "$source" --full
mounted "$source" -o write,patch
check 'damaged bytes: all are written' cp wk "$other"
unmounted
check 'all are written: no fault' "$CKPTFS" check "$source" --full

# Lost bytes cannot be kept.
rm "$source/__2_0.distcp"
mounted "$source" -o write,patch
other=$mnt/raw/model.layers.0.attention.wv.weight
fails 'a shard is missing' 'No data available' dd if=piece of="$other" bs=4 \
	count=1 conv=notrunc
check 'a shard is missing: the log says so' grep -q \
	'bytes that were not written: No data' "$mnt/.ckptfs/log"
unmounted
mounted "$source" -o write
fails 'without patch' 'Invalid argument' dd if=piece of="$mnt/raw/model.norm.weight" \
	bs=4 count=1 conv=notrunc
unmounted
done_testing
