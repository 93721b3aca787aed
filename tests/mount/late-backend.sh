# SPDX-License-Identifier: MIT
#
# Remote files, whose mover answers later, with errors, or never: the same bytes or an
# error; no thread of the mount waits for it; an open or a direct read that is
# interrupted is EINTR, what fills the page cache waits; the mount ends.
need python3 setsid

sample=$FIXTURES/sample
one=model.layers.0.attention.wk.weight
# late MSEC [OPTIONS]: mounts with it.
late() {
	rm -f said
	setsid "$LATE_BIN" "$1" "$sample" "$mnt" "${2-}" >said 2>err &
	pid=$!
	timeout 10 sh -c 'until grep -q ready said; do sleep 0.02; done' ||
		{ cat err; result 1 'it is mounted'; done_testing; }
}
# gone_in SECONDS
gone_in() {
	timeout "$1" tail --pid="$pid" -f /dev/null
}
sums() { (cd "$mnt" && find full raw local objects -type f | LC_ALL=C sort |
	xargs -d '\n' sha256sum); }

mounted "$sample"
sums >want
unmounted
late 20
sums >have
check 'the same bytes, whatever the view' cmp want have
check 'a report' grep -q '^kind: dcp' "$mnt/.ckptfs/status"
cat >many.py <<'EOT'
import os, sys, threading, time
names = [f"{sys.argv[1]}/raw/{n}" for n in os.listdir(sys.argv[1] + "/raw")][:32]
def read(name):
    fd = os.open(name, os.O_RDONLY | os.O_DIRECT)
    os.preadv(fd, [bytearray(64)], 0)
threads = [threading.Thread(target=read, args=(n,)) for n in names]
begin = time.monotonic()
for t in threads: t.start()
for t in threads: t.join()
took = time.monotonic() - begin
print(f"{took * 1000:.0f} ms for {len(names)} reads of {int(sys.argv[2])} ms")
sys.exit(took > len(names) * float(sys.argv[2]) / 1000 / 4)
EOT
umount "$mnt"
gone_in 5
result $? 'it ends'

# What opens and what reads waits, each once.
late 200
check 'requests that wait keep no thread' python3 many.py "$mnt" 400
sed 's/^/# /' "$WORK/out"
umount "$mnt"
gone_in 5

cat >errors.py <<'EOT'
"""errors.py MOUNT WANT: each read is EIO, or has the right bytes."""
import os, sys
good = bad = 0
want = dict(line.split("  ", 1)[::-1] for line in open(sys.argv[2]).read().splitlines())
import hashlib
for name in want:
    for attempt in range(3):
        try:
            data = open(f"{sys.argv[1]}/{name}", "rb").read()
        except OSError as e:
            assert e.errno == 5, e
            bad += 1
            continue
        assert hashlib.sha256(data).hexdigest() == want[name], name
        good += 1
print(good, "right,", bad, "EIO")
sys.exit(not good or not bad)
EOT
LATE_ERROR=5 late 0
check 'each fifth move fails: EIO or the right bytes' python3 errors.py "$mnt" want
sed 's/^/# /' "$WORK/out"
umount "$mnt"
gone_in 5

# What could not be fetched while it was mounted is asked for again.
LATE_EARLY=1 late 0
check 'regression: values that could not be fetched at first' sh -c \
	"cat '$mnt'/objects/*.json >values && [ -s values ] && ls -l '$mnt/objects'"
fails 'regression: that an item is remote is no damage' 'No such attribute' \
	getfattr -n user.ckptfs.error --absolute-names \
	"$(find "$mnt/objects" -name '*.pt' | head -n 1)"
umount "$mnt"
gone_in 5
fails 'option write is refused' 'cannot be written' \
	"$LATE_BIN" 0 "$(fixture sample)" "$mnt" write

# One of four parts of each tensor is remote, and its bytes never come.
python3 "$HERE/big.py" rows 1 4 4194304
plain=$sample sample=$WORK/rows
LATE_REMOTE=first LATE_NEVER=bulk late 0
size=$(stat -c %s "$mnt/raw/t0")
for i in 0 1 2 3 4 5 6 7 8 9 10 11; do
	dd if="$mnt/raw/t0" of=/dev/null bs=262144 count=1 skip=$i \
		status=none 2>/dev/null &
	echo $! >>readers
done
sleep 0.5
check 'regression: many that wait keep nobody from what is here' \
	timeout 5 dd if="$mnt/raw/t0" of=/dev/null bs=65536 iflag=skip_bytes \
	skip=$((size / 2)) count=16
cat >direct.py <<'EOT'
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
import mmap
os.preadv(fd, [mmap.mmap(-1, 1 << 20)], 0)
EOT
python3 direct.py "$mnt/raw/t0" &
reader=$!
sleep 0.5
kill -9 $reader
begin=$(date +%s%N)
wait $reader 2>/dev/null
[ $((($(date +%s%N) - begin) / 1000000)) -lt 500 ]
result $? 'regression: who reads with O_DIRECT can be killed'
kill -9 $(cat readers)
wait $(cat readers) 2>/dev/null
umount "$mnt" || umount -l "$mnt"
gone_in 5
result $? 'it ends after they are killed'
sample=$plain

