/* genobench: how long genotypes take to load, and to read in random batches of people, from each file format.
 *   genobench --prepare --bfile PREFIX --dir DIR     writes the same genotypes in every format into DIR
 *   genobench --dir DIR --bfile PREFIX --format F    measures one; prints a line of tab-separated numbers:
 *     format, bytes, load cold, load warm (median), batch cold, batch warm (median), checksum   (times in
 * seconds) A load ends with all calls in memory, a batch with those of its people, as int8, which is what a
 * consumer of the other formats gets; `gpk` and `gpkz` decode too, `gpkpacked` is what dntrain and dnpredict
 * do: rows in place, never decoded. "Cold": the file's pages have been dropped from the cache. The checksum
 * must be the same for all. */
#include <fcntl.h>
#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "blocks.h"
#include "geno.h"
#include "gpk.h"
#include "io.h"
#include "log.h"
#include "opt.h"
#include "panel.h"

typedef struct {
    dn_common common;
    dn_strs bfile;
    const char *dir;
    int format;
    bool prepare;
    uint64_t batch, rounds;
} options;

enum { BED, NPY, H5, H5ROW, H5GZIP, GPK, GPKZ, GPKPACKED, N_FORMATS };
static const char *const names[] = {"bed", "npy", "h5", "h5row", "h5gzip", "gpk", "gpkz", "gpkpacked"};
static const char *const files[] = {"",          "x.npy", "x.h5",    "x.row.h5",
                                    "x.gzip.h5", "x.gpk", "x.z.gpk", "x.gpk"};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static char *path_in(const options *o, int format)
{
    char *p = NULL;
    int n = format == BED ? asprintf(&p, "%s.bed", dn_strs_get(&o->bfile, 0))
                          : asprintf(&p, "%s/%s", o->dir, files[format]);
    if (n < 0) exit(DN_ENOMEM);
    return p;
}

/* ---- writing the formats ---- */

typedef struct {
    uint64_t m, stride, done;
    int8_t *calls; /* one row */
    dn_gpk_writer *gpk[2];
    dn_out *npy;
    hid_t set[3];
} writers;

static dn_status put(void *ctx, const uint8_t *rows, uint64_t n, dn_err *err)
{
    writers *w = ctx;
    dn_status status = DN_OK;
    for (int k = 0; k < 2; k++) DN_TRY(dn_gpk_write_rows(w->gpk[k], rows, n, err));
    for (uint64_t i = 0; i < n; i++, w->done++) {
        dn_geno_unpack(rows + i * w->stride, 0, w->m, w->calls);
        DN_TRY(dn_out_write(w->npy, w->calls, w->m, err));
        hsize_t at[2] = {w->done, 0}, size[2] = {1, w->m};
        hid_t mem = H5Screate_simple(2, size, NULL);
        for (int k = 0; k < 3; k++) {
            hid_t space = H5Dget_space(w->set[k]);
            H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, size, NULL);
            if (H5Dwrite(w->set[k], H5T_NATIVE_INT8, mem, space, H5P_DEFAULT, w->calls) < 0)
                status = dn_fail(err, DN_EWRITE, "HDF5 write");
            H5Sclose(space);
        }
        H5Sclose(mem);
        if (status != DN_OK) goto done;
    }
done:
    return status;
}

