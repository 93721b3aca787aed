# SPDX-License-Identifier: MIT
#
# What a daemon has of its caller: no open file, no lock, no pipe, no
# directory; and that it lives with few descriptors of its own.
need flock python3

source=$FIXTURES/plain
one=$(stems plain | head -n 1)

check 'mount under a lock' \
	flock "$WORK/lock" "$CKPTFS" mount "$source" "$mnt"
check 'regression: the lock is free when the mount command ends' \
	flock -n "$WORK/lock" true
unmounted
check 'regression: a pipe to the mount command ends with it' timeout 100 \
	bash -c '"$1" mount "$2" "$3" 5>&1 | cat' - "$CKPTFS" "$source" "$mnt"
pid=$(daemon)
equal 'directory' "$(readlink "/proc/$pid/cwd")" /
equal 'standard descriptors' \
	"$(readlink "/proc/$pid/fd/0" "/proc/$pid/fd/1" "/proc/$pid/fd/2" |
		sort -u)" /dev/null
equal 'session of its own' "$(ps -o sid= -p "$pid" | xargs)" "$pid"
unmounted

check 'regression: standard descriptors that are closed' timeout 100 \
	bash -c '"$1" mount "$2" "$3" 0<&- 1>&- 2>&-' - "$CKPTFS" "$source" \
	"$mnt"
check 'with them closed: served' cat "$mnt/full/$one.npy"
unmounted
"$CKPTFS" inspect "$source" >&- 2>"$WORK/err"
equal 'no standard output: exit status' $? 2

# 400 shards, of which not even half may be open.
python3 -c '
import json, sys
json.dump([{"key": f"t{i}", "rows": 1,
            "files": [f"f{4 * i + j}" for j in range(4)]}
           for i in range(100)], sys.stdout)' |
	python3 "$HERE/odd.py" "$WORK/shards"
check 'few descriptors: mounts' bash -c 'ulimit -n 128 && "$@"' - \
	"$CKPTFS" mount "$WORK/shards" "$mnt"
check 'regression: more shards than descriptors' cat "$mnt"/raw/*
equal 'few descriptors: bytes' "$(cat "$mnt"/raw/* | wc -c)" 25600
unmounted
done_testing
