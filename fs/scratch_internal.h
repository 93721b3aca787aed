/* SPDX-License-Identifier: MIT */
/*
 * scratch, inside: what its files share.
 */
#ifndef CKPTFS_FS_SCRATCH_INTERNAL_H
#define CKPTFS_FS_SCRATCH_INTERNAL_H

#include "internal.h"

struct ck_scratch {
	struct ck_scratch *next; /* this up to attr: ck_scratches.lock */
	uint32_t number;
	fuse_ino_t dir; /* number of the directory that its name is in */
	char *name;	/* owned; NULL: it has none any more */
	unsigned refs;
	struct stat attr;
	int fd;		    /* owned */
	pthread_mutex_t io; /* of what changes the bytes, and of taken */
	bool taken;	    /* it has become a tensor */
};

struct ck_scratches {
	pthread_mutex_t lock;
	struct ck_scratch *first; /* by falling numbers */
	uint32_t count, most;
	uint64_t given; /* numbers */
};

/* Those below are for who has the lock. */

/* NULL: it is gone. */
struct ck_scratch *ck_scratch_by_number(const struct ck_scratches *all,
					uint32_t number);
/* It is gone when it has neither a name nor a reference. */
void ck_scratch_settle(struct ck_scratches *all, struct ck_scratch *s);
/* The time for what has changed. */
void ck_scratch_now(struct timespec *out);

#endif
