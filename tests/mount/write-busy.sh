# SPDX-License-Identifier: MIT
#
# Many programs that come while a tensor is being closed.
need python3

source=$(fixture sample)
mounted "$source" -o write
pid=$(daemon)
check 'whoever comes while a writer may be closing' timeout 60 python3 \
	"$HERE/write-busy.py" "$mnt" model.layers.0.attention.wk.weight
gone "$pid"
result $? 'the daemon ends'
check 'a checkpoint without a fault' "$CKPTFS" check "$source" --full
done_testing
