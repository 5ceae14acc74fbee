/* mksplit: writes a split from plain text, for tests that need folds which dnsplit would never draw (an empty
 * validation set, one person to train) or must not draw again (upstream's).
 *
 * mksplit DATASET FOLDS.txt OUT.h5: each line of FOLDS.txt is "fold set person person ...", set being train,
 * valid or test and persons row numbers from 0, a-b for a range; sets that are not named are empty. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset.h"
#include "io.h"
#include "log.h"
#include "split.h"

static dn_status add_people(dn_fold *f, int set, const char *word, const char *where, dn_err *err)
{
    uint64_t *v = f->index[set];
    size_t n = (size_t)f->n[set];
    dn_status status = dn_parse_list(where, word, &v, &n, err);
    f->index[set] = v;
    f->n[set] = n;
    return status;
}

static dn_status read_folds(dn_split *s, const char *path, dn_err *err)
{
    dn_status status;
    dn_text *t = NULL;
    char *line;
    size_t len;
    DN_TRY(dn_text_open(&t, path, err));
    for (;;) {
        char *rest, *word;
        uint64_t fold;
        int set = 0;
        DN_TRY(dn_text_next(t, &line, &len, err));
        if (!line) break;
        rest = line;
        word = strsep(&rest, " ");
        if (!*word) continue;
        if (!dn_parse_u64(word, &fold) || fold >= 64) DN_TRY(dn_fail(err, DN_EFORMAT, "fold %s", word));
        if (fold + 1 > s->n_folds) s->n_folds = fold + 1;
        word = rest ? strsep(&rest, " ") : NULL;
        while (set < DN_SPLIT_SETS && (!word || strcmp(word, dn_split_set_name[set]) != 0)) set++;
        if (set == DN_SPLIT_SETS) DN_TRY(dn_fail(err, DN_EFORMAT, "set %s", word ? word : "(none)"));
        while (rest && (word = strsep(&rest, " ")) != NULL) {
            if (*word) DN_TRY(add_people(&s->folds[fold], set, word, path, err));
        }
    }
    status = DN_OK;
done:
    dn_text_close(t);
    return status;
}

int main(int argc, char **argv)
{
    dn_err err = {0};
    dn_status status;
    dn_dataset *d = NULL;
    dn_split *s = NULL;
    dn_log_start("mksplit", argc, argv);
    dn_log_level(true, false);
    if (argc != 4) DN_TRY(dn_fail(&err, DN_EUSAGE, "mksplit DATASET FOLDS.txt OUT.h5"));
    DN_TRY(dn_dataset_open(&d, argv[1], &err));
    DN_TRY(dn_alloc(&s, 1, sizeof *s, "split", &err));
    DN_TRY(dn_alloc(&s->folds, 64, sizeof *s->folds, "folds", &err));
    s->method = strdup("npz");
    s->ratio = NAN;
    s->n_people = dn_dataset_info(d)->n_people;
    DN_TRY(dn_dataset_fingerprint(d, &s->data_hash, NULL, NULL, &err));
    DN_TRY(read_folds(s, argv[2], &err));
    DN_TRY(dn_split_write(argv[3], s, DN_OUT_FORCE, &err));
    status = DN_OK;
done:
    dn_split_free(s);
    dn_dataset_close(d);
    return dn_finish(status, &err);
}