/* kind: 0 contiguous, 1 a chunk per row, 2 the same with gzip 4 (h5py's default). */
static hid_t create_set(hid_t file, uint64_t n, uint64_t m, int kind)
{
    hsize_t dims[2] = {n, m}, chunk[2] = {1, m};
    hid_t space = H5Screate_simple(2, dims, NULL), plist = H5Pcreate(H5P_DATASET_CREATE);
    if (kind > 0) H5Pset_chunk(plist, 2, chunk);
    if (kind > 1) H5Pset_deflate(plist, 4);
    hid_t set = H5Dcreate2(file, "inputs", H5T_STD_I8LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    H5Pclose(plist);
    H5Sclose(space);
    return set;
}

static dn_status npy_header(dn_out *o, uint64_t n, uint64_t m, dn_err *err)
{
    char text[118];
    int k = snprintf(text, sizeof text,
                     "{'descr': '|i1', 'fortran_order': False, 'shape': (%" PRIu64 ", %" PRIu64 "), }", n, m);
    memset(text + k, ' ', sizeof text - (size_t)k);
    text[117] = '\n';
    dn_status status = dn_out_write(o, "\x93NUMPY\x01\x00\x76\x00", 10, err);
    return status == DN_OK ? dn_out_write(o, text, sizeof text, err) : status;
}

static dn_status prepare(const options *o, dn_pool *pool, dn_err *err)
{
    dn_status status;
    dn_panel panel = {0};
    writers w = {0};
    dn_out *gpk[2] = {NULL, NULL};
    hid_t file[3];
    const dn_panel_opts opts = {.bfiles = &o->bfile};
    DN_TRY(dn_panel_open(&panel, &opts, err));
    uint64_t n = panel.info.n_people;
    w.m = panel.info.n_snps;
    w.stride = dn_gpk_row_bytes(w.m);
    DN_TRY(dn_alloc(&w.calls, w.m, 1, "row", err));
    for (int k = 0; k < 2; k++) {
        char *p = path_in(o, k ? GPKZ : GPK);
        DN_TRY(dn_out_open(&gpk[k], p, DN_OUT_FORCE, err));
        free(p);
        panel.info.zstd_level = k ? 3 : 0;
        DN_TRY(dn_gpk_write_start(&w.gpk[k], gpk[k], &panel.info, err));
    }
    char *p = path_in(o, NPY);
    DN_TRY(dn_out_open(&w.npy, p, DN_OUT_FORCE, err));
    free(p);
    DN_TRY(npy_header(w.npy, n, w.m, err));
    for (int k = 0; k < 3; k++) {
        p = path_in(o, H5 + k);
        file[k] = H5Fcreate(p, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        free(p);
        w.set[k] = create_set(file[k], n, w.m, k);
    }
    DN_TRY(dn_panel_rows(&panel, o->common.memory, pool, put, &w, NULL, err));
    for (int k = 0; k < 2; k++) {
        DN_TRY(dn_gpk_write_end(&w.gpk[k], err));
        DN_TRY(dn_out_commit(&gpk[k], err));
    }
    DN_TRY(dn_out_commit(&w.npy, err));
    for (int k = 0; k < 3; k++) H5Dclose(w.set[k]), H5Fclose(file[k]);
done:
    free(w.calls);
    dn_panel_close(&panel);
    return status;
}

/* ---- reading them ---- */

typedef struct {
    int format;
    char *path;
    uint64_t n, m, stride;
    dn_plink *plink;
    dn_pool *pool;
    uint64_t memory;
    dn_mapped npy;
    hid_t file, set;
    dn_gpk *gpk;
} source;

static void shut(source *s)
{
    dn_plink_close(s->plink);
    dn_mapped_close(&s->npy);
    if (s->set > 0) H5Dclose(s->set), H5Fclose(s->file);
    dn_gpk_close(s->gpk);
    s->plink = NULL, s->gpk = NULL, s->set = 0;
}

static dn_status start(source *s, const dn_strs *bfile, dn_err *err)
{
    switch (s->format) {
    case BED: return dn_plink_open(&s->plink, bfile, err);
    case NPY: return dn_mapped_open(&s->npy, s->path, err);
    case H5:
    case H5ROW:
    case H5GZIP:
        s->file = H5Fopen(s->path, H5F_ACC_RDONLY, H5P_DEFAULT);
        s->set = s->file < 0 ? -1 : H5Dopen2(s->file, "inputs", H5P_DEFAULT);
        return s->set < 0 ? dn_fail(err, DN_EOPEN, "cannot open %s", s->path) : DN_OK;
    default: return dn_gpk_open(&s->gpk, s->path, err);
    }
}

/* What a batch of people costs in a .bed: every SNP's row is read, and the people's calls picked out. */
typedef struct {
    source *s;
    const uint64_t *who;
    uint64_t k, at;
    int8_t *out;
} pick;

static dn_status pick_rows(void *ctx, const uint8_t *rows, uint64_t n, dn_err *err)
{
    (void)err;
    pick *p = ctx;
    for (uint64_t i = 0; i < n; i++, p->at++) {
        for (uint64_t b = 0; b < p->k; b++) {
            if (!p->who || p->who[b] == p->at) {
                dn_geno_unpack(rows + i * p->s->stride, 0, p->s->m, p->out + (p->who ? b : p->at) * p->s->m);
                if (!p->who) break;
            }
        }
    }
    return DN_OK;
}

static dn_status read_bed(source *s, const uint64_t *who, uint64_t k, int8_t *out, dn_err *err)
{
    uint64_t *snp = NULL;
    uint8_t *map = NULL;
    dn_status status;
    pick p = {s, who, k, 0, out};
    DN_TRY(dn_alloc(&snp, s->m, sizeof *snp, "SNPs", err));
    DN_TRY(dn_alloc(&map, s->m, 1, "map", err));
    for (uint64_t j = 0; j < s->m; j++) snp[j] = j;
    const dn_blocks b = {.cohort = s->plink,
                         .n_cols = s->m,
                         .snp = snp,
                         .map = map,
                         .memory = s->memory,
                         .pool = s->pool,
                         .rows = pick_rows,
                         .ctx = &p};
    status = dn_blocks_run(&b, err);
done:
    free(snp);
    free(map);
    return status;
}

/* Rows of the k people who[] (NULL: all, in order) into out, k x m. */
static dn_status fetch(source *s, const uint64_t *who, uint64_t k, int8_t *out, uint8_t *buf, dn_err *err)
{
    dn_status status = DN_OK;
    if (s->format == BED) return read_bed(s, who, k, out, err);
    if (s->set > 0 && !who)
        return H5Dread(s->set, H5T_NATIVE_INT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0
                   ? dn_fail(err, DN_EOPEN, "HDF5")
                   : DN_OK;
    for (uint64_t b = 0; b < k && status == DN_OK; b++) {
        uint64_t i = who ? who[b] : b;
        if (s->format == NPY) {
            memcpy(out + b * s->m, s->npy.base + 128 + i * s->m, s->m);
        } else if (s->set > 0) {
            hsize_t at[2] = {i, 0}, size[2] = {1, s->m};
            hid_t mem = H5Screate_simple(2, size, NULL), space = H5Dget_space(s->set);
            H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, size, NULL);
            if (H5Dread(s->set, H5T_NATIVE_INT8, mem, space, H5P_DEFAULT, out + b * s->m) < 0)
                status = dn_fail(err, DN_EOPEN, "HDF5 read");
            H5Sclose(space);
            H5Sclose(mem);
        } else {
            const uint8_t *row;
            status = dn_gpk_rows(s->gpk, i, 1, buf, &row, err);
            if (status != DN_OK) break;
            /* Packed: touched, as a kernel would, but not decoded. */
            if (s->format == GPKPACKED)
                memcpy(out + b * s->stride, row, s->stride);
            else
                dn_geno_unpack(row, 0, s->m, out + b * s->m);
        }
    }
    return status;
}

/* Drops the file's pages from the cache, as far as the system allows. */
static void make_cold(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0) return;
    (void)fdatasync(fd);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static dn_status measure(const options *o, dn_pool *pool, dn_err *err)
{
    dn_status status;
    source s = {.format = o->format, .pool = pool, .memory = o->common.memory};
    dn_plink *plink = NULL;
    int8_t *out = NULL;
    uint8_t *buf = NULL;
    uint64_t *who = NULL, hash = 0, x = 12345, n_batch = 0;
    double *load = NULL, *batch = NULL, cold[2] = {0, 0};
    struct stat sb;
    s.path = path_in(o, o->format);
    DN_TRY(dn_plink_open(&plink, &o->bfile, err));
    s.n = plink->people.iid.n, s.m = plink->n_snps, s.stride = dn_gpk_row_bytes(s.m);
    uint64_t k = o->batch < s.n ? o->batch : s.n;
    DN_TRY(dn_alloc_aligned(&out, s.n, s.m, "calls", err));
    memset(out, 0, s.n * s.m); /* the pages are there before the clock runs */
    DN_TRY(dn_alloc_aligned(&buf, s.stride, 1, "row", err));
    DN_TRY(dn_alloc(&who, k, sizeof *who, "batch", err));
    DN_TRY(dn_alloc(&load, o->rounds, sizeof *load, "times", err));
    DN_TRY(dn_alloc(&batch, 100 * o->rounds, sizeof *batch, "times", err));
    for (uint64_t r = 0; r <= o->rounds; r++) {
        if (r == 0) make_cold(s.path);
        double t = now();
        DN_TRY(start(&s, &o->bfile, err));
        DN_TRY(fetch(&s, NULL, s.n, out, buf, err));
        t = now() - t;
        shut(&s);
        if (r == 0)
            cold[0] = t;
        else
            load[r - 1] = t;
    }
    for (uint64_t i = 0; i < s.n; i++) {
        uint64_t h;
        if (s.format == GPKPACKED) { /* decoded only to compare */
            int8_t *row = malloc(s.m);
            if (!row) exit(DN_ENOMEM);
            dn_geno_unpack((uint8_t *)out + i * s.stride, 0, s.m, row);
            h = dn_hash(row, s.m);
            free(row);
        } else
            h = dn_hash(out + i * s.m, s.m);
        hash = hash * 31 + h;
    }
    make_cold(s.path);
    DN_TRY(start(&s, &o->bfile, err));
    /* Short ones are repeated more often, so that a moment of another process does not decide. */
    for (double spent = 0; n_batch < 3 * o->rounds || (spent < 0.5 && n_batch < 100 * o->rounds);) {
        for (uint64_t b = 0; b < k; b++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            who[b] = x % s.n;
        }
        double t = now();
        DN_TRY(fetch(&s, who, k, out, buf, err));
        t = now() - t;
        if (cold[1] == 0) {
            cold[1] = t;
            continue;
        }
        batch[n_batch++] = t;
        spent += t;
    }
    qsort(load, o->rounds, sizeof *load, by_value);
    qsort(batch, n_batch, sizeof *batch, by_value);
    if (stat(s.path, &sb) != 0) sb.st_size = 0;
    printf("%s\t%lld\t%.6f\t%.6f\t%.6f\t%.6f\t%016" PRIx64 "\n", names[o->format], (long long)sb.st_size,
           cold[0], load[o->rounds / 2], cold[1], batch[n_batch / 2], hash);
done:
    shut(&s);
    dn_plink_close(plink);
    free(s.path);
    free(out);
    free(buf);
    free(who);
    free(load);
    free(batch);
    return status;
}

int main(int argc, char **argv)
{
    options o = {.common = DN_COMMON_DEFAULT, .batch = 138, .rounds = 5};
    const dn_opt opts[] = {
        {DN_OPT_LIST, "bfile", 'b', &o.bfile, "PREFIX", 0, 0, "genotypes", NULL},
        {DN_OPT_STR, "dir", 0, &o.dir, "DIR", 0, 0, "where the other formats are", NULL},
        {DN_OPT_FLAG, "prepare", 0, &o.prepare, NULL, 0, 0, "write them", NULL},
        {DN_OPT_CHOICE, "format", 0, &o.format, "bed|npy|h5|h5row|h5gzip|gpk|gpkz|gpkpacked", 0, 0,
         "what to measure", NULL},
        {DN_OPT_U64, "batch", 0, &o.batch, "B", 1, 1e6, "people in a batch", NULL},
        {DN_OPT_U64, "rounds", 0, &o.rounds, "N", 1, 1000, "repeats", NULL},
        DN_COMMON_OPTS(o.common),
    };
    enum { N = sizeof opts / sizeof opts[0] };
    dn_err err = {0};
    dn_strs operands = {0};
    dn_pool *pool = NULL;
    dn_status status;
    dn_log_start("genobench", argc, argv);
    DN_TRY(dn_opt_parse(argc, argv, opts, N, &operands, &err));
    dn_log_level(true, false);
    if (o.common.help || !o.bfile.n || !o.dir) {
        dn_opt_help(stdout, "Usage: genobench --bfile PREFIX --dir DIR [--prepare | --format F]",
                    "See the source.", opts, N, "");
        return o.common.help ? 0 : DN_EUSAGE;
    }
    DN_TRY(dn_common_finish(&o.common, &err));
    DN_TRY(dn_pool_new(&pool, (size_t)o.common.threads, &err));
    DN_TRY(o.prepare ? prepare(&o, pool, &err) : measure(&o, pool, &err));
done:
    dn_pool_free(pool);
    dn_strs_free(&o.bfile);
    dn_strs_free(&operands);
    return dn_finish(status, &err);
}
