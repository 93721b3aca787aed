# SPDX-License-Identifier: MIT
#
# Checkpoints that no torch writes: each is refused or served, and the daemon
# lives.
need python3

# hostile KIND: makes it and mounts it.
hostile() {
	python3 "$HERE/hostile.py" "$1" "$WORK/$1" || return
	mounted "$WORK/$1"
}

hostile empty-boxes
check 'empty boxes without a file: the tensor is read' \
	cmp "$mnt/raw/w" <(printf '\0\0\0\0\0\0\x80?\0\0\0@\0\0@@\0\0\x80@\0\0\xa0@')
fails 'and has no error' 'No such attribute' \
	getfattr -n user.ckptfs.error "$mnt/raw/w"
unmounted

# Shard names: nothing but a regular file beneath, on this device, no link.
if hostile paths; then
	mount -t tmpfs tmpfs "$WORK/paths/other" 2>/dev/null &&
		cp "$WORK/paths/f" "$WORK/paths/other/f"
	unmounted
	mounted "$WORK/paths"
	equal 'a shard beneath is read' "$(wc -c <"$mnt/raw/good")" 24
	for name in up up_and_down inner_up absolute proc empty nul long \
		missing directory dot link link_out link_dir fifo socket \
		device device_zero other_device; do
		fails "shard name: $name" 'No data available' \
			timeout 100 cat "$mnt/raw/$name"
		fails "shard name: $name, a page of it" '' timeout 100 \
			dd if="$mnt/raw/$name" bs=4 count=1 status=none
	done
	unmounted
	mounted "$WORK/paths" -o shardlinks=beneath
	for name in link link_dir; do
		equal "shardlinks=beneath: $name" \
			"$(wc -c <"$mnt/raw/$name")" 24
	done
	for name in link_out up absolute fifo device; do
		fails "shardlinks=beneath: $name" 'No data available' \
			timeout 100 cat "$mnt/raw/$name"
	done
	unmounted
	umount "$WORK/paths/other" 2>/dev/null
fi

# Text of the checkpoint never reaches a terminal or the log unescaped. Names of files, and
# lists of them, keep U+0080 to U+009F, see ckptfs(5).
ascii='[\x00-\x1f]' all='[\x00-\x1f\x7f]|\xc2[\x80-\x9f]'
# classes FILE OPTION: the modules of classes that a generated pickle names.
classes() {
	python3 -B "$HERE/torch-view.py" "$@" | grep -o "GLOBAL '[a-z_.]*" | sort -u | cut -c9- | xargs
}
printed() { # WHAT PATTERN COMMAND...
	"${@:3}" >"$WORK/text" 2>&1
	tr -d '\n' <"$WORK/text" | grep -aqP "$2"
	equal "no control characters: $1" $? 1
	[ -s "$WORK/text" ] || result 1 "$1 prints nothing"
}
hostile escapes
for file in "$mnt"/raw/*; do cat "$file"; done >/dev/null 2>&1
printed 'status' "$all" cat "$mnt/.ckptfs/status"
printed 'log' "$all" cat "$mnt/.ckptfs/log"
printed 'tensors.csv' "$ascii" cat "$mnt/.ckptfs/tensors.csv"
printed 'tensors.jsonl' "$ascii" cat "$mnt/.ckptfs/tensors.jsonl"
printed 'inspect' "$all" "$CKPTFS" inspect "$WORK/escapes"
printed 'inspect --chunks' "$all" "$CKPTFS" inspect --chunks "$WORK/escapes"
printed 'dump' "$all" "$CKPTFS" dump "$WORK/escapes"
printed 'names' "$ascii" ls -N "$mnt/raw" "$mnt/full"
for file in "$mnt"/raw/*; do
	getfattr --absolute-names --only-values \
		-n user.ckptfs.error "$file" 2>/dev/null
	echo
done >"$WORK/faults"
printed 'attribute error' "$all" cat "$WORK/faults"
equal 'hostile keys: .metadata of dcp/ names no other class' "$(classes "$mnt/dcp/2/.metadata" --opcodes)" \
	'torch torch.distributed._shard.sharded_tensor.metadata torch.distributed.checkpoint.filesystem torch.distributed.checkpoint.metadata torch.serialization'
unmounted

# Names of the tree itself cannot be taken, all tensors are there.
hostile reserved
equal 'the root' "$(ls -A "$mnt" | xargs)" '.ckptfs dcp f32 files full hf local objects raw sharded torch'
equal 'every key has a file' "$(ls -A "$mnt/raw" | wc -l)" 21
equal 'inspect: names that are alike' \
	"$("$CKPTFS" inspect "$WORK/reserved" --json | python3 -c \
		'import json, sys; print(ascii(sorted(map(sorted, json.load(sys.stdin)["alike"]))))')" \
	"[['A', 'a'], ['e\\u0301', '\\xe9']]"
equal 'inspect: in its table' \
	"$("$CKPTFS" inspect "$WORK/reserved" | grep -c '^one name where case')" 2
check 'every key is in torch/' python3 -B "$HERE/torch-view.py" "$mnt"
check 'every key is in dcp/' python3 -BS "$HERE/dcp_layouts.py" "$mnt" 2
equal 'keys of the tree: torch/ names no other class' "$(classes "$mnt/torch/checkpoint.pt" --dump)" 'collections torch torch._utils'
equal 'files of dcp/ have no names of keys' "$(ls -A "$mnt/dcp/2" | xargs)" '.metadata __0_0.distcp __1_0.distcp'
for file in "$mnt"/raw/*; do
	[ "$(wc -c <"$file")" -eq 24 ] || result 1 "read $file"
done
equal 'nothing is hidden' "$(cd "$mnt/raw" && ls -A | grep -c '^[.]')" 0
equal 'short forms differ' "$(cd "$mnt/raw" && ls -A | grep -c '^%~k')" 2
equal 'short forms have their names' "$(for file in "$mnt"/raw/%~k*; do
	getfattr --absolute-names --only-values -n user.ckptfs.fqn "$file" |
		wc -c
done | sort | xargs)" '300 301'
unmounted

# Nothing is executed.
python3 "$HERE/hostile.py" dangerous "$WORK/dangerous"
fails 'a dangerous .metadata is refused and named' \
	'dangerous global posix.system' "$CKPTFS" mount "$WORK/dangerous" "$mnt"
fails 'inspect too' 'dangerous global posix.system' \
	"$CKPTFS" inspect "$WORK/dangerous"
hostile dangerous-item
fails 'a dangerous item cannot be read' 'Bad message' cat "$mnt/raw/b"
check 'and is named in the log' \
	grep -q 'dangerous global posix.system' "$mnt/.ckptfs/log"
equal 'its neighbour can' "$(wc -c <"$mnt/raw/g")" 24
unmounted
check 'no canary' test ! -e "$WORK/dangerous-canary" \
	-a ! -e "$WORK/dangerous-item-canary"

python3 "$HERE/hostile.py" wide "$WORK/wide"
size=$("$CKPTFS" inspect "$WORK/wide" | wc -c)
check 'a wide shape does not widen every line' test "$size" -lt 1000000

cp -a "$FIXTURES/plain" "$WORK/sparse"
truncate -s 1T "$WORK/sparse/.metadata"
fails 'a sparse .metadata is refused at once' 'expected at most' \
	timeout 100 "$CKPTFS" mount "$WORK/sparse" "$mnt"

done_testing
