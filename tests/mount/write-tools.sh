# SPDX-License-Identifier: MIT
#
# Tools that write into a file of the mount: the tensor is replaced when the
# tool has ended, in every view; nothing else is, and it is still there after
# a mount of its own.
need python3 dd tee cmp sha256sum

sample_written

# replaced WHAT: both files have the bytes.
replaced() {
	check "$1: bytes" cmp raw.bin "$raw"
	check "$1: the other view" cmp full.npy "$npy"
}

# into WHAT COMMAND...: it writes raw.bin or full.npy.
into() {
	fresh
	check "$@"
	replaced "$1"
}

into 'cp' cp raw.bin "$raw"
into 'cp of a NumPy file' cp full.npy "$npy"
into 'cp -p' cp -p raw.bin "$raw"
into 'cp -a' cp -a raw.bin "$raw"
into 'cp --sparse=always' cp --sparse=always full.npy "$npy"
into 'cat >' sh -c 'cat raw.bin >"$1"' - "$raw"
into 'tee' sh -c 'tee "$1" <full.npy >tee.out' - "$npy"
into 'dd' dd if=raw.bin of="$raw" status=none
into 'dd with small blocks' dd if=full.npy of="$npy" bs=100 status=none
into 'dd conv=notrunc' dd if=raw.bin of="$raw" conv=notrunc status=none
into 'dd conv=fsync' dd if=raw.bin of="$raw" conv=fsync status=none
into 'dd oflag=direct' dd if=raw.bin of="$raw" oflag=direct bs=1M status=none
into 'dd of two halves, without truncation' sh -c '
	exec 3<>"$1"
	dd if=raw.bin bs=512 skip=1 seek=1 of=/dev/fd/3 conv=notrunc \
		status=none 2>/dev/null || true
	dd if=raw.bin bs=1024 count=1 conv=notrunc status=none >&3' - "$raw"
if command -v rsync >/dev/null; then
	into 'rsync --inplace' rsync --inplace --ignore-times raw.bin "$raw"
else
	skip 'rsync --inplace' 'no rsync'
fi
into 'truncate, then cp' sh -c '
	! truncate -s 0 "$1" 2>truncate.out && cp raw.bin "$1"' - "$raw"
into 'python, r+b' python3 -c '
import sys
with open(sys.argv[1], "r+b") as f:
    f.write(open("raw.bin", "rb").read())' "$raw"
into 'written backwards' python3 -c '
import os, sys
data = open("raw.bin", "rb").read()
fd = os.open(sys.argv[1], os.O_WRONLY)
for at in range(len(data) - 64, -1, -64):
    os.pwrite(fd, data[at:at + 64], at)
os.close(fd)' "$raw"
into 'fsync, and a second time' python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
for data in b"\1" * 1024, open("raw.bin", "rb").read():
    os.pwrite(fd, data, 0)
    os.fsync(fd)
    assert open(sys.argv[1], "rb").read() == data
os.close(fd)' "$raw"

zeros() {
	head -c "$size" /dev/zero >raw.bin
	head -c "$header" "$npy" >full.npy
	cat raw.bin >>full.npy
}
zeros
check 'cp --sparse=always of zeros behind a header' cp --sparse=always \
	full.npy "$npy"
replaced 'cp --sparse=always of zeros behind a header'

if find_numpy; then
	into 'numpy.save' "$NUMPY_PYTHON" -c '
import numpy, sys
numpy.save(sys.argv[1], numpy.load("full.npy"))' "$npy"
	into 'numpy.save in Fortran order' "$NUMPY_PYTHON" -c '
import numpy, sys
numpy.save(sys.argv[1], numpy.asfortranarray(numpy.load("full.npy")))' "$npy"
	into 'numpy.save, big-endian' "$NUMPY_PYTHON" -c '
import numpy, sys
numpy.save(sys.argv[1], numpy.load("full.npy").astype(">f4"))' "$npy"
	into 'dd conv=notrunc in Fortran order' "$NUMPY_PYTHON" -c '
import io, numpy, subprocess, sys
file = io.BytesIO()
numpy.save(file, numpy.asfortranarray(numpy.load("full.npy")))
subprocess.run(["dd", "of=" + sys.argv[1], "bs=100", "conv=notrunc", "status=none"],
               input=file.getvalue(), check=True)' "$npy"
	into 'python, r+b, Fortran order, big-endian' "$NUMPY_PYTHON" -c '
import numpy, sys
with open(sys.argv[1], "r+b") as f:
    numpy.save(f, numpy.asfortranarray(numpy.load("full.npy").astype(">f4")))' "$npy"
	synced_in_fortran_order() { # FROM: the first byte that is written again after fsync
		"$NUMPY_PYTHON" - "$npy" "$1" <<-'EOF'
			import io, numpy, os, sys
			file = io.BytesIO()
			numpy.save(file, numpy.asfortranarray(numpy.load('full.npy')))
			data, begin = file.getvalue(), int(sys.argv[2])
			fd = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
			os.write(fd, data)
			os.fsync(fd)
			os.pwrite(fd, data[begin:], begin)
			os.close(fd)
		EOF
	}
	into 'Fortran order, fsync, all again' synced_in_fortran_order 0
	fresh
	fails 'Fortran order, fsync, elements without their header' 'Invalid argument' \
		synced_in_fortran_order 128
	replaced 'Fortran order, fsync, elements without their header'
	for version in 1 2 3; do
		into "an npy header of version $version.0" "$NUMPY_PYTHON" -c '
