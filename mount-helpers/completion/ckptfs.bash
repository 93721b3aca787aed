# SPDX-License-Identifier: MIT
#
# Completion of ckptfs(1) for bash: commands, options, mount options, and the
# names in the checkpoint that the command line names. Names are stems: they
# have no control characters, and inspect takes them as they are.

# The words up to the cursor into `words`, the last one being completed. Bash
# cuts words at = and : too; what stands together is one word here.
_ckptfs_words() {
	local line=${COMP_LINE:0:COMP_POINT} blanks piece i
	words=()
	for ((i = 0; i <= COMP_CWORD; i++)); do
		blanks=${line%%[![:blank:]]*}
		line=${line#"$blanks"}
		piece=${COMP_WORDS[i]}
		[[ $i -lt $COMP_CWORD ]] || piece=$line
		line=${line#"$piece"}
		if [[ -n $blanks || $i -eq 0 ]]; then
			words+=("$piece")
		else
			words[-1]+=$piece
		fi
	done
}

# A word as the shell would pass it, without running anything: quotes and
# backslashes go, ~/ is the home directory.
_ckptfs_unquoted() {
	local word=$1 out= quote= c
	[[ $word != '~/'* ]] || word=$HOME${word#'~'}
	while [[ -n $word ]]; do
		c=${word:0:1}
		word=${word:1}
		if [[ $c == "$quote" ]]; then
			quote=
		elif [[ -z $quote && $c == [\'\"] ]]; then
			quote=$c
		elif [[ $c == \\ && $quote != \' && -n $word ]]; then
			out+=${word:0:1}
			word=${word:1}
		else
			out+=$c
		fi
	done
	REPLY=$out
}

# Offers those of the lines on stdin that begin with the word at the cursor.
# Readline replaces only $2, which may be the end of that word.
_ckptfs_offer() {
	local word=$1 part=$2 line quote=
	[[ ${words[-1]} != [\'\"]* ]] || quote=1
	while IFS= read -r line; do
		[[ $line == "$word"* ]] || continue
		if [[ -z $quote ]]; then
			printf -v line %q "$line"
			line=${line//\\,/,} # a comma needs no quoting
		fi
		line=${line#"${words[-1]%"$part"}"}
		[[ -z $line ]] || COMPREPLY+=("$line")
	done
}

_ckptfs_directories() {
	compopt -o filenames
	mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$1")
}

# What can be a checkpoint: a directory, or a file that is called as such files are.
_ckptfs_sources() {
	local name
	_ckptfs_directories "$1"
	while IFS= read -r name; do
		case $name in
		*.safetensors | *.pt | *.pth | *.bin | *.ckpt)
			[[ -d ${name/#'~/'/"$HOME/"} ]] || COMPREPLY+=("$name")
			;;
		esac
	done < <(compgen -f -- "$1")
}

_ckptfs_mounts() {
	local source place type rest
	while read -r source place type rest; do
		[[ $type != fuse.ckptfs ]] || printf '%b\n' "$place"
	done </proc/self/mounts
}

# Stems beginning with $3 in the checkpoint $2: first fields of the CSV.
_ckptfs_stems() {
	local glob=$3
	glob=${glob//\\/\\\\}
	glob=${glob//\*/\\*}
	glob=${glob//\?/\\?}
	glob=${glob//\[/\\[}
	"$1" inspect --csv -- "$2" "$glob*" 2>/dev/null | sed -e 1d -e '
		s/^"\(\([^"]\|""\)*\)".*/\1/
		t quoted
		s/,.*//
		b
		: quoted
		s/""/"/g'
}

# Paths beginning with $3 in the tree of the checkpoint $2; directories, and links,
# which lead to such, end in a slash.
_ckptfs_paths() {
	local in=
	[[ $3 != */* ]] || in=${3%/*}/
	"$1" ls -l -- "$2" "$in" 2>/dev/null |
		sed -n -e 's/^[dl][^ ]* [^ ]* [^ ]* *[^ ]* [^ ]* [^ ]* \(.*\)/\1\//p' \
			-e 's/^-[^ ]* [^ ]* [^ ]* *[^ ]* [^ ]* [^ ]* //p' |
		while IFS= read -r line; do
			printf '%s%s\n' "$in" "$line"
		done
}

# Values that are names of files, behind $1, which ends in =; directories end in a
# slash.
_ckptfs_option_files() {
	local name
	compgen "$2" -- "$3" | while IFS= read -r name; do
		[[ ! -d $name ]] || name+=/
		printf '%s%s\n' "$1" "$name"
	done
}

# Words of -o, with commas between, of which the last one is completed.
_ckptfs_option_words() {
	local word=$1 part=$2 before= option=${1##*,}
	[[ $word != *,* ]] || before=${word%,*},
	shift 2
	compopt -o nospace
	_ckptfs_offer "$word" "$part" < <(
		printf '%s\n' "${@/#/"$before"}"
		case $option in
		linkroot=* | hf_template=*)
			_ckptfs_option_files "$before${option%%=*}=" -d "${option#*=}"
			;;
		hostfile=* | log=* | manifest=* | placements=* | program=* | rename=* | sidecar=*)
			_ckptfs_option_files "$before${option%%=*}=" -f "${option#*=}"
			;;
		esac
	)
}

# The options of -o of the command $3.
_ckptfs_reading_options() {
	local views=
	case $3 in
	check) views='manifest=' ;;
	ls | cat | cp | getfattr) views='hf_shard_size= hf_template= manifest= placements= ranks= root= views=' ;;
	esac
	_ckptfs_option_words "$1" "$2" $views exclude= kind=dcp kind=ranks kind=run \
		kind=safetensors kind=torch kind=torch_checkpointing linkroot= only= rename= \
		shardlinks=beneath sidecar=
}

_ckptfs_mount_options() {
	_ckptfs_option_words "$1" "$2" agent= allhosts allow_other \
		auto_unmount cache= commit=close \
		commit=manual debug direct exclude= fsname= gather=gpu \
		gather=host gid= gpu= gpu=auto gpu=off gpucache= hf_shard_size= hf_template= hostfile= hosts= \
		keep_unknown kind=dcp kind=ranks kind=run kind=safetensors kind=torch kind=torch_checkpointing linkroot= log= log=syslog manifest= map= nccl=force nccl=off net= \
		nonempty nopassthrough noxattr only= ownermem= patch pinned= placements= prefer= program= ranks= rejoin= rejoin=off rename= replicas=first \
		replicas=full replicas=sample ro root= segment= shardlinks=beneath sidecar= strict \
		timeout= uid= umask= views= write
}

_ckptfs_commands='mount umount mounts status stats log commit abort ls cat cp getfattr inspect check digest diff report bisect dump serve help'

_ckptfs() {
	local program=$1 part=$2 cur command= options most operands=() words i
	local hosts='--hosts --hostfile --map --prefer --replicas'
	_ckptfs_words
	type -P "$program" >/dev/null || program=ckptfs
	_ckptfs_unquoted "${words[-1]}"
	cur=$REPLY
	COMPREPLY=()
	for ((i = 1; i < ${#words[@]} - 1; i++)); do
		if [[ $i -eq 1 && " $_ckptfs_commands " == *" ${words[1]} "* ]]; then
			command=${words[1]}
		elif [[ ${words[i]} == -o || $command == cp && ${words[i]} == -j ||
			$command == serve && ${words[i]} == --mount ||
			$command == check && ${words[i]} == --digests ||
			$command == @(digest|report) && ${words[i]} == --output ||
			$command == diff && ${words[i]} == --[ar]tol ||
			" $hosts " == *" ${words[i]} "* ]]; then
			i=$((i + 1))
		elif [[ ${words[i]} != -* ]]; then
			_ckptfs_unquoted "${words[i]}"
			operands+=("$REPLY")
		fi
	done
	case $command in
	'' | mount) options="-o -f -d $hosts" most=2 ;;
	umount) options='-l' most=99 ;;
	log) options='-f' most=1 ;;
	mounts) options='--json' most=0 ;;
	inspect) options="--summary --chunks --json --csv -o $hosts" most=2 ;;
	check) options="--full --digests --json -o $hosts" most=1 ;;
	digest) options="--output -o $hosts" most=99 ;;
	diff) options='--stats --json --atol --rtol -o' most=99 ;;
	report) options="--values --output -o $hosts" most=1 ;;
	bisect) options='--nan --all-steps --json -o' most=1 ;;
	dump) options="-o $hosts" most=1 ;;
	serve) options='--mount --survive --prefer --replicas -o' most=1 ;;
	ls) options="-l -R --json -o $hosts" most=99 ;;
	cat) options="-o $hosts" most=99 ;;
	cp) options="-r -j --sync --resume -o $hosts" most=99 ;;
	getfattr) options="-o $hosts" most=2 ;;
	status) options='--json' most=1 ;;
	stats) options='--json --reset' most=1 ;;
	help) options='' most=1 ;;
	*) options='' most=1 ;;
	esac
	[[ ${#words[@]} -gt 2 ]] || options='--help --version'

	if [[ ${words[-2]} == -o && $options == *-o* ]]; then
		case $command in
		'' | mount | serve) _ckptfs_mount_options "$cur" "$part" ;;
		*) _ckptfs_reading_options "$cur" "$part" "$command" ;;
		esac
	elif [[ $command == serve && ${words[-2]} == --mount ]]; then
		_ckptfs_directories "$part"
	elif [[ " --hostfile --digests --output " == *" ${words[-2]} "* ]]; then
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$part")
	elif [[ ${words[-2]} == --replicas ]]; then
		_ckptfs_offer "$cur" "$part" < <(printf '%s\n' first full sample)
	elif [[ " --atol --rtol $hosts " == *" ${words[-2]} "* ]]; then
		return
	elif [[ $cur == -* ]]; then
		_ckptfs_offer "$cur" "$part" < <(printf '%s\n' $options)
	elif [[ ${#operands[@]} -ge $most ]]; then
		return
	elif [[ $command == inspect && ${#operands[@]} -eq 1 ||
		$command == digest && ${#operands[@]} -gt 0 ||
		$command == diff && ${#operands[@]} -gt 1 ]]; then
		_ckptfs_offer "$cur" "$part" \
			< <(_ckptfs_stems "$program" "${operands[0]}" "$cur")
	elif [[ " ls cat cp getfattr " == *" $command "* && ${#operands[@]} -gt 0 ]]; then
		_ckptfs_offer "$cur" "$part" \
			< <(_ckptfs_paths "$program" "${operands[0]}" "$cur")
		[[ ${COMPREPLY[0]-} != */ ]] || compopt -o nospace
		[[ $command != cp || ${#operands[@]} -eq 1 ]] || _ckptfs_directories "$part"
	elif [[ $command == help ]]; then
		_ckptfs_offer "$cur" "$part" < <(printf '%s\n' $_ckptfs_commands)
	elif [[ " umount status stats log commit abort " == *" $command "* ]]; then
		_ckptfs_offer "$cur" "$part" < <(_ckptfs_mounts)
	else
		[[ ${#words[@]} -gt 2 ]] || _ckptfs_offer "$cur" "$part" \
			< <(printf '%s\n' $_ckptfs_commands)
		if [[ $command == diff || ${#operands[@]} -eq 0 && $command != serve &&
			$command != bisect ]]; then
			_ckptfs_sources "$part"
		else
			_ckptfs_directories "$part"
		fi
	fi
}

complete -F _ckptfs ckptfs
