#!/usr/bin/env bash
# Makes a program's manual page from its --help, so that the two cannot differ: man.sh PROGRAM > PROGRAM.1
set -euo pipefail
prog=$1
name=$(basename "$prog")
version=$("$prog" --version | sed -n '1s/.* //p')
here=$(cd "$(dirname "$0")" && pwd)
"$prog" --help | awk -v name="$name" -v version="$version" '
    function esc(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); if (s ~ /^[.\x27]/) s = "\\&" s; return s }
    BEGIN { part = "usage"; printf ".TH %s 1 \"\" \"dnpipe %s\" \"dnpipe manual\"\n", toupper(name), version }
    part == "usage" && /^$/ { part = "about"; next }
    part == "usage" { sub(/^(Usage:)? +/, ""); sub(/^Usage: /, ""); usage[++n_usage] = $0; next }
    part == "about" && /^$/ {
        first = about
        sub(/[.:;]( .*|$)/, "", first)
        printf ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.nf\n", name, esc(first)
        for (i = 1; i <= n_usage; i++) print esc(usage[i])
        printf ".fi\n.SH DESCRIPTION\n%s\n.SH OPTIONS\n", esc(about)
        part = "options"
        next
    }
    part == "about" { about = about (about == "" ? "" : " ") $0; next }
    /^[A-Z][^:]*:$/ && part == "options" { sub(/:$/, ""); printf ".SS %s\n", esc($0); next }
    part == "options" && /^ +-/ {
        line = $0
        sub(/^ +/, "", line)
        text = ""
        # Two blanks end the names; a name that is too long has its text on the next line.
        if (match(line, /  +/)) { text = substr(line, RSTART + RLENGTH); line = substr(line, 1, RSTART - 1) }
        printf ".TP\n.B %s\n%s\n", esc(line), esc(text)
        next
    }
    part == "options" && /^                    / { sub(/^ +/, ""); print esc($0); next }
    part == "options" && /^$/ { next }
    part == "options" { part = "tail"; print ".SH NOTES\n.nf" }
    part == "tail" { print esc($0) }
    END { if (part == "tail") print ".fi" }'
echo '.SH EXIT STATUS'
sed -n 's/^| \([0-9][0-9]*\) | \([^|]*\) | \([^|]*\) |.*/\1\t\3/p' "$here/exit-codes.md" | tr -d '`' | sed 's/-/\\-/g' |
    while IFS=$'\t' read -r code text; do printf '.TP\n.B %s\n%s\n' "$code" "$text"; done
echo '.SH SEE ALSO'
sep=
for p in bed2h5 dncheck dnpredict dnsplit dntrain gpack snpmatch; do
    [ "$p" = "$name" ] || { printf '%s.BR %s (1)' "$sep" "$p"; sep=$',\n'; }
done
printf '\n.PP\nThe manual in full: docs/%s.md of the source, installed beside the README.\n' "$name"
