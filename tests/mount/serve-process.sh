# SPDX-License-Identifier: MIT
# The process that reads for a mount (`ckptfs serve`): its descriptors and privileges, its
# end together with the mount, and the mount without it.
need pgrep

source=$(fixture sample)
stems sample >names
filter=2
if ldd "$CKPTFS" | grep -q 'lib[a-z]*san'; then
	filter=0
fi

# The server processes of this test, identified by their source.
movers() {
	pgrep -f -- "serve --door ckptfs-[0-9a-f]* $source\$"
}

# no_movers SECONDS
no_movers() {
	for _ in $(seq $(($1 * 20))); do
		[ -n "$(movers)" ] || return 0
		sleep 0.05
	done
	return 1
}

# Mounts, and sets `pid`, the process of the mount, and `mover`, its server process.
begin() {
	mounted "$source" "$@"
	pid=$(daemon)
	mover=$(movers)
}

# unread: sets `one` to a tensor that was not read yet.
unread() {
	one=$(head -n 1 names)
	sed -i 1d names
}

# within SECONDS COMMAND...: exit status of the command, or 124 after the timeout.
within() {
	timeout -s KILL "$1" "${@:2}"
}

# --- descriptors and privileges ----------------------------------------------------------------

of() {
	sed -n "s/^$1:[[:space:]]*//p" "/proc/$mover"/task/*/status | sort -u
}

mkdir callers
touch callers/file
exec 7<callers/file 8>callers/lock
cd callers || exit 1
"$CKPTFS" mount -f "$source" "$mnt" >"$WORK/log" 2>&1 &
for _ in $(seq 100); do
	is_mounted && break
	sleep 0.05
done
cd "$WORK" || exit 1
exec 7<&- 8>&-
pid=$(daemon)
mover=$(movers)
check 'it serves' cat "$mnt/raw/$(head -n 1 names)"
equal 'there is one' "$(wc -w <<<"$mover")" 1
equal 'regression: its directory is not the caller'\''s' \
	"$(readlink "/proc/$mover/cwd")" /
equal 'nor are its descriptors' \
	"$(find "/proc/$mover/fd" -mindepth 1 -printf '%l\n' | grep callers)" ''
equal 'what else it has' "$(find "/proc/$mover/fd" -mindepth 1 -printf '%l\n' |
	sed "s|^$source/.*|FILE|; s|^$source\$|SRC|; s|:\[[0-9].*||" | sort -u |
	xargs)" '/dev/null /memfd:ckptfs (deleted) FILE SRC anon_inode:[eventfd] anon_inode:[signalfd] pipe socket'
equal 'a session of its own' "$(ps -o sid= -p "$mover" | xargs)" "$mover"
if [ "$(id -u)" = 0 ]; then
	for set in CapEff CapPrm CapBnd; do
		equal "$set" "$(of $set)" 0000000000000004
	done
	equal 'it passes on' "$(of CapInh) $(of CapAmb)" \
		'0000000000000000 0000000000000000'
	equal 'no_new_privs' "$(of NoNewPrivs)" 1
	equal 'system calls' "$(of Seccomp)" "$filter"
else
	skip 'capabilities' 'only root has something to give up'
fi
unmounted
check 'it ends with the mount' no_movers 5
wait

# --- however the mount ends -------------------------------------------------------

for signal in TERM INT KILL ABRT; do
	begin
	kill "-$signal" "$pid"
	check "SIG$signal: it ends" no_movers 5
	check "SIG$signal: so does the mount's process" gone "$pid"
	! is_mounted || umount -l "$mnt"
done

# At any moment of the start.
for part in 01 02 04 06 08 10 12 14 16 18 20 25 30; do
	timeout -s KILL "0.$part" "$CKPTFS" mount -f "$source" "$mnt" \
		>/dev/null 2>&1
	no_movers 5 || left="${left:-} $part"
	! is_mounted || umount -l "$mnt"
done 2>/dev/null
equal 'killed while it begins: nothing is left' "${left:-}" ''

# Repeated mounts: resources do not accumulate, and each mount starts.
for _ in 1 2 3 4 5 6 7 8 9 10; do
	begin
	unmounted
done
check 'mounted and unmounted at once: nothing is left' no_movers 5

# --- a mount without it --------------------------------------------------------------

# without SIGNAL
without() {
	begin
	unread
	check "$1: a read before" cat "$mnt/raw/$one"
	unread
	kill "-$1" "$mover"
	fails "$1: a read" 'Input/output error' within 10 cat "$mnt/raw/$one"
	unread
	fails "$1: the next" 'Input/output error' within 10 cat "$mnt/full/$one.npy"
	check "$1: names are there" within 5 ls -l "$mnt/raw"
	check "$1: reports are there" within 5 cat "$mnt/.ckptfs/status"
	check "$1: the mount is" is_mounted
	check "$1: umount" within 5 "$CKPTFS" umount "$mnt"
	fails "$1: unmounted" '' is_mounted
	check "$1: nothing is left" no_movers 8
	for _ in $(seq 160); do
		gone "$pid" && break
	done
	check "$1: the mount's process ends" gone "$pid"
}
without KILL
without STOP
without TERM

# A read in flight when the process ends.
begin
python3 "$HERE/big.py" rows 1 4 16777216
unmounted
source=$WORK/rows
begin
for _ in 1 2 3 4; do
	cat "$mnt/raw/t0" >/dev/null 2>>errors &
	echo $! >>readers
done
kill -KILL "$mover"
for reader in $(cat readers); do
	timeout -s KILL 10 tail --pid="$reader" -f /dev/null ||
		late="${late:-} $reader"
done
equal 'readers end with it' "${late:-}" ''
check 'umount after them' within 5 "$CKPTFS" umount "$mnt"
check 'nothing is left of them' gone "$pid"
source=$WORK/sample

# --- messages -----------------------------------------------------------------------

# refused WHAT TEXT ARGUMENT...: exit status 2 and one line.
refused() {
	within 8 "$CKPTFS" serve "${@:3}" >out 2>&1
	equal "$1: exit status" $? 2
	equal "$1: lines" "$(wc -l <out)" 1
	grep -qF -- "$2" out
	result $? "$1: $2"
	grep -qF -- "$2" out || show
}

nobody=ckptfs-$(printf '0123456789abcdef%.0s' 1 2 3)
long=$(printf 'x%.0s' $(seq 300))
refused 'no arguments' 'usage:'
refused 'two directories' 'usage:' --door "$nobody" "$source" "$source"
refused 'a mount of one that a mount has started' 'usage:' --door "$nobody" \
	--mount "$mnt" "$source"
refused 'it is to survive' 'usage:' --door "$nobody" --survive "$source"
refused 'an unknown option' 'unknown' --window "$source"
refused 'a bad -o' 'rw' --door "$nobody" -o rw "$source"
refused 'a door that is none' 'option --door' --door x "$source"
refused 'a name that is too long' 'option --door' --door "$long" "$source"
refused 'nobody behind it' 'the mount: Connection refused' --door "$nobody" \
	"$source"
# Only a rank may start a mount with --beside-rank.
fails 'nothing was handed over' 'nothing was handed over' within 8 \
	"$CKPTFS" mount -f --beside-rank "$source" "$mnt" 3<&- 4<&- 5<&- 6<&-
fails 'what was is none' 'nothing was handed over' within 8 \
	"$CKPTFS" mount -f --beside-rank "$source" "$mnt" 3</dev/null \
	4</dev/null 5</dev/null 6</dev/null
done_testing
