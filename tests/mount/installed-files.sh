# SPDX-License-Identifier: MIT
#
# What `meson install` puts where, and that the manual pages are in order.
need meson

root=$WORK/root
build=$(build_directory)
check 'meson install' meson install -C "$build" --no-rebuild \
	--destdir "$root"
prefix=$(dirname "$(dirname "$(find "$root" -path '*/bin/ckptfs')")")
equal 'the program runs' "$(env -u LD_LIBRARY_PATH "$prefix/bin/ckptfs" --version)" \
	"$("$CKPTFS" --version)"
check 'mount.ckptfs is a link to it' test "$prefix/sbin/mount.ckptfs" \
	-ef "$prefix/bin/ckptfs"
equal 'no other program' "$(cd "$prefix" && ls bin sbin | xargs)" \
	'bin: ckptfs sbin: mount.ckptfs'
equal 'completion' "$(cd "$prefix/share" && ls bash-completion/completions/* \
	zsh/site-functions/* | xargs)" \
	'bash-completion/completions/ckptfs zsh/site-functions/_ckptfs'
equal 'modules for Python' "$(cd "$prefix/share/ckptfs/python" && ls | xargs)" \
	'ckptfs ckptfs_sidecar.py'
equal 'modules and the library' "$(find "$prefix" -name '*.so' |
	sed 's|.*/||' | sort)" \
	"$(cd "$build/mount-helpers" && { ls -- ckptfs-*.so && echo libckptfs.so; } | sort)"

if ! command -v scdoc >/dev/null; then
	skip 'manual pages' 'no scdoc'
	done_testing
fi
man=$prefix/share/man
equal 'manual pages' "$(cd "$man" && ls man*/* | xargs)" \
	'man1/ckptfs.1 man5/ckptfs.5 man8/mount.ckptfs.8'
# Warnings of mandoc that the output of scdoc always causes.
habits='PP empty|PP after S[HS]|lower case character in document title|'
habits="${habits}longer than 80 bytes"
for page in "$man"/man*/*; do
	name=$(basename "$page")
	if command -v mandoc >/dev/null; then
		equal "$name: mandoc -T lint" \
			"$(mandoc -T lint "$page" | grep -vE "$habits")" ''
	else
		skip "$name: mandoc -T lint" 'no mandoc'
	fi
	if command -v groff >/dev/null; then
		equal "$name: groff warnings" \
			"$(groff -man -Tutf8 -ww -z "$page" 2>&1)" ''
	else
		skip "$name: groff warnings" 'no groff'
	fi
done
done_testing
