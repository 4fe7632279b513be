# bash completion of rea(1)
_rea()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} options=
	local commands='serve call run tasks torture check config contract explain timeline lab upstream version'

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$current")
		return
	fi
	case $previous in
	--config | --classpath | --script | --log | --json | --html | --markdown)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
		;;
	esac
	case ${COMP_WORDS[1]} in
	check) options='--format --chain --profile --kind --classpath --cloud-version --boot-version --retryer --retryable --instances --keyed --limit --fix' ;;
	config) options='--config --source --over' ;;
	contract) options='--context --base-path --json' ;;
	call) options='--config --method --header --data --key --make-key --biz-id --permission --policy --include --quiet' ;;
	run) options='--policy --retries --timeout --deadline --budget --retry-codes --permanent-codes --kill-after --no-stdin --verbose --quiet' ;;
	tasks) options='--admin --json --method --header --data --key --biz-id --policy --not-before --delay-ms --max-age-ms --sync-first --file --key-prefix --state --target --limit --all --force --dry-run --for --why' ;;
	torture) options='--rounds --seconds --clients --rate --seed --power-cuts --keep' ;;
	serve) options='--config --check' ;;
	explain) options='--config --live --admin --policy' ;;
	timeline) options='--admin --config --file --json' ;;
	lab) options='--policy --seeds --seed --set --vary --json --html --markdown --check --port --through' ;;
	upstream) options='--listen --name --script --step --log --seed' ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$options --help" -- "$current")
}
complete -F _rea rea
