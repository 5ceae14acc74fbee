#!/usr/bin/env bats
# The corpora of the fuzz targets without a fuzzer: each input as it is, and damaged copies of it.

load ../lib

@test "every fuzz target reads its corpus and damaged copies of it" {
    local bins t n
    bins=$(dirname "$TOOLS")/fuzz
    for t in "$TESTS"/fuzz/fuzz_*.c; do
        n=$(basename "$t" .c)
        [ -d "$TESTS/fuzz/corpus/${n#fuzz_}" ] || { echo "$n has no corpus"; return 1; }
        run timeout 120 "$bins/$n" --mutate "${FUZZ_MUTATIONS-150}" --keep "$BATS_TEST_TMPDIR/$n.input" "$TESTS/fuzz/corpus/${n#fuzz_}"
        if [ "$status" -ne 0 ]; then
            echo "$n: exit $status; its last input is kept as build/$VARIANT/$n.input"
            cp "$BATS_TEST_TMPDIR/$n.input" "$(dirname "$TOOLS")/$n.input"
            echo "$output"
            return 1
        fi
        expect_text " inputs"
    done
}
