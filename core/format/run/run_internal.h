/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of run directories: run.c is the format, look.c reads the directory,
 * names.c makes the list of steps that are shown, complete.c detects complete steps.
 *
 * A run directory is a checkpoint whose steps are checkpoints: it detects and opens them by
 * detect.c and checkpoint.c, which call it for the run directory. This is the only
 * recursion among the layers of core/format (kind.h).
 */
#ifndef CK_RUN_INTERNAL_H
#define CK_RUN_INTERNAL_H

#include "../kind.h"
#include "ckptfs/run.h"

/* A subdirectory. Texts are owned. */
struct ck_found {
	char *name;
	dev_t dev;
	ino_t ino;
	struct timespec mtime;
	bool was_seen; /* all of this is of the last look, but for: */
	bool is_there;
	bool is_settled;		/* it had the same time at two looks */
	const struct ck_format *format; /* NULL: it is no checkpoint */
	char *why;			/* why it is not shown; NULL: it is */
	uint32_t id;			/* 0: it has none yet */
	uint64_t changes;
};

/* A link, wherever it leads. */
struct ck_found_link {
	char *name, *target; /* owned */
	uint32_t id;
	bool is_there;
};

struct ck_rundir {
	/* Constant: */
	struct ck_checkpoint *cp;
	struct ck_format_options options; /* of its steps */
	unsigned level; /* of run directories that may lie in each other */

	pthread_mutex_t lock;
	/* Under lock: */
	bool was_looked;
	bool is_settled; /* the directory had the same time at two looks */
	uint64_t looked; /* msec */
	struct timespec mtime;
	struct ck_found *found; /* by name in natural order */
	size_t n, cap;
	struct ck_found_link *links;
	size_t nlinks, links_cap;
	uint32_t next, latest;	/* numbers */
	char *overruled;	/* what `latest` says and is no step; or NULL */
	unsigned overruled_at;	/* so many looks, one after the other */
	struct ck_steps *steps; /* the present list */
};

/* --- look.c ------------------------------------------------------------------------ */

/* Compares the directory with what is known. Under lock. -ENOMEM; errors of open(2). */
CK_MUST_USE int ck_run_look(struct ck_rundir *r);
/* Bytes of a small file of the directory, as a text without white space at its end. */
CK_MUST_USE int ck_run_text(const struct ck_rundir *r, const char *name,
			    struct ck_buf *out);
void ck_found_fini(struct ck_found *f);

/* --- names.c ------------------------------------------------------------------------ */

/* Makes the list of what is known. Under lock. -ENOMEM. */
CK_MUST_USE int ck_run_names(struct ck_rundir *r);

/* --- complete.c ---------------------------------------------------------------------- */

/* The format of a subdirectory, and whether the step is complete: *why is a text to be
 * freed, or NULL. -ENOMEM. */
CK_MUST_USE int ck_run_judge(struct ck_rundir *r, const char *name, int fd,
			     const struct ck_format **format, char **why);

#endif
