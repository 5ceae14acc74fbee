#!/usr/bin/env bats
# The installed tool: install, manuals, completion, uninstall, the Debian package, and the two workflows as Make targets.
load ../lib

setup() { plain_build || skip "the installed tool is the default build"; }

mk() { make -s --no-print-directory -C "$TESTS/.." "$@"; }

@test "make install, into a folder with a blank, and uninstall leaves nothing" {
    d="$BATS_TEST_TMPDIR/a b"
    run mk install PREFIX=/usr DESTDIR="$d"
    expect_exit 0
    for p in bed2h5 dncheck dnpredict dnsplit dntrain gpack snpmatch; do
        run "$d/usr/bin/$p" --version
        expect_exit 0
        [ -s "$d/usr/share/man/man1/$p.1" ]
        [ -e "$d/usr/share/bash-completion/completions/$p" ]
    done
    run mk uninstall PREFIX=/usr DESTDIR="$d"
    expect_exit 0
    [ "$(find "$d" ! -type d | wc -l)" -eq 0 ]
}

@test "manuals hold every option of --help" {
    run mk man
    expect_exit 0
    for p in "$BIN"/*; do
        page=$(sed 's/\\-/-/g' "$TESTS/../build/cpu/man/$(basename "$p").1")
        for o in $("$p" --help | grep -oE '^ +(-[a-zA-Z@], )?--[a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+'); do
            [[ $page == *"$o"* ]] || { echo "$p.1 lacks $o"; false; }
        done
        [[ $page == *"EXIT STATUS"* && $page == *".SH NAME"* ]]
    done
}

@test "bash completion offers options and choices" {
    mk man
    run bash -c ". '$TESTS/../build/cpu/man/dnpipe.bash'
        COMP_WORDS=(snpmatch --by a) COMP_CWORD=2; _dnpipe_snpmatch; echo \"\${COMPREPLY[*]}\"
        COMP_WORDS=(snpmatch --mod) COMP_CWORD=1; _dnpipe_snpmatch; echo \"\${COMPREPLY[*]}\""
    expect_exit 0
    expect_text auto --model
}

@test "make deb: a package with its dependencies, whose programs run when unpacked" {
    need dpkg-shlibdeps
    run mk deb
    expect_exit 0
    deb=$(ls "$TESTS"/../build/dnpipe_*.deb)
    run dpkg-deb -I "$deb"
    expect_text "Package: dnpipe" libhdf5 libzip libyaml
    dpkg-deb -x "$deb" "$BATS_TEST_TMPDIR/x"
    run "$BATS_TEST_TMPDIR/x/usr/bin/snpmatch" --version
    expect_exit 0
}

@test "make train and make predict: results, and a second run redoes only what is stale" {
    cd "$BATS_TEST_TMPDIR"
    "$TOOLS/dnsim" -q -o p -n 200 -m 2000 -k 3 --cohort 30 --swap 0.3
    printf '%s\n' 'batch_size: 32' 'epochs: 3' 'input_dropout: 0.0' 'dropout_main: 0.1' 'lr_aux: 0.002' 'lr_main: 0.01' \
        'learning_rate_annealing: 0.99' 'nb_hidden_u_aux: [20]' 'nb_hidden_u_main: [20]' 'patience: 3' 'seed: 1' \
        'uniform_init_limit: 0.05' >c.yaml
    t=(train BFILE="$PWD/p" LABELS="$PWD/p.labels.tsv" CONFIG="$PWD/c.yaml" OUT="$PWD/run" FOLDS=2 SEEDS=1,2)
    run mk "${t[@]}"
    expect_exit 0
    expect_text ensemble
    [ -s run/report.html ]
    [ "$(ls run/models/*.h5 | wc -l)" -eq 4 ]
    run mk "${t[@]}"
    expect_exit 0
    [ -z "$output" ]
    rm run/models/seed2_fold1.h5
    run mk "${t[@]}"
    expect_exit 0
    [ "$(grep -c 'written' <<<"$output")" -eq 1 ]
    run mk predict BFILE="$PWD/p_cohort" MODEL="$PWD/run/models" OUT="$PWD/pred.tsv"
    expect_exit 0
    [ "$(wc -l <pred.tsv)" -eq 31 ]
    stamp=$(stat -c %Y.%y pred.tsv)
    run mk predict BFILE="$PWD/p_cohort" MODEL="$PWD/run/models" OUT="$PWD/pred.tsv"
    expect_exit 0
    [ "$(stat -c %Y.%y pred.tsv)" = "$stamp" ]
    run mk predict BFILE="$PWD/p_cohort"
    [ "$status" -ne 0 ]
    expect_text "MODEL is not set"
}
