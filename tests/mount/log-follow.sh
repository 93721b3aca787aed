# SPDX-License-Identifier: MIT
# `ckptfs log` prints the log of a mount; with -f it follows it. Each line is printed once,
# also when new lines replace the oldest ones.
need python3

source=$(fixture plain)
one=$(stems plain | head -n 1)
mounted "$source" -o write
fails 'a refused write' 'Invalid argument' cp "$source/.metadata" \
	"$mnt/full/$one.npy"
check 'log: what cp -r copies' grep -qx 'ckptfs: note: cp -r of the mount copies the data once for each of full raw local hf torch sharded dcp f32 files; copy full and objects, or use: ckptfs cp -r SRC DEST' "$mnt/.ckptfs/log"
check 'log: why' grep -q "^ckptfs: $one: .*; the tensor stays as it was\$" \
	<<<"$("$CKPTFS" log "$mnt")"
equal 'log: all of it' "$("$CKPTFS" log "$mnt")" "$(cat "$mnt/.ckptfs/log")"
fails 'log of no mount' 'not the mount point' "$CKPTFS" log "$source"
fails 'log: no operand' usage "$CKPTFS" log
fails 'log: a full disk is told' 'No space left' \
	bash -c '"$1" log "$2" >/dev/full' - "$CKPTFS" "$mnt"
unmounted

mounted "$source" -o views=full+objects
equal 'log: cp -r copies the data once' "$(grep -c 'cp -r' "$mnt/.ckptfs/log")" 0
unmounted

# With -o debug each request is logged, so that the log is long. The kernel gives requests
# even numbers.
# names COUNT [LINES]: looks up missing files, and waits every 400 lookups until the follower
# has reached the end of the log.
names() {
	python3 -c '
import os, re, sys, time
def last(path):
    with open(path, errors="replace") as f:
        numbers = re.findall("^ckptfs: (?:dev )?unique: ([0-9]+), opcode.*\n", f.read()[-20000:], re.M)
    return int(numbers[-1]) if numbers else 0
mnt, count, lines = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
for i in range(count):
    try:
        os.stat(f"{mnt}/full/{time.monotonic_ns()}")
    except FileNotFoundError:
        pass
    if lines and i % 400 == 399:
        end, until = last(f"{mnt}/.ckptfs/log"), time.monotonic() + 60
        while last(lines[0]) < end:
            if time.monotonic() > until:
                sys.exit("the follower does not come to the end of the log")
            time.sleep(0.01)' "$mnt" "$@"
}
numbers() {
	sed -n 's/^ckptfs: \(dev \)\{0,1\}unique: \([0-9]*\), opcode.*/\2/p' "$@"
}
# come: waits until the follower has printed the present log.
come() {
	local last
	last=$("$CKPTFS" log "$mnt" | numbers | tail -n 1)
	comes has_come
}
has_come() {
	[ "$(numbers "$WORK/lines" | tail -n 1)" -ge "$last" ]
}

mounted "$source" -o debug
"$CKPTFS" log -f "$mnt" >"$WORK/lines" 2>"$WORK/errors" &
follower=$!
check '-f: keeps up' names 12000 "$WORK/lines"
check '-f: the last line comes' come
check '-f: the ring has turned over' grep -q '^\[[0-9]* bytes of older' \
	<<<"$("$CKPTFS" log "$mnt")"
numbers "$WORK/lines" | sort -n >"$WORK/numbers"
check '-f: every line once' cmp "$WORK/numbers" \
	<(seq 2 2 "$(tail -n 1 "$WORK/numbers")")
check '-f: as many as were asked for' \
	test "$(wc -l <"$WORK/numbers")" -ge 12000
equal '-f: nothing is missing' "$(cat "$WORK/errors")" ''

stop "$follower"
names 12000
kill -CONT "$follower"
check '-f: slower than the log: goes on' come
check '-f: slower than the log: reports it' grep -q 'bytes are missing here' \
	"$WORK/errors"
numbers "$WORK/lines" | sort -n >"$WORK/numbers"
check '-f: slower than the log: no line twice' sort -c -n -u "$WORK/numbers"
check '-f: does not keep the mount busy' "$CKPTFS" umount "$mnt"
wait "$follower"
equal '-f: ends with the mount' $? 0

mounted "$source" -o debug
pid=$(daemon)
timeout -s KILL 300 "$CKPTFS" log -f "$mnt" >"$WORK/until" 2>&1 &
follower=$!
check '-f: follows until then' comes test -s "$WORK/until"
kill -KILL "$pid"
wait "$follower"
equal '-f: ends with the daemon' $? 0
unmounted
done_testing
