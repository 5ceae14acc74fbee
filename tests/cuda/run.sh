#!/usr/bin/env bash
# Runs tests/cuda through the host shim and prints "N passed, M failed" as its last line. Usage: run.sh [VARIANT]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(dirname "$(dirname "$here")")/build/${1-cpu}
export SHIM=$build/tests/backend_shim.so
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=1:allocator_may_return_null=1} UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}
unset "${!DN_SHIM_@}"
passed=0 failed=0
for src in "$here"/test_*.c "$here"/test_*.cpp; do
    [ -e "$src" ] || continue
    name=$(basename "${src%.*}")
    log=$("$build/cuda/$name" 2>&1)
    rc=$?
    line=$(tail -1 <<<"$log")
    p=$(sed -n 's/^\([0-9]*\) passed.*/\1/p' <<<"$line") f=$(sed -n 's/.*, \([0-9]*\) failed.*/\1/p' <<<"$line")
    if [ $rc -ne 0 ] || [ -z "$p" ]; then
        echo "$log"
        echo "not ok $name (exit $rc)"
        [ "${f:-0}" -gt 0 ] || f=1
    else
        echo "ok $name: $line"
    fi
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0}))
done
# Whole programs, with the shim as their plugin.
log=$("$here/../run.sh" --variant "${1-cpu}" "$here"/*.bats)
rc=$?
echo "$log" | head -n -1
line=$(tail -1 <<<"$log")
p=$(sed -n 's/^\([0-9]*\) passed.*/\1/p' <<<"$line") f=$(sed -n 's/.*passed, \([0-9]*\) failed.*/\1/p' <<<"$line")
s=$(sed -n 's/.*failed, \([0-9]*\) skipped.*/\1/p' <<<"$line")
if [ $rc -ne 0 ] && [ "${f:-0}" -eq 0 ]; then f=1; fi
passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0}))
echo "$passed passed, $failed failed, ${s:-0} skipped"
[ $failed -eq 0 ]
