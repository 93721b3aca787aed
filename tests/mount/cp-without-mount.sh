# SPDX-License-Identifier: MIT
# `ckptfs cp` copies the files of the mounted tree like cp(1): destinations, bytes, modes
# and times, and the messages for files that cannot be copied.
need python3 setpriv
source=$(fixture sample)
one=model.layers.0.attention.wk.weight
two=model.layers.0.attention.wq.weight
shopt -s dotglob nullglob

cp_() {
	"$CKPTFS" cp "$@"
}

# status WHAT WANT TEXT COMMAND...: the command ends with that status and prints TEXT, or
# prints nothing if TEXT is empty.
status() {
	local what=$1 want=$2 text=$3 got=0
	shift 3
	"$@" >"$WORK/out" 2>&1 || got=$?
	cp "$WORK/out" said
	[ "$got" = "$want" ] && if [ -n "$text" ]; then
		grep -qF -- "$text" "$WORK/out"
	else
		[ ! -s "$WORK/out" ]
	fi
	result $? "$what"
	[ "$got" = "$want" ] || echo "# status $got"
	[ "$got" = "$want" ] || show
}

temporary() {
	find "$WORK" -name '.ckptfs-cp-*'
}

# Names, modes and times of all files below a directory.
listing() {
	(cd "$1" && find . -printf '%p %y %m %T@\n' | LC_ALL=C sort)
}

mkdir d
# --- destinations
status 'a file into a directory' 0 '' cp_ "$source" "full/$one.npy" d
status 'a file as another name' 0 '' cp_ "$source" "/full//./$one.npy" a.npy
check 'both are the same' cmp a.npy "d/$one.npy"
status 'several files' 0 '' cp_ "$source" "raw/$one" "raw/$two" d
equal 'a ? is a character' "$("$CKPTFS" ls "$FIXTURES/keys" 'raw/h?llo')" \
	raw/héllo
equal 'a pattern that names one needs a directory' \
	"$(cp_ "$source" "raw/$one*" p 2>&1; echo $?; ls -d p* | grep -v '^\.$')" \
	'ckptfs: p: is not a directory; several files need one
2'
status 'several need a directory' 2 'is not a directory' \
	cp_ "$source" "raw/$one" "raw/$two" nowhere
status 'a pattern' 0 '' cp_ "$source" 'raw/*norm*' d
check 'all it names are there' test -s d/model.layers.0.attention_norm.weight \
	-a -s d/model.norm.weight
status 'a directory without -r' 2 'ckptfs: raw: is a directory; -r copies it' \
	cp_ "$source" raw d
status 'the root without -r' 2 'ckptfs: .: is a directory' cp_ "$source" / d
status 'what there is not' 2 'ckptfs: raw/x: No such file or directory' \
	cp_ "$source" raw/x "raw/$one" "$WORK/d"
mkdir e
status 'the others are copied' 2 'raw/x' cp_ "$source" raw/x "raw/$one" e
equal 'which is one' "$(ls e)" "$one"
status '.. is no path' 2 '.. is not allowed' cp_ "$source" full/../raw/x e
status 'a file below no directory' 2 'No such file or directory' \
	cp_ "$source" "raw/$one" none/x
status 'a file with a slash behind it' 2 'new/: is not a directory' \
	cp_ "$source" "raw/$one" new/
status 'a directory with a slash behind it' 0 '' cp_ -r "$source" objects new/
status 'an empty DEST' 2 'No such file' cp_ "$source" "raw/$one" ''
for n in 0 257 x 1x ''; do
	status "-j '$n'" 2 'option -j' cp_ -j "$n" "$source" "raw/$one" d
done
status 'too few operands' 2 'usage: ckptfs cp' cp_ "$source" "raw/$one"

# --- the same name twice
mkdir f
status 'the same file by two patterns' 0 '' \
	cp_ "$source" "raw/$one" "raw/*wk*" "raw/$one" f
status 'two files of one name' 2 \
	"ckptfs: local/rank-0/$one.npy and local/rank-1/$one.npy: would have" \
	cp_ "$source" "raw/$two" "local/rank-[01]/$one.npy" f
check 'nothing was copied' test ! -e "f/$two"

