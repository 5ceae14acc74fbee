/* matched_h5.c: matched cohorts in HDF5: snpmatch's matched.h5 and upstream's matched.hdf5 (see
 * matched.h). Both hold `inputs` (people x all SNPs of the model), `samples`, `snp_names` and
 * `scale`; ours also says which SNPs matched
 * (`snp_matched`), whose they are (`model_hash`, alleles) and what the rows hash to. */
#include "matched.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "geno.h"

typedef unsigned long long ull;

enum { PIECE = 16 << 20 }; /* bytes of int8 calls read at a time */

static dn_status read_scale(dn_matched *m, dn_err *err)
{
    dn_status status;
    double *v = NULL;
    uint64_t n;
    if (!dn_h5_has(m->h5, "scale")) {
        return dn_fail(
            err, DN_EMISMATCH,
            "%s has no 'scale': it was not matched to a model: run snpmatch on the PLINK files with --model",
            m->path);
    }
    DN_TRY(dn_h5_read(m->h5, "scale", DN_F64, 1, (void **)&v, &n, err));
    m->file_scale = v[0];
    if (!(v[0] >= 1 - 1e-6 && v[0] <= (double)DN_MAX_SNPS)) {
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s: scale is %g: expected SNPs of the model / SNPs matched, 1 or more", m->path,
                       v[0]));
    }
    status = DN_OK;
done:
    free(v);
    return status;
}

uint64_t dn_matched_tables_hash(const dn_people *people, const dn_snps *snps, const uint8_t *matched,
                                double scale)
{
    uint64_t v[7] = {people->iid.n,
                     snps->id.n,
                     dn_strs_hash(&people->fid),
                     dn_strs_hash(&people->iid),
                     dn_snps_hash(snps),
                     dn_hash(matched, snps->id.n)};
    memcpy(&v[6], &scale, sizeof scale);
    return dn_hash(v, sizeof v);
}

/* Our own files carry a version; upstream's do not. */
static dn_status check_version(dn_matched *m, dn_err *err)
{
    dn_status status = DN_OK;
    char *format = NULL;
    uint64_t major;
    if (!dn_h5_has_attr(m->h5, "/", "format")) return DN_OK;
    DN_TRY(dn_h5_read_attr_str(m->h5, "/", "format", &format, err));
    if (strcmp(format, DN_MATCHED_FORMAT) != 0) goto done;
    DN_TRY(dn_h5_read_attr(m->h5, "/", "version_major", DN_U64, &major, err));
    if (major != DN_MATCHED_MAJOR) {
        DN_TRY(dn_fail(err, DN_EUNSUPPORTED,
                       "%s is a matched cohort of version %llu, this program reads version %d: update dnpipe",
                       m->path, (ull)major, DN_MATCHED_MAJOR));
    }
done:
    free(format);
    return status;
}

static dn_status check_tables(dn_matched *m, const uint8_t *matched, dn_err *err)
{
    uint64_t sum;
    if (!dn_h5_has_attr(m->h5, "/", "tables_xxh3")) return DN_OK;
    dn_status status = dn_h5_read_attr(m->h5, "/", "tables_xxh3", DN_U64, &sum, err);
    if (status != DN_OK || sum == dn_matched_tables_hash(&m->people, &m->snps, matched, m->file_scale)) {
        return status;
    }
    return dn_fail(
        err, DN_EFORMAT,
        "%s: the checksum of its people, SNPs and scale does not hold: it is damaged, or was edited "
        "(then delete the attribute 'tables_xxh3' of '/')",
        m->path);
}

