/* SPDX-License-Identifier: MIT */
/*
 * run_curves: norm, NaN, Inf and change of each tensor of a run, over at most 200 of its steps. Steps
 * are read from the newest to the oldest one, two at a time; each is read twice. The main thread;
 * steps are read by several.
 */
#ifndef CKPTFS_RUN_CURVES_H
#define CKPTFS_RUN_CURVES_H

#include "ckptfs/table.h"
#include "cp_progress.h"
#include "run_steps.h"

enum {
	CK_RUN_SAMPLES = 200, /* most steps that are read */
	/* Most tensors times steps: with many tensors, fewer steps are read, at least two. */
	CK_RUN_CELLS = 1000000,
};

/* A step that is read, or cannot be opened. */
struct ck_run_sample {
	size_t step; /* in the list */
	char *why;   /* a line: it cannot be opened; owned. NULL: it is read */
};

/* A tensor: a number for each sample. */
struct ck_run_curve {
	struct ck_str name; /* shown name */
	/* Of finite values: the Euclidean norm, and that of the difference from the sample before
	 * that is read. NaN: the step lacks the tensor, it cannot be read, or there are no finite
	 * values; of `change` also if the step before lacks it, or has another dtype or shape. */
	double *norm, *change;
	/* Values, see value_form.h; NULL: none in any step. */
	uint64_t *nan, *inf;
	size_t last; /* private: the sample stored last */
};

/* Zero-initialise. It must not move once it is made. */
struct ck_run_curves {
	struct ck_run_sample *
		samples; /* by step; spread evenly, with the first and the last one */
	size_t nsamples;
	struct ck_run_curve *all;
	size_t n;
	/* Private: */
	size_t cap;
	struct ck_table names;
	struct ck_arena texts; /* names and numbers */
};

/* Both return 0, or a negative errno, which ends the run. */
struct ck_run_curves_options {
	/* A step is open: called from the newest to the oldest one. It may add to the progress. */
	int (*opened)(void *arg, const struct ck_run_step *step,
		      struct ck_progress *p);
	/* A tensor of a step cannot be read. err: positive errno */
	int (*unread)(void *arg, size_t step, const struct ck_run_part *part,
		      uint32_t tensor, int err);
	void *arg;
};

/* Reads the steps. Those that cannot be opened are named on stderr. Progress is shown on stderr if
 * that is a terminal. Returns 0, or: -ENOENT if no step can be opened; an error of a callback;
 * shortages of this process. Caller calls ck_run_curves_fini() in any case. */
CK_MUST_USE int ck_run_curves_make(const struct ck_run_list *l,
				   const struct ck_run_curves_options *o,
				   struct ck_run_curves *out);
void ck_run_curves_fini(struct ck_run_curves *r);
/* The curve of a shown name; NULL if there is none. */
const struct ck_run_curve *ck_run_curves_find(const struct ck_run_curves *r,
					      struct ck_str name);

#endif
