/* SPDX-License-Identifier: MIT */
/*
 * run_steps: the steps of a run directory in the order of training, opened one by one. A step that
 * is itself a run directory has its parts as checkpoints; any other step is one part. The main
 * thread.
 */
#ifndef CKPTFS_RUN_STEPS_H
#define CKPTFS_RUN_STEPS_H

#include "format/run/run.h"
#include "values/tensor_pass.h"

/* Zero-initialise. */
struct ck_run_list {
	/* Complete steps, by the last number in their names. If some have a number, those
	 * without one are left out. */
	const struct ck_step **all; /* owned; rows of `steps` */
	size_t n;
	/* Private: */
	struct ck_rundir *run;
	const struct ck_steps *steps; /* holds a reference */
};

/* Lists the steps of an open run directory, and names on stderr subdirectories that are left out: not
 * complete, or without a number. `src` is for messages. Returns the exit status, after a message if
 * it is not 0: also if there is no step. Caller calls ck_run_list_fini() in any case. */
CK_MUST_USE int ck_run_list_make(struct ck_rundir *run, const char *src,
				 struct ck_run_list *out);
/* The name of a step that is left out, and whose number is below that of step i and above that of
 * the step before it. NULL if there is none. */
const char *ck_run_list_gap(const struct ck_run_list *l, size_t i);
void ck_run_list_fini(struct ck_run_list *l);

/* A checkpoint of a step. */
struct ck_run_part {
	struct ck_pass_source from; /* cp and c are owned; no route */
	char *prefix; /* owned: of shown names, "PART/" in a nested run directory; else "" */
};

/* Zero-initialise. */
struct ck_run_step {
	struct ck_run_part *parts; /* owned; in natural order of their names */
	size_t nparts;
	size_t nlosses; /* files and names of the parts that cannot be read */
};

/* Opens step i of the list. Returns 0, or: -EAGAIN if it was removed, or replaced several times
 * meanwhile; errors of ck_run_open(). d has a text in any case. Caller calls
 * ck_run_step_close() in any case. */
CK_MUST_USE int ck_run_step_open(const struct ck_run_list *l, size_t i,
				 struct ck_run_step *out, struct ck_diag *d);
void ck_run_step_close(struct ck_run_step *s);

/* Sets *out to the whole tensors of a part, in the checkpoint's order; an alias of an earlier one
 * is left out. Returns 0, or -ENOMEM. Caller frees *out with free(). */
CK_MUST_USE int ck_run_part_tensors(const struct ck_run_part *part,
				    uint32_t **out, size_t *n);

#endif
