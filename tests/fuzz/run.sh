#!/usr/bin/env bash
# Runs the libFuzzer targets in a folder, one after another, FUZZ_SECONDS each (default 60), from their corpora. New
# inputs go to build/fuzz/corpus; an input that fails is left in build/fuzz/NAME-crash-* (add it to tests/fuzz/corpus).
# Usage: run.sh FOLDER [NAME ...]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
bins=$1
shift
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for f in "$here"/fuzz_*.c; do n=$(basename "$f" .c); names+=("${n#fuzz_}"); done
fi
seconds=${FUZZ_SECONDS-60}
export ASAN_OPTIONS=${ASAN_OPTIONS-allocator_may_return_null=1:detect_leaks=1} LSAN_OPTIONS=${LSAN_OPTIONS-suppressions=$root/tests/lsan.supp:print_suppressions=0}
passed=0 failed=0
for n in "${names[@]}"; do
    work=$root/build/fuzz/corpus/$n
    mkdir -p "$work"
    log=$root/build/fuzz/$n.log
    if "$bins/fuzz_$n" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=20000 -use_value_profile=0 \
        -artifact_prefix="$root/build/fuzz/$n-" "$work" "$here/corpus/$n" >"$log" 2>&1; then
        echo "ok fuzz_$n: $(grep -oE 'Done [0-9]+ runs in [0-9]+ second' "$log" | tail -1)s, $(grep -oE 'cov: [0-9]+' "$log" | tail -1)"
        passed=$((passed + 1))
    else
        tail -40 "$log"
        echo "not ok fuzz_$n (log: $log)"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
