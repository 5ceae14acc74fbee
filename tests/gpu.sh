#!/usr/bin/env bash
# On a machine with a GPU, once, in less than 8 minutes: builds with CUDA=1, compares the plugin with the CPU, has
# compute-sanitizer look at small runs, takes times at UK Biobank's sizes (simulated here), and prints one table.
# Every step has a time limit of its own, and a step that fails does not stop the others; exit 1 if one did.
#
#   tests/gpu.sh [FOLDER]      logs, figures and the table go there (default: build/gpu)
#
# GPU_SH_BUILT=1: build/ is there already, with build/cpu/lib/backend_cuda.so (tests/gpu_pack.sh makes it for a machine that
# cannot build). GPU_SH_SMALL=1: the host shim for a GPU and
# tiny sizes: a test of this script. GPU_SH_SECONDS: the whole time (460).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
out=${1:-build/gpu}
mkdir -p "$out" || exit 6
out=$(realpath "$out")
variant=${VARIANT:-cpu}
bin=build/$variant/bin tools=build/$variant/tools
deadline=$((SECONDS + ${GPU_SH_SECONDS:-460})) failed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
: >"$out/steps.tsv"

small=${GPU_SH_SMALL:-0}
if [ "$small" = 1 ]; then
    plugin=$PWD/build/$variant/tests/backend_shim.so
    # shellcheck disable=SC2054 # a list of batch sizes is one word
    shape=(-n 64 -m 1501 -k 4 -u 12 --batches 8,16 --seconds 0.05)
    predict=(-n 40 -m 1203 -u 7 --models 4 --folds 2 --seconds 0.05)
    check=(-m 301 -k 3 -u 9 --models 3 --folds 2)
    whole=(--snps 1201 --folds 2 --repeats 2 --units 9 --hidden 8 --classes 4 --people 50)
    filter='auto takes'
    operations=(ops) # the others make every call of the shim fail in turn
else
    plugin=$PWD/build/$variant/lib/backend_cuda.so
    # shellcheck disable=SC2054
    shape=(-n 292048 -m 169829 -k 24 -u 100 --batches 138,512,2048 --seconds 6)
    predict=(-n 16384 -m 229986 -u 100 --models 15 --folds 5 --seconds 6)
    check=(-m 5001 -k 6 -u 40 --models 6 --folds 3)
    # gpubench has compared nets of every shape by then.
    filter='whole|GP04|CL02|moves|border|regression|golden|blocks|auto takes'
    operations=(ops net fat)
    whole=(--snps 229986 --folds 5 --repeats 3 --units 100 --hidden 100 --classes 24 --people 32768)
fi
export DNPIPE_CUDA_PLUGIN=${GPU_SH_PLUGIN:-$plugin}
if [ "${GPU_SH_BUILT:-0}" = 1 ] && [ -d build/gpu-libs ]; then # unpacked here
    export LD_LIBRARY_PATH=$PWD/build/gpu-libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    # cuBLAS may be there as a package of Python alone.
    if ldd "$plugin" | grep -q 'libcublas.*not found'; then
        blas=$(find /usr /opt -name 'libcublas.so.*' 2>/dev/null | head -1)
        [ -z "$blas" ] || LD_LIBRARY_PATH+=:$(dirname "$blas")
    fi
fi

# step NAME SECONDS COMMAND...: its output goes to FOLDER/NAME.log, its standard output alone to FOLDER/NAME.tsv.
step() {
    local name=$1 limit=$2 start=$SECONDS rc left word
    shift 2
    left=$((deadline - SECONDS))
    if [ $left -lt 5 ]; then
        rc=124
        echo "no time was left" >"$out/$name.log"
    else
        [ "$limit" -le $left ] || limit=$left
        timeout -k 5 "$limit" "$@" >"$out/$name.tsv" 2>"$out/$name.log" </dev/null
        rc=$?
        cat "$out/$name.tsv" >>"$out/$name.log"
    fi
    case $rc in
    0) word=ok ;;
    77) word="not here" ;;
    124 | 137) word="time is up ($limit s)" failed=$((failed + 1)) ;;
    *) word="FAILED (exit $rc)" failed=$((failed + 1)) ;;
    esac
    printf '%s\t%s\t%d s\n' "$name" "$word" $((SECONDS - start)) | tee -a "$out/steps.tsv" >&2
    [ "$rc" = 0 ] || [ "$rc" = 77 ] || tail -5 "$out/$name.log" | sed 's/^/    /' >&2
}

device() {
    local text
    # It waits for 10 s at most; the first look at a cold driver may take longer.
    text=$("$bin/dntrain" --version) || return
    grep -q '^GPU 0: ' <<<"$text" || text=$("$bin/dntrain" --version)
    echo "$text"
    ! command -v nvidia-smi >/dev/null || nvidia-smi
}

