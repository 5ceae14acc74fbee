# shellcheck shell=bash
# shellcheck disable=SC2034 # variables set here are used by the scripts
# lib_submit.sh: what the submit scripts share: options, sbatch and its checks, sizes of jobs. DN_LOCAL is set by local.sh:
# then a step runs here and now instead.
# shellcheck source=slurm/lib.sh
. "$CODE_LOC/slurm/lib.sh"
trap - USR1 TERM EXIT

# Options of every submit script: --dry-run, and what sbatch takes: as --name=value, or any after "--". Those that ask for
# a GPU go to the steps that can use one.
dn_submit_args() {
    local script=$0
    SBATCH_EXTRA=() GPU_EXTRA=()
    exec 3>&1
    while [ $# -gt 0 ]; do
        case $1 in
        --dry-run) export DRY_RUN=1 ;;
        -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$script"; exit 0 ;;
        --) shift; break ;;
        --*=*) dn_sbatch_option "$1" ;;
        *) dn_die "unknown option $1 (--dry-run, --name=value for sbatch, or any option of sbatch after --)" ;;
        esac
        shift
    done
    while [ $# -gt 0 ]; do
        case $1 in
        --gres | --gpus | --gpus-per-node | --gpus-per-task | -G) GPU_EXTRA+=("$1" "${2?$1 lacks its value}"); shift ;;
        *) dn_sbatch_option "$1" ;;
        esac
        shift
    done
    dn_load_env
    if [ -n "${ACCOUNT-}" ]; then SBATCH_EXTRA=(--account="$ACCOUNT" "${SBATCH_EXTRA[@]}"); fi
    # More options for one step only.
    read -ra TRAIN_EXTRA <<<"${TRAIN_SBATCH-}"
    read -ra PREDICT_EXTRA <<<"${PREDICT_SBATCH-}"
}
dn_sbatch_option() {
    case $1 in
    --gres=* | --gpus=* | --gpus-per-*=* | -G*) GPU_EXTRA+=("$1") ;;
    *) SBATCH_EXTRA+=("$1") ;;
    esac
}

# sbatch, with every line shown; DRY_RUN=1 (or --dry-run) only shows. Prints the job's number. A refused sbatch ends the
# chain: nothing pretends to be submitted.
dn_sbatch() {
    local out
    if [ "${DRY_RUN:-0}" = 1 ]; then
        echo "sbatch --parsable ${*@Q}" >&3
        echo "JOB_$(basename "${*: -1}" .sbatch)${TASK_OFFSET:+_$TASK_OFFSET}"
        return 0
    fi
    if [ -n "${DN_LOCAL-}" ]; then
        dn_local "$@"
        return
    fi
    out=$(sbatch --parsable "$@") || {
        dn_say "error: sbatch refused: sbatch --parsable ${*@Q}"
        dn_say "the jobs named above, if any, are in the queue; this step and those after it are not"
        return 1
    }
    out=${out%%;*}
    [[ $out =~ ^[0-9]+$ ]] || {
        dn_say "error: sbatch said \"$out\" where a job number was expected: sbatch --parsable ${*@Q}"
        return 1
    }
    echo "submitted $out: $(basename "${*: -1}")${TASK_OFFSET:+ (tasks from $TASK_OFFSET)}" >&3
    echo "$out"
}

# The cluster's MaxArraySize: indices must be below it.
dn_max_array() {
    local n
    n=$(scontrol show config 2>/dev/null | sed -n 's/^MaxArraySize *= *\([0-9]*\).*/\1/p')
    echo "${n:-1001}"
}

# dn_sbatch_array N SBATCH-ARGUMENTS: tasks 0..N-1 as arrays of at most MaxArraySize indices; the number of a chunk's first
# task goes in TASK_OFFSET. Prints the job numbers joined by ':'.
dn_sbatch_array() {
    local n=$1 max start=0 len id ids=''
    shift
    max=$(dn_max_array)
    [ "$max" -ge 1 ] || dn_die -8 "this SLURM does not allow arrays (MaxArraySize = $max): ask its administrators"
    while [ "$start" -lt "$n" ]; do
        len=$((n - start))
        [ "$len" -le "$max" ] || len=$max
        id=$(export TASK_OFFSET=$start && dn_sbatch --array="0-$((len - 1))${ARRAY_LIMIT:+%$ARRAY_LIMIT}" --export="ALL,TASK_OFFSET=$start" "$@") || return 1
        ids=${ids:+$ids:}$id
        start=$((start + len))
    done
    echo "$ids"
}

# Dependents of a step that failed leave the queue instead of waiting for ever.
dn_after() { after=(--dependency="$1:$2" --kill-on-invalid-dep=yes); }

