# SPDX-License-Identifier: MIT
#
# Shard maps of 100,000 tensors: names are listed without making a map, and sizes by making one at
# a time, within bounded memory.
need python3
python3 "$HERE/shard_maps.py" many source 100000
mounted source
dir=$mnt/.ckptfs/shards
# peak: KiB that the daemon has used at most.
peak() {
	sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$(daemon)/status"
}
before=$(peak)
equal 'names' "$(find "$dir" -name '*.svg' | wc -l)" 100000
check 'names need no map' test "$(($(peak) - before))" -lt 65536
equal 'sizes' "$(find "$dir" -name '*.svg' -size +1 -printf '%s\n' | wc -l)" 100000
check 'sizes need no more memory' test "$(($(peak) - before))" -lt 131072
file=$dir/model.layers.9999.part.9.weight.svg
equal 'the size of the last one' "$(stat -c %s "$file")" "$(wc -c <"$file")"
check 'all at once: the same bytes' sh -c 'cat "$1"/*.layers.99*.svg >mounted.svg' - "$dir"
unmounted
"$CKPTFS" ls source .ckptfs/shards >listed
equal 'without a mount: names' "$(sort -u listed | wc -l)" 100000
grep '[.]layers[.]99' listed | LC_ALL=C sort | sed 's,^,.ckptfs/shards/,' >paths
xargs "$CKPTFS" cat source <paths >offline.svg
equal 'without a mount: the same maps' "$(grep '^<svg' offline.svg | sort | sha256sum)" \
	"$(grep '^<svg' mounted.svg | sort | sha256sum)"
done_testing