dn_status dn_matched_h5_open(dn_matched *m, const char *path, dn_err *err)
{
    dn_status status;
    int rank;
    uint64_t dims[4];
    DN_TRY(dn_h5_open(&m->h5, path, err));
    DN_TRY(check_version(m, err));
    DN_TRY(dn_h5_shape(m->h5, "inputs", &rank, dims, err));
    if (rank != 2 || dims[1] == 0 || dims[1] > DN_MAX_SNPS || dims[0] > DN_MAX_PEOPLE) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: 'inputs' must have people x SNPs calls", path));
    }
    DN_TRY(dn_h5_read_strs(m->h5, "samples", &m->people.iid, err));
    DN_TRY(dn_h5_read_strs(m->h5, "snp_names", &m->snps.id, err));
    if (m->people.iid.n != dims[0] || m->snps.id.n != dims[1]) {
        DN_TRY(
            dn_fail(err, DN_EFORMAT,
                    "%s: 'inputs' has %llu people x %llu SNPs, but there are %llu samples and %llu snp_names",
                    path, (ull)dims[0], (ull)dims[1], (ull)m->people.iid.n, (ull)m->snps.id.n));
    }
    if (dn_h5_has(m->h5, "fids")) {
        DN_TRY(dn_h5_read_strs(m->h5, "fids", &m->people.fid, err));
    } else {
        for (uint64_t i = 0; i < dims[0]; i++) DN_TRY(dn_strs_add(&m->people.fid, "0", 1, err));
    }
    if (dn_h5_has(m->h5, "snp_a1") && dn_h5_has(m->h5, "snp_a2")) {
        DN_TRY(dn_h5_read_strs(m->h5, "snp_a1", &m->snps.a1, err));
        DN_TRY(dn_h5_read_strs(m->h5, "snp_a2", &m->snps.a2, err));
    }
    if (m->people.fid.n != dims[0] ||
        (m->snps.a1.n && (m->snps.a1.n != dims[1] || m->snps.a2.n != dims[1]))) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: 'fids', 'snp_a1' or 'snp_a2' has another length than 'inputs'",
                       path));
    }
    DN_TRY(read_scale(m, err));
    m->wide_bytes = dn_gpk_row_bytes(dims[1]);
    m->piece = 1 + PIECE / dims[1];
    if (m->piece > dims[0]) m->piece = dims[0];
    status = DN_OK;
done:
    return status;
}

/* ---- does it belong to the model? ---- */

/* Upstream's names carry the counted allele, as PLINK's --recode A writes them: rs2986742_C. */
static dn_status check_name(const dn_matched *m, const dn_model *model, uint64_t j, uint64_t *n_counted,
                            dn_err *err)
{
    const char *name = dn_strs_get(&m->snps.id, j), *want = dn_strs_get(&model->snps.id, j);
    size_t n = strlen(want);
    if (strcmp(name, want) == 0) return DN_OK;
    ++*n_counted;
    if (strncmp(name, want, n) != 0 || name[n] != '_' || !name[n + 1]) {
        return dn_fail(err, DN_EMISMATCH,
                       "%s, column %llu: SNP %s, but the model's is %s: it was matched to another model: run "
                       "snpmatch with "
                       "this model",
                       m->path, (ull)j + 1, name, want);
    }
    if (dn_snps_have_alleles(&model->snps) &&
        strcasecmp(name + n + 1, dn_strs_get(&model->snps.a1, j)) != 0) {
        return dn_fail(err, DN_EMISMATCH,
                       "%s, column %llu: SNP %s counts allele %s, but the model counts %s: predictions would "
                       "be wrong: run "
                       "snpmatch, which aligns alleles",
                       m->path, (ull)j + 1, want, name + n + 1, dn_strs_get(&model->snps.a1, j));
    }
    return DN_OK;
}

static dn_status check_snps(dn_matched *m, const dn_model *model, dn_err *err)
{
    dn_status status;
    const dn_snps *ours = &m->snps, *theirs = &model->snps;
    uint64_t hash;
    if (ours->id.n != model->n_snps) {
        return dn_fail(
            err, DN_EMISMATCH,
            "%s has %llu SNPs, the model %llu: it was matched to another model: run snpmatch with this model",
            m->path, (ull)ours->id.n, (ull)model->n_snps);
    }
    uint64_t counted = 0; /* names that tell the counted allele */
    for (uint64_t j = 0; j < model->n_snps; j++) DN_TRY(check_name(m, model, j, &counted, err));
    bool both = dn_snps_have_alleles(ours) && dn_snps_have_alleles(theirs);
    for (uint64_t j = 0; both && j < model->n_snps; j++) {
        const char *a1 = dn_strs_get(&ours->a1, j), *a2 = dn_strs_get(&ours->a2, j);
        const char *b1 = dn_strs_get(&theirs->a1, j), *b2 = dn_strs_get(&theirs->a2, j);
        if (strcasecmp(a1, b1) != 0 || strcasecmp(a2, b2) != 0) {
            DN_TRY(
                dn_fail(err, DN_EMISMATCH,
                        "%s: SNP %s has alleles %s/%s, the model's has %s/%s: run snpmatch with this model",
                        m->path, dn_strs_get(&theirs->id, j), a1, a2, b1, b2));
        }
    }
    if (dn_h5_has_attr(m->h5, "/", "model_hash")) {
        DN_TRY(dn_h5_read_attr(m->h5, "/", "model_hash", DN_U64, &hash, err));
        if (!dn_matched_fits(model, hash, &m->without_alleles)) {
            DN_TRY(dn_fail(err, DN_EMISMATCH,
                           "%s was matched to another model: the fingerprint of its SNP list is %016llx, the "
                           "model's %016llx: "
                           "run snpmatch with this model",
                           m->path, (ull)hash, (ull)model->snps_hash));
        }
    }
    if (dn_snps_have_alleles(theirs) && !both && counted < model->n_snps) m->without_alleles = true;
    status = DN_OK;
done:
    return status;
}

