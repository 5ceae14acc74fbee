# Sourced by the dntrain*.bats files, after lib.bash.
# shellcheck shell=bash
# shellcheck disable=SC2154 # status and output are set by bats' `run`

# config FILE key=value ...: a small configuration; keys given replace the defaults, key= leaves one out.
config() {
    local file=$1 kv
    shift
    declare -A c=([batch_size]=16 [epochs]=4 [input_dropout]=0.1 [dropout_main]=0.25 [lr_aux]=0.002 [lr_main]=0.002
        [learning_rate_annealing]=0.95 [nb_hidden_u_aux]='[12, 9]' [nb_hidden_u_main]='[7]' [patience]=40 [seed]=78
        [uniform_init_limit]=0.05)
    for kv in "$@"; do c[${kv%%=*}]=${kv#*=}; done
    for kv in "${!c[@]}"; do [ -z "${c[$kv]}" ] || echo "$kv: ${c[$kv]}"; done | sort >"$file"
}

# panel NAME [dnsim options]: NAME.gpk, 4 populations; by default 120 people (person i has population i mod 4), 300 SNPs.
panel() {
    local name=$1
    shift
    "$TOOLS/dnsim" -q -o "$name" -n 120 -m 300 -k 4 --regions 2 --missing 0.02 "$@"
    "$BIN/gpack" -q --bfile "$name" --labels "$name.labels.tsv" -o "$name.gpk"
}

# folds NAME.gpk SPLIT.h5 "fold set people ..." ...: a split from text (tests/tools/mksplit.c).
folds() {
    local data=$1 split=$2
    shift 2
    printf '%s\n' "$@" >"$split.txt"
    "$TOOLS/mksplit" "$data" "$split.txt" "$split"
}

# The usual small set in this test's folder: p.gpk, s.h5 with two folds, c.yaml.
small() {
    cd "$BATS_TEST_TMPDIR" || return 1
    panel p
    folds p.gpk s.h5 "0 train 0-70" "0 valid 71-95" "0 test 96-119" "1 train 40-119" "1 valid 0-19" "1 test 20-39"
    config c.yaml "$@"
}

# dntrain on that set. A function in the background would be a shell with dntrain under it: there, "${dntrain[@]}" is used.
dntrain=("$BIN/dntrain" --data p.gpk --split s.h5 --config c.yaml --threads 1)
train() { "${dntrain[@]}" "$@"; }

# same_results A B [NAME]: package and log are the same bytes.
same_results() {
    local n=${3:-seed78_fold0}
    cmp "$1/$n.h5" "$2/$n.h5" && cmp "$1/$n.log.tsv" "$2/$n.log.tsv"
}

# only_results DIR: nothing but results and checkpoints is left in a folder.
only_results() {
    local left
    left=$(find "$1" -mindepth 1 -printf '%f\n' | grep -vE '^seed[0-9]+_fold[0-9]+\.(h5|log\.tsv|ckpt|ckpt\.prev)$' || true)
    [ -z "$left" ] || { echo "left in $1: $left"; return 1; }
}

# nap MILLISECONDS
nap() { sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"; }
