# SPDX-License-Identifier: MIT
#
# Who may open what is what the source says when he opens it: a data file,
# .metadata or the directory that is closed to others, or opened to them, under
# a mount.
need setpriv python3
[ "$(id -u)" = 0 ] || skip_all 'only root can become another user'
id nobody >/dev/null 2>&1 || skip_all 'no user nobody'
as_nobody() {
	setpriv --reuid=nobody --regid="$(id -gn nobody)" --clear-groups "$@"
}

one=model.layers.0.attention.wk.weight
two=model.layers.0.attention.wq.weight
source=$(fixture sample)
chmod 755 "$source"
chmod 644 "$source"/* "$source/.metadata"
as_nobody test -r "$source/.metadata" || skip_all 'nobody cannot get here'

may() { # may WHAT FILE...: he, and root, at the first try
	local file
	for file in "${@:2}"; do
		check "$1: $file" as_nobody cat "$mnt/$file"
		check "$1: $file, root" cat "$mnt/$file"
	done
}
may_not() { # may_not WHAT FILE...: only root may
	local file
	for file in "${@:2}"; do
		fails "$1: $file" 'Permission denied' as_nobody cat "$mnt/$file"
		check "$1: $file, root" cat "$mnt/$file"
	done
}

for options in allow_other allow_other,write allow_other,direct; do
	mounted "$source" -o "$options"
	first=(full/$one.npy raw/$one local/rank-0/$one.npy)
	all=("${first[@]}" raw/$two objects/step.json objects/step.pt)
	may "$options" "${all[@]}" .ckptfs/tensors.csv
	exec 3<"$mnt/raw/$two"
	chmod 600 "$source/__0_0.distcp"
	may_not "$options: a data file of mode 600" "${first[@]}"
	equal "$options: a data file of mode 600: shown" \
		"$(stat -c %A "$mnt/raw/$one" | cut -c 2,5,8)" 'r--'
	# of which nobody has noticed it yet
	may_not "$options: a data file of mode 600, another tensor" raw/$two
	may "$options: a data file of mode 600, another one" \
		local/rank-1/$one.npy .ckptfs/tensors.csv
	check "$options: what is open is read" cat <&3
	exec 3<&-
	chmod 644 "$source/__0_0.distcp"
	may "$options: of mode 644 again" "${all[@]}"
	chown daemon "$source/__0_0.distcp"
	chmod 640 "$source/__0_0.distcp"
	may_not "$options: a data file of another" "${first[@]}"
	chown root "$source/__0_0.distcp"
	chmod 644 "$source/__0_0.distcp"
	may "$options: of the same again" "${first[@]}"
	for file in "$source"/__*; do chmod 640 "$file"; done
	may_not "$options: all data files" "${all[@]}"
	for file in "$source"/__*; do chmod 644 "$file"; done
	may "$options: all data files again" "${all[@]}"

	chmod 600 "$source/.metadata"
	may_not "$options: .metadata" "${all[@]}" .ckptfs/tensors.csv
	chmod 644 "$source/.metadata"
	may "$options: .metadata again" "${all[@]}" .ckptfs/tensors.csv
	chmod 700 "$source"
	fails "$options: the directory" 'Permission denied' \
		as_nobody cat "$mnt/raw/$one"
	check "$options: the directory, root" cat "$mnt/raw/$one"
	fails "$options: the directory: its names" 'Permission denied' \
		as_nobody ls "$mnt/raw"
	equal "$options: the directory: shown" "$(stat -c %A "$mnt" |
		cut -c 5-10)" '------'
	chmod 755 "$source"
	check "$options: the directory again, root" cat "$mnt/raw/$one"
	may "$options: the directory again" "${all[@]}"
	unmounted
done

# Who may write.
mounted "$source" -o allow_other,write
cp "$mnt/raw/$one" raw.bin
chmod 644 raw.bin
fails 'writing' 'Permission denied' as_nobody cp raw.bin "$mnt/raw/$one"
chmod 666 "$source/.metadata"
check 'writing: .metadata of mode 666, root' \
	dd if=raw.bin of="$mnt/raw/$one" conv=notrunc status=none
check 'writing: .metadata of mode 666' as_nobody cp raw.bin "$mnt/raw/$one"
check 'writing: another tensor' \
	as_nobody dd if=raw.bin of="$mnt/raw/$two" status=none
chmod 644 "$source/.metadata"
fails 'writing: .metadata of mode 644' 'Permission denied' \
	as_nobody cp raw.bin "$mnt/raw/$one"
fails 'writing: .metadata of mode 644, another' 'Permission denied' \
	as_nobody dd if=raw.bin of="$mnt/raw/$two" status=none
check 'writing: with O_CREAT, root' cp raw.bin "$mnt/raw/$one"
chmod 600 "$source/.metadata"
check 'writing: .metadata of mode 600, a commit by root' \
	cp raw.bin "$mnt/raw/$one"
equal 'writing: .metadata of mode 600: it stays' \
	"$(stat -c %a "$source/.metadata")" 600
fails 'writing: .metadata of mode 600, a tensor that was not written' \
	'Permission denied' as_nobody cat "$mnt/raw/model.norm.weight"
unmounted
done_testing
