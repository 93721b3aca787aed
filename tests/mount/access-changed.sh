# SPDX-License-Identifier: MIT
# open(2) checks the permissions that the source has at that moment: a data file, .metadata
# or the directory is closed to others, or opened to them, under a mount.
need setpriv /usr/bin/python3
[ "$(id -u)" = 0 ] || skip_all 'only root can become another user'
id nobody >/dev/null 2>&1 || skip_all 'no user nobody'
as_nobody() {
	setpriv --reuid=nobody --regid="$(id -gn nobody)" --clear-groups "$@"
}
python=/usr/bin/python3 # the first python3 in PATH may be for root only
as_nobody "$python" -c pass || skip_all 'no python3 for nobody'

one=model.layers.0.attention.wk.weight
two=model.layers.0.attention.wq.weight
source=$(fixture sample)
chmod 755 "$source"
chmod 644 "$source"/* "$source/.metadata"
as_nobody test -r "$source/.metadata" || skip_all 'nobody cannot get here'

may() { # may WHAT FILE...: the user and root can open the files, at the first attempt
	local file
	for file in "${@:2}"; do
		check "$1: $file" as_nobody cat "$mnt/$file"
		check "$1: $file, root" cat "$mnt/$file"
	done
}
may_not() { # may_not WHAT FILE...: only root can open the files
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
	# the mount has not noticed the new mode yet
	may_not "$options: a data file of mode 600, another tensor" raw/$two
	may "$options: a data file of mode 600, another one" \
		local/rank-1/$one.npy .ckptfs/tensors.csv
	check "$options: an open file is read" cat <&3
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

# Attributes and names cached by the kernel do not decide: also for an open without a
# lookup, and for changes of names. Each case is the first access after the source was
# closed.
open_all() {
	chmod 777 "$source"
	chmod 666 "$source"/* "$source/.metadata"
}
held() { # held WHAT ANSWER OPTIONS COMMAND...: result of a user's access, after COMMAND of root
	local what=$1 want=$2 answer pid
	open_all
	mounted "$source" -o "$3"
	coproc HELD { as_nobody "$python" -c "$program" "$what" "$mnt/raw" $one; }
	pid=$HELD_PID
	exec 4<&"${HELD[0]}" 5>&"${HELD[1]}"
	read -r answer <&4
	"${@:4}"
	echo >&5
	read -r answer <&4
	exec 4<&- 5>&-
	wait "$pid"
	equal "regression: held, $what ${*:4:2}" "$answer" "$want"
}
close_files() { chmod "$1" "$source/.metadata" "$source"/__*; }
close_shards() { chmod "$1" "$source"/__*; }
close_metadata() { chmod "$1" "$source/.metadata"; }
close_directory() { chmod "$1" "$source"; }
program=$(<"$HERE/access-held.py")

held read done allow_other true
unmounted
held read EACCES allow_other close_files 600
equal 'regression: held, read: shown' \
	"$(stat -c %A "$mnt/raw/$one" | cut -c 8-10)" '---'
may_not 'regression: held, read: then by name' raw/$one full/$two.npy
unmounted
held read EACCES allow_other close_directory 700
unmounted
held read EACCES allow_other close_shards 640
unmounted
held write done allow_other,write true
unmounted
for how in 'close_files 600' 'close_metadata 644' 'close_directory 700'; do
	for what in write rename unlink create; do
		# shellcheck disable=SC2086 # a function and its argument
		held $what EACCES allow_other,write $how
		unmounted
	done
done
for what in scratch scratch-unlink scratch-rename rename unlink create; do
	held $what EACCES allow_other,write close_directory 755
	unmounted
	held $what done allow_other,write true
	unmounted
done
held create-read EACCES allow_other,write close_shards 640
unmounted
held create done allow_other,write close_shards 640
unmounted

# As above, with an ACL, and with a closed directory above a data file.
rm -rf "$source"
fixture sample >/dev/null
if setfacl -m u:nobody:rwx "$source/.metadata" 2>/dev/null; then
	setfacl -b "$source/.metadata"
	deny() { setfacl -m u:nobody:--- "$source/$1"; }
	for file in .metadata __0_0.distcp .; do
		held read EACCES allow_other deny "$file"
		setfacl -b "$source/$file"
		unmounted
	done
	for file in .metadata .; do
		held write EACCES allow_other,write deny "$file"
		setfacl -b "$source/$file"
		unmounted
	done
fi
close_way() { chmod "$1" "$source/p"; }
mkdir "$source/p"
mv "$source/__0_0.distcp" "$source/p/__0_0.disp"
sed -i 's#__0_0.distcp#p/__0_0.disp#g' "$source/.metadata"
held read EACCES allow_other close_way 700
unmounted
held read done allow_other close_way 711
unmounted
mv "$source/p/__0_0.disp" "$source/__0_0.distcp"
rmdir "$source/p"
sed -i 's#p/__0_0.disp#__0_0.distcp#g' "$source/.metadata"

for close in 'close_metadata 644' 'close_directory 700'; do
	open_all
	mounted "$source" -o allow_other,write,commit=manual
	check "regression: an order, $close: staged" \
		as_nobody cp raw.bin "$mnt/raw/$one"
	$close
	fails "regression: an order, $close" '' as_nobody "$CKPTFS" commit "$mnt"
	check "regression: an order, $close: root" "$CKPTFS" commit "$mnt"
	unmounted
done
done_testing
