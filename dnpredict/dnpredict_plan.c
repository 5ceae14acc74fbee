/* dnpredict_plan.c: how many people a block has under a bound on memory, and what makes a run this run (see
 * dnpredict_run.h). */
#include <string.h>

#include "dnpredict_fat.h"
#include "dnpredict_run.h"
#include "geno.h"

typedef unsigned long long ull;

#define BLOCK     4096 /* people: the table kernel builds its tables once for so many */
#define MIN_BLOCK 16

uint64_t dn_predict_hidden_units(const dn_model *model)
{
    uint64_t widest = 0;
    for (size_t m = 0; m < model->n_members; m++) {
        uint64_t n = model->members[m].layer[model->members[m].n_layers - 2].n_out;
        widest = n > widest ? n : widest;
    }
    return widest;
}

static uint64_t units_of(const dn_member *m)
{
    return m->layer[0].n_out;
}

/* ---- memory ---- */

static uint64_t weight_bytes(const dn_model *model)
{
    uint64_t bytes = model->n_norms * model->n_snps * 2 * sizeof(double) + model->n_snps * sizeof(float) +
                     model->snps.id.used + model->snps.chrom.used + model->snps.a1.used +
                     model->snps.a2.used + 40 * model->n_snps;
    for (size_t m = 0; m < model->n_members; m++)
        bytes += model->n_snps * units_of(&model->members[m]) * sizeof(float);
    return bytes;
}

static dn_status block_bytes(const dn_predict_job *job, uint64_t n, dn_predict_plan *plan, dn_err *err)
{
    const dn_model *model = job->model;
    uint64_t units = 0, scratch;
    dn_status status = dn_predict_fat_bytes(model, job->cohort, n, job->device, dn_pool_threads(job->pool),
                                            &scratch, &plan->gpu, err);
    if (status != DN_OK) return status;
    for (size_t m = 0; m < model->n_members; m++) units += units_of(&model->members[m]);
    uint64_t hidden = job->scores ? dn_predict_hidden_units(model) : 0;
    uint64_t rows = dn_gpk_row_bytes(job->cohort->n_cols) * n; /* mapped pages count too */
    uint64_t buffer = dn_matched_buffer_bytes(job->cohort, n);
    plan->people = n;
    plan->block =
        (units + model->n_members * (model->n_out + hidden) + DN_PREDICT_SLOTS) * n * sizeof(float) +
        scratch + (buffer > rows ? buffer : rows);
    return DN_OK;
}

dn_status dn_predict_plan_make(const dn_predict_job *job, dn_predict_plan *plan, dn_err *err)
{
    dn_status status;
    const dn_matched *c = job->cohort;
    uint64_t n_people = job->part ? job->part->last - job->part->first : c->n_people;
    uint64_t fixed = c->people.iid.used + c->people.fid.used + 16 * c->n_people + ((uint64_t)16 << 20);
    plan->weights = weight_bytes(job->model);
    /* Every 8 threads want a sub-block of their own. */
    uint64_t n = BLOCK;
    if (!(job->device && job->device->cuda)) n *= (dn_pool_threads(job->pool) + 7) / 8;
    if (n > n_people) n = n_people ? n_people : 1;
    DN_TRY(block_bytes(job, n, plan, err));
    while (plan->people > MIN_BLOCK && plan->weights + fixed + plan->block > job->memory) {
        DN_TRY(block_bytes(job, (plan->people + 1) / 2, plan, err));
    }
    plan->block += fixed;
    if (plan->weights + plan->block > job->memory) {
        DN_TRY(dn_fail(err, DN_ENOMEM,
                       "--memory %llu MiB is too little: the model's weights take %llu MiB and a block of "
                       "%llu people %llu MiB: "
                       "give --memory %lluM",
                       (ull)(job->memory >> 20), (ull)(plan->weights >> 20), (ull)plan->people,
                       (ull)(plan->block >> 20) + 1, (ull)((plan->weights + plan->block) >> 20) + 1));
    }
    status = DN_OK;
done:
    return status;
}

uint64_t dn_predict_run_hash(const dn_model *model, const dn_matched *cohort, bool tf32)
{
    uint64_t v[8] = {model->snps_hash,      dn_strs_hash(&model->classes),
                     (uint64_t)model->task, model->n_members,
                     cohort->n_cols,        cohort->fingerprint};
    memcpy(&v[6], &cohort->scale, sizeof v[6]);
    v[7] = cohort->place ? dn_hash(cohort->place, cohort->n_cols * sizeof *cohort->place) : 0;
    uint64_t h = dn_hash(v, sizeof v);
    for (size_t m = 0; m < model->n_members; m++) {
        uint64_t w[3] = {h, model->members[m].weight_hash,
                         dn_hash(model->members[m].name, strlen(model->members[m].name))};
        h = dn_hash(w, sizeof w);
    }
    /* Rounding differs between devices; another precision is another run. */
    return tf32 ? dn_hash(&h, sizeof h) : h;
}
