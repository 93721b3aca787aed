# SPDX-License-Identifier: MIT
# Mounts views of the test, which fs/ does not know. Names in a directory with a timeout are
# looked up again after it.
need setsid xxd

sample=$FIXTURES/sample
setsid "$VIEWS_BIN" "$sample" "$mnt" >said 2>err &
pid=$!
timeout 100 sh -c 'until grep -q ready said; do sleep 0.02; done' ||
	{ cat err; result 1 'it is mounted'; done_testing; }
equal 'its directories' "$(ls -A "$mnt" | LC_ALL=C sort | xargs)" \
	'.ckptfs files first full objects runs'
for name in model.norm.weight optim.state.norm.weight.step; do
	equal "the first element of $name" "$(cat "$mnt/first/$name.txt")" \
		"$("$CKPTFS" cat "$sample" "raw/$name" | head -c 4 | xxd -p)"
done
equal 'a file for each tensor' "$(ls "$mnt/first" | wc -l)" \
	"$(stems sample | wc -l)"

# look WHEN WANT: whether `new` is in both directories.
look() {
	equal "$1" "$(for in in soon ever; do
		cat "$mnt/runs/$in/new" 2>&1 | sed 's/.*: //'
	done | xargs)" "$2"
}
none='No such file or directory'
look 'there is no such name' "$none $none"
touch there
sleep 0.5
look 'there is one now, but for who takes it for known' "new $none"
equal 'a listing is asked for each time' "$(ls "$mnt/runs/ever")" new
rm there
sleep 0.5
look 'it is gone' "$none $none"
touch there
sleep 0.5
check 'it is back' grep -q new "$mnt/runs/soon/new"
umount "$mnt"
timeout 100 tail --pid="$pid" -f /dev/null
result $? 'the process ends with the mount'
done_testing
