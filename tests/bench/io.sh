#!/usr/bin/env bash
# Rates of gpack, .bed -> .gpk against plink2, and the genotype format benchmark. Prints tables with ratios.
# Usage: io.sh            Environment: BIN, TOOLS; BENCH_PEOPLE (2000), BENCH_SNPS (100000), BENCH_ROUNDS (5), BENCH_THREADS (2),
# BENCH_DIR (a folder on the disk to be measured; about 5 bytes per call are needed there; default: TMPDIR).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
BIN=${BIN:-$root/build/cpu/bin}
TOOLS=${TOOLS:-$root/build/cpu/tools}
people=${BENCH_PEOPLE:-2000} snps=${BENCH_SNPS:-100000} rounds=${BENCH_ROUNDS:-5} threads=${BENCH_THREADS:-2}
dir=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/dnpipe_io.XXXXXX")
trap 'rm -rf "$dir"' EXIT
cd "$dir"
TIMEFORMAT='%R %U %S'

# seconds COMMAND...: wall and CPU seconds of one run.
seconds() {
    local t
    t=$({ time "$@" >/dev/null 2>err.log; } 2>&1) || { cat err.log >&2; return 1; }
    awk '{printf "%s %.3f\n", $1, $2 + $3}' <<<"$t"
}
# Medians of the two columns of a file.
medians() {
    local c
    for c in 1 2; do cut -d' ' -f$c "$1" | sort -n | awk '{v[NR]=$1} END {printf "%s%s", v[int((NR+1)/2)], "'"$([ $c = 1 ] && echo ' ' || echo)"'"}'; done
    echo
}
# repeat FILE COMMAND...: appends `rounds` timings to FILE.
repeat() {
    local f=$1 i
    shift
    for ((i = 0; i < rounds; i++)); do seconds "$@" >>"$f"; done
}

echo "io: $people people x $snps SNPs, simulated; median of $rounds runs; $(nproc) CPUs, load $(cut -d' ' -f1 /proc/loadavg)"
"$TOOLS/dnsim" -q -o s -n "$people" -m "$snps" --missing 0.01
"$BIN/gpack" -q -b s -o s.gpk
"$BIN/gpack" -q -z s.gpk -o s.z.gpk
"$BIN/gpack" -qd s.gpk -o s.h5

# ---- 1. gpack on one thread, files in cache, output not synced to a disk (/dev/null) or to memory where it must be a file ----
echo
echo "gpack, one thread, input in cache (target: 1 GB/s of int8 per core)"
printf '  %-34s %10s %10s %14s %14s\n' what wall CPU "int8 GB/s" "per CPU s"
line() { # TITLE FILE
    read -r w c < <(medians "$2")
    awk -v t="$1" -v w="$w" -v c="$c" -v b="$((people * snps))" \
        'BEGIN {printf "  %-34s %8.3f s %8.3f s %14.2f %14.2f\n", t, w, c, b/w/1e9, b/(c > 0 ? c : 1e-9)/1e9}'
}
mem=/dev/shm
[ -w "$mem" ] && [ "$(df -P --block-size=1 $mem | awk 'END {print $4}')" -gt $((2 * people * snps)) ] || mem=.
repeat t.pack "$BIN/gpack" -q -@1 s.h5 -f -o /dev/null
line "dataset.h5 -> .gpk" t.pack
repeat t.packz "$BIN/gpack" -q -@1 -z s.h5 -f -o /dev/null
line "dataset.h5 -> .gpk, -z" t.packz
out=$mem/dnpipe_io_$$.h5
trap 'rm -rf "$dir" "$out"' EXIT
repeat t.unpack "$BIN/gpack" -q -@1 -df s.gpk -o "$out"
line ".gpk -> dataset.h5" t.unpack
repeat t.unpackz "$BIN/gpack" -q -@1 -df s.z.gpk -o "$out"
line "compressed .gpk -> dataset.h5" t.unpackz
rm -f "$out"
repeat t.test "$BIN/gpack" -q -@1 -t s.gpk
line "-t .gpk" t.test
repeat t.testz "$BIN/gpack" -q -@1 -t s.z.gpk
line "-t compressed .gpk" t.testz

# ---- 2. .bed -> .gpk against plink2, in turn, so that both see the same disturbance ----
if command -v plink2 >/dev/null; then
    echo
    echo ".bed -> packed rows of people, $threads threads (target: no slower than plink2)"
    # gpack syncs its output to the disk before it gives it its name; plink2 does not. So: in memory, and on disk with a sync for plink2 too.
    both() { plink2 --bfile s --threads "$threads" --export ind-major-bed --out "$1"; sync -d "$1.bed"; }
    for place in "$mem" .; do
        o=$place/dnpipe_io_$$
        trap 'rm -rf "$dir" "$out" "$mem/dnpipe_io_$$".*' EXIT
        rm -f t.g t.p
        for ((i = 0; i < rounds; i++)); do
            seconds "$BIN/gpack" -q -@"$threads" -b s -f -o "$o.gpk" >>t.g
            seconds both "$o" >>t.p
        done
        rm -f "$o".*
        read -r gw gc < <(medians t.g)
        read -r pw pc < <(medians t.p)
        awk -v p="$([ "$place" = . ] && echo 'disk, synced' || echo memory)" -v gw="$gw" -v gc="$gc" -v pw="$pw" -v pc="$pc" \
            'BEGIN {printf "  to %-14s gpack %.3f s (%.3f s CPU)   plink2 %.3f s (%.3f s CPU)   plink2/gpack %.2f\n", p, gw, gc, pw, pc, pw/gw}'
        [ "$place" != . ] || break
    done
fi

# ---- 3. formats ----
echo
echo "genotype formats, one thread: load all; batches of 138 people at random; every result is int8 in memory, but for 'packed'"
rm -f s.h5 s.gpk s.z.gpk
"$TOOLS/genobench" -q -b s --dir . --prepare
for f in bed npy h5 h5row h5gzip gpk gpkz gpkpacked; do "$TOOLS/genobench" -@1 -b s --dir . --format $f --rounds "$rounds"; done >table.tsv
[ "$(cut -f7 table.tsv | sort -u | wc -l)" = 1 ] || { echo "io: the formats do not hold the same genotypes" >&2; exit 1; }
awk -F'\t' -v pairs="bed=PLINK .bed, decoded each time|npy=npy, mapped|h5=HDF5 contiguous|h5row=HDF5, a chunk per row|h5gzip=HDF5, the same with gzip|gpk=.gpk|gpkz=.gpk, zstd blocks|gpkpacked=.gpk, rows used packed" '
BEGIN {
    k = split(pairs, a, "|")
    for (i = 1; i <= k; i++) { split(a[i], b, "="); name[b[1]] = b[2] }
    printf "  %-30s %10s %10s %10s %8s %12s %12s %8s\n", "format", "MB", "load cold", "load", "ratio", "batch cold", "batch", "ratio"
}
{ f[NR] = $1; mb[NR] = $2/1e6; lc[NR] = $3; l[NR] = $4; bc[NR] = $5; b1[NR] = $6; if ($1 == "gpk") { gl = $4; gb = $6 } }
END {
    for (i = 1; i <= NR; i++)
        printf "  %-30s %10.1f %8.3f s %8.3f s %8.2f %9.2f ms %9.2f ms %8.2f\n", name[f[i]], mb[i], lc[i], l[i], l[i]/gl, bc[i]*1e3, b1[i]*1e3, b1[i]/gb
    print "  ratio: time against .gpk. cold: first run, the file dropped from the cache. Time per 1,000 random people: batch x 7.2."
}' table.tsv
