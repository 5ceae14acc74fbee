#!/usr/bin/env bash
# Runs the tests of one build variant and prints "N passed, M failed" as its last line.
# Usage: run.sh [--variant V] [--unit] [FILE.bats ...]
# Bats files and unit tests find: BIN (programs), TOOLS (test tools), TESTS (this folder), SHARED (real data, or empty).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
variant=cpu unit_only=0 files=()
while [ $# -gt 0 ]; do
    case $1 in
    --variant) variant=$2; shift ;;
    --unit) unit_only=1 ;;
    *) files+=("$1") ;;
    esac
    shift
done
export BIN=$root/build/$variant/bin TOOLS=$root/build/$variant/tools TESTS=$here VARIANT=$variant
export SHARED=${DNPIPE_SHARED-$root/../shared}
[ -d "$SHARED/golden" ] || SHARED=
if [ -z "$SHARED" ]; then echo "tests that need real data are skipped: no ../shared (set DNPIPE_SHARED)"; fi
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=1:allocator_may_return_null=1} UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}
export LSAN_OPTIONS=${LSAN_OPTIONS-suppressions=$here/lsan.supp:print_suppressions=0}
# These are tests of the CPU, on a machine with a GPU too; tests/gpu.sh names a plugin when it is to be used.
[ -n "${GPU_PLUGIN-}" ] || export CUDA_VISIBLE_DEVICES=
export TMPDIR=${TMPDIR-/tmp} PYTHONDONTWRITEBYTECODE=1
passed=0 failed=0 skipped=0
# Tests run side by side, one per CPU: each has files of its own. Their output comes in the order of their names.
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export logs
# The number before a word in a summary line such as "12 passed, 0 failed".
count() { sed -n "s/.*\b\([0-9][0-9]*\) $2.*/\1/p" <<<"$1" | tail -1; }

if [ ${#files[@]} -eq 0 ]; then
    make -s --no-print-directory -C "$root" VARIANT="$variant" -j"$(nproc)" build-tests || { echo "0 passed, 1 failed"; exit 1; }
    units=()
    for t in "$here"/unit/test_*.c; do units+=("$root/build/$variant/unit/$(basename "$t" .c)"); done
    # shellcheck disable=SC2016 # expanded by the inner shell
    (cd "$root" && printf '%s\0' "${units[@]}" |
        xargs -0 -P "${JOBS:-$(nproc)}" -I{} bash -c 'l=$logs/$(basename "$1"); "$1" >"$l" 2>&1; echo $? >"$l.rc"' _ {})
    for t in "${units[@]}"; do
        log=$(cat "$logs/$(basename "$t")")
        rc=$(cat "$logs/$(basename "$t").rc" 2>/dev/null || echo 1)
        line=$(tail -1 <<<"$log")
        p=$(count "$line" passed) f=$(count "$line" failed)
        if [ "$rc" -ne 0 ] || [ -z "$p" ]; then
            echo "$log"
            echo "not ok $(basename "$t") (exit $rc)"
            [ "${f:-0}" -gt 0 ] || f=1
        else
            echo "ok $(basename "$t"): $line"
        fi
        passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0}))
    done
fi
if [ $unit_only = 0 ]; then
    if [ ${#files[@]} -eq 0 ]; then files=("$here"/bats/*.bats); fi
    # BATS_FILTER=REGEX: only tests whose title matches, in the files that have one.
    if [ -n "${BATS_FILTER-}" ]; then mapfile -t files < <(grep -lE "^@test .*($BATS_FILTER)" "${files[@]}"); fi
    # shellcheck disable=SC2016 # expanded by the inner shell
    printf '%s\0' "${files[@]}" | xargs -0 -P "${JOBS:-$(nproc)}" -I{} bash -c \
        'l=$logs/$(basename "$1"); bats --tap ${BATS_FILTER:+-f "$BATS_FILTER"} "$1" >"$l" 2>&1; echo $? >"$l.rc"; echo "  done: $(basename "$1")" >&2' _ {}
    for f in "${files[@]}"; do
        log=$(cat "$logs/$(basename "$f")")
        rc=$(cat "$logs/$(basename "$f").rc" 2>/dev/null || echo 1)
        p=$(grep -c '^ok ' <<<"$log") f2=$(grep -c '^not ok ' <<<"$log") s=$(grep -c '^ok .*# skip' <<<"$log")
        # A file that does not even load prints no "not ok".
        if [ "$rc" -ne 0 ] && [ "$f2" -eq 0 ]; then f2=1; fi
        if [ "$f2" -gt 0 ]; then echo "$log"; fi
        echo "$(basename "$f"): $((p - s)) passed, $f2 failed, $s skipped"
        passed=$((passed + p - s)) failed=$((failed + f2)) skipped=$((skipped + s))
    done
fi
[ $((passed + failed)) -gt 0 ] || { echo "no test was run"; failed=1; }
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