# --- directories
status 'a directory into one' 0 '' cp_ -r "$source" full d
status 'a directory as another name' 0 '' cp_ -r "$source" full/ full2
status 'the root as another name' 0 '' cp_ -r "$source" . all
mkdir root
status 'the content of the root' 0 '' cp_ -r --sync "$source" / root
# A mount that uses GPUs has one more report, and the size of stats varies. Only a mount has
# files/. sharded/, torch/, dcp/, optim/ and f32/ are copied only if a path names them.
without_more() {
	grep -v "^\./\.ckptfs/\(paths\|stats\) \|^\./\(files\|sharded\|torch\|dcp\|optim\|f32\)[ /]\|^\. "
}
mounted "$source"
for way in 'd/full full' 'full2 full' 'all .' 'root .'; do
	read -r copy view <<<"$way"
	check "$copy is $view of a mount" diff -r -x files -x sharded -x torch -x dcp -x optim -x f32 -x status -x log -x damage -x stats \
		${CKPTFS_GPUS:+-x paths} "$copy" "$mnt/$view"
	equal "$copy: names, modes and times" \
		"$(listing "$copy" | without_more)" \
		"$(listing "$mnt/$view" | without_more)"
done
equal 'the root is as the root' "$(listing all | head -n 1)" \
	"$(listing "$mnt" | head -n 1)"
unmounted
check 'reports' grep -q '^items checked\|^kind' all/.ckptfs/status

# --- without a PATH
status 'no PATH: a line' 0 'full and objects are copied; other directories have the same data' cp_ -r "$source" whole
equal 'no PATH: full and objects' "$(ls -A whole | xargs)" 'full objects'
check 'no PATH: the same files' diff -r whole/full full2
status 'no PATH: views=' 0 '' cp_ -r "$source" whole2 -o views=raw+objects
equal 'no PATH: those of views=' "$(ls -A whole2 | xargs)" 'objects raw'
status 'no PATH: views= that are copied on request only' 0 '' cp_ -r "$source" asked -o views=torch+dcp
equal 'no PATH: and those' "$(cd asked && find . -type f | sort | xargs)" \
	'./dcp/4/.metadata ./dcp/4/__0_0.distcp ./dcp/4/__1_0.distcp ./dcp/4/__2_0.distcp ./dcp/4/__3_0.distcp ./torch/checkpoint.pt'
status 'no PATH without -r' 2 'usage: ckptfs cp' cp_ "$source" whole3
mkdir run
cp -r "$source" run/step-1
status 'no PATH: a run directory' 0 'full and objects' cp_ -r run whole4
equal 'no PATH: each step' "$(cd whole4 && ls -dA */* | xargs)" 'latest/full latest/objects step-1/full step-1/objects'
chmod -R u+w whole whole2 whole4
rm -r run whole whole2 whole4

# --- existing files
mkdir -m 700 m m/full
echo old >"m/full/$one.npy"
echo mine >m/full/mine
ln -s nowhere "m/full/$two.npy"
chmod 444 "m/full/$one.npy"
status 'merged' 0 '' cp_ -r "$source" full m
check 'a file is replaced' cmp "m/full/$one.npy" "full2/$one.npy"
check 'a link is replaced' test ! -L "m/full/$two.npy"
equal 'other files are kept' "$(cat m/full/mine)" mine
equal 'a directory keeps its mode' "$(stat -c %a m/full)" 700
rm -r m
mkdir -p "m/full/$one.npy"
echo file >m/raw
status 'a directory in place of a file, and the reverse' 2 \
	"m/full/$one.npy: is a directory" cp_ -r "$source" full raw objects m
check 'both are named' grep -qF 'm/raw: is not a directory' said
equal 'the rest is copied' "$(ls m/full | wc -l) $(cat m/raw) $(ls m/objects)" \
	"$(ls full2 | wc -l) file $(ls all/objects)"
mkfifo fifo
status 'a special file is not replaced' 2 'fifo: is a special file' \
	cp_ "$source" "raw/$one" fifo
check 'it is there' test -p fifo
ln -s "$WORK/d" "$WORK/m/local"
status 'a link to a directory is not entered' 2 'm/local: is not a directory' \
	cp_ -r "$source" local m

# --- the checkpoint itself
mkdir "$source/sub"
status 'into the checkpoint' 2 'lies in the checkpoint' \
	cp_ "$source" "raw/$one" "$source"
status 'as a new file in it' 2 'lies in the checkpoint' \
	cp_ "$source" "raw/$one" "$source/new"
status 'below it' 2 'lies in the checkpoint' \
	cp_ -r "$source" raw "$source/sub"
rmdir "$source/sub"
cp -a "$source" full
mkdir one
cp "$FIXTURES/hub_one/model.safetensors" one/model.safetensors
ino=$(stat -c %i one/model.safetensors)
status 'over a source that is a file' 2 'one/model.safetensors: is the source' \
	cp_ one/model.safetensors hf/model.safetensors one
equal 'the source is as it was' "$(stat -c %i one/model.safetensors)" "$ino"
status 'beside it' 0 '' cp_ one/model.safetensors hf/model.safetensors one/copy
status 'a directory that is the checkpoint' 2 "is the checkpoint's directory" \
	cp_ -r full full .
