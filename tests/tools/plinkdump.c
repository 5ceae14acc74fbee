/* plinkdump: prints a fileset as dnpipe reads it, for tests and for a look by hand.
 *   people: P <fid> <iid>      SNPs: S <chrom> <id> <pos> <a1> <a2>      dosages: one line per SNP, 0 1 2 or
 * . per person With --sum, the dosages are replaced by a hash (large sets); with --list N,N,... only those
 * SNPs' (from 0) are printed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "geno.h"
#include "log.h"
#include "opt.h"
#include "plink.h"

typedef struct {
    dn_strs bfile;
    const char *keep, *remove, *extract, *exclude, *list;
    uint64_t first, count, block;
    bool sum, no_people, no_snps;
} options;

static void print_dosages(const uint8_t *row, uint64_t n)
{
    static const char letter[4] = {'2', '.', '1', '0'}; /* of .bed codes */
    for (uint64_t i = 0; i < n; i++) putchar(letter[dn_geno_get(row, i)]);
    putchar('\n');
}

/* SNPs snp[0..n), people [o->first, + o->count), read in blocks of o->block people through
 * dn_plink_read_block. */
static dn_status dump(dn_plink *p, const options *o, const uint64_t *snp, size_t n, dn_err *err)
{
    dn_status status;
    uint64_t hash = 0, bytes = dn_geno_bytes(o->count);
    uint8_t *rows = NULL, **bufs = NULL;
    enum { SNPS = 512 };
    DN_TRY(dn_alloc(&rows, SNPS * bytes, 1, "rows", err));
    DN_TRY(dn_alloc(&bufs, SNPS, sizeof *bufs, "rows", err));
    for (size_t k = 0; k < n; k += SNPS) {
        size_t m = n - k < SNPS ? n - k : SNPS;
        for (uint64_t at = 0; at < o->count; at += o->block) {
            uint64_t people = o->count - at < o->block ? o->count - at : o->block;
            for (size_t i = 0; i < m; i++) bufs[i] = rows + i * bytes + at / 4;
            DN_TRY(dn_plink_read_block(p, snp + k, m, o->first + at, people, bufs, err));
        }
        for (size_t i = 0; i < m; i++) {
            if (o->sum)
                hash = hash * 31 + dn_hash(rows + i * bytes, bytes);
            else
                print_dosages(rows + i * bytes, o->count);
        }
    }
    if (o->sum) printf("hash %016" PRIx64 "\n", hash);
    status = DN_OK;
done:
    free(rows);
    free(bufs);
    return status;
}

static dn_status print_lists(const dn_plink *p, const options *o, dn_strs *ids, dn_err *err)
{
    for (uint64_t i = 0; i < p->people.iid.n && !o->no_people; i++) {
        printf("P\t%s\t%s\n", dn_strs_get(&p->people.fid, i), dn_strs_get(&p->people.iid, i));
    }
    for (size_t k = 0; k < p->n_sets; k++) {
        dn_snps s;
        dn_status status = dn_bim_read(p->sets[k].bim, &s, err);
        if (status != DN_OK) return status;
        for (uint64_t j = 0; j < s.id.n && status == DN_OK; j++) {
            if (!o->no_snps) {
                printf("S\t%s\t%s\t%" PRId64 "\t%s\t%s\n", dn_strs_get(&s.chrom, j), dn_strs_get(&s.id, j),
                       s.pos[j], dn_strs_get(&s.a1, j), dn_strs_get(&s.a2, j));
            }
            status = dn_strs_add(ids, dn_strs_get(&s.id, j), strlen(dn_strs_get(&s.id, j)), err);
        }
        dn_snps_free(&s);
        if (status != DN_OK) return status;
    }
    return DN_OK;
}

