/* SPDX-License-Identifier: MIT */
/*
 * run: a run directory, whose subdirectories are checkpoints: the steps of a
 * training job, which appear and disappear while it is open. It is a checkpoint of
 * kind `run` with an empty catalog and this list. Only complete steps are shown. A
 * part of format. Any thread.
 */
#ifndef CKPTFS_RUN_H
#define CKPTFS_RUN_H

#include "ckptfs/format.h"

/* Run directory of a checkpoint of kind `run`; NULL for other kinds. */
struct ck_rundir;
struct ck_rundir *ck_checkpoint_run(const struct ck_checkpoint *cp);

/* A name in a run directory. Texts are valid as long as the list. */
struct ck_step {
	const char *name; /* name in the directory */
	const char *stem; /* shown name */
	/* Unique among all steps, also of earlier steps with the same name. 0: not
	 * shown. Shown names are listed in this order. */
	uint32_t id;
	bool is_link;
	const char *target; /* of a link: stem of a shown step */
	const char *why;    /* reason why it is not shown; NULL: it is shown */
	uint64_t changes;   /* number of changes seen of its directory */
};

/* The names at one moment. */
struct ck_steps {
	const struct ck_step *all; /* shown ones first, sorted by id */
	uint32_t n, nshown, nlinks;
};

/* Lists the names now, or reuses a list that is less than a second old. Returns 0,
 * or: -ENOMEM; errors of open(2) if the directory cannot be read, the previous
 * names are lost then. Caller must call ck_steps_put(). */
CK_MUST_USE int ck_run_steps(struct ck_rundir *r, const struct ck_steps **out);
void ck_steps_put(const struct ck_steps *steps);
/* Find a shown step by its stem or its id; NULL if not found. */
const struct ck_step *ck_steps_find(const struct ck_steps *s,
				    struct ck_str stem);
const struct ck_step *ck_steps_at(const struct ck_steps *s, uint32_t id);
/* Sets *out to the digits of the last number in a name, without leading zeros. False if
 * there is no digit. */
bool ck_step_number(const char *name, struct ck_str *out);
/* Compares the last numbers in two names; a name without one comes first. <0, 0, >0. */
int ck_step_number_cmp(const char *a, const char *b);

/* Opens a step. Returns 0, or: -EAGAIN if it changed meanwhile; -ESTALE if it is
 * being removed; errors of ck_checkpoint_open(). */
CK_MUST_USE int ck_run_open(struct ck_rundir *r, const struct ck_step *step,
			    struct ck_checkpoint **out, struct ck_diag *d);
/* Records that a step has other metadata: the next ck_run_steps() gives it a new
 * id. */
void ck_run_renew(struct ck_rundir *r, uint32_t id);

#endif
