# SPDX-License-Identifier: MIT
#
# A program that is in the middle of one large read and gets a signal (Ctrl-C)
# is gone; in `tests/run --all` within 100 ms, and the best of five counts, since other
# programs run too.
need python3

cat >reader.py <<'EOT'
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
fd = os.open(sys.argv[1], os.O_RDONLY)
buffer = bytearray(1 << 26)
os.write(1, b"go")
while True:
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.preadv(fd, [buffer], 0)
EOT
cat >interrupt.py <<'EOT'
import os, signal, subprocess, sys, time
best = 9
for attempt in range(int(sys.argv[2])):
    p = subprocess.Popen([sys.executable, "reader.py", sys.argv[1]],
                         stdout=subprocess.PIPE)
    p.stdout.read(2)
    time.sleep(0.005 + 0.007 * attempt)
    start = time.monotonic()
    p.send_signal(signal.SIGINT)
    p.wait()
    best = min(best, time.monotonic() - start)
    assert p.returncode == -signal.SIGINT
print(f"{best * 1000:.1f} ms")
if os.environ.get("CKPTFS_ALL"):
    sys.exit(best > 0.1)
EOT

python3 "$HERE/big.py" rows 1 4 16777216
python3 "$HERE/big.py" --columns columns 1 8 8388608 64
tries=$(cases CKPTFS_INTERRUPTS 1 5)
for source in rows columns; do
	options='rw direct'
	[ -n "${CKPTFS_ALL:-}" ] || [ $source = rows ] || options=direct
	for option in $options; do
		mounted "$WORK/$source" -o "$option"
		check "$source, $option" python3 interrupt.py "$mnt/raw/t0" "$tries"
		sed 's/^/# /' "$WORK/out"
		check "$source, $option: the bytes are right" \
			python3 "$HERE/big.py" --verify 0 "$mnt/raw/t0"
		unmounted
	done
done
done_testing