/* Our file says which SNPs matched. */
static dn_status read_matched(dn_matched *m, uint8_t *matched, dn_err *err)
{
    dn_status status;
    uint8_t *v = NULL;
    uint64_t n;
    DN_TRY(dn_h5_read(m->h5, "snp_matched", DN_U8, m->model_snps, (void **)&v, &n, err));
    for (uint64_t j = 0; j < n; j++) matched[j] = v[j] != 0;
    status = DN_OK;
done:
    free(v);
    return status;
}

/* Upstream's says by `scale` how many matched: they are those that somebody has a call for. Reading stops
 * when all have been seen, mostly within the first people. */
static dn_status find_matched(dn_matched *m, uint64_t want, uint8_t *matched, dn_err *err)
{
    dn_status status;
    int8_t *calls = NULL;
    uint64_t have = 0;
    DN_TRY(dn_alloc_aligned(&calls, m->piece, m->model_snps, "matched SNPs", err));
    for (uint64_t i = 0; i < m->n_people && have < want; i += m->piece) {
        uint64_t n = m->n_people - i < m->piece ? m->n_people - i : m->piece;
        DN_TRY(dn_h5_read_rows(m->h5, "inputs", DN_I8, i, n, calls, err));
        for (uint64_t k = 0; k < n && have < want; k++) {
            const int8_t *row = calls + k * m->model_snps;
            for (uint64_t j = 0; j < m->model_snps; j++) {
                have += !matched[j] & (row[j] >= 0);
                matched[j] |= row[j] >= 0;
            }
        }
    }
    status = DN_OK;
done:
    free(calls);
    return status;
}

dn_status dn_matched_h5_check(dn_matched *m, const dn_model *model, dn_err *err)
{
    dn_status status;
    uint8_t *matched = NULL;
    uint64_t want = (uint64_t)llround((double)model->n_snps / m->file_scale);
    DN_TRY(check_snps(m, model, err));
    DN_TRY(dn_alloc(&matched, model->n_snps, 1, "matched SNPs", err));
    bool told = dn_h5_has(m->h5, "snp_matched");
    if (told)
        DN_TRY(read_matched(m, matched, err));
    else
        DN_TRY(find_matched(m, want, matched, err));
    if (told) DN_TRY(check_tables(m, matched, err));
    for (uint64_t j = 0; j < model->n_snps; j++) m->n_cols += matched[j];
    if (told ? m->n_cols != want : m->n_cols > want) {
        DN_TRY(dn_fail(err, DN_EMISMATCH,
                       "%s: scale %g says that %llu of %llu SNPs matched, but %llu did: the file is damaged",
                       m->path, m->file_scale, (ull)want, (ull)model->n_snps, (ull)m->n_cols));
    }
    if (m->n_cols < model->n_snps) {
        DN_TRY(dn_alloc(&m->own_place, m->n_cols, sizeof *m->own_place, "matched SNPs", err));
        for (uint64_t j = 0, k = 0; j < model->n_snps; j++) {
            if (matched[j]) m->own_place[k++] = j;
        }
        m->place = m->own_place;
    }
    /* Writer and reader divide the same two numbers, unless the writer rounded. */
    double exact = want ? (double)model->n_snps / (double)want : 0;
    m->scale = fabs(exact - m->file_scale) <= 1e-9 * exact ? exact : m->file_scale;
    m->row_bytes = dn_gpk_row_bytes(m->n_cols);
    dn_snps_free(&m->snps);
    status = DN_OK;
done:
    free(matched);
    return status;
}

