# SPDX-License-Identifier: MIT
# The bytes of every tensor of every fixture, in both views, equal those of PyTorch. Tensors
# that must be unreadable fail with the right errno, and no other tensor fails.

declare -A message=(
	[EIO]='Input/output error'
	[EBADMSG]='Bad message'
	[ENODATA]='No data available'
	[ESTALE]='Stale file handle'
)

# refused NAME: each tensor of the error list fails with its errno.
refused() {
	while IFS=$'\t' read -r stem error; do
		fails "$1: full/$stem.npy is $error" "${message[$error]}" \
			cat "$mnt/full/$stem.npy"
		fails "$1: raw/$stem is $error" "${message[$error]}" \
			cat "$mnt/raw/$stem"
	done <"$FIXTURES/$1.errors.tsv"
}

for table in $(some "$FIXTURES"/*.sha256); do
	name=$(basename "$table" .sha256)
	mounted "$FIXTURES/$name"
	if [ -s "$table" ]; then
		check "$name" env -C "$mnt" sha256sum --quiet -c "$table"
	else
		equal "$name is empty" "$(ls "$mnt/full")" ''
	fi
	[ ! -e "$FIXTURES/$name.errors.tsv" ] || refused "$name"
	unmounted
done
done_testing
