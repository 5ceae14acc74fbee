/* model_list.c: tells apart what --model was given (see model_list.h). */
#include "model_list.h"

#include <string.h>
#include <sys/stat.h>

#include "io.h"
#include "plink.h"

static dn_status open_model(dn_model_list *l, const char *path, size_t threads, dn_err *err)
{
    const dn_model_opts opts = {.snps_only = true, .threads = threads};
    dn_status status = dn_model_open(&l->model, path, &opts, err);
    if (status != DN_OK) return status;
    l->snps = &l->model->snps;
    l->freq = l->model->freq;
    l->hash = l->model->snps_hash;
    l->what = l->model->is_release ? "release" : "package";
    return DN_OK;
}

static dn_status open_file(dn_model_list *l, const char *path, size_t threads, dn_err *err)
{
    dn_kind kind;
    dn_status status = dn_kind_of_file(path, &kind, err);
    if (status != DN_OK) return status;
    switch (kind) {
    case DN_KIND_HDF5: return open_model(l, path, threads, err);
    case DN_KIND_GPK:
        status = dn_gpk_open(&l->gpk, path, err);
        if (status != DN_OK) return status;
        l->snps = &dn_gpk_get_info(l->gpk)->snps;
        l->what = ".gpk";
        break;
    case DN_KIND_TEXT:
        status = dn_bim_read(path, &l->own, err);
        if (status != DN_OK) return dn_fail_prefix(err, "--model is read as a .bim, a bare SNP list: ");
        l->snps = &l->own;
        l->what = ".bim";
        break;
    default:
        return dn_fail(err, DN_EFORMAT,
                       "--model %s is %s; expected a release's folder, a folder of packages, a package "
                       "(.h5), a .bim or a .gpk",
                       path, dn_kind_name(kind));
    }
    l->hash = dn_snps_hash(l->snps);
    return DN_OK;
}

dn_status dn_model_list_open(dn_model_list *l, const char *path, size_t threads, dn_err *err)
{
    struct stat sb;
    memset(l, 0, sizeof *l);
    bool folder = stat(path, &sb) == 0 && S_ISDIR(sb.st_mode);
    dn_status status = folder ? open_model(l, path, threads, err) : open_file(l, path, threads, err);
    if (status == DN_OK && l->snps->id.n == 0)
        status = dn_fail(err, DN_EFORMAT, "--model %s holds 0 SNPs", path);
    if (status != DN_OK) dn_model_list_close(l);
    return status;
}

void dn_model_list_close(dn_model_list *l)
{
    if (!l) return;
    dn_snps_free(&l->own);
    dn_gpk_close(l->gpk);
    dn_model_free(l->model);
    memset(l, 0, sizeof *l);
}
