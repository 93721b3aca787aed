/* SPDX-License-Identifier: MIT */
/* inspect_run: the table of a run directory. Stateless; one thread. */
#ifndef CKPTFS_INSPECT_RUN_H
#define CKPTFS_INSPECT_RUN_H

#include "format/run/run.h"

enum ck_run_style { CK_RUN_TABLE, CK_RUN_JSON, CK_RUN_CSV };

/* Appends one row for each step: name, kind, tensors, bytes, and whether it is complete. Opens each
 * complete step. Rows of other subdirectories have the reason why they are not shown. Returns 0, or
 * errors of ck_run_steps(). */
CK_MUST_USE int ck_inspect_run(struct ck_rundir *run, enum ck_run_style style,
			       struct ck_buf *out);

#endif
