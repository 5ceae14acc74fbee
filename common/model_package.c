/* model_package.c: a folder of our packages, or one package, as a model (see model.h). */
#include "model_impl.h"

dn_status dn_packages_load(dn_model *m, const char *path, const dn_model_opts *opts, dn_err *err)
{
    (void)m;
    (void)opts;
    return dn_fail(err, DN_EFORMAT,
                   "%s is no model: it is neither a release (a folder with DN_MODELS and DN_SNPS) nor a "
                   "folder of packages (seed{S}_fold{F}.h5)",
                   path);
}
