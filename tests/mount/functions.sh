# SPDX-License-Identifier: MIT
# Functions for the tests of this directory. A test states its expectations with check,
# fails and equal, and ends with done_testing.

count=0
failed=0
mnt=$WORK/mnt

# result STATUS WHAT: one line of TAP.
result() {
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		failed=1
	fi
}

# show: prints the output of the last command, after a failure.
show() {
	head -n 8 "$WORK/out" | cut -c1-300 | sed 's/^/# /'
}

# check WHAT COMMAND...: the command must succeed.
check() {
	local what=$1 status=0
	shift
	"$@" >"$WORK/out" 2>&1 || status=$?
	result "$status" "$what"
	[ "$status" -eq 0 ] || show
}

# fails WHAT TEXT COMMAND...: the command must fail and print TEXT (empty: any text).
fails() {
	local what=$1 text=$2 status=0
	shift 2
	"$@" >"$WORK/out" 2>&1 && status=1
	[ -z "$text" ] || grep -qF -- "$text" "$WORK/out" || status=1
	result "$status" "$what"
	[ "$status" -eq 0 ] || show
}

# equal WHAT GOT WANT
equal() {
	[ "$2" = "$3" ]
	result $? "$1"
	[ "$2" = "$3" ] || printf '# got  %.500q\n# want %.500q\n' "$2" "$3"
}

# fuse_for_all: gives all users access to /dev/fuse until the test ends.
fuse_for_all() {
	local mode
	mode=$(stat -c %a /dev/fuse)
	if [ "$mode" != 666 ]; then
		echo "chmod $mode /dev/fuse" >"$WORK.restore"
		chmod 666 /dev/fuse
	fi
}

skip_all() {
	if [ "${CI:-}" = true ]; then
		echo "1..1"
		echo "not ok 1 - skipped, which is not allowed here: $1"
		exit 1
	fi
	rm -f "${CKPTFS_TALLY:-}"
	echo "1..0 # SKIP $1"
	exit 0
}

# skip WHAT WHY: skips one result that this machine cannot give.
skip() {
	count=$((count + 1))
	if [ "${CI:-}" = true ]; then
		failed=1
		echo "not ok $count - $1: skipped, which is not allowed: $2"
	else
		echo "ok $count - $1 # SKIP $2"
	fi
}

done_testing() {
	echo "1..$count"
	exit $failed
}

# seed FIXED: the seed of a random test: CKPTFS_SEED; in `tests/run --all` a new one;
# else FIXED. Printed as a comment too.
seed() {
	local number=${CKPTFS_SEED:-}
	[ -n "$number" ] || number=${CKPTFS_ALL:+$(od -An -tu4 -N4 /dev/urandom | tr -d ' ')}
	[ -n "$number" ] || number=$1
	echo "# CKPTFS_SEED=$number" >&2
	echo "$number"
}

# cases NAME FEW MANY: how many cases a test has: the variable NAME; in `tests/run --all`
# MANY; else FEW.
cases() {
	local given=${!1:-}
	[ -n "$given" ] || given=${CKPTFS_ALL:+$3}
	echo "${given:-$2}"
}

# need PROGRAM...: skips the whole test if a program is missing.
need() {
	local program
	for program; do
		command -v "$program" >/dev/null || skip_all "no $program"
	done
}