/* With --keep and friends only the lists' effect is printed. */
static dn_status print_kept(const dn_plink *p, const options *o, const dn_strs *ids, dn_err *err)
{
    dn_status status;
    uint8_t *keep = NULL;
    uint64_t n_missing;
    dn_strs missing = {0};
    if (o->keep || o->remove) {
        DN_TRY(dn_keep_people(&p->people, o->keep, o->remove, &keep, &missing, &n_missing, err));
        for (uint64_t i = 0; i < p->people.iid.n; i++) {
            if (keep[i])
                printf("K\t%s\t%s\n", dn_strs_get(&p->people.fid, i), dn_strs_get(&p->people.iid, i));
        }
    } else {
        DN_TRY(dn_keep_snps(ids, o->extract, o->exclude, &keep, &missing, &n_missing, err));
        for (uint64_t i = 0; i < ids->n; i++) {
            if (keep[i]) printf("K\t%s\n", dn_strs_get(ids, i));
        }
    }
    printf("missing %" PRIu64 "\n", n_missing);
    for (uint64_t i = 0; i < missing.n; i++) printf("M\t%s\n", dn_strs_get(&missing, i));
done:
    free(keep);
    dn_strs_free(&missing);
    return status;
}

static dn_status work(options *o, dn_err *err)
{
    dn_status status;
    dn_plink *p = NULL;
    uint64_t *snp = NULL;
    size_t n = 0;
    dn_strs ids = {0};
    DN_TRY(dn_isa_check(err));
    DN_TRY(dn_plink_open(&p, &o->bfile, err));
    DN_TRY(print_lists(p, o, &ids, err));
    if (o->keep || o->remove || o->extract || o->exclude) {
        DN_TRY(print_kept(p, o, &ids, err));
        goto done;
    }
    if (o->count == 0) o->count = p->people.iid.n - o->first;
    if (o->list) {
        DN_TRY(dn_parse_list("--list", o->list, &snp, &n, err));
    } else {
        n = p->n_snps;
        DN_TRY(dn_alloc(&snp, n, sizeof *snp, "SNPs", err));
        for (size_t k = 0; k < n; k++) snp[k] = k;
    }
    DN_TRY(dump(p, o, snp, n, err));
    for (size_t k = 0; k < p->n_sets; k++) {
        if (p->sets[k].padding_dirty)
            dn_warn("%s: padding bits are not zero; they are ignored", p->sets[k].bed);
    }
done:
    dn_plink_close(p);
    dn_strs_free(&ids);
    free(snp);
    return status;
}

int main(int argc, char **argv)
{
    options o = {.block = 4096};
    dn_err err = {0};
    dn_strs operands = {0};
    const dn_opt opts[] = {
        {DN_OPT_LIST, "bfile", 'b', &o.bfile, "PREFIX", 0, 0, "fileset", NULL},
        {DN_OPT_STR, "keep", 0, &o.keep, "FILE", 0, 0, "people to keep", NULL},
        {DN_OPT_STR, "remove", 0, &o.remove, "FILE", 0, 0, "people to leave out", NULL},
        {DN_OPT_STR, "extract", 0, &o.extract, "FILE", 0, 0, "SNPs to keep", NULL},
        {DN_OPT_STR, "exclude", 0, &o.exclude, "FILE", 0, 0, "SNPs to leave out", NULL},
        {DN_OPT_STR, "list", 0, &o.list, "LIST", 0, 0, "SNP numbers from 0", NULL},
        {DN_OPT_U64, "first", 0, &o.first, "N", 0, 0, "first person, a multiple of 4", NULL},
        {DN_OPT_U64, "count", 0, &o.count, "N", 0, 0, "people, 0 = to the end", NULL},
        {DN_OPT_U64, "block", 0, &o.block, "N", 4, 1e9, "people read at a time, a multiple of 4", NULL},
        {DN_OPT_FLAG, "sum", 0, &o.sum, NULL, 0, 0, "a hash instead of dosages", NULL},
        {DN_OPT_FLAG, "no-people", 0, &o.no_people, NULL, 0, 0, "leave P lines out", NULL},
        {DN_OPT_FLAG, "no-snps", 0, &o.no_snps, NULL, 0, 0, "leave S lines out", NULL},
    };
    dn_log_start("plinkdump", argc, argv);
    dn_log_level(true, false);
    dn_status status = dn_opt_parse(argc, argv, opts, sizeof opts / sizeof opts[0], &operands, &err);
    if (status == DN_OK) status = work(&o, &err);
    dn_strs_free(&o.bfile);
    dn_strs_free(&operands);
    return dn_finish(status, &err);
}
