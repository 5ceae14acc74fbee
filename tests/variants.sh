#!/usr/bin/env bash
# The same cohort in the shapes that PLINK files really come in; matched to a model, every one must give the same genotypes.
# Usage: variants.sh PREFIX FOLDER
# Writes filesets into FOLDER and prints one line for each: its name, a tab, what to give to --bfile.
#   plain       as it is
#   minor       plink1.9 --make-bed, plain: A1 becomes the minor allele
#   swapped     half of the SNPs with A1 and A2 the other way round, recoded with them
#   flipped     a third of the SNPs that are not A/T or C/G on the other strand
#   both        swapped, then flipped
#   shuffled    rows of .bim and .bed in another order
#   chr@        one fileset per chromosome
#   samplemajor a sample-major .bed
#   prefixed    chromosomes named chr1, Chr2, CHR3, 04, ...
#   lower       alleles in lower case
#   fids        FID other than IID
#   sorted      SNPs sorted by their names, one fileset per third
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
in=$1 out=$2
py=${PYTHON:-/usr/bin/python3}
plink=${PLINK19:-plink1.9}
mkdir -p "$out"
log=$out/plink.log
run_plink() { "$plink" --silent --allow-no-sex --threads 1 --keep-allele-order "$@" >>"$log" 2>&1 || { cat "$log" >&2; exit 1; }; }
say() { printf '%s\t%s\n' "$1" "$out/$2"; }

for x in bed bim fam; do cp "$in.$x" "$out/plain.$x"; done
say plain plain

"$plink" --silent --allow-no-sex --threads 1 --bfile "$in" --make-bed --out "$out/minor" >>"$log" 2>&1 || { cat "$log" >&2; exit 1; }
say minor minor

# The name of every second SNP, with the allele that becomes its A1.
awk 'NR % 2 { print $2, $6 }' "$in.bim" >"$out/half.txt"
run_plink --bfile "$in" --a1-allele "$out/half.txt" 2 1 --make-bed --out "$out/swapped"
say swapped swapped

awk '($5 $6) !~ /^(AT|TA|CG|GC)$/ { if (++n % 3 == 0) print $2 }' "$in.bim" >"$out/third.txt"
run_plink --bfile "$in" --flip "$out/third.txt" --make-bed --out "$out/flipped"
say flipped flipped
run_plink --bfile "$out/swapped" --flip "$out/third.txt" --make-bed --out "$out/both"
say both both

"$py" - "$in" "$out" <<'PY'
import random, sys

src, out = sys.argv[1:]
bim = open(src + '.bim').read().splitlines()
fam = open(src + '.fam').read()
n = len(fam.splitlines())
row = (n + 3) // 4
raw = open(src + '.bed', 'rb').read()[3:]
rows = [raw[j * row:(j + 1) * row] for j in range(len(bim))]


def write(name, order, major=1):
    with open(f'{out}/{name}.bim', 'w') as f:
        f.write(''.join(bim[j] + '\n' for j in order))
    with open(f'{out}/{name}.fam', 'w') as f:
        f.write(fam)
    with open(f'{out}/{name}.bed', 'wb') as f:
        f.write(b'\x6c\x1b' + bytes([major]))
        if major:
            f.write(b''.join(rows[j] for j in order))
            return
        width = (len(order) + 3) // 4
        for i in range(n):
            line = bytearray(width)
            for k, j in enumerate(order):
                line[k // 4] |= (rows[j][i // 4] >> i % 4 * 2 & 3) << k % 4 * 2
            f.write(line)


order = list(range(len(bim)))
random.Random(5).shuffle(order)
write('shuffled', order)
write('samplemajor', range(len(bim)), 0)
by_name = sorted(range(len(bim)), key=lambda j: bim[j].split()[1])
third = len(bim) // 3 + 1
for k in range(3):
    write(f'sorted{k + 1}', by_name[k * third:(k + 1) * third])
chroms = {}
for j, line in enumerate(bim):
    chroms.setdefault(line.split()[0], []).append(j)
for c, order in chroms.items():
    write('chr' + c, order)
PY
say shuffled shuffled
say chr@ chr@
say samplemajor samplemajor

for x in bed fam; do cp "$in.$x" "$out/prefixed.$x"; cp "$in.$x" "$out/lower.$x"; done
awk 'BEGIN { OFS = "\t" } { k = NR % 4; $1 = (k == 0 ? "chr" : k == 1 ? "Chr" : k == 2 ? "CHR" : "0") $1; print }' "$in.bim" |
    sed 's/^0\([1-9][0-9]\)\t/\1\t/' >"$out/prefixed.bim"
say prefixed prefixed
awk 'BEGIN { OFS = "\t" } { $5 = tolower($5); $6 = tolower($6); print }' "$in.bim" >"$out/lower.bim"
say lower lower

for x in bed bim; do cp "$in.$x" "$out/fids.$x"; done
awk 'BEGIN { OFS = "\t" } { $1 = "FAM" NR; print }' "$in.fam" >"$out/fids.fam"
say fids fids

# A list of prefixes with '@' cannot name these: the caller repeats --bfile.
printf '%s\t%s\n' sorted "$out/sorted1 $out/sorted2 $out/sorted3"
