# SPDX-License-Identifier: MIT
# -o sidecar=: the sidecar file describes the layout of FSDP1's flat parameters, and the
# optimizer state of each. The option names a sidecar that is not in the checkpoint.
need jq getfattr

# sums WHAT TOP: all files of the fixture have the right bytes.
sums() {
	check "$1" sh -c 'cd "$1" && sha256sum --quiet -c "$2"' - "$2" "$3"
}

fixture=$FIXTURES/ranks_flat_state
mkdir plain steps elsewhere
cp "$fixture"/*.pt plain
cp "$fixture/ckptfs-flat.json" elsewhere/side.json
cp -r plain steps/step-1
cp -r "$fixture" steps/step-2

mounted plain
check 'without it: state under numbers' test -e "$mnt/raw/optim.state.0.exp_avg"
check 'without it: no state of parameters' test ! -e "$mnt/raw/optim.state.net1.0.weight.exp_avg"
cp -r "$mnt/local" local
unmounted

mounted plain -o sidecar=elsewhere/side.json
sums 'a file elsewhere' "$mnt" "$fixture.sha256"
check 'a file elsewhere: nothing under numbers' test ! -e "$mnt/raw/optim.state.0.exp_avg"
check 'a file elsewhere: local/ is as without it' diff -r local "$mnt/local"
unmounted

cd elsewhere
cp side.json other.json
mounted "$fixture" -o sidecar=other.json
check 'instead of the one beside' test -e "$mnt/raw/optim.state.net1.0.weight.exp_avg"
unmounted
printf '{"format":"ckptfs-flat","version":2,"units":[]}' >other.json
mounted "$fixture" -o sidecar=other.json
check 'one that is malformed: a line of damage' \
	grep -q 'EBADMSG: sidecar=other.json: version; expected 1, found 2' "$mnt/.ckptfs/damage"
check 'one that is malformed: the other is not read' \
	test ! -e "$mnt/raw/optim.state.net1.0.weight.exp_avg"
unmounted


jq -c '.units[0].numel += 1' side.json >other.json
unit=$(jq -r '.units[0].flat_param' side.json) number=$(jq '.units[0].flat_param as $u | .optimizers[0] | index($u)' side.json)
mounted ../plain -o sidecar=other.json
check 'a unit of another size: a line of damage' grep -q "of unit $unit, which is not used" "$mnt/.ckptfs/damage"
check 'a unit of another size: its state has numbers' test -e "$mnt/raw/optim.state.$number.exp_avg"
check 'a unit of another size: others are good' test ! -e "$mnt/raw/optim.state.$((number + 1)).exp_avg"
check 'a unit of another size: local/ is as without it' diff -r ../local "$mnt/local"
unmounted

# A relative path, for a mount of several steps; the daemon changes its directory.
mounted ../steps -o sidecar=side.json
sums 'a run directory' "$mnt/step-1" "$fixture.sha256"
sums 'a run directory: a step with its own' "$mnt/step-2" "$fixture.sha256"
unmounted
cd ..

mounted "$FIXTURES/hub_one" -o sidecar=elsewhere/side.json
check 'where nothing is flat' test -e "$mnt/raw"
unmounted

# refused HOW FILE MESSAGE
refused() {
	fails "$1: refused" "$3" "$CKPTFS" mount -o sidecar="$2" plain "$mnt"
	fails "$1: refused by inspect" "$3" "$CKPTFS" inspect -o sidecar="$2" plain
}
refused 'no such file' elsewhere/none 'sidecar=elsewhere/none: No such file or directory'
refused 'a directory' elsewhere 'sidecar=elsewhere: no regular file'
mkfifo elsewhere/fifo
refused 'a fifo' elsewhere/fifo 'sidecar=elsewhere/fifo: no regular file'
truncate -s 100000001 elsewhere/large
refused 'too large' elsewhere/large 'at most 100000000 bytes'

of=optim.state.net1.0.weight.exp_avg
with="-o sidecar=elsewhere/side.json"
check 'ls' sh -c '[ "$("$1" ls $2 plain "raw/$3")" = "raw/$3" ]' - "$CKPTFS" "$with" $of
check 'cat' sh -c '"$1" cat $2 plain "raw/$3" >copy' - "$CKPTFS" "$with" $of
equal 'cat: its bytes' "$(sha256sum <copy | cut -d' ' -f1)" \
	"$(sed -n "s| .*raw/$of\$||p" "$fixture.sha256")"
check 'cp' "$CKPTFS" cp $with plain "raw/$of" copy2
check 'getfattr' "$CKPTFS" getfattr $with plain "raw/$of"
check 'check' "$CKPTFS" check --full $with plain
equal 'inspect' "$("$CKPTFS" inspect --json $with plain | jq -r '.tensors[] | select(.fqn == "'$of'") | .shape | tostring')" '[10,5]'
check 'dump' sh -c '"$1" dump $2 plain | diff - "$3"' - "$CKPTFS" "$with" \
	"$(dirname "$FIXTURES")/golden/ranks_flat_state.dump"

# The fixture also has pieces, which the tensors derived by the sidecar must equal.
pieces=$FIXTURES/ranks_flat_pieces
check 'pieces: nothing is found' "$CKPTFS" check --full "$pieces"
jq '.units[0].params[0].offset = 13 | .units[0].params[1].offset = 0' \
	<"$pieces/ckptfs-flat.json" >elsewhere/swapped.json
fails 'pieces: a sidecar with other offsets' \
	'model.net1.0.weight: ranks have other bytes than are shown: [0,2]' \
	"$CKPTFS" check --full -o sidecar=elsewhere/swapped.json "$pieces"
mounted "$pieces" -o sidecar=elsewhere/swapped.json
equal 'pieces: the attribute' "$(getfattr --only-values -n user.ckptfs.replicas_differ \
	"$mnt/raw/model.net1.0.bias")" '[0,2]'
unmounted

# With DCP. The test fixtures-read checks the tree.
flat=$FIXTURES/dcp_flat
cp -r "$flat" dcp
mv dcp/ckptfs-flat.json elsewhere/of_dcp.json
mounted dcp
equal 'dcp: flat parameters are of that kind' "$(getfattr --only-values -n user.ckptfs.kind "$mnt/raw/net1._flat_param")" flat_param
check 'dcp: without it none is made' test ! -e "$mnt/raw/net1.0.weight"
rm -r local
cp -r "$mnt/local" local
unmounted
mounted dcp -o sidecar=elsewhere/of_dcp.json
sums 'dcp: a file elsewhere' "$mnt" "$flat.sha256"
check 'dcp: local/ is as without it' diff -r local "$mnt/local"
unmounted
check 'dcp: check' "$CKPTFS" check --full -o sidecar=elsewhere/of_dcp.json dcp
rm dcp/__1_0.distcp
mounted dcp -o sidecar=elsewhere/of_dcp.json
fails 'dcp: a lost rank costs its own elements' 'No data available' cat "$mnt/raw/net1.0.weight"
check 'dcp: and no more' sh -c 'dd if="$1/raw/net1.0.weight" bs=80 count=1 status=none | cmp -n 80 - "$2"' - "$mnt" \
	<("$CKPTFS" cat "$flat" raw/net1.0.weight)
unmounted
cp "$flat/__1_0.distcp" dcp
"$CKPTFS" dump "$flat" | sed -n '/^tensor.*net1.0.weight/,/^[^ ]/p' >dumped
equal 'dcp: dump says where in which box' "$(grep -c ' within=[0-9]*+[0-9]*$' dumped)" 3

# A name of the sidecar that the checkpoint already has stays the checkpoint's.
jq '.units[0].params[0].fqn = "net1._flat_param"' elsewhere/of_dcp.json >elsewhere/taken.json
mounted dcp -o sidecar=elsewhere/taken.json
equal 'dcp: a name that is taken' "$(stat -c %s "$mnt/raw/net1._flat_param" "$mnt/raw/net1._flat_param~2" | xargs)" '240 200'
unmounted

# An unreadable sidecar is not damage: the checkpoint is shown without it, with a message.
ln -s ckptfs-flat.json dcp/ckptfs-flat.json
said='sidecar: ckptfs-flat.json: is a symbolic link'
"$CKPTFS" mount dcp "$mnt" 2>err
equal 'regression: one that cannot be read: the mount and status say so' \
	"$(grep -c "$said" err) $(grep -c "^$said" "$mnt/.ckptfs/status")" '1 1'
check 'one that cannot be read: no damage' grep -q '^damaged entries 0 ' "$mnt/.ckptfs/damage"
check 'one that cannot be read: local/ is as without it' diff -r local "$mnt/local"
unmounted
rm dcp/ckptfs-flat.json

# With -o write the derived tensors would have to follow their flat parameter: the sidecar is
# not read, with a message.
cp elsewhere/of_dcp.json dcp/ckptfs-flat.json
said='sidecar: ckptfs-flat.json is not read with -o write'
"$CKPTFS" mount -o write dcp "$mnt" 2>err
equal 'dcp, write: the mount and status report that it is not read' \
	"$(grep -c "$said" err) $(grep -c "^$said" "$mnt/.ckptfs/status")" '1 1'
check 'dcp, write: none is made' test ! -e "$mnt/raw/net1.0.weight"
unmounted

# For another kind of checkpoint the sidecar is not read either.
check 'another kind: dump reports that it is not read' sh -c '"$1" dump -o sidecar=elsewhere/side.json "$2" |
	grep -q "^note sidecar: sidecar=elsewhere/side.json is not read of"' - "$CKPTFS" "$FIXTURES/hub_one"
done_testing
