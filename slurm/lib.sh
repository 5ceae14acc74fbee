# shellcheck shell=bash
# lib.sh: what all jobs share. Sourced by the .sbatch files (through CODE_LOC, since SLURM runs a copy of the script from
# its spool) and by the submit scripts.

dn_say() { echo "[$(date '+%F %T')] $*" >&2; }
dn_die() {
    dn_say "error: $*"
    exit 2
}

# Settings may come from a file: ENV_FILE, else slurm/env beside this file when it is there (see env.example). What the
# environment sets already wins, so that one value can be changed for one run.
dn_load_env() {
    local file=${ENV_FILE-} line name
    if [ -z "$file" ] && [ -f "$CODE_LOC/slurm/env" ]; then file=$CODE_LOC/slurm/env; fi
    [ -n "$file" ] || return 0
    [ -r "$file" ] || dn_die "the settings file $file cannot be read (ENV_FILE)"
    while IFS= read -r line || [ -n "$line" ]; do
        line=${line%$'\r'}
        case $line in '' | '#'*) continue ;; esac
        name=${line%%=*}
        [[ $line == *=* && $name =~ ^[A-Z][A-Z0-9_]*$ ]] || dn_die "$file: \"$line\" is not NAME=value"
        if [ -z "${!name+set}" ]; then
            line=${line#*=}
            # One pair of quotes around the value is taken off; nothing in it is run.
            [[ $line == \"*\" || $line == \'*\' ]] && line=${line:1:${#line}-2}
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

# Runs a program of ours: inside the image SIF_LOC when that is set, else from CODE_LOC/build/bin or PATH. Never builds.
dn_find() {
    if [ -n "${SIF_LOC-}" ]; then
        [ -f "$SIF_LOC" ] || dn_die "SIF_LOC=$SIF_LOC is not a file"
        dn_cmd=("${APPTAINER:-apptainer}" exec ${SIF_BIND:+--bind "$SIF_BIND"} "$SIF_LOC" "$1")
    elif [ -x "$CODE_LOC/build/bin/$1" ]; then
        dn_cmd=("$CODE_LOC/build/bin/$1")
    elif command -v "$1" >/dev/null; then
        dn_cmd=("$1")
    else
        dn_die "$1 was not found in $CODE_LOC/build/bin or PATH: build it first (make), or set SIF_LOC to an image"
    fi
}

# Each start of a job says where it runs and what; logs are appended, so a requeued job has one line per start.
dn_header() {
    dn_say "== ${SLURM_JOB_NAME:-$(basename "$0")} ${SLURM_ARRAY_JOB_ID:-${SLURM_JOB_ID:-local}}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}" \
        "restart ${SLURM_RESTART_COUNT:-0} on $(hostname), commit $(git -C "$CODE_LOC" rev-parse --short HEAD 2>/dev/null || echo unknown)"
}

# The task's number: SLURM's index plus TASK_OFFSET (arrays longer than MaxArraySize are cut into chunks).
dn_task() { echo $((${SLURM_ARRAY_TASK_ID:-0} + ${TASK_OFFSET:-0})); }

dn_threads() { echo "${SLURM_CPUS_PER_TASK:-1}"; }

# Copies a file to the node's own disk and prints the copy's path; prints the file itself, and says why, when there is no
# such disk or no room, or the copy is not whole.
dn_stage() {
    local file=$1 dir=${SLURM_TMPDIR:-${DN_STAGE_DIR-}} copy size room
    if [ -z "$dir" ]; then
        dn_say "no SLURM_TMPDIR: reading $file in place"
        echo "$file"
        return
    fi
    size=$(stat -Lc %s "$file") || dn_die "cannot read $file"
    room=$(df -PB1 "$dir" 2>/dev/null | awk 'NR == 2 {print $4}')
    if [ -z "$room" ] || [ "$room" -lt "$size" ]; then
        dn_say "not enough room in $dir for $file ($size bytes, ${room:-0} free): reading it in place"
        echo "$file"
        return
    fi
    copy=$dir/dnpipe.${SLURM_JOB_ID:-$$}.$(basename "$file")
    if cp -L "$file" "$copy" 2>/dev/null && [ "$(stat -c %s "$copy")" = "$size" ]; then
        dn_say "staged $file to $copy ($size bytes)"
        echo "$copy"
    else
        rm -f "$copy"
        dn_say "could not copy $file to $dir: reading it in place"
        echo "$file"
    fi
}

# Runs a command as the job's work. SLURM signals the batch shell alone (--signal=B:), so USR1 and TERM are passed on; a
# program that stops after saving says 75, and then the job asks to be queued again, as ARRAY_TASK, unless it was TERM:
# a cancelled job must stay cancelled, and a node that goes down is requeued by SLURM itself.
dn_run() {
    local child rc got_term=0 id
    dn_say "run: ${*@Q}"
    "$@" &
    child=$!
    trap 'dn_say "signal USR1 (time limit near): passing it on"; kill -USR1 $child 2>/dev/null' USR1
    trap 'got_term=1; dn_say "signal TERM: passing it on"; kill -TERM $child 2>/dev/null' TERM
    # A trapped signal ends wait early; the child, even a dead one not yet waited for, still answers kill -0 then.
    while :; do
        wait "$child"
        rc=$?
        kill -0 "$child" 2>/dev/null || break
    done
    trap - USR1 TERM
    if [ $rc -eq 75 ] && [ $got_term -eq 0 ] && [ -n "${SLURM_JOB_ID-}" ]; then
        id=$SLURM_JOB_ID
        [ -z "${SLURM_ARRAY_JOB_ID-}" ] || id=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}
        if scontrol requeue "$id"; then
            dn_say "state saved; $id is queued again"
        else
            dn_say "state saved, but scontrol requeue $id failed: submit the job again to continue"
        fi
    fi
    return $rc
}

# ---- for the submit scripts ----

# sbatch with every line shown; DRY_RUN=1 (or --dry-run) only shows. Prints the job's number. Extra options in
# SBATCH_EXTRA (an array). A refused sbatch ends the chain: nothing pretends to be submitted.
dn_sbatch() {
    local out
    if [ "${DRY_RUN:-0}" = 1 ]; then
        DRY_COUNT=$((${DRY_COUNT:-0} + 1))
        echo "sbatch --parsable ${*@Q}" >&3
        echo "DRY$RANDOM"
        return 0
    fi
    out=$(sbatch --parsable "$@") || {
        dn_say "error: sbatch refused: sbatch --parsable ${*@Q}"
        return 1
    }
    out=${out%%;*}
    [[ $out =~ ^[0-9]+$ ]] || {
        dn_say "error: sbatch said \"$out\" where a job number was expected"
        return 1
    }
    echo "submitted $out: ${*: -1}" >&3
    echo "$out"
}

# The cluster's MaxArraySize: indices must be below it.
dn_max_array() {
    local n
    n=$(scontrol show config 2>/dev/null | sed -n 's/^MaxArraySize *= *\([0-9]*\).*/\1/p')
    echo "${n:-1001}"
}

# Submits tasks 0..N-1 as arrays of at most MaxArraySize indices, the offset of each chunk in TASK_OFFSET. Prints the job
# numbers joined by ':'. Arguments: N, then the sbatch arguments.
dn_sbatch_array() {
    local n=$1 max start=0 len id ids=
    shift
    max=$(dn_max_array)
    [ "$max" -ge 2 ] || max=2
    while [ "$start" -lt "$n" ]; do
        len=$((n - start))
        [ "$len" -le "$max" ] || len=$max
        id=$(TASK_OFFSET=$start dn_sbatch --array="0-$((len - 1))${ARRAY_LIMIT:+%$ARRAY_LIMIT}" --export="ALL,TASK_OFFSET=$start" "$@") || return 1
        ids=${ids:+$ids:}$id
        start=$((start + len))
    done
    echo "$ids"
}

# Lines of a file, for people (.fam) and SNPs (.bim); '@' prefixes sum their chromosomes.
dn_count_lines() {
    local total=0 f n
    for f in "$@"; do
        [ -r "$f" ] || dn_die "cannot read $f"
        n=$(grep -c '' "$f")
        total=$((total + n))
    done
    echo "$total"
}

# Whole GiB, rounded up, of a number of bytes; minutes as SLURM's --time.
dn_gib() { echo $((($1 + (1 << 30) - 1) >> 30)); }

# Options of every submit script: --dry-run, and after "--" whatever sbatch takes.
dn_submit_args() {
    exec 3>&1
    SBATCH_EXTRA=()
    while [ $# -gt 0 ]; do
        case $1 in
        --dry-run) export DRY_RUN=1 ;;
        --) shift; SBATCH_EXTRA+=("$@"); break ;;
        -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        --*=*) SBATCH_EXTRA+=("$1") ;; # --account=x and the like
        *) dn_die "unknown option $1 (options for sbatch go after --)" ;;
        esac
        shift
    done
    [ -z "${ACCOUNT-}" ] || SBATCH_EXTRA=(--account="$ACCOUNT" "${SBATCH_EXTRA[@]}")
}

