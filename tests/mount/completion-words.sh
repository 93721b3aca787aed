# SPDX-License-Identifier: MIT
#
# What bash and zsh offer for a command line: commands, options, directories,
# and names of the checkpoint, whatever is in them.

completion=$HERE/../../mount-helpers/completion
source=$FIXTURES/sample
check 'bash: syntax' bash -n "$completion/ckptfs.bash"
need jq python3
. "$completion/ckptfs.bash"
compopt() {
	: # only inside of a completion
}
mkdir bin
ln -s "$CKPTFS" bin/ckptfs
PATH=$WORK/bin:$PATH

# offered LINE: what bash would offer at its end, each on a line. The words
# are cut as readline cuts them.
offered() {
	local COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=() COMP_CWORD COMPREPLY
	local rest=$1 q="'"
	local word="^[[:space:]]*((\\\\.|\"[^\"]*(\"|\$)|$q[^$q]*($q|\$)|[^[:space:]=:\"$q\\\\])+|[=:]+)"
	while [[ $rest =~ $word ]]; do
		COMP_WORDS+=("${BASH_REMATCH[1]}")
		rest=${rest#"${BASH_REMATCH[0]}"}
	done
	[ -z "$rest" ] || COMP_WORDS+=('')
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	local last=${COMP_WORDS[COMP_CWORD]}
	[[ $last != [=:]* ]] || last=
	COMPREPLY=()
	_ckptfs ckptfs "${last#[\'\"]}" ''
	printf '%s\n' "${COMPREPLY[@]}"
}
# offers LINE WORD...
offers() {
	local line=$1
	shift
	equal "bash: $line" "$(offered "$line" | sort | xargs -d '\n')" "$*"
}

mkdir empty
cd empty || exit
check 'bash: every command' diff \
	<(offered 'ckptfs ' | sort) \
	<("$CKPTFS" --help | sed -n 's/^  ckptfs \([a-z]*\) .*/\1/p' | sort)
offers 'ckptfs --' --help --version
offers 'ckptfs in' inspect
offers 'ckptfs xyz'
mkdir checkpoint
offers 'ckptfs ch' check checkpoint
hosts=(--hostfile --hosts --map --prefer --replicas)
offers 'ckptfs check checkpoint -' --digests --full --hostfile --hosts --json --map --prefer \
	--replicas -o
offers 'ckptfs check checkpoint -o ' exclude= kind=dcp kind=ranks kind=run kind=safetensors kind=torch kind=torch_checkpointing linkroot= manifest= only= rename= \
	shardlinks=beneath sidecar=
for command in inspect digest diff report bisect dump; do
	offers "ckptfs $command checkpoint -o " exclude= kind=dcp kind=ranks kind=run kind=safetensors kind=torch kind=torch_checkpointing linkroot= only= rename= \
		shardlinks=beneath sidecar=
done
for command in ls cat cp getfattr; do
	offers "ckptfs $command checkpoint -o " exclude= hf_shard_size= hf_template= kind=dcp kind=ranks kind=run kind=safetensors kind=torch kind=torch_checkpointing linkroot= manifest= only= placements= ranks= rename= root= \
		shardlinks=beneath sidecar= views=
done
offers 'ckptfs mount ' checkpoint
offers 'ckptfs serve -' --mount --prefer --replicas --survive -o
offers 'ckptfs serve --mount ch' checkpoint
offers 'ckptfs serve --mount m ' checkpoint
offers 'ckptfs mount checkpoint -' "${hosts[@]}" -d -f -o
offers 'ckptfs checkpoint -' "${hosts[@]}" -d -f -o
offers 'ckptfs inspect ' checkpoint
offers 'ckptfs dump c' checkpoint
offers 'ckptfs report -' --hostfile --hosts --map --output --prefer --replicas --values -o
offers 'ckptfs dump -' "${hosts[@]}" -o
offers 'ckptfs dump --hosts '
offers 'ckptfs dump --hosts a,b c' checkpoint
offers 'ckptfs dump --replicas f' first full
offers 'ckptfs mounts -' --json
offers 'ckptfs mounts '
offers 'ckptfs log -' -f
offers 'ckptfs help mo' mount mounts
offers 'ckptfs help mount '
offers 'ckptfs dump checkpoint '
offers 'ckptfs checkpoint empty '
offers "ckptfs inspect $source --" --chunks --csv --hostfile --hosts --json --map \
	--prefer --replicas --summary
check 'bash: options of inspect are those of --help' diff \
	<(offered "ckptfs inspect $source -" | sort) \
	<("$CKPTFS" help inspect | grep -oE -- '^  --?[a-z]+' | tr -d ' ' | sort -u)

offers 'ckptfs mount a b -o ' agent= allhosts allow_other auto_unmount \
	cache= commit=close commit=manual debug direct exclude= fsname= \
	gather=gpu gather=host gid= gpu= gpu=auto gpu=off gpucache= \
	hf_shard_size= hf_template= hostfile= hosts= keep_unknown kind=dcp kind=ranks kind=run kind=safetensors kind=torch kind=torch_checkpointing linkroot= log= log=syslog manifest= map= nccl=force nccl=off \
	net= nonempty nopassthrough noxattr only= ownermem= patch pinned= placements= prefer= program= ranks= rejoin= rejoin=off rename= replicas=first \
	replicas=full replicas=sample ro root= segment= shardlinks=beneath sidecar= strict timeout= uid= \
	umask= views= write
offers 'ckptfs a b -o allow' allow_other
offers 'ckptfs a b -o ro,dir' ro,direct
offers 'ckptfs a b -o log=' checkpoint/ syslog
offers 'ckptfs a b -o ro,log=sys' syslog
offers 'ckptfs check checkpoint -o kind=dcp,shard' dcp,shardlinks=beneath
offers 'ckptfs ls -o kind=dcp,kind=r' ranks run

# Files, where they can be a checkpoint, or the value of an option.
mkdir "$WORK/files"
cd "$WORK/files" || exit
mkdir sub step.ckpt
touch a.safetensors b.pt c.pth d.bin e.ckpt notes.txt 'f g.pt' s.json sub/h.pt
for command in mount inspect check digest diff report dump ls cat cp getfattr; do
	offers "ckptfs $command " a.safetensors b.pt c.pth d.bin e.ckpt 'f g.pt' step.ckpt sub
done
offers 'ckptfs b' b.pt bisect
offers 'ckptfs bisect ' step.ckpt sub
offers 'ckptfs bisect -' --all-steps --json --nan -o
offers 'ckptfs -o ro s' step.ckpt sub
offers 'ckptfs b.pt s' step.ckpt sub
offers 'ckptfs mount b.pt ' step.ckpt sub
offers 'ckptfs serve ' step.ckpt sub
offers 'ckptfs inspect sub/' sub/h.pt
HOME=$WORK offers 'ckptfs inspect ~/files/b' '~/files/b.pt'
offers 'ckptfs ls -o sidecar=s' s.json step.ckpt/ sub/
offers 'ckptfs ls -o rename=n' notes.txt
offers 'ckptfs check --digests n' notes.txt
offers 'ckptfs digest --output n' notes.txt
offers 'ckptfs report --output n' notes.txt
offers 'ckptfs report --output notes.txt b' b.pt
offers 'ckptfs diff a.safetensors b' b.pt
offers 'ckptfs ls -o placements=n' notes.txt
offers 'ckptfs ls -o kind=ranks,sidecar=f' 'f\ g.pt'
offers 'ckptfs ls -o linkroot=s' step.ckpt/ sub/
offers 'ckptfs ls -o hf_template=s' step.ckpt/ sub/
offers 'ckptfs mount b.pt m -o ro,linkroot=su' sub/
offers 'ckptfs mount b.pt m -o ro,hostfile=n' notes.txt
cd "$WORK/empty" || exit

norm=model.layers.1.attention_norm.weight
offers "ckptfs inspect $source model.layers.1.attention_n" $norm
offers "ckptfs diff $source $source model.layers.1.attention_n" $norm
offers "ckptfs digest $source model.norm.weight model.layers.1.attention_n" $norm
offers "ckptfs inspect --chunks $source model.layers.1.attention_n" $norm
offers "ckptfs inspect $source --json model.layers.1.attention_n" $norm
offers "ckptfs inspect '$source' model.layers.1.attention_n" $norm
offers "ckptfs inspect $source 'model.layers.1.attention_n" $norm
offers "ckptfs inspect $source nothing"
offers "ckptfs inspect $source $norm "
offers "ckptfs inspect $WORK/none "
equal 'bash: names in natural order' "$(offered "ckptfs inspect $source ")" \
	"$("$CKPTFS" inspect "$source" --json | jq -r '.tensors[].stem')"
cp -a "$source" 'a checkpoint'
offers "ckptfs inspect a\\ checkpoint/ model.layers.1.attention_n" $norm
HOME=$FIXTURES offers 'ckptfs inspect ~/sample model.layers.1.attention_n' $norm
cd "$FIXTURES" || exit
offers "ckptfs inspect sample/ model.layers.1.attention_n" $norm
cd "$WORK/empty" || exit

# Each name of the fixture with odd ones comes back as a word that the shell
# reads as that name.
read_back() {
	local word
	while IFS= read -r word; do
		eval "printf '%s\\n' $word"
	done
}
check 'bash: odd names' diff <(offered "ckptfs inspect $FIXTURES/keys " |
	read_back | sort) <(stems keys | sort)
offers "ckptfs inspect $FIXTURES/keys back\\\\s" 'back\\slash'
offers "ckptfs inspect $FIXTURES/keys with\\ sp" 'with\ space'
offers "ckptfs inspect $FIXTURES/keys \\*" '\*\?\[\]'

offers "ckptfs ls $source " .ckptfs/ dcp/ f32/ full/ hf/ local/ objects/ optim/ raw/ sharded/ torch/
offers "ckptfs ls -l --json $source lo" local/
offers "ckptfs ls $source local/rank-1" local/rank-1/
offers "ckptfs cat $source raw/nothing"
offers "ckptfs cat $source full/$norm.npy full/model.layers.0.attention_n" \
	full/model.layers.0.attention_norm.weight.npy
offers "ckptfs cp -j 4 -r $source full/model.layers.1.attention_n" full/$norm.npy
offers "ckptfs getfattr a\\ checkpoint local/rank-2/model.layers.1.attention_n" \
	local/rank-2/$norm.npy
offers "ckptfs getfattr $source full/$norm.npy "
mkdir "$WORK/steps"
cp -a "$source" "$WORK/steps/step-1"
offers "ckptfs ls $WORK/steps " .ckptfs/ latest/ step-1/
offers "ckptfs cat $WORK/steps latest/full/model.layers.1.attention_n" \
	latest/full/$norm.npy
mkdir elsewhere
offers "ckptfs cp $source full e" elsewhere
rmdir elsewhere
check 'bash: odd names of files' diff <(offered "ckptfs cat $FIXTURES/keys raw/" |
	read_back | sort) <(stems keys | sed 's/^/raw\//' | sort)

mounted "$source"
offers "ckptfs umount $WORK/m" "$mnt"
offers "ckptfs umount -l /tmp $WORK/m" "$mnt"
unmounted
offers "ckptfs umount $WORK/m"

# --- zsh ---------------------------------------------------------------------

if ! command -v zsh >/dev/null; then
	skip 'zsh' 'no zsh'
	done_testing
fi
check 'zsh: syntax' zsh -n "$completion/_ckptfs"

# Arguments: the directory of the completion, the working directory, and typed lines; prints
# each line as changed by the tab key.
cat >zsh-line <<'END'
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell "PS1= PS2= RPS1=; unsetopt zle_bracketed_paste beep
fpath=($1 \$fpath); autoload -Uz compinit; compinit -D -u; cd $2
show() { print -rn -- \"<<\$BUFFER>>\"; zle kill-buffer }
zle -N show; bindkey ^X show; zstyle ':completion:*' insert-tab false
print ready''now"
zpty -r -m shell out '*readynow*' || exit 1
for line in "${@:3}"; do
	zpty -w -n shell "$line"$'\t\x18'
	zpty -r -m shell out '*<<*>>*' || exit 1
	out=${out##*<<}
	print -r -- "${out%%>>*}"
done
zpty -d shell
END
typed=() wanted=()
completes() {
	typed+=("$1") wanted+=("$2")
}
completes 'ckptfs insp' 'ckptfs inspect '
completes 'ckptfs inspect --ch' 'ckptfs inspect --chunks '
completes 'ckptfs dump --hostf' 'ckptfs dump --hostfile '
completes "ckptfs inspect $source model.layers.1.attention_n" \
	"ckptfs inspect $source $norm "
completes "ckptfs inspect $FIXTURES/keys with" \
	"ckptfs inspect $FIXTURES/keys with\\ space "
completes "ckptfs cat $source full/model.layers.1.attention_n" \
	"ckptfs cat $source full/$norm.npy "
completes "ckptfs ls $source loc" "ckptfs ls $source local/"
completes "ckptfs getfattr $FIXTURES/keys raw/with" \
	"ckptfs getfattr $FIXTURES/keys raw/with\\ space "
completes 'ckptfs checkpoint empty -o allow_o' \
	'ckptfs checkpoint empty -o allow_other,'
completes 'ckptfs mount checkp' 'ckptfs mount checkpoint/'
completes 'ckptfs mount ../files/b' 'ckptfs mount ../files/b.pt '
completes 'ckptfs ../files/a' 'ckptfs ../files/a.safetensors '
completes 'ckptfs inspect ../files/su' 'ckptfs inspect ../files/sub/'
completes 'ckptfs mount a b -o kind=ru' 'ckptfs mount a b -o kind=run,'
completes 'ckptfs ls -o kind=ru' 'ckptfs ls -o kind=run,'
completes 'ckptfs check a -o kind=dcp,shardl' 'ckptfs check a -o kind=dcp,shardlinks='
completes 'ckptfs ls -o sidecar=../files/s.j' 'ckptfs ls -o sidecar=../files/s.json '
completes "ckptfs cat $WORK/steps lat" "ckptfs cat $WORK/steps latest/"
mapfile -t lines < <(timeout 300 zsh -f zsh-line "$(realpath "$completion")" "$WORK/empty" \
	"${typed[@]}" | tr -d '\r')
for i in "${!typed[@]}"; do
	equal "zsh: ${typed[i]}" "${lines[i]-}" "${wanted[i]}"
done
done_testing
