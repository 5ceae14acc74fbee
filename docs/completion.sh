#!/usr/bin/env bash
# Makes shell completion from the programs' --help: completion.sh bash|zsh PROGRAM... > FILE
# shellcheck disable=SC2016,SC1003 # the text printed is itself a shell script
set -euo pipefail
shell=$1
shift
# Lines "option<TAB>choices" of one program.
options() {
    "$1" --help | grep -oE '^ +(-[A-Za-z@], )?--[a-z0-9-]+(\[[A-Z]+\])?( [A-Za-z0-9|:._-]+)?' |
        sed -E 's/^ +(-[A-Za-z@], )?//; s/\[[A-Z]+\]//' | awk '{print $1 "\t" ($2 ~ /\|/ ? $2 : "")}'
}
if [ "$shell" = bash ]; then
    echo '# bash completion for dnpipe'
    for p in "$@"; do
        name=$(basename "$p")
        echo "_dnpipe_$name() {"
        echo '    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}'
        echo '    case $prev in'
        options "$p" | while IFS=$'\t' read -r o choices; do
            [ -z "$choices" ] || echo "    $o) mapfile -t COMPREPLY < <(compgen -W '${choices//|/ }' -- \"\$cur\"); return ;;"
        done
        echo '    esac'
        echo "    if [[ \$cur == -* ]]; then mapfile -t COMPREPLY < <(compgen -W '$(options "$p" | cut -f1 | tr '\n' ' ')' -- \"\$cur\")"
        echo '    else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi'
        echo '}'
        echo "complete -o filenames -F _dnpipe_$name $name"
    done
else
    echo "#compdef $(for p in "$@"; do printf '%s ' "$(basename "$p")"; done)"
    echo 'case $service in'
    for p in "$@"; do
        echo "$(basename "$p"))"
        echo '    _arguments \'
        options "$p" | while IFS=$'\t' read -r o choices; do
            if [ -n "$choices" ]; then echo "        '$o:value:(${choices//|/ })' \\"
            else echo "        '$o' \\"; fi
        done
        echo "        '*:file:_files'"
        echo '    ;;'
    done
    echo 'esac'
fi