LATE_NEVER=1 late 0
(cd "$mnt" && timeout 5 find . -type f -size +0 -printf '%p %s\n' |
	grep -v '\.ckptfs/' | LC_ALL=C sort) >never
check 'no reply: names, sizes and reports are there' sh -c \
	"[ -s never ] && timeout 5 cat '$mnt'/.ckptfs/st* '$mnt'/.ckptfs/shards/* >reports &&
	timeout 5 cat '$mnt'/.ckptfs/[!s]* >reports &&
	timeout 5 cat '$mnt'/objects/*.json >values && [ -s values ]"
timeout -s INT 1 cat "$mnt/raw/$one" >got 2>/dev/null
equal 'an open that nobody answers ends with its program' $? 124
cat "$mnt/raw/$one" >/dev/null 2>&1 &
reader=$!
sleep 0.3
kill -9 $reader
begin=$(date +%s%N)
wait $reader 2>/dev/null
[ $((($(date +%s%N) - begin) / 1000000)) -lt 500 ]
result $? 'a program that is killed while it opens is gone'
for i in 1 2 3 4 5 6 7 8 9; do
	cat "$mnt/raw/$one" >/dev/null 2>>err3 &
done
sleep 0.3
kill -TERM "$pid"
gone_in 5
result $? 'it ends while opens are on the way'
wait
equal 'who was opening hears of it' "$(wc -l <err3)" 9
mounted "$sample"
(cd "$mnt" && find . -type f -size +0 -printf '%p %s\n' | grep -v '\.ckptfs/' |
	LC_ALL=C sort) >always
unmounted
check 'the sizes are those of a mount of local files' cmp always never

cat >wait.py <<'EOT'
"""wait.py FILE stops|goes-on: what becomes of a read that gets a signal."""
import os, signal, sys, time
name, then = sys.argv[1:3]
class Came(Exception): pass
def handler(*_):
    if then == "stops": raise Came
signal.signal(signal.SIGALRM, handler)
if then == "error":
    os.open = lambda name, _: os.getxattr(name, "user.ckptfs.error")
if then in ("open", "error"):
    then = "stops"
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    begin = time.monotonic()
try:
    fd = os.open(name, os.O_RDONLY)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    begin = time.monotonic()
    got = len(os.read(fd, 64))
except Came:
    got = "interrupted"
print(got, "early" if time.monotonic() - begin < 1 else "late")
EOT
# A read is a second move of a file that is open.
late 1000 direct
equal 'a direct read that a signal interrupts' \
	"$(python3 wait.py "$mnt/raw/$one" stops)" 'interrupted early'
equal 'an open that a signal interrupts' \
	"$(python3 wait.py "$mnt/raw/model.layers.1.attention.wk.weight" open)" \
	'interrupted early'
equal 'an attribute that a signal interrupts' \
	"$(python3 wait.py "$mnt/raw/model.layers.1.attention.wv.weight" error)" \
	'interrupted early'
fails 'regression: the log has nothing of it' '' \
	grep -q 'Interrupted' "$mnt/.ckptfs/log"
cat >pages.py <<'EOT'
"""pages.py FILE: write(2) of pages that a mover brings, while a signal comes."""
import mmap, os, signal, sys
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
fd = os.open(sys.argv[1], os.O_RDONLY)
pages = mmap.mmap(fd, 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
pages.madvise(mmap.MADV_RANDOM)
signal.setitimer(signal.ITIMER_REAL, 0.3)
out = os.open("pages", os.O_WRONLY | os.O_CREAT)
print(os.write(out, memoryview(pages)[:512]))
EOT
equal 'regression: a page of a file that is read directly waits' \
	"$(python3 pages.py "$mnt/raw/$one" 2>&1)" 512
python3 wait.py "$mnt/raw/$one" goes-on >out2 &
reader=$!
sleep 0.5
kill -9 $reader
begin=$(date +%s%N)
wait $reader 2>/dev/null
[ $((($(date +%s%N) - begin) / 1000000)) -lt 500 ]
result $? 'a program that is killed while it reads directly is gone'
cat "$mnt/raw/$one" >/dev/null 2>err2 &
reader=$!
sleep 0.3
kill -TERM "$pid"
gone_in 5
result $? 'it ends while a read is on the way'
wait $reader
result $(($? == 0)) 'who was reading hears of it'

late 1500
equal 'a read through the page cache waits' \
	"$(python3 wait.py "$mnt/raw/$one" goes-on)" '64 late'
umount -l "$mnt"
gone_in 5
result $? 'it ends after umount -l'
done_testing
