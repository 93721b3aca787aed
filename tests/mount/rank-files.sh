# SPDX-License-Identifier: MIT
#
# Files of many ranks: a mount has the pickle of one of them at a time. 32 of them, of 1,000 DTensors
# each, took 66 MB while all were kept.
need python3

mkdir ranks
python3 "$HERE/rank-files.py" 32 1000 ranks
mounted ranks
equal 'all tensors are there' "$(ls -U "$mnt/raw" | wc -l)" 1000
python3 -c 'import struct, sys
for rank in range(32):
    sys.stdout.buffer.write(struct.pack("<f", rank) * 4)' >expected
check 'each rank has its row' cmp "$mnt/raw/layers.999.weight" expected
equal 'and shows it' "$(ls -U "$mnt/local" | wc -l)" 32
peak=$(sed -n 's/^VmHWM:\t *\([0-9]*\) kB/\1/p' "/proc/$(daemon)/status")
echo "# $(cat ranks/* | wc -c) bytes: $peak KiB"
# ASan keeps freed memory, and has its own tables.
most=$((32 << 10))
! grep -q -a __asan_init "$CKPTFS" || most=$((512 << 10))
check 'memory' [ "$peak" -lt "$most" ]
unmounted

# Comparing the parts of ranks takes as long as reading them; the mount must not wait for it.
mkdir large
python3 "$HERE/rank-files.py" --whole $((64 << 30)) large
mounted large
for _ in 1 2 3; do
	getfattr -n user.ckptfs.replicas_differ "$mnt/raw/w" >/dev/null 2>&1 &
done
sleep 0.5
check 'regression: beside a comparison error is answered' \
	sh -c "timeout 100 getfattr -n user.ckptfs.error $mnt/raw/w 2>&1 | grep -q 'No such attribute'"
kill -9 $(jobs -p)
wait
result 0 'regression: who compares can be killed'
getfattr -n user.ckptfs.replicas_differ "$mnt/raw/w" >/dev/null 2>&1 &
sleep 0.5
pid=$(daemon)
kill -TERM "$pid"
gone "$pid"
result $? 'regression: the end of a mount beside a comparison'
wait
done_testing