/* ---- rows ---- */

dn_status dn_matched_h5_reserve(dn_matched *m, dn_err *err)
{
    dn_status status;
    DN_TRY(dn_alloc_aligned(&m->calls, m->piece, m->model_snps, "block of people", err));
    DN_TRY(dn_alloc_aligned(&m->wide, m->piece, m->wide_bytes, "block of people", err));
    DN_TRY(dn_row_hash_new(&m->hash, err));
    status = DN_OK;
done:
    return status;
}

struct pack {
    dn_matched *m;
    uint64_t first; /* person of item 0 */
    uint8_t *dst;
    uint64_t bad_person, bad_snp; /* first value outside -1..2 of the lowest person; UINT64_MAX: none */
    pthread_mutex_t lock;
};

static void pack_row(void *ctx, size_t item, size_t worker)
{
    struct pack *p = ctx;
    dn_matched *m = p->m;
    uint8_t *wide = m->wide + item * m->wide_bytes, *dst = p->dst + item * m->row_bytes;
    (void)worker;
    memset(wide, 0xff, m->wide_bytes);
    uint64_t bad = dn_geno_pack(m->calls + item * m->model_snps, m->model_snps, wide);
    if (bad < m->model_snps) {
        pthread_mutex_lock(&p->lock);
        if (item < p->bad_person) p->bad_person = item, p->bad_snp = bad;
        pthread_mutex_unlock(&p->lock);
        return;
    }
    if (!m->place) {
        memcpy(dst, wide, m->row_bytes);
        return;
    }
    memset(dst, 0xff, m->row_bytes);
    for (uint64_t j = 0; j < m->n_cols; j++) {
        unsigned g = dn_geno_get(wide, m->place[j]);
        dst[j / 4] = (uint8_t)(dst[j / 4] ^ (3u ^ g) << j % 4 * 2);
    }
}

/* When every row has passed by, their hash must be the one that was written. */
static dn_status check_hash(dn_matched *m, uint64_t first, uint64_t n, dn_err *err)
{
    dn_status status;
    uint64_t want;
    if (m->hashed != first) return DN_OK; /* a shard that does not begin at the first person */
    dn_row_hash_add(m->hash, m->wide, n * m->wide_bytes);
    m->hashed += n;
    if (m->hashed < m->n_people || !dn_h5_has_attr(m->h5, "inputs", "rows_xxh3")) return DN_OK;
    DN_TRY(dn_h5_read_attr(m->h5, "inputs", "rows_xxh3", DN_U64, &want, err));
    if (dn_row_hash_get(m->hash) != want) {
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s: the genotypes are damaged: their checksum differs; copy or make the file again",
                       m->path));
    }
    status = DN_OK;
done:
    return status;
}

dn_status dn_matched_h5_rows(dn_matched *m, uint64_t first, uint64_t n, dn_pool *pool, dn_err *err)
{
    dn_status status;
    struct pack p = {.m = m, .bad_person = UINT64_MAX};
    pthread_mutex_init(&p.lock, NULL);
    for (uint64_t i = 0; i < n; i += m->piece) {
        uint64_t k = n - i < m->piece ? n - i : m->piece;
        p.first = first + i;
        p.dst = m->buf + i * m->row_bytes;
        DN_TRY(dn_h5_read_rows(m->h5, "inputs", DN_I8, p.first, k, m->calls, err));
        dn_pool_run(pool, k, pack_row, &p);
        if (p.bad_person != UINT64_MAX) {
            DN_TRY(dn_fail(err, DN_EFORMAT,
                           "%s: 'inputs' of person %llu (%s), column %llu is %d: expected 0, 1, 2 or -1",
                           m->path, (ull)(p.first + p.bad_person) + 1,
                           dn_strs_get(&m->people.iid, p.first + p.bad_person), (ull)p.bad_snp + 1,
                           m->calls[p.bad_person * m->model_snps + p.bad_snp]));
        }
        DN_TRY(check_hash(m, p.first, k, err));
    }
    status = DN_OK;
done:
    pthread_mutex_destroy(&p.lock);
    return status;
}
