/* SPDX-License-Identifier: MIT */
/*
 * scratch, inside: what its files share.
 */
#ifndef CKPTFS_FS_SCRATCH_INTERNAL_H
#define CKPTFS_FS_SCRATCH_INTERNAL_H

#include "../internal.h"
#include "ckptfs/written_ranges.h"

struct ck_scratch {
	/* Under ck_scratches.lock: */
	struct ck_scratch *next;
	uint32_t number;
	struct ck_node dir; /* that its name is in, and in use by that */
	char *name;	    /* owned; NULL: it has none any more */
	bool told;	    /* the log says that it is no tensor's */
	unsigned refs;
	struct stat attr;

	/* Constant: */
	int fd; /* owned */

	pthread_mutex_t io; /* of whoever changes the bytes */
	/* Under io: */
	bool taken;			  /* it has become a tensor */
	struct ck_written_ranges written; /* its ranges that were written */
};

struct ck_scratches {
	/* Constant: */
	uint32_t most;

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_scratch *first; /* by falling numbers */
	uint32_t count;
	uint64_t given; /* numbers */
};

/* Those below are for whoever has the lock. */

/* NULL: it is gone. */
struct ck_scratch *ck_scratch_by_number(const struct ck_scratches *all,
					uint32_t number);
/* It is gone when it has neither a name nor a reference. */
void ck_scratch_settle(struct ck_scratches *all, struct ck_scratch *s);
/* The time for what has changed. */
void ck_scratch_now(struct timespec *out);

/* Those below need no lock. */

/* Whoever takes the name away frees what it has with it. */
void ck_scratch_unname(const struct ck_fs *fs, struct ck_scratch *s);
/* Appends the path of a name in a directory, for people. */
void ck_dir_print(const struct ck_fs *fs, const struct ck_node *dir,
		  const char *name, struct ck_buf *out);

#endif
