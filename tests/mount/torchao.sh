# SPDX-License-Identifier: MIT
# Weights of training with torchao: a wrapper is shown as the tensor in it, in a checkpoint of
# DCP and in files of ranks. A quantized weight is an error.
need python3 sha256sum

for name in torchao ranks_torchao; do
	mounted "$FIXTURES/$name"
	fails "$name: canary" FAILED sh -c 'cd "$1" && sed "1s/^../00/" "$2" | sha256sum -c' - "$mnt" "$FIXTURES/$name.sha256"
	check "$name: bytes" env -C "$mnt" sha256sum --quiet -c "$FIXTURES/$name.sha256"
	unmounted
	check "$name: check --full" "$CKPTFS" check --full "$FIXTURES/$name"
done

source=$(fixture torchao)
mounted "$source" -o write
for name in float8 scaled int8 bitnet mx moe; do
	tr '\0-\377' '\1-\377\0' <"$mnt/raw/$name.weight" >"$name"
	check "$name: a commit" cp "$name" "$mnt/raw/$name.weight"
done
unmounted
mounted "$source"
for name in float8 scaled int8 bitnet mx moe; do
	check "$name: the new bytes" cmp "$name" "$mnt/raw/$name.weight"
done
unmounted
check 'after commits: check --full' "$CKPTFS" check --full "$source"

source=$(fixture torchao)
mounted "$source" -o write,patch
printf 'patched!' | dd of="$mnt/raw/scaled.weight" bs=8 seek=3 conv=notrunc status=none
unmounted
equal 'a patched wrapper' "$("$CKPTFS" cat "$source" raw/scaled.weight | tail -c +25 | head -c 8)" 'patched!'

mounted "$FIXTURES/torchao_int8"
check 'beside a quantized weight' env -C "$mnt" sha256sum --quiet -c "$FIXTURES/torchao_int8.sha256"
fails 'a quantized weight' 'Bad message' cat "$mnt/raw/int8.weight"
unmounted
fails 'a quantized weight: the class' 'no dense tensor in data.pkl: found torchao.quantization.Int8Tensor' \
	"$CKPTFS" check --full "$FIXTURES/torchao_int8"
done_testing
