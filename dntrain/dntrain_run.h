/* dntrain_run.h: one task from its first epoch, or from its checkpoint, to its package. */
#ifndef DNTRAIN_RUN_H
#define DNTRAIN_RUN_H

#include "backend.h"
#include "device.h"
#include "dntrain_data.h"

/* data is open (train_data_open) and the task's lock is held; be is a backend of dev. DN_OK: the package is
 * there. DN_ESTOPPED: stopped on a signal, saved. DN_ENUMERIC: the loss stopped being finite; best model and
 * checkpoint are as they were. */
DN_MUST_USE dn_status train_run(const train_options *o, const train_task *t, const dn_config *c,
                                train_data *data, dn_backend *be, const dn_device *dev, dn_err *err);

#endif