# The files of a PLINK prefix with an extension; '@' gives the chromosomes that exist.
dn_set_files() {
    local c f found=0
    if [[ $1 != *@* ]]; then
        [ -r "$1.$2" ] || dn_die "cannot read $1.$2"
        echo "$1.$2"
        return
    fi
    for c in {1..26} X Y XY MT; do
        f=${1/@/$c}.$2
        if [ -r "$f" ]; then echo "$f"; found=1; fi
    done
    [ $found = 1 ] || dn_die "no file of the form $1.$2"
}

# Members of a model folder: packages, or a release's weights.
dn_count_members() {
    local n
    n=$(find -L "$1" "$1/DN_MODELS" -maxdepth 1 \( -name 'seed*_fold*.h5' -o -name 'weights_model*.pt' \) 2>/dev/null | wc -l)
    echo $((n > 0 ? n : 15))
}

# "0-4" or "78,23,124" or a mix: one number a line.
dn_list() {
    local item items
    IFS=, read -ra items <<<"$1"
    for item in "${items[@]}"; do
        if [[ $item =~ ^([0-9]+)-([0-9]+)$ ]]; then seq "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
        elif [[ $item =~ ^[0-9]+$ ]]; then echo "$item"
        else dn_die "\"$1\" is not a list of numbers such as 0-4 or 78,23,124"
        fi
    done
}
