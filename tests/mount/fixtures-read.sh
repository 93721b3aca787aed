# SPDX-License-Identifier: MIT
#
# The bytes of every tensor of every fixture, in both views, are those that
# PyTorch had; what must not be readable says so, and nothing else is lost.

declare -A message=(
	[EIO]='Input/output error'
	[EBADMSG]='Bad message'
	[ENODATA]='No data available'
	[ESTALE]='Stale file handle'
)

# refused NAME: each tensor of its list fails as the list says.
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