equal 'nothing was written there' "$(diff -r full "$source")" ''

# --- damage
broken=$(fixture sample)2
cp -a "$source" "$broken"
truncate -s 1000 "$broken/__1_0.distcp"
status 'damage is 1' 1 "raw/$one: " cp_ -r "$broken" raw b
cp said damage.said
check 'it is not there' test ! -e "b/$one"
equal 'all else is there, and is right' \
	"$(cd b && for f in [!.]*; do cmp "$f" "../all/raw/$f" && echo "$f"; done)" \
	"$(grep -xvFf <(sed -n 's/^ckptfs: raw\/\([^:]*\): .*/\1/p' damage.said) <(ls all/raw))"
check 'that is something' test "$(ls b | wc -l)" -gt 0
status 'damage and what there is not' 2 'raw/x: No such' \
	cp_ "$broken" raw/x "raw/$one" d

# --- not for everyone
if [ "$(id -u)" = 0 ]; then
	chmod 755 "$source"
	chmod 644 "$source"/* "$source/.metadata"
	chmod 600 "$source/__1_0.distcp"
	mkdir -m 777 n
	as_nobody() {
		setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
	}
	status 'a data file of others is 2' 2 "raw/$one: Permission denied" \
		as_nobody "$CKPTFS" cp "$source" "raw/$one" raw/model.norm.weight n
	check 'it is not there' test ! -e "n/$one"
	status 'no place for a name stops it' 2 \
		"d/model.norm.weight: Permission denied" \
		as_nobody "$CKPTFS" cp "$source" raw/model.norm.weight d
else
	skip 'a data file of others' 'only root can become another user'
fi

# --- every fixture, with several threads, as any user
for table in $({ some "$FIXTURES"/*.sha256; printf '%s\n' "$FIXTURES"/{tp_fsdp2_bad,dtensor_columns}.sha256; } | sort -u); do
	name=$(basename "$table" .sha256)
	cp_ -j 8 -r "$FIXTURES/$name" . j8 >out 2>&1
	got=$?
	# The status is 1 if and only if a file was reported as not copied.
	[ "$got" = "$([ -s out ] && echo 1 || echo 0)" ] &&
		{ [ ! -s "$table" ] ||
			(cd j8 && sha256sum --quiet -c "$table"); }
	result $? "$name"
	case $name in
	sample | tp_fsdp2_bad | dtensor_columns | shapes)
		cp_ -j 1 -r "$FIXTURES/$name" . j1 >out1 2>&1
		equal "$name: one thread says the same" \
			"$? $(sort out1)" "$got $(sort out)"
		check "$name: one thread copies the same" \
			diff -r -x status -x log -x damage -x stats -x '.ckptfs-copy-*' j1 j8
		;;
	esac
	rm -rf j1 j8
done

# --- a tensor of several ranges
python3 "$HERE/big.py" rows 1 3 8000000
python3 "$HERE/big.py" --columns columns 1 3 8000000 4000
for form in rows columns; do
	for j in 1 8; do
		status "24 MB in $form, $j threads" 0 '' \
			cp_ -j $j "$form" raw/t0 "$form.$j"
	done
	check "$form: one and eight are the same" cmp "$form.1" "$form.8"
	check "$form: they are right" \
		python3 "$HERE/big.py" --verify 0 "$form.8"
done

# --- progress
ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 \
	LD_PRELOAD=$LIBMUTE_BIN MUTE_WRITE=20 python3 "$HERE/terminal.py" "$CKPTFS" cp -j 1 \
	rows raw/t0 t >seen 2>&1 </dev/null
equal 'a terminal: it ends well' $? 0
check 'a terminal shows how far it is' grep -aqE \
	$'\rckptfs: [0-9.]+ of 22\\.9 MiB, [0-9]+ MiB/s, [0-9]+:[0-9]{2} left\033\\[K' seen
check 'the line is cleared' grep -aqE $'\r\033\\[K$' seen
ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 \
	LD_PRELOAD=$LIBMUTE_BIN MUTE_WRITE=20 \
	python3 "$HERE/terminal.py" "$CKPTFS" cp -j 1 rows raw/x raw/t0 d >seen 2>&1 </dev/null
check 'a message begins a line' grep -aqE '^ckptfs: raw/x: No such' seen
ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 \
	LD_PRELOAD=$LIBMUTE_BIN MUTE_WRITE=30 cp_ -j 1 rows raw/t0 t >seen 2>&1
equal 'a pipe shows nothing' "$(cat seen)" ''

equal 'no temporary file is left' "$(temporary)" ''
done_testing
