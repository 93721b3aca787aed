/* SPDX-License-Identifier: MIT */
/*
 * run_internal: shared by the files of run directories: run_format.c is the format,
 * look.c reads the directory, run_names.c makes the list of shown steps, complete.c
 * detects complete steps.
 *
 * A run directory is a checkpoint whose steps are checkpoints: it detects and opens
 * them by detect.c and checkpoint.c, which call it for the run directory. This is the
 * only recursion among the layers of core/format (kind.h).
 *
 * Any thread may call the functions of run.h; the functions below need r->lock.
 */
#ifndef CK_RUN_INTERNAL_H
#define CK_RUN_INTERNAL_H

#include "format/kind.h"
#include "run.h"

/* A subdirectory, as the last scan found it. Texts are owned. */
struct ck_found {
	char *name;
	dev_t dev;
	ino_t ino;
	struct timespec mtime;
	bool was_seen; /* dev, ino and mtime are set */
	bool is_there;
	bool is_settled;		/* two scans found the same mtime */
	const struct ck_format *format; /* NULL if it is not a checkpoint */
	char *why;			/* why it is not shown; NULL if it is */
	uint32_t id;			/* 0 if it has no id yet */
	/* number of changes seen, see ck_step.changes */
	uint64_t changes;
};

/* A symbolic link with any target. */
struct ck_found_link {
	char *name, *target; /* owned */
	uint32_t id;
	bool is_there;
};

struct ck_rundir {
	/* Constant: */
	struct ck_checkpoint *cp;
	struct ck_format_options options; /* of its steps */
	unsigned level;			  /* levels of nested run directories */

	pthread_mutex_t lock;
	/* Under lock: */
	bool was_looked;
	bool is_settled; /* two scans found the same mtime of the directory */
	uint64_t last_scan; /* time of the last scan, ck_msec_now() */
	struct timespec mtime;
	struct ck_found *found; /* by name in natural order */
	size_t n, cap;
	struct ck_found_link *links;
	size_t nlinks, links_cap;
	uint32_t next, latest; /* the next free id; the id of `latest` */
	/* contents of `latest` that name no shown step; or NULL */
	char *overruled;
	/* number of successive scans that found it, - 1 */
	unsigned overruled_at;
	struct ck_steps *steps; /* the current list */
};

/* --- look.c ------------------------------------------------------------------------ */

/* Updates r->found and r->links from the directory. Must hold r->lock. Returns 0, or:
 * -ENOMEM; errors of fstat(2), open(2) and readdir(3). */
CK_MUST_USE int ck_run_scan(struct ck_rundir *r);
/* Appends the first 1,024 bytes of a file of the directory, without white space at the
 * end. Returns 0, or: -ENOENT if it is empty or not a regular file; -ENOMEM; errors of
 * open(2). */
CK_MUST_USE int ck_run_text(const struct ck_rundir *r, const char *name,
			    struct ck_buf *out);
/* Frees the texts of a subdirectory. */
void ck_found_fini(struct ck_found *f);

/* --- run_names.c ------------------------------------------------------------------ */

/* Replaces r->steps by a list of the present names. Must hold r->lock. Returns 0, or:
 * -ENOMEM. */
CK_MUST_USE int ck_run_names(struct ck_rundir *r);

/* --- complete.c ---------------------------------------------------------------------- */

/* Checks a subdirectory, with descriptor fd. Sets *format, NULL if it is not a
 * checkpoint. Sets *why to NULL if it is a complete step, else to the reason, which the
 * caller must free. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_run_judge(struct ck_rundir *r, const char *name, int fd,
			     const struct ck_format **format, char **why);

#endif
