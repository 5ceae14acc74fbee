#!/usr/bin/env bash
# snpmatch against plink2 --export ind-major-bed on the same fileset: wall, CPU, peak memory, and the ratio.
# Usage: snpmatch.sh     Environment: BIN; BENCH_PEOPLE (10000), BENCH_SNPS (229986), BENCH_ROUNDS (7), BENCH_THREADS (2),
# BENCH_DIR (a folder on the disk to be measured, default TMPDIR; a fileset and two outputs of its size are made there).
# snpmatch also syncs its output to the disk, which plink2 does not: with the outputs in memory (/dev/shm) both do the same.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
BIN=${BIN:-$root/build/cpu/bin}
PYTHON=${PYTHON:-/usr/bin/python3}
people=${BENCH_PEOPLE:-10000} snps=${BENCH_SNPS:-229986} rounds=${BENCH_ROUNDS:-7} threads=${BENCH_THREADS:-2}
dir=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/dnpipe_match.XXXXXX")
mem=$(mktemp -d /dev/shm/dnpipe_match.XXXXXX 2>/dev/null || true)
trap 'rm -rf "$dir" ${mem:+"$mem"}' EXIT
cd "$dir"
command -v plink2 >/dev/null || { echo "snpmatch.sh: plink2 is not installed (apt-get install plink2)" >&2; exit 1; }
[ -x /usr/bin/time ] || { echo "snpmatch.sh: /usr/bin/time is not installed (apt-get install time)" >&2; exit 1; }

# Random genotypes: neither program's work depends on them.
"$PYTHON" - "$people" "$snps" <<'PY'
import os, sys
n, m = map(int, sys.argv[1:])
with open('c.fam', 'w') as f:
    f.write(''.join(f'F{i} I{i} 0 0 0 -9\n' for i in range(n)))
with open('c.bim', 'w') as f:
    f.write(''.join(f'{1 + j * 22 // m}\trs{j}\t0\t{1000 + 10 * j}\t{"ACTG"[j % 4]}\t{"GTCA"[j % 4]}\n' for j in range(m)))
with open('c.bed', 'wb') as f:
    f.write(b'\x6c\x1b\x01')
    for j in range(0, m, 1000):
        f.write(os.urandom((n + 3) // 4 * min(1000, m - j)))
PY
cp c.bim model.bim
cat c.bed >/dev/null # in cache for both

# once FILE COMMAND...: appends "wall CPU KiB".
once() {
    local f=$1
    shift
    /usr/bin/time -o t.txt -f '%e %U %S %M' "$@" >log.txt 2>&1 || { cat log.txt >&2; exit 1; }
    awk '{ print $1, $2 + $3, $4 }' t.txt >>"$f"
}
median() { cut -d' ' -f"$2" "$1" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

echo "snpmatch: $people people x $snps SNPs, $threads threads, $(nproc) CPUs, load $(cut -d' ' -f1 /proc/loadavg); median of $rounds rounds, taken in turn"
for place in ${mem:+"$mem"} "$dir"; do
    rm -f a b
    for ((i = 0; i < rounds; i++)); do
        once b plink2 --bfile c --export ind-major-bed --threads "$threads" --out "$place/p"
        rm -f "$place"/p.*
        once a "$BIN/snpmatch" -q --bfile c --model model.bim --threads "$threads" -o "$place/s.gpk"
        rm -f "$place/s.gpk"
    done
    echo "output in $([ "$place" = "$dir" ] && echo "$(df --output=fstype "$dir" | tail -1) on disk (snpmatch's fsync included)" || echo memory)"
    for who in b a; do
        printf '  %-28s wall %6.2f s   CPU %6.2f s   peak %6.0f MiB\n' "$([ $who = a ] && echo snpmatch || echo plink2 ind-major-bed)" \
            "$(median $who 1)" "$(median $who 2)" "$(($(median $who 3) / 1024))"
    done
    # The ratio round by round, then its median: neighbours in time share whatever else the machine was doing.
    paste -d' ' a b | awk '{ print $1 / $4, $2 / $5 }' >r
    printf '  %-28s wall x %.2f   CPU x %.2f   (target: 1 or less, and 1536 MiB)\n' 'snpmatch / plink2' "$(median r 1)" "$(median r 2)"
done
