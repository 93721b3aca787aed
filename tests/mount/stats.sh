# SPDX-License-Identifier: MIT
# .ckptfs/stats of a mount of one host, and `ckptfs stats`: counts of known reads, failed reads, a
# reset and who may do it, a run directory, and the report without a mount.
need jq python3 setpriv

source=$(fixture plain)
one=$(stems plain | head -n 1)
# field NAME: that member of stats, as JSON
field() {
	"$CKPTFS" stats "$mnt" --json | jq -c ".$1"
}

mounted "$source" -o direct,allow_other
file=$mnt/full/$one.npy
size=$(stat -c %s "$file")
equal 'members' "$(jq -c 'del(.wire_bytes, .copies, .waits, .cache_bytes, .restarts, .gpu_bytes, .rounds, .paths) | keys_unsorted' "$mnt/.ckptfs/stats")" '["read_bytes","file_bytes","errors","seconds"]'
equal 'nothing was read' "$(field read_bytes) $(field errors)" '0 {}'
cat "$file" "$file" >/dev/null
equal 'read_bytes' "$(field read_bytes)" $((2 * size))
equal 'file_bytes: one host' "$(field 'file_bytes | length')" 1
before=$(field 'file_bytes[]')
cat "$file" >/dev/null
data=$((size - 10 - $(od -An -tu2 -j8 -N2 "$file")))
equal 'file_bytes: the data, without the header of the file' "$(($(field 'file_bytes[]') - before))" $data
equal 'seconds is a number above 0' "$(field 'seconds > 0')" true
before=$(field read_bytes)
cat "$mnt/.ckptfs/status" "$mnt/.ckptfs/stats" >/dev/null
equal 'reports do not count' "$(field read_bytes)" "$before"
equal 'lines' "$("$CKPTFS" stats "$mnt" | sed 's/: .*//' | head -n 4 | xargs)" 'read_bytes file_bytes errors seconds'
equal 'a line has the value' "$("$CKPTFS" stats "$mnt" | head -n 1)" "read_bytes: $before"

fails 'reset by another user' 'Permission denied; only root' setpriv --reuid 65534 --regid 65534 --clear-groups "$CKPTFS" stats "$mnt" --reset
equal 'it has reset nothing' "$(field read_bytes)" "$before"
exec 3<"$mnt/.ckptfs/stats"
equal 'reset prints nothing' "$("$CKPTFS" stats "$mnt" --reset)" ''
equal 'after a reset' "$(field read_bytes) $(field 'file_bytes[]') $(field errors)" '0 0 {}'
equal 'an open file keeps its text' "$(jq -c .read_bytes <&3)" "$before"
exec 3<&-
cat "$file" >/dev/null
equal 'it counts on' "$(field read_bytes)" "$size"
fails 'stats of no mount' 'not the mount point' "$CKPTFS" stats "$source" --reset
fails 'two options' usage "$CKPTFS" stats --json --reset "$mnt"
unmounted

truncate -s 0 "$source"/*.distcp
mounted "$source"
fails 'a damaged tensor' '' cat "$mnt/full/$one.npy"
equal 'errors' "$(field 'errors | keys[]')" '"ENODATA"'
unmounted

mkdir run
cp -r "$FIXTURES/plain" run/step-1
cp -r "$FIXTURES/plain" run/step-2
mounted "$WORK/run"
cat "$mnt/step-1/full/$one.npy" "$mnt/step-2/full/$one.npy" >/dev/null
equal 'a run: its steps have one count' "$(field read_bytes) $(jq .read_bytes "$mnt/step-1/.ckptfs/stats")" "$((2 * size)) $((2 * size))"
unmounted

equal 'without a mount' "$("$CKPTFS" cat "$FIXTURES/plain" .ckptfs/stats | jq -c .read_bytes)" 0
done_testing
