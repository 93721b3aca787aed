#!/bin/bash
# SPDX-License-Identifier: MIT
# The library as a user has it: installs the build below a directory of its own, compiles the
# example with nothing but pkg-config, as C and as C++, and runs it.
#
#	installed.sh SOURCE BUILD EXAMPLE
set -u

SOURCE=$1 BUILD=$2 EXAMPLE=$3 n=0 failed=0
DEST=$(mktemp -d /tmp/ckptfs-client.XXXXXX)
trap 'rm -rf "$DEST"' EXIT

check() { # MESSAGE COMMAND...
	n=$((n + 1))
	if "${@:2}"; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		failed=1
	fi
}

meson install -C "$BUILD" --no-rebuild --destdir "$DEST" >"$DEST/log" 2>&1 ||
	{ sed 's/^/# /' "$DEST/log"; exit 1; }
PC=$(find "$DEST" -name ckptfs.pc) LIB=$(dirname "$(find "$DEST" -name 'libckptfs.so.1')")
export PKG_CONFIG_PATH=${PC%/*} PKG_CONFIG_SYSROOT_DIR=$DEST LD_LIBRARY_PATH=$LIB
FLAGS=$(pkg-config --cflags --libs ckptfs)

check "SONAME" grep -q 'SONAME.*libckptfs\.so\.1$' <(objdump -p "$LIB/libckptfs.so.1")
check "public symbols are those of the header" diff \
	<(objdump -T "$LIB/libckptfs.so.1" | awk '/ CKPTFS_1 / && /\.text/ { print $NF }' | sort) \
	<(grep -o '\bckptfs_[a-z_]*(' "$SOURCE/include/ckptfs/client.h" | tr -d '(' | sort -u)
check "no symbol without a version" \
	test "$(objdump -T "$LIB/libckptfs.so.1" | awk '/\.text/ && !/CKPTFS_(1|PRIVATE) /' | wc -l)" = 0
check "only the public headers" \
	test "$(cd "$DEST" && find . -name '*.h' | sed 's|.*/||' | sort | paste -sd ' ')" = "client.h gpu_memory.h"
# shellcheck disable=SC2086 # flags are words
check "the example compiles" cc -std=c99 -Wall -Wextra -Wpedantic -Werror -o "$DEST/example" \
	"$EXAMPLE" $FLAGS
# shellcheck disable=SC2086
command -v c++ >/dev/null || echo "# no C++ compiler"
command -v c++ >/dev/null && check "the header is C++" c++ -Wall -Wextra -Werror -fsyntax-only -x c++ $FLAGS \
	"$SOURCE/include/ckptfs/client.h"
"$DEST/example" "$SOURCE/tests/fixtures/sample" model.norm.weight >"$DEST/out"
check "it prints all tensors" test "$(grep -c bytes "$DEST/out")" = 84
check "and reads one" grep -qx 'model.norm.weight: the sum of 2 elements is .*' "$DEST/out"
check "it needs no other symbols" \
	test "$(objdump -p "$DEST/example" | grep -c CKPTFS_)" = 1
check "an error is one line" test "$("$DEST/example" "$SOURCE/tests/fixtures/sample" none 2>&1 >/dev/null)" = \
	"none: no tensor has this name"
check "the installed program runs" test "$("$DEST"/*/*/bin/ckptfs ls "$SOURCE/tests/fixtures/sample" | head -1)" = full
check "the installed package finds the library" env -u LD_LIBRARY_PATH \
	PYTHONPATH="$(echo "$DEST"/*/*/share/ckptfs/python)" \
	python3 -c 'import ckptfs, sys; sys.exit(len(ckptfs.open(sys.argv[1])) != 84)' "$SOURCE/tests/fixtures/sample"
check "the installed package has all files" diff <(cd "$SOURCE/mount-helpers/python/ckptfs" && ls ./*.py) \
	<(cd "$DEST"/*/*/share/ckptfs/python/ckptfs && ls ./*.py)
echo "1..$n"
exit $failed
