#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Unusual metadata.pkl of torch_checkpointing: names, groups of ranks, files.
. "$(dirname "$0")/functions.sh"
need python3

python3 "$HERE/items-listed.py" "$WORK/made"
cd "$WORK/made" || exit
# values SOURCE NAME: the numbers of a tensor.
values() {
	"$CKPTFS" cat "$1" "raw/$2" | od -An -v -t f4 | xargs
}
# good SOURCE: nothing is damaged.
good() {
	check "$1: check" "$CKPTFS" check "$1"
	check "$1: check --full" "$CKPTFS" check --full "$1"
}

# Plain tensors, which the package lists as replicated, are compared by the sample.
fails 'other values on each rank' 'the ranks hold different values of equal shape' "$CKPTFS" cat differ raw/m.x
check 'other values on each rank: check warns' "$CKPTFS" check differ
equal 'other values on each rank: local/' "$("$CKPTFS" cat differ local/rank-1/m.x.npy | tail -c 8 | od -An -t f4 | xargs)" '2 3'

equal 'two items with one key' "$(values names a.b.c) $(values names a.b.c~2)" '0 1 2 3 10 11 12 13'
good names
equal 'two groups of ranks: the first' "$(values stages m.x)" '0 1 2 3'
equal 'two groups of ranks: a line of status' \
	"$("$CKPTFS" cat stages .ckptfs/status | grep -c '^tensors of several groups of ranks.*: 1, such as m.x')" 1
equal 'a rank outside of the mesh' "$(values outside m.x)" '0 1 2 3'
good outside
equal 'an item that is a tensor' "$(values bare u)" '0 1 2 3'
good bare
equal 'an item that some ranks have' "$(values some head.w)" '7 8'
good some
"$CKPTFS" check below >found 2>&1
equal 'a missing file' "$? $(grep -c 'is missing; rank_1/m.safetensors' found)" '1 1'
equal 'a file of another rank is not misplaced' "$(grep -c misplaced found)" 0

fails 'ranks in subdirectories, without metadata.pkl' 'without its metadata.pkl' "$CKPTFS" ls run/step-1
equal 'nor is it a step' "$("$CKPTFS" ls run | xargs)" .ckptfs
equal 'an unfinished save' "$("$CKPTFS" inspect run | grep -c '^tmp_step-2 .* a save that has not ended$')" 1
fails 'long groups of ranks' 'too many ranks in its groups' "$CKPTFS" check long
done_testing
