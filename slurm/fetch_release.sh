#!/usr/bin/env bash
# Downloads upstream's published release into DEST: continues what was begun, checks every file, unpacks archives.
# Usage: fetch_release.sh DEST [--dry-run]
# Settings:
#   RELEASE_URL        the record, as Zenodo's API lists it (default: https://zenodo.org/api/records/16943452), or a folder
#                      of files when RELEASE_FILES names them: RELEASE_URL/NAME is fetched
#   RELEASE_FILES      names of the files, separated by blanks; without it the record's own list is used
#   RELEASE_CHECKSUMS  a file as md5sum or sha256sum writes it; every file fetched must be in it and agree. Without it the
#                      record's MD5 sums are used, where it has them; and the SHA-256 of each file is recorded at first
#                      use in DEST/checksums.sha256, and later runs must agree with that.
set -euo pipefail
say() { echo "fetch_release: $*" >&2; }
die() {
    local rc=$1
    shift
    say "error: $*"
    exit "$rc"
}
dest='' dry=${DRY_RUN:-0}
for a in "$@"; do
    case $a in
    --dry-run) dry=1 ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    -*) die 2 "unknown option $a (--dry-run, --help)" ;;
    *) [ -z "$dest" ] || die 2 "one folder only: $a"; dest=$a ;;
    esac
done
[ -n "$dest" ] || die 2 "which folder? fetch_release.sh DEST"
url=${RELEASE_URL:-https://zenodo.org/api/records/16943452}
command -v curl >/dev/null || die 3 "curl is not installed"
[ -z "${RELEASE_CHECKSUMS-}" ] || [ -r "$RELEASE_CHECKSUMS" ] || die 3 "cannot read $RELEASE_CHECKSUMS (RELEASE_CHECKSUMS)"

# Lines of name, address, MD5 (or -).
list=()
if [ -n "${RELEASE_FILES-}" ]; then
    read -ra names <<<"$RELEASE_FILES"
    for n in "${names[@]}"; do list+=("$n"$'\t'"${url%/}/$n"$'\t'-); done
else
    record=$(curl --fail --silent --show-error --location --retry 3 "$url") || die 3 "cannot read the record $url (RELEASE_URL)"
    # Each file of the record is an object with "key", "checksum" and "links": {"self": ...}, in this order of appearance.
    mapfile -t list < <(tr -d '\n' <<<"$record" | grep -oE '"(key|checksum|self|content)": *"[^"]*"' | sed -E 's/^"([a-z]+)": *"(.*)"$/\1\t\2/' |
        awk -F'\t' -v OFS='\t' '$1 == "key" {key = $2; sum = "-"; next}
            $1 == "checksum" && sub(/^md5:/, "", $2) {sum = $2; next}
            key != "" && $2 ~ /\/files\// {print key, $2, sum; key = ""}')
    [ ${#list[@]} -gt 0 ] || die 4 "the record $url lists no files; name them in RELEASE_FILES"
fi
for line in "${list[@]}"; do
    IFS=$'\t' read -r name _ <<<"$line"
    [[ $name =~ ^[A-Za-z0-9_][A-Za-z0-9._+-]*(/[A-Za-z0-9_][A-Za-z0-9._+-]*)*$ ]] || die 4 "a file of the record is called \"$name\": refused"
done
if [ "$dry" = 1 ]; then
    for line in "${list[@]}"; do IFS=$'\t' read -r name from _ <<<"$line"; echo "$from -> $dest/$name"; done
    exit 0
fi
mkdir -p "$dest" || die 6 "cannot make $dest"
recorded=$dest/checksums.sha256

# expected NAME: the sum that the user or the first run gave for it, or nothing.
from_list() { awk -v n="$2" '{f = $0; sub(/^[^ ]+ [ *]/, "", f); if (f == n || f == "./" n) {print $1; exit}}' "$1"; }
sum_of() { # FILE LENGTH
    case $2 in
    32) md5sum "$1" ;;
    64) sha256sum "$1" ;;
    *) die 4 "a checksum of $2 digits: MD5 (32) and SHA-256 (64) are known" ;;
    esac | cut -d' ' -f1
}
check() { # FILE NAME MD5
    local want got
    if [ -n "${RELEASE_CHECKSUMS-}" ]; then
        want=$(from_list "$RELEASE_CHECKSUMS" "$2")
        [ -n "$want" ] || die 5 "$2 is not in $RELEASE_CHECKSUMS"
    elif [ -s "$recorded" ] && want=$(from_list "$recorded" "$2") && [ -n "$want" ]; then :
    elif [ "$3" != - ]; then want=$3
    else return 0
    fi
    want=${want,,}
    got=$(sum_of "$1" ${#want})
    [ "$got" = "$want" ] || { say "$2: checksum $got, expected $want"; return 1; }
}
for line in "${list[@]}"; do
    IFS=$'\t' read -r name from md5 <<<"$line"
    file=$dest/$name
    mkdir -p "$(dirname "$file")"
    if [ -s "$file" ]; then
        check "$file" "$name" "$md5" || die 4 "$file is damaged, or another version: remove it, and run this again"
        say "$name is there and agrees"
    else
        for try in 1 2; do
            say "$name from $from$([ ! -s "$file.part" ] || echo ", continued at $(stat -c %s "$file.part") bytes")"
            rc=0
            curl --fail --location --retry 5 --retry-delay 1 --continue-at - --silent --show-error --output "$file.part" "$from" || rc=$?
            case $rc in
            0) ;;
            22 | 33 | 36) # refused: there is no such file, or this server cannot continue one
                if [ $try = 2 ] || [ ! -s "$file.part" ]; then die 3 "cannot fetch $from (curl: $rc)"; fi
                say "$name cannot be continued: from the start"
                rm -f "$file.part"
                continue
                ;;
            *) die 3 "$from: the download stopped (curl: $rc); run this again to continue it" ;;
            esac
            if check "$file.part" "$name" "$md5"; then break; fi
            rm -f "$file.part"
            [ $try = 1 ] || die 4 "$name is not what was expected, twice: nothing was kept"
            say "$name: once more, from the start"
        done
        mv "$file.part" "$file"
    fi
    if [ ! -s "$recorded" ] || [ -z "$(from_list "$recorded" "$name")" ]; then
        (cd "$dest" && sha256sum "$name") >>"$recorded"
    fi
done
# Archives are unpacked beside themselves, once.
for line in "${list[@]}"; do
    IFS=$'\t' read -r name _ <<<"$line"
    [ ! -e "$dest/.$(basename "$name").unpacked" ] || continue
    case $name in
    *.tar | *.tar.gz | *.tgz | *.tar.xz | *.tar.bz2) tar -C "$dest" -xf "$dest/$name" ;;
    *.zip)
        if command -v unzip >/dev/null; then unzip -q -o "$dest/$name" -d "$dest"; else python3 -m zipfile -e "$dest/$name" "$dest"; fi
        ;;
    *) continue ;;
    esac || die 4 "cannot unpack $dest/$name"
    touch "$dest/.$(basename "$name").unpacked"
    say "$name unpacked"
done
found=$(find "$dest" -maxdepth 3 -type d -name DN_MODELS | head -1)
if [ -n "$found" ]; then
    say "the release is $(dirname "$found"): MODEL_DIR for submit_predict.sh, RELEASE for submit_reproduce.sh"
else
    say "done; but there is no folder DN_MODELS in $dest: look at what the record holds"
fi