import numpy, sys
array = numpy.load("full.npy")
with open(sys.argv[1], "wb") as f:
    numpy.lib.format.write_array(f, array, version=(int(sys.argv[2]), 0))' \
			"$npy" $version
	done
	into 'a long npy header, by a rename' python3 -c '
import os, sys
data = open("full.npy", "rb").read()
end = 10 + int.from_bytes(data[8:10], "little")
head = data[10:end - 1] + b" " * 384 + b"\n"
temporary = sys.argv[1] + "~"
with open(temporary, "wb") as f:
    f.write(data[:8] + len(head).to_bytes(2, "little") + head + data[end:])
os.rename(temporary, sys.argv[1])' "$npy"
	into 'a short npy header' python3 -c '
import sys
text = b"{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(16,16)}\n"
with open("full.npy", "rb") as f, open(sys.argv[1], "wb") as out:
    out.write(b"\x93NUMPY\1\0" + bytes([len(text), 0]) + text + f.read()[128:])
' "$npy"
	into 'ndarray.tofile' "$NUMPY_PYTHON" -c '
import numpy, sys
numpy.load("full.npy").tofile(sys.argv[1])' "$raw"
else
	skip 'numpy.save' 'no numpy'
fi

# One box of it.
box=$mnt/local/rank-2/$one.npy
rows=$(getfattr --only-values -n user.ckptfs.offset "$box" 2>/dev/null |
	tr -d '[' | cut -d, -f1)
head -c 128 "$box" >box.npy
head -c $(($(stat -c %s "$box") - 128)) /dev/urandom >>box.npy
before=$(sha256sum <"$mnt/local/rank-1/$one.npy")
check 'cp into a box' cp box.npy "$box"
check 'cp into a box: bytes' cmp box.npy "$box"
if [ -n "$rows" ]; then
	tail -c +129 box.npy >box.bin
	dd if="$raw" of=part.bin bs=64 skip="$rows" status=none \
		count=$(($(stat -c %s box.bin) / 64))
	check 'cp into a box: the tensor has it' cmp box.bin part.bin
fi
equal 'cp into a box: the others stay' \
	"$(sha256sum <"$mnt/local/rank-1/$one.npy")" "$before"
cp "$raw" raw.bin
cp "$npy" full.npy

check 'nothing else has changed' env -C "$mnt" sha256sum --quiet -c \
	"$WORK/others.sha256"
equal 'no fault is known' "$(grep -c '^damaged entries 0 ' \
	"$mnt/.ckptfs/damage")" 1
unmounted
check 'a checkpoint without a fault' "$CKPTFS" check "$source" --full

mounted "$source"
replaced 'mounted again'
check 'mounted again: the others' env -C "$mnt" sha256sum --quiet -c \
	"$WORK/others.sha256"
unmounted

# Dtypes that numpy lacks, as PyTorch and ml_dtypes name them. numpy.save() writes <f1 and <W4
# for ml_dtypes' float8_e5m2 and complex32.
mounted "$(fixture dtypes)" -o write
check 'names of dtypes' python3 - "$mnt" <<'EOF'
import errno, os, sys
mount, wrong = sys.argv[1], 0
for dtype, size, taken, refused in (
        ('float8_e5m2', 1, '<f1 |f1 |V1 <V1 |u1 float8_e5m2', '<f2 |i1 <W4'),
        ('complex32', 4, '<W4 |V4 <V4 <u4 complex32', '<f4 <W8 <f1'),
        ('bfloat16', 2, '|V2 <V2 <u2 bfloat16', '<f2 <f1'),
        ('float8_e4m3fn', 1, '|V1 <V1 |u1', '<f1'),
        ('float8_e5m2fnuz', 1, '|V1', '<f1'),
        ('complex64', 8, '<c8', '<W4 <W8'),
        ('float32', 4, '<f4', '<W4 <V4')):
    path, raw = f'{mount}/full/{dtype}.matrix.npy', f'{mount}/raw/{dtype}.matrix'
    for descr in (taken + ' ' + refused).split():
        text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': (3, 5), }}\n".encode()
        data, before, found = os.urandom(15 * size), open(raw, 'rb').read(), 0
        try:
            with open(path, 'wb') as f:
                f.write(b'\x93NUMPY\1\0' + len(text).to_bytes(2, 'little') + text + data)
        except OSError as e:
            found = e.errno
        want = 0 if descr in taken.split() else errno.EINVAL
        if found != want or open(raw, 'rb').read() != (before if want else data):
            wrong += 1
            print(f'{dtype}: {descr}: {errno.errorcode.get(found, found)}')
sys.exit(wrong > 0)
EOF
unmounted
done_testing