# Whole programs and every kind of run, through the real plugin.
programs() {
    command -v bats >/dev/null || { echo "bats is not installed" >&2; return 77; }
    GPU_PLUGIN=$DNPIPE_CUDA_PLUGIN GPU_VISIBLE=${CUDA_VISIBLE_DEVICES-} JOBS=2 BATS_FILTER=$filter \
        tests/run.sh --variant "$variant" tests/cuda/predict_gpu.bats tests/cuda/train_gpu.bats
}

# The operations' tests under a tool of compute-sanitizer: not gpubench, which looks for devices in a forked child. Errors of
# calls are the plugin's to report.
sanitize() {
    local tool=$1 s t rc
    s=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) || { echo "no compute-sanitizer" >&2; return 77; }
    shift
    for t in "$@"; do
        SHIM=$DNPIPE_CUDA_PLUGIN "$s" --tool "$tool" --report-api-errors no --error-exitcode 9 "build/$variant/cuda/test_cuda_$t" 2>&1 |
            tee "$tmp/sanitizer.log"
        rc=${PIPESTATUS[0]}
        ! grep -q 'Device not supported' "$tmp/sanitizer.log" || return 77 # some virtual machines
        [ "$rc" = 0 ] || return "$rc"
    done
}

# dnpredict as it is used: model and cohort from disk (just written: in the page cache), the table to disk.
program_predict() {
    "$tools/mkmodel" -o "$tmp/model" "${whole[@]}" --cohort "$tmp/cohort.gpk" --missing 0.01 &&
        "$bin/dnpredict" --device cuda --model "$tmp/model" "$tmp/cohort.gpk" -o "$tmp/gpu.tsv" --memory 16G
}

if [ "$small" != 1 ] && [ "${GPU_SH_BUILT:-0}" != 1 ]; then
    step build 170 make -j"$(nproc)" CUDA=1 all tools cuda-tests
fi
export bin tools variant tmp filter
export -f device programs sanitize program_predict
# Arrays cannot be exported: the one that a function needs goes as words.
step device 30 bash -c device
step check_float32 40 "$tools/gpubench" check "${check[@]}"
for what in "${operations[@]}"; do step "test_cuda_$what" 60 env SHIM="$DNPIPE_CUDA_PLUGIN" "build/$variant/cuda/test_cuda_$what"; done
step train_float32 70 "$tools/gpubench" train "${shape[@]}"
step predict_float32 40 "$tools/gpubench" predict "${predict[@]}"
step check_tf32 40 "$tools/gpubench" check "${check[@]}" --precision tf32
step train_tf32 60 "$tools/gpubench" train "${shape[@]}" --precision tf32
step predict_tf32 40 "$tools/gpubench" predict "${predict[@]}" --precision tf32
step program_predict 80 bash -c "whole=(${whole[*]}); program_predict"
step programs 120 bash -c programs
step memcheck 60 bash -c "sanitize memcheck fat net"
step initcheck 40 bash -c "sanitize initcheck fat net"

# ---- the table ----
{
    sed -n 's/^GPU 0: /device\t/p' "$out/device.tsv" | head -1
    sed -n 's/^CUDA: plugin .*, for /plugin\t/p' "$out/device.tsv"
    printf 'commit\t%s\n' "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
    echo
    printf 'step\tresult\ttime\n'
    cat "$out/steps.tsv"
    echo
    for what in train predict; do
        touch "$out/${what}_float32.tsv" "$out/${what}_tf32.tsv"
        [ -s "$out/${what}_float32.tsv" ] || [ -s "$out/${what}_tf32.tsv" ] || continue
        printf '%s\tfloat32\ttf32\tunit\n' "$what"
        # One of the two may have stopped early.
        awk -F'\t' -v OFS='\t' '{k = FILENAME ~ /_tf32.tsv$/; v[k, $1] = $2; unit[$1] = $3; if (!($1 in seen)) {seen[$1]; name[++n] = $1}}
            END {for (i = 1; i <= n; i++) print name[i], v[0, name[i]], v[1, name[i]], unit[name[i]]}' "$out/${what}_float32.tsv" "$out/${what}_tf32.tsv"
        echo
    done
    for precision in float32 tf32; do
        awk -F'\t' -v p=$precision '{n++} /TOO LARGE/ {bad++} $2 > worst {worst = $2}
            END {printf "differences from the CPU, %s\t%d compared, %d too large\n", p, n, bad}' "$out/check_$precision.tsv" 2>/dev/null
    done
    sed -n 's/.*dnpredict: \([0-9]* people predicted.*\)/dnpredict\t\1/p' "$out/program_predict.log" 2>/dev/null
    tail -1 "$out/programs.log" 2>/dev/null | sed 's/^/tests of whole programs\t/'
} | tee "$out/table.tsv"
[ $failed -eq 0 ]
