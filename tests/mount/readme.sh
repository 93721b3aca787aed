# SPDX-License-Identifier: MIT
#
# Runs every command of the README in a directory that looks like a clone after
# the build, and compares its output with the output shown. tests/clean-clone runs
# the commands that install or build.
need rsync tail

# The python3 of the sessions has PyTorch if one is found.
find_torch || find_numpy || skip_all 'no numpy'
mkdir -p bin clone/build/mount-helpers
printf '#!/bin/sh\nexec %s "$@"\n' \
	"$(command -v "${TORCH_PYTHON:-$NUMPY_PYTHON}")" >bin/python3
chmod +x bin/python3
ln -s "$CKPTFS" clone/build/mount-helpers/ckptfs
ln -s "$(realpath "$HERE/..")" clone/tests
PATH=$WORK/bin:$PATH
cd clone

# obey FILE: runs it; its results become ours.
obey() {
	local line
	while IFS= read -r line; do
		case $line in
		'ok '*) result 0 "${line#ok }" ;;
		'not ok '*) result 1 "${line#not ok }" ;;
		'skip '*) skip "${line#skip }" 'PyTorch is needed' ;;
		*) echo "$line" ;;
		esac
	done < <(/usr/bin/env python3 "$HERE/readme.py" "$1" 2>&1 ||
		echo "not ok it ends")
}

# finds WHAT: readme.py reports the fault planted in the README on stdin.
finds() {
	cat >"$WORK/wrong.md"
	python3 "$HERE/readme.py" "$WORK/wrong.md" >"$WORK/out" 2>&1
	grep -q '^not ok ' "$WORK/out"
	result $? "canary: $1 is found"
}

finds 'a command that fails' <<'END'
```
$ true
$ ckptfs no-such-command
```
END
finds 'another output' <<'END'
```
$ echo two words
two wards
```
END
finds 'more output' <<'END'
```
$ printf 'a\nb\n'
a
```
END
finds 'another output about dots' <<'END'
```
$ printf 'a\nb\nc\n'
a
...
d
```
END
finds 'a block without commands and without a reason' <<'END'
```
make install
```
END
finds 'an empty reason' <<'END'
<!-- not run: -->
```
$ true
```
END
finds 'a file that is not there' <<'END'
<!-- picture: of a mount -->
```
├── .metadata    ├── full/model.norm.wieght.npy
```
END
finds 'a script that fails' <<'END'
```python
raise SystemExit(1)
```
END
finds 'a script that prints something else' <<'END'
```python
print(1 + 1)  # 3
```
END
finds 'a block of another form' <<'END'
   ```
   $ true
   ```
END
cat >"$WORK/right.md" <<'END'
<!-- picture: of a mount -->
```
├── .metadata    ├── full/model.norm.weight.npy
```
<!-- not run: it has a reason -->
```
$ false
```
```
$ printf 'a\nb\nc %d\n' $number
a
...
c ...
$ test $number = 7
```
<!-- run: first -->
```
$ number=7
```
END
python3 "$HERE/readme.py" "$WORK/right.md" >"$WORK/out" 2>&1
fails 'canary: a right one is right' '' grep -qv '^ok ' "$WORK/out"

obey "$HERE/../../README.md"

# The script of the manual, section From Python.
{
	printf '```\n$ ckptfs step-1000 ck -o write && cp weights/model.norm.weight.npy .\n```\n'
	printf '```python\n'
	sed -n '/^import subprocess, torch$/,/^```$/p' "$HERE/../../mount-helpers/man/ckptfs.5.scd"
	printf '```\n$ cmp model.norm.weight.npy ck/full/model.norm.weight.npy && ckptfs umount ck\n```\n'
} >"$WORK/manual.md"
PATH=$WORK/clone/build/mount-helpers:$PATH
obey "$WORK/manual.md"

# The examples of the manual for each kind.
mkdir -p "$WORK/kinds/global_step_100" "$WORK/kinds/run"
cd "$WORK/kinds"
ln -s "$FIXTURES/files_zip/checkpoint.pt" checkpoint.pt
ln -s "$FIXTURES/files_pieces" bert
ln -s "$FIXTURES/hub_index" llama
ln -s "$FIXTURES/alone_2" no-collectives
ln -s "$FIXTURES/megatron" iter_0000100
ln -s "$FIXTURES/items_4" first-save
cp -r "$FIXTURES/ranks_fsdp2_4" global_step_100/actor
cp -r "$FIXTURES/sample" run/step-1000
sed -n '/^## Each kind of checkpoint$/,/^# SEE ALSO$/p' \
	"$HERE/../../mount-helpers/man/ckptfs.1.scd" >"$WORK/kinds.md"
obey "$WORK/kinds.md"
done_testing
