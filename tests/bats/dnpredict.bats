#!/usr/bin/env bats
# dnpredict on the golden results of upstream, by every way in.

load helpers_predict

setup_file() {
    predict_setup_file
}

setup() {
    predict_setup
}

@test "golden kgp3: predictions cell for cell, probabilities, hidden layer, from upstream's matched.hdf5" {
    need_shared
    run "$BIN/dnpredict" -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o p.tsv --scores s.h5
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    run cmp <(cut -f1-17 p.tsv) "$KGP3/infer/predictions.txt"
    [ "$status" -eq 0 ]
    compare table p.tsv "$KGP3/infer/predictions.txt"
    compare scores s.h5 "$KGP3/infer/scores.tsv"
    compare hidden s.h5 1_1 "$KGP3/infer/hidden_model1_1.tsv"
    compare consistent p.tsv s.h5
}

@test "threads: 1, 2 and 7 give the same bytes, table and scores; so does every instruction set" {
    need_shared
    for t in 1 2 7; do
        "$BIN/dnpredict" -q -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o "p$t.tsv" --scores "s$t.h5" --threads $t
        cmp p1.tsv "p$t.tsv"
        cmp s1.h5 "s$t.h5"
    done
    for isa in portable avx2 avx512; do
        run env DN_ISA=$isa "$BIN/dnpredict" -q -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o "p$isa.tsv" --scores "s$isa.h5"
        [ "$status" -ne 8 ] || continue # this CPU lacks it
        [ "$status" -eq 0 ] || { echo "$output"; false; }
        cmp p1.tsv "p$isa.tsv"
        cmp s1.h5 "s$isa.h5"
    done
}

@test "shards: parts in any order join to the same bytes as one run" {
    need_shared
    "$BIN/dnpredict" -q -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o all.tsv
    for i in 1 2 3 4 5; do
        "$BIN/dnpredict" -q -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o part$i.tsv --shard $i/5
    done
    run "$BIN/dnpredict" --join part3.tsv part1.tsv part5.tsv part4.tsv part2.tsv -o joined.tsv
    [ "$status" -eq 0 ]
    [[ $output == *"joined 5 parts: every one of 203 people is in the table once"* ]] || { echo "$output"; false; }
    cmp all.tsv joined.tsv
    # More shards than people: some parts are empty, and still needed.
    for i in 1 2 3; do
        "$BIN/dnpredict" -q -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o one$i.tsv --shard $((i * 67))/203
        [ "$(grep -vc '^#' one$i.tsv)" -eq 2 ]
    done
}

@test "MA01: how many of the model's SNPs matched is on stderr, with the percentage" {
    need_shared
    run "$BIN/dnpredict" -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o p.tsv
    [ "$status" -eq 0 ]
    [[ $output == *"15 models, 2659 SNPs; 1595 of them matched (60.0 %)"* ]] || { echo "$output"; false; }
}
