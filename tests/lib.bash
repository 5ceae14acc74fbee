# Sourced by the bats files: `load ../lib` (bats looks for lib.bash beside the test's folder).
# shellcheck shell=bash
# shellcheck disable=SC2154 # status and output are set by bats' `run`

PYTHON=${PYTHON:-/usr/bin/python3}

# t5 PREFIX [options]: the base set of the field reports (see t5.py).
t5() { "$PYTHON" "$TESTS/t5.py" "$@"; }

# Skips the test where there is no real data (a user's clone).
need_shared() { [ -n "$SHARED" ] || skip "no real data (../shared)"; }
need() { command -v "$1" >/dev/null || skip "$1 is not installed"; }

# expect_exit N: $status of the last `run`.
expect_exit() {
    [ "$status" -eq "$1" ] || { echo "exit $status, expected $1; output: $output"; return 1; }
}

# expect_text WORD...: $output holds each of them; refuse_text: none of them.
expect_text() {
    local w
    for w in "$@"; do
        [[ $output == *"$w"* ]] || { echo "output lacks '$w': $output"; return 1; }
    done
}
refuse_text() {
    local w
    for w in "$@"; do
        [[ $output != *"$w"* ]] || { echo "output holds '$w': $output"; return 1; }
    done
}

# Sanitizers keep memory of their own beside the program's: bounds on it are tested on the plain build.
plain_build() { [ "${VARIANT:-cpu}" = cpu ]; }
need_plain_build() { plain_build || skip "sanitizers use memory of their own"; }
# room 40M: that in the plain build, which makes several blocks there; under a sanitizer what its own memory adds.
room() { plain_build && echo "$1" || echo $((${1%M} + 600))M; }

# big.bed/.bim/.fam: 486,748 people x 230,000 SNPs, 28 GB, nearly all of it a hole: everybody has two A1 everywhere, but
# for the first and last four people at the first and last SNP and either side of 2^31 and 2^32 bytes.
huge_fileset() {
    local snp
    awk 'BEGIN { for (i = 1; i <= 486748; i++) print "F S" i " 0 0 1 -9" }' >big.fam
    awk 'BEGIN { for (i = 1; i <= 230000; i++) print "1\trs" i "\t0\t" i "\tA\tG" }' >big.bim
    printf '\x6c\x1b\x01' >big.bed
    truncate -s 27988010003 big.bed || skip "no sparse files here"
    for snp in 0 17647 17648 35296 229999; do # 0xe4: A1 hom, missing, het, A2 hom; 0x1b: the other way round
        printf '\xe4' | dd of=big.bed bs=1 seek=$((3 + snp * 121687)) conv=notrunc status=none
        printf '\x1b' | dd of=big.bed bs=1 seek=$((3 + snp * 121687 + 121686)) conv=notrunc status=none
    done
}
