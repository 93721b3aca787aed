/* SPDX-License-Identifier: MIT */
/*
 * report_run: the steps of a run directory in the data of the page: a row for each tensor of any
 * step, and its curves. The main thread.
 */
#ifndef CKPTFS_REPORT_RUN_H
#define CKPTFS_REPORT_RUN_H

#include "html_values.h"
#include "run_curves.h"

/* Zero-initialise. It must not move once it is made. */
struct ck_report_run {
	struct ck_run_list list;
	struct ck_run_curves curves;
	struct ck_html_data *data;     /* the caller's */
	struct ck_html_values *values; /* the caller's; or NULL */
};

/* Reads the steps of a run directory, and adds and sorts the rows of the data. Tensors and steps that
 * cannot be read are named on stderr; such rows are damaged. values: NULL, or a row has also the
 * statistics of the newest step with the tensor. `src` is for messages. Returns the exit
 * status, after a message if it is not 0. Caller calls ck_report_run_fini() in any case. */
CK_MUST_USE int ck_report_run_make(struct ck_rundir *run, const char *src,
				   struct ck_html_data *data,
				   struct ck_html_values *values,
				   struct ck_report_run *out);
void ck_report_run_fini(struct ck_report_run *r);
/* Appends `,"run":{...}`. run: a struct ck_report_run, constant. */
void ck_report_run_print(void *run, struct ck_buf *out);

#endif