# some PATH...: each CKPTFS_NTH-th of them, from the first one on; in `tests/run --all` all of
# them, or with CKPTFS_NTH from a random one on.
some() {
	local nth at=0
	nth=$(cases CKPTFS_NTH 7 1)
	[ -z "${CKPTFS_ALL:-}" ] || at=$((RANDOM % nth))
	[ "$nth" = 1 ] || echo "# each $nth-th, from number $at on" >&2
	while [ $((at += 1)) -le $# ]; do
		echo "${!at}"
		at=$((at + nth - 1))
	done
}

# each_fixture VIEW FUNCTION [NAME...]: mounts some() fixtures but the NAMEs, and calls FUNCTION
# FIXTURE for those that have a directory VIEW, which most of them must.
each_fixture() {
	local name all=() looked=0
	for name in "$FIXTURES"/*/; do
		name=$(basename "$name")
		[[ $name == should-fail* || $name == __py* || " many sharded_many ${*:3} " == *" $name "* ]] ||
			all+=("$name")
	done
	mapfile -t all < <(some "${all[@]}")
	for name in "${all[@]}"; do
		"$CKPTFS" mount "$FIXTURES/$name" "$mnt" 2>/dev/null || continue
		if [ -d "$mnt/$1" ]; then
			"$2" "$name"
			looked=$((looked + 1))
		fi
		unmounted
	done
	check 'most were looked at' test $((looked * 10)) -ge $((${#all[@]} * 7))
}

# in_memory: as root, the rest of the test runs in a directory in memory. For tests with many
# commits: the suite crash tests durability.
in_memory() {
	[ "$(id -u)" = 0 ] && mkdir fast && mount -t tmpfs none fast 2>"$WORK/out" || return 0
	WORK=$WORK/fast
	mnt=$WORK/mnt
	mkdir "$mnt"
	cd "$WORK" || exit
}

# fixture NAME: a copy that the test may change, for any owner of the original. Its data files
# are not newer than .metadata, even after a slow checkout of the repository.
fixture() {
	cp -a --no-preserve=ownership "$FIXTURES/$1" "$WORK/$1"
	[ ! -f "$WORK/$1/.metadata" ] || find "$WORK/$1" -name '*.distcp' \
		-newer "$WORK/$1/.metadata" -exec touch -r "$WORK/$1/.metadata" {} +
	echo "$WORK/$1"
}

# sample_written: mounts the fixture sample for writing. Sets `one`, the stem of a
# tensor with a box in each of four ranks; its files `raw` and `npy`, the `size`
# of its bytes and of its NumPy `header`; and `source`. others.sha256 has all
# files that do not show that tensor.
sample_written() {
	source=$(fixture sample)
	one=model.layers.0.attention.wk.weight
	mounted "$source" -o write
	raw=$mnt/raw/$one
	npy=$mnt/full/$one.npy
	size=$(stat -c %s "$raw")
	header=$(($(stat -c %s "$npy") - size))
	grep -vF "/$one" "$FIXTURES/sample.sha256" | grep -v "$one.npy" \
		>others.sha256
}

# new_bytes: new values for that tensor, with a zero byte so that editors detect binary data.
new_bytes() {
	head -c $((size - 1)) /dev/urandom
	printf '\0'
}

# fresh: writes new_bytes to raw.bin, and as a NumPy file to full.npy.
fresh() {
	new_bytes >raw.bin
	head -c "$header" "$npy" >full.npy
	cat raw.bin >>full.npy
}

is_mounted() {
	grep -q " ${1:-$mnt} fuse.ckptfs " /proc/self/mounts
}

# mounted SOURCE [ARGUMENT...]: mounts on $mnt, or ends the test.
mounted() {
	"$CKPTFS" mount "$1" "$mnt" "${@:2}" >"$WORK/out" 2>&1 && return
	result 1 "mount $1 ${*:2}"
	show
	done_testing
}

# unmounted: unmounts $mnt. On a busy machine the daemon may keep the checkpoint for longer
# than the command waits; then the command names the daemon.
unmounted() {
	local pid
	if "$CKPTFS" umount "$mnt" >"$WORK/out" 2>&1; then
		pid=$(sed -n 's/.*: unmounted, but its process \([0-9]*\) is still running.*/\1/p' "$WORK/out")
		[ -z "$pid" ] || gone "$pid"
		return
	fi
	result 1 'umount'
	show
	done_testing
}

# The daemon that serves $mnt.
daemon() {
	sed -n 's/^daemon: //p' "$mnt/.ckptfs/status"
}

# child PID NAME: the process of a daemon with this name.
child() {
	local child
	for child in $(cat /proc/"$1"/task/*/children); do
		[ "$(cat "/proc/$child/comm")" != "$2" ] || echo "$child"
	done
}

# comes COMMAND...: waits until the command succeeds, for at most a minute.
comes() {
	local end=$((SECONDS + 60))
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.02
	done
}

# gone PID: waits until the process and its open files are gone. A zombie is gone; an
# exiting process with a remaining thread is not.
gone() {
	comes is_gone "$1"
}
is_gone() {
	local state
	state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null)
	[ -n "$state" ] || return 0
	[[ $state = [ZX] ]] && [ "$(find "/proc/$1/task" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)" -le 1 ]
}

# stop PID: stops a process. kill(1) returns before all of its threads have stopped.
stop() {
	kill -STOP "$1"
	comes has_stopped "$1"
}
has_stopped() {
	! grep -qv '^State:[[:space:]]T' <(grep -h '^State:' /proc/"$1"/task/*/status)
}

# The build directory of the program.
build_directory() {
	local at
	at=$(dirname "$CKPTFS")
	while [ "$at" != / ] && [ ! -d "$at/meson-private" ]; do
		at=$(dirname "$at")
	done
	echo "$at"
}

# The stems of a fixture, from its table.
stems() {
	cut -f1 "$FIXTURES/$1.tensors.tsv"
}

# Sets NUMPY_PYTHON: the first python3 with numpy: in PATH, Debian's, or that of the tests
# with PyTorch.
find_numpy() {
	for NUMPY_PYTHON in python3 /usr/bin/python3 \
		"$HERE/../../.venv-torch-2.13.0/bin/python"; do
		"$NUMPY_PYTHON" -c 'import importlib.util as u; assert u.find_spec("numpy")' 2>/dev/null && return
	done
}

# Sets TORCH_PYTHON: the Python of the tests with PyTorch, or python3 if it has torch.
find_torch() {
	for TORCH_PYTHON in "$HERE/../../.venv-torch-2.13.0/bin/python" python3; do
		"$TORCH_PYTHON" -c 'import importlib.util as u; assert u.find_spec("torch")' 2>/dev/null && return
	done
	unset TORCH_PYTHON
	return 1
}
