/* SPDX-License-Identifier: MIT */
/*
 * run: a directory of which subdirectories are checkpoints, the steps of a training job,
 * which come and go while it is open. It is a checkpoint of kind `run`: its catalog is
 * empty, and what it has is this list. Only steps that are complete are shown. A part of
 * format. Any thread.
 */
#ifndef CKPTFS_RUN_H
#define CKPTFS_RUN_H

#include "ckptfs/format.h"

/* Of a checkpoint that is a run directory; NULL: it is none. */
struct ck_rundir;
struct ck_rundir *ck_checkpoint_run(const struct ck_checkpoint *cp);

/* A name of a run directory. Texts are valid as long as the list. */
struct ck_step {
	const char *name; /* as it is in the directory */
	const char *stem; /* as it is shown */
	/* Of no other step, nor of one that was there before under its name. 0: it is
	 * not shown. Names that are shown are listed in this order. */
	uint32_t id;
	bool is_link;
	const char *target; /* of a link: the stem of a step that is shown */
	const char *why;    /* why it is not shown; NULL: it is */
	uint64_t changes;   /* of its directory that were seen */
};

/* The names of one moment. */
struct ck_steps {
	const struct ck_step *all; /* those that are shown first, by id */
	uint32_t n, nshown, nlinks;
};

/* As they are now, where it is a second ago that somebody looked; ck_steps_put() it.
 * -ENOMEM; errors of open(2) of a directory that cannot be read, with the former names
 * lost. */
CK_MUST_USE int ck_run_steps(struct ck_rundir *r, const struct ck_steps **out);
void ck_steps_put(const struct ck_steps *steps);
/* One that is shown, by its stem, by its number; NULL. */
const struct ck_step *ck_steps_find(const struct ck_steps *s,
				    struct ck_str stem);
const struct ck_step *ck_steps_at(const struct ck_steps *s, uint32_t id);

/* Opens one, as ck_checkpoint_open(). -EAGAIN: it has changed meanwhile; -ESTALE: somebody
 * is removing it. */
CK_MUST_USE int ck_run_open(struct ck_rundir *r, const struct ck_step *step,
			    struct ck_checkpoint **out, struct ck_diag *d);
/* A step has other metadata by now: it is another one from the next ck_run_steps() on. */
void ck_run_renew(struct ck_rundir *r, uint32_t id);

#endif
