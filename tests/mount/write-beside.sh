# SPDX-License-Identifier: MIT
#
# A commit does not wait for those who look at items on a slow source: no lock is
# held while a file is read. Nor does the end of a mount.
need python3 getfattr

source=$(fixture sample)
one=model.layers.0.attention.wk.weight
slow() { # slow COMMAND...: with mute.c before the daemon
	ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 LD_PRELOAD=$LIBMUTE_BIN "$@"
}

# Every read of a data file waits while there is the file `hold`: a commit that waits for one
# does not end.
MUTE_HOLD=$WORK/hold slow mounted "$source" -o write
check 'a commit beside those who look at items' python3 "$HERE/write-beside.py" \
	"$mnt" "$one" 8 "$WORK/hold"
pid=$(daemon)
unmounted
gone "$pid"

# The end of a mount does not wait for those who wait to look: that is a read of 2 s for
# each of the tensors.
MUTE_PREAD=2000 slow mounted "$source"
pid=$(daemon)
for file in "$mnt"/raw/*; do
	getfattr -n user.ckptfs.error "$file" >/dev/null 2>&1 &
done
sleep 0.5
kill -TERM "$pid"
gone "$pid"
result $? 'regression: the end of a mount beside those who look at items'
wait

check 'a checkpoint without a fault' "$CKPTFS" check "$source" --full
done_testing
