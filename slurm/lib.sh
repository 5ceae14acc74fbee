# shellcheck shell=bash
# shellcheck disable=SC2034 # variables set here are used by the scripts
# lib.sh: what all jobs share. Sourced by the .sbatch files (through CODE_LOC, since SLURM runs a copy of the script from
# its spool) and, through lib_submit.sh, by the submit scripts. Signals are looked after from here on: see dn_run.

dn_child='' dn_signal='' dn_again=0 dn_saves=0
dn_copies=()

dn_say() { echo "[$(date '+%F %T')] $*" >&2; }
# dn_die [-CODE] TEXT: exit codes are those of docs/exit-codes.md, 2 (usage) if not said.
dn_die() {
    local rc=2
    if [[ $1 =~ ^-([0-9]+)$ ]]; then rc=${BASH_REMATCH[1]}; shift; fi
    dn_say "error: $*"
    exit "$rc"
}

# Settings may come from a file: ENV_FILE, else slurm/env beside this file when it is there (see env.example). What the
# environment sets already wins, so that one value can be changed for one run.
dn_load_env() {
    local file=${ENV_FILE-} line name
    if [ -z "$file" ] && [ -f "$CODE_LOC/slurm/env" ]; then file=$CODE_LOC/slurm/env; fi
    [ -n "$file" ] || return 0
    [ -r "$file" ] || dn_die -3 "the settings file $file cannot be read (ENV_FILE)"
    while IFS= read -r line || [ -n "$line" ]; do
        line=${line%$'\r'}
        case $line in '' | '#'*) continue ;; esac
        name=${line%%=*}
        [[ $line == *=* && $name =~ ^[A-Z][A-Z0-9_]*$ ]] || dn_die "$file: \"$line\" is not NAME=value"
        if [ -z "${!name+set}" ]; then
            line=${line#*=}
            # One pair of quotes around the value is taken off; nothing in it is run.
            if [[ $line =~ ^\"(.*)\"$ || $line =~ ^\'(.*)\'$ ]]; then line=${BASH_REMATCH[1]}; fi
            export "$name=$line"
        fi
    done <"$file"
}

# Stops unless every named setting has a value; names all that lack one.
dn_need() {
    local v missing=()
    for v in "$@"; do [ -n "${!v-}" ] || missing+=("$v"); done
    [ ${#missing[@]} -eq 0 ] || dn_die "not set: ${missing[*]} (in the environment or an env file: see slurm/env.example)"
}

# dn_find PROGRAM: sets dn_cmd to the words that start it: inside the image SIF_LOC when that is set, else from
# CODE_LOC/build/bin, the test tools beside it, or PATH. Never builds.
dn_find() {
    local dir
    if [ -n "${SIF_LOC-}" ]; then
        [ -f "$SIF_LOC" ] || dn_die -3 "SIF_LOC=$SIF_LOC is not a file"
        dn_cmd=("${APPTAINER:-apptainer}" exec ${SIF_BIND:+--bind "$SIF_BIND"} "$SIF_LOC" "$1")
        return
    fi
    for dir in "$CODE_LOC/build/bin" "$CODE_LOC/build/cpu/tools"; do
        if [ -x "$dir/$1" ]; then
            dn_cmd=("$dir/$1")
            return
        fi
    done
    command -v "$1" >/dev/null ||
        dn_die -3 "$1 was not found in $CODE_LOC/build/bin or PATH: build it first (make), or set SIF_LOC to an image"
    dn_cmd=("$1")
}

# Each start of a job says where it runs and what; logs are appended, so a requeued job has one line per start.
dn_header() {
    dn_say "== ${SLURM_JOB_NAME:-$(basename "$0" .sbatch)} ${SLURM_ARRAY_JOB_ID:-${SLURM_JOB_ID:-local}}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}" \
        "start $((${SLURM_RESTART_COUNT:-0} + 1)) on $(hostname), commit $(git -C "$CODE_LOC" rev-parse --short HEAD 2>/dev/null || echo unknown)"
}

# The task's number: SLURM's index plus TASK_OFFSET (arrays longer than MaxArraySize are cut into chunks).
dn_task() { echo $((${SLURM_ARRAY_TASK_ID:-0} + ${TASK_OFFSET:-0})); }

dn_threads() { echo "${SLURM_CPUS_PER_TASK:-${CPUS:-1}}"; }

# A folder for results; every step makes its own.
dn_folder() {
    if ! mkdir -p "$1" 2>/dev/null || [ ! -w "$1" ]; then dn_die -6 "cannot write in $1: check the path, quota and rights"; fi
}

# "0-4" or "78,23,124" or a mix: one number a line.
dn_list() {
    local item items
    IFS=, read -ra items <<<"$1"
    for item in "${items[@]}"; do
        if [[ $item =~ ^([0-9]{1,10})-([0-9]{1,10})$ && ${BASH_REMATCH[1]} -le ${BASH_REMATCH[2]} ]]; then
            seq "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
        elif [[ $item =~ ^[0-9]{1,10}$ ]]; then echo "$item"
        else dn_die "\"$1\" is not a list of numbers such as 0-4 or 78,23,124"
        fi
    done
}

# Sets the arrays folds and seeds from FOLD_LIST and SEED_LIST.
dn_grid() {
    local f s twice
    f=$(dn_list "$FOLD_LIST") || exit
    s=$(dn_list "$SEED_LIST") || exit
    mapfile -t folds <<<"$f"
    mapfile -t seeds <<<"$s"
    for f in FOLD_LIST SEED_LIST; do
        twice=$(dn_list "${!f}" | sort | uniq -d | head -1)
        [ -z "$twice" ] || dn_die "$f=${!f} names $twice twice"
    done
}

# The configuration of a seed: {seed} in CONFIG stands for it.
dn_config() { echo "${CONFIG//'{seed}'/$1}"; }

# ---- what a result was made from ----

# One line for each word: NAME, a setting; @FILE, a result that came before (by its own list); %PATH, files as they are
# now (names, sizes, times; '@' for the chromosome).
dn_from() {
    local w
    for w in "$@"; do
        case $w in
        @*) if [ -s "${w#@}.from" ]; then echo "${w#@} $(cksum <"${w#@}.from")"; else stat -Lc '%n %s %Y' "${w#@}"; fi ;;
        %*) echo "${w#%} $(dn_stat "${w#%}" | cksum)" ;;
        *) echo "$w=${!w-}" ;;
        esac
    done
}

dn_stat() {
    if [ -d "$1" ]; then # a model: packages, or a release
        find -L "$1" -type f \( -name '*.h5' -o -name '*.pt' -o -name '*.np[yz]' -o -name '*.bim' -o -name '*.txt' \) -printf '%P %s %T@\n' |
            LC_ALL=C sort
    elif [[ $1 == *@*. ]]; then # a PLINK prefix, by chromosome
        stat -Lc '%n %s %Y' "${1%%@*}"*"${1#*@}"{bed,bim,fam} 2>/dev/null
    elif [[ $1 == *. ]]; then
        stat -Lc '%n %s %Y' "$1"{bed,bim,fam} 2>/dev/null
    else
        stat -Lc '%n %s %Y' "$1" 2>/dev/null
    fi
}

# dn_done FILE LIST WORD...: true when FILE is there and was made from the same settings and files: then there is nothing to
# do. LIST says what it was made from; it is written before the work starts. Made from others: stops, lest another cohort's
# results are taken for this one's. A FILE without a list was put there by hand and is taken as it is.
dn_done() {
    local file=$1 from=$2 want
    shift 2
    want=$(dn_from "$@")
    if [ -s "$file" ]; then
        if [ ! -e "$from" ]; then
            dn_say "$file is there already, not made by these jobs: taken as it is"
        elif [ "$(cat "$from")" = "$want" ]; then
            dn_say "$file is there already: nothing to do (remove it to make it again)"
        else
            diff "$from" <(echo "$want") >&2
            dn_die -5 "$file is there, but was made from other inputs or settings (above: < then, > now): remove it, or use another folder"
        fi
        return 0
    fi
    { echo "$want" >"$from.tmp.$$" && mv -f "$from.tmp.$$" "$from"; } 2>/dev/null || dn_die -6 "cannot write $from: check quota and rights"
    return 1
}

# ---- staging ----

# dn_stage FILE: copies it to the node's own disk and sets dn_staged to the copy; or, where there is no such disk or no
# room, or the copy is not whole, to the file itself, and says why. STAGE=no switches it off. Copies go with the job.
dn_stage() {
    local file=$1 dir=${SLURM_TMPDIR:-${TMPDIR-}} copy size room
    dn_staged=$file
    if [ "${STAGE:-yes}" = no ]; then return; fi
    if [ -z "$dir" ]; then
        dn_say "neither SLURM_TMPDIR nor TMPDIR is set: reading $file in place"
        return
    fi
    size=$(stat -Lc %s "$file") || dn_die -3 "cannot read $file"
    room=$(df -PB1 "$dir" 2>/dev/null | awk 'NR == 2 {print $4}')
    if [ -z "$room" ] || [ "$room" -lt "$size" ]; then
        dn_say "not enough room in $dir for $file ($size bytes, ${room:-0} free): reading it in place"
        return
    fi
    copy=$dir/dnpipe.${SLURM_JOB_ID:-$$}.$(basename "$file")
    dn_copies+=("$copy")
    if cp -L "$file" "$copy" 2>/dev/null && [ "$(stat -c %s "$copy")" = "$size" ]; then
        dn_say "staged $file to $copy ($size bytes)"
        dn_staged=$copy
    else
        rm -f "$copy"
        dn_say "could not copy $file to $dir: reading it in place"
    fi
}
dn_clean() { [ ${#dn_copies[@]} -eq 0 ] || rm -f "${dn_copies[@]}"; }

# ---- running ----

# SLURM signals the batch shell alone (--signal=B:), so what it gets is passed on to the program. USR1 (time limit near) only
# to one that saves its state (dn_saves=1): another is better left to finish, if it can.
dn_on_signal() {
    dn_again=1
    if [ "$1" = USR1 ] && [ $dn_saves = 0 ]; then
        dn_say "signal USR1: the time limit is near; this step cannot be cut in two, so it goes on: ask for a longer --time if it does not finish"
        return
    fi
    dn_signal=$1
    if [ -n "$dn_child" ]; then
        dn_say "signal $1: passing it on"
        kill -"$1" "$dn_child" 2>/dev/null
    fi
}

# A time limit, scancel, a requeue and a node that goes down all send TERM; by its reason SLURM tells the first apart.
dn_timed_out() { scontrol -o show job "$dn_id" 2>/dev/null | grep -qE ' (JobState=TIMEOUT|Reason=TimeLimit) '; }

# dn_run COMMAND...: the job's work; returns its exit code. A program that stopped after saving says 75, and then this job
# asks to be queued again, as ARRAY_TASK: but not when it was cancelled (a cancelled job stays so), and not without end.
dn_run() {
    local rc=0
    dn_say "run: ${*@Q}"
    if [ -n "$dn_signal" ]; then rc=75; else
        "$@" &
        dn_child=$!
        # A trapped signal ends wait early; then its exit code is not the program's, and it is asked again.
        while :; do
            dn_again=0
            wait "$dn_child"
            rc=$?
            [ $dn_again = 1 ] || break
        done
        # Bash may lose the code of a program that ends at the very instant of a signal, and says -1, 127 or the signal's own. A
        # task that saves is then started again: if it was finished, that start ends at once.
        if [ -n "$dn_signal" ] && [ $dn_saves = 1 ]; then
            case $rc in
            -1 | 127 | 129 | 130 | 138 | 143)
                dn_say "the program's exit code was lost among signals: taken as 75"
                rc=75
                ;;
            esac
        fi
        dn_child=''
    fi
    if [ $rc -eq 75 ] && [ -n "${SLURM_JOB_ID-}" ]; then dn_requeue; fi
    return $rc
}

dn_requeue() {
    trap '' TERM INT HUP USR1 # the requeue itself ends this shell; first the copies are removed
    dn_clean
    dn_id=$SLURM_JOB_ID
    [ -z "${SLURM_ARRAY_JOB_ID-}" ] || dn_id=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}
    if [ "$dn_signal" = TERM ] && ! dn_timed_out; then
        dn_say "state saved; ended from outside: a task that was cancelled continues when it is submitted again, one that SLURM queues again by itself"
        return
    fi
    if [ "${SLURM_RESTART_COUNT:-0}" -ge "${MAX_REQUEUE:-100}" ]; then
        dn_say "state saved, but this is start $((SLURM_RESTART_COUNT + 1)) and MAX_REQUEUE=${MAX_REQUEUE:-100}: ask for a longer --time, then submit it again"
        return
    fi
    dn_say "state saved; queueing $dn_id again"
    scontrol requeue "$dn_id" || dn_say "error: scontrol requeue $dn_id failed: submit the job again to continue"
}

trap 'dn_on_signal USR1' USR1
trap 'dn_on_signal TERM' TERM INT HUP
trap 'dn_clean' EXIT

# ---- measuring ----

# dn_measure_start TABLE; dn_measure STEP PROGRAM ARGUMENT...; dn_measure_end: a line a step, from the program's own last
# line; the table gets its name when all is measured.
dn_measure_start() {
    dn_table=$1
    printf 'step\twall_s\tcpu_s\tpeak_mib\n' >"$dn_table.tmp.$$" || dn_die -6 "cannot write $dn_table"
}
dn_measure() {
    local step=$1 rc said
    shift
    dn_find "$1"
    shift
    said=$(mktemp) || exit 6
    dn_copies+=("$said")
    dn_run "${dn_cmd[@]}" "$@" >&2 2>"$said"
    rc=$?
    cat "$said" >&2
    if [ $rc -ne 0 ]; then
        rm -f "$dn_table.tmp.$$"
        dn_die "-$rc" "$step failed"
    fi
    sed -n 's/^.*: \([0-9.]*\) s wall, \([0-9.]*\) s CPU, \([0-9.]*\) MiB peak memory$/'"$step"'\t\1\t\2\t\3/p' "$said" | tail -1 >>"$dn_table.tmp.$$"
    rm -f "$said"
}
dn_measure_end() {
    mv "$dn_table.tmp.$$" "$dn_table" || dn_die -6 "cannot write $dn_table"
    cat "$dn_table"
}

# The configuration of the published models, for measurements without one.
dn_published_config() {
    printf '%s\n' 'batch_size: 138' 'epochs: 1000' 'input_dropout: 0.0' 'dropout_main: 0.5' 'lr_aux: 0.001' 'lr_main: 0.001' \
        'learning_rate_annealing: 0.999' 'nb_hidden_u_aux: [100, 100]' 'nb_hidden_u_main: [100]' 'patience: 100' \
        'uniform_init_limit: 0.02' 'seed: 78'
}