# How every training begins: panel packed, folds drawn, after dn_train_sizes. Sets logs, pack, split, and after: behind split.
dn_pack_and_split() {
    logs=(--output="$RUN_DIR/logs/%x_%j.log")
    pack=$(dn_sbatch "${logs[@]}" --mem="${pack_gib}G" --time="$pack_min" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/pack.sbatch")
    dn_after afterok "$pack"
    split=$(dn_sbatch "${logs[@]}" "${after[@]}" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/split.sbatch")
    dn_after afterok "$split"
}

# ---- without SLURM (local.sh) ----

# Runs one step, or up to JOBS tasks of an array at once; DN_LOCAL is the file where failures are noted.
dn_local() {
    local arg tasks='' script='' log='' name part
    for arg in "$@"; do
        case $arg in
        --dependency=*)
            for part in ${arg//,/ }; do
                if [[ ${part#--dependency=} == afterok:*failed* ]]; then
                    dn_say "not run, since a step before it failed: $(basename "${*: -1}")"
                    echo failed
                    return 0
                fi
            done
            ;;
        --array=0-*) tasks=${arg#--array=0-} tasks=${tasks%%%*} ;;
        --output=*) log=${arg#--output=} ;;
        *.sbatch) script=$arg ;;
        esac
    done
    name=$(basename "$script" .sbatch)
    log=${log//%x/$name} log=${log//%[jA]/local}
    echo "run: $name${tasks:+ (tasks 0-$tasks, ${JOBS:-1} at once)}" >&3
    export log script
    # shellcheck disable=SC2016 # the inner shell expands it
    seq 0 "${tasks:-0}" | xargs -P "${JOBS:-1}" -I{} bash -c '
        [ "$2" = one ] || export TASK_OFFSET=$(($1 + ${TASK_OFFSET:-0}))
        bash "$script" 3>&- >>"${log//%a/$TASK_OFFSET}" 2>&1 || { rc=$?; echo "$script ${TASK_OFFSET-} exit $rc: see ${log//%a/${TASK_OFFSET-}}" | tee -a "$DN_LOCAL" >&2; exit 1; }
    ' local {} "${tasks:+array}${tasks:-one}" && echo 1 || echo failed
}

# ---- sizes of jobs (docs/slurm.md gives the formulas) ----

# Whole GiB, rounded up, of a number of bytes.
dn_gib() { echo $((($1 + (1 << 30) - 1) >> 30)); }

# Lines of files, for people (.fam) and SNPs (.bim).
dn_count_lines() {
    local total=0 f n
    for f in "$@"; do
        [ -r "$f" ] || dn_die -3 "cannot read $f"
        n=$(grep -c '' "$f") || true
        total=$((total + n))
    done
    echo "$total"
}

# The files of a PLINK prefix with an extension, one a line; '@' gives the chromosomes that exist.
dn_set_files() {
    local c f found=0
    if [[ $1 != *@* ]]; then
        [ -r "$1.$2" ] || dn_die -3 "cannot read $1.$2"
        echo "$1.$2"
        return
    fi
    for c in {1..26} X Y XY MT; do
        f=${1/@/$c}.$2
        if [ -r "$f" ]; then echo "$f"; found=1; fi
    done
    [ $found = 1 ] || dn_die -3 "no file of the form $1.$2"
}

# Sets people and snps of a PLINK prefix.
dn_set_size() {
    local fams bims
    fams=$(dn_set_files "$1" fam) || exit
    bims=$(dn_set_files "$1" bim) || exit
    mapfile -t bims <<<"$bims"
    people=$(dn_count_lines "${fams%%$'\n'*}") || exit
    snps=$(dn_count_lines "${bims[@]}") || exit
    [ "$people" -gt 0 ] || dn_die -4 "${fams%%$'\n'*} names nobody"
    [ "$snps" -gt 0 ] || dn_die -4 "${bims[0]} names no SNP"
}

# Members of a model folder: packages, or a release's weights.
dn_count_members() {
    local n
    [ -e "$1" ] || dn_die -3 "MODEL_DIR=$1 is not there"
    n=$(find -L "$1" "$1/DN_MODELS" -maxdepth 1 \( -name 'seed*_fold*.h5' -o -name 'weights_model*.pt' \) 2>/dev/null | wc -l)
    echo $((n > 0 ? n : 15))
}

# A number of a configuration file; a default if it is not there.
dn_config_value() {
    local v
    v=$(sed -n "s/^$2: *\([0-9][0-9]*\).*/\1/p" "$1" | head -1)
    echo "${v:-$3}"
}

# dn_train_sizes PEOPLE SNPS: sets cpus, pack_gib, pack_min, train_gib and train_min, and prints them. A training task: the
# packed panel, 1 GiB beside it (dntrain's promise), and 1 GiB for libraries and the job's own cache. A step (a batch) takes
# 1.5 microseconds of one core a SNP, as does each evaluation of a batch; doubled.
dn_train_sizes() {
    local people=$1 snps=$2 config batch epochs
    config=$(dn_config "${seeds[0]}")
    [ -r "$config" ] || dn_die -3 "cannot read $config (CONFIG)"
    batch=$(dn_config_value "$config" batch_size 138)
    epochs=$(dn_config_value "$config" epochs 1000)
    [ "$batch" -gt 0 ] || batch=1
    cpus=${CPUS:-8}
    pack_gib=$(dn_gib $(((2 << 30) + snps * 200)))
    pack_min=$((10 + 2 * people * snps / (4 * 20000000 * 60)))
    train_gib=$(dn_gib $(((2 << 30) + people * snps / 4)))
    train_min=$((10 + 6 * epochs * (people / batch + 2) * snps / (1000000 * cpus * 60)))
    [ "$train_min" -le "${MAX_MINUTES:-1440}" ] || train_min=${MAX_MINUTES:-1440}
    dn_say "panel: $people people x $snps SNPs; batches of $batch, at most $epochs epochs"
    dn_say "asks for: pack ${pack_gib}G, $pack_min min; train ${train_gib}G, $train_min min a task, $cpus CPUs (a task that needs longer saves and queues itself again)"
}
