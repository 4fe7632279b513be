# bash completion of rea(1)
_rea()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} options=
	local commands='serve explain timeline upstream version'

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$current")
		return
	fi
	case $previous in
	--config | --script | --log)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
		;;
	esac
	case ${COMP_WORDS[1]} in
	serve) options='--config --check' ;;
	explain) options='--config' ;;
	timeline) options='--admin --file --json' ;;
	upstream) options='--listen --name --script --step --log --seed' ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$options --help" -- "$current")
}
complete -F _rea rea
