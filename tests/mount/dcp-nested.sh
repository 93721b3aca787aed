# SPDX-License-Identifier: MIT
#
# Data files of DCP in directories of their own, as object stores with a prefix for each rank
# leave them: their ranks, bytes that are of no use, and what a commit makes.
need python3

# made NAME FIRST SECOND: a checkpoint whose two data files have these paths.
made() {
	PYTHONPATH=$HERE/../damage python3 -B - "$@" <<-'EOF2'
		import os, sys
		import source
		_, name, *paths = sys.argv
		c = source.Checkpoint()
		for item in c.items.values():
		    item[0] = paths[item[0] == source.SECOND]
		for path in paths:
		    os.makedirs(f"{name}/{os.path.dirname(path)}", exist_ok=True)
		write = os.makedirs
		os.makedirs = lambda path: None
		c.write(name)
	EOF2
}
ranks() { "$CKPTFS" ls "$1" local | paste -sd' '; }
dead() { "$CKPTFS" check "$1" --json | jq .dead_bytes; }

made prefixes 000/epoch_5/__0_0.distcp 111/epoch_5/__1_0.distcp
equal 'prefixes: ranks' "$(ranks prefixes)" 'rank-0 rank-1'
equal 'prefixes: nothing is dead' "$(dead prefixes)" 0
head -c 7000 /dev/zero >prefixes/111/epoch_5/__1_9.distcp
head -c 5000 /dev/zero >prefixes/111/epoch_5/other.distcp
equal 'prefixes: a file that nothing names' "$(dead prefixes)" 7000
mkdir prefixes/222
cp prefixes/111/epoch_5/__1_9.distcp prefixes/222/
equal 'prefixes: not in a directory that nothing names' "$(dead prefixes)" 7000
: >prefixes/111/.metadata
equal 'prefixes: not below another .metadata' "$(dead prefixes)" 0
rm prefixes/111/.metadata

mounted "$PWD/prefixes" -o write
head -c 48 /dev/urandom >new
cp new "$mnt/raw/a"
equal 'prefixes: ranks after a commit' "$(ls "$mnt/local" | paste -sd' ')" 'rank-0 rank-1'
unmounted
equal 'prefixes: a new file for each rank, in the top directory' \
	"$(cd prefixes && ls __*_ckptfs-1-* | cut -c1-3 | paste -sd' ')" '__0 __1'
check 'prefixes: the bytes' cmp new <("$CKPTFS" cat prefixes raw/a)
equal 'prefixes: ranks of another mount' "$(ranks prefixes)" 'rank-0 rank-1'

# Two directories that have files of one rank may be two saves.
made copies one/__0_0.distcp two/__0_0.distcp
equal 'copies: no ranks' "$(ranks copies | grep -c rank-)" 0
made mixed __0_0.distcp two/__0_0.distcp
equal 'mixed: that of the top directory' "$(ranks mixed | grep -o 'rank-[0-9]*')" rank-0
done_testing
