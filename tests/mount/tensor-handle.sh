# SPDX-License-Identifier: MIT
# A read-write handle of a tensor shows its own writes; all others show the committed bytes.
need python3
in_memory

operations=$(cases CKPTFS_OPERATIONS 300 100000)
number=$(seed 1)
for name in dtensor_columns ${CKPTFS_ALL:+sample}; do
	source=$(fixture "$name")
	mounted "$source" -o write,patch
	mapfile -t stems < <(stems "$name" | head -n 40)
	paths=()
	for stem in "${stems[@]}"; do
		[ "${#paths[@]}" -lt 6 ] || break
		[ ! -w "$mnt/raw/$stem" ] || [ "$(stat -c %s "$mnt/raw/$stem")" -lt 64 ] || {
			case $((${#paths[@]} % 2)) in
			0) paths+=("raw/$stem") ;;
			*) paths+=("full/$stem.npy") ;;
			esac
		}
	done
	check "$name: canary: tensors" test "${#paths[@]}" -ge 5
	check "$name: random operations" python3 "$HERE/tensor-handle.py" "$mnt" "$operations" "$number" "${paths[@]}"
	CKPTFS_CANARY=1 fails "$name: canary: a wrong byte" difference python3 "$HERE/tensor-handle.py" "$mnt" 200 "$number" "${paths[@]}"
	check "$name: check --full" "$CKPTFS" check --full "$source"
	unmounted
done
done_testing
