# SPDX-License-Identifier: MIT
#
# Every way to read a file gives the same bytes: pieces of any size at any
# place, seeks, vectors, mappings, copies within the kernel, with and without
# the page cache, from many threads at once.
need python3

for options in rw direct noxattr; do
	for name in shapes dtensor_columns; do
		mounted "$FIXTURES/$name" -o "$options"
		check "$name, $options" python3 "$HERE/read-forms.py" "$mnt" \
			"$FIXTURES/$name.sha256"
		unmounted
	done
done
python3 "$HERE/big.py" --columns columns 1 8 1048576 512
mounted "$WORK/columns"
sha256sum "$mnt/raw/t0" | sed "s|$mnt/||" >columns.sha256
check 'its bytes' python3 "$HERE/big.py" --verify 0 "$mnt/raw/t0"
check 'a tensor of many requests' python3 "$HERE/read-forms.py" "$mnt" \
	"$WORK/columns.sha256"
unmounted

# The files that views generate, with the bytes of sequential reads.
mounted "$FIXTURES/fsdp2"
(cd "$mnt" && sha256sum hf/* torch/* dcp/3/.metadata dcp/3/* sharded/dp=2,tp=2/rank-1/*weight* optim/by-id/0/* optim/param_groups.json f32/*weight*) >views.sha256
check 'files of hf/, torch/, dcp/, sharded/, optim/ and f32/' python3 "$HERE/read-forms.py" "$mnt" "$WORK/views.sha256"
unmounted

sed 's/^./x/' "$FIXTURES/shapes.sha256" >wrong.sha256
mounted "$FIXTURES/shapes"
fails 'other bytes than expected are found' 'sha256' \
	python3 "$HERE/read-forms.py" "$mnt" "$WORK/wrong.sha256"
unmounted
done_testing
