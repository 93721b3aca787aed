/* SPDX-License-Identifier: MIT */
/*
 * scratch, inside: interfaces that its files share.
 */
#ifndef CKPTFS_SCRATCH_INTERNAL_H
#define CKPTFS_SCRATCH_INTERNAL_H

#include "../internal.h"
#include "commit/written_ranges.h"

struct ck_scratch {
	/* Under ck_scratches.lock: */
	struct ck_scratch *next;
	uint32_t number;
	/* directory of the name, which keeps it in use */
	struct ck_node dir;
	char *name;  /* owned; NULL after removal */
	bool logged; /* the log has the warning that it is not a tensor */
	unsigned refs;
	struct stat attr;

	/* Constant: */
	int fd; /* owned */

	pthread_mutex_t io; /* held while bytes change */
	/* Under io: */
	bool taken;			  /* it has become a tensor */
	struct ck_written_ranges written; /* ranges that were written */
};

struct ck_scratches {
	/* Constant: */
	uint32_t most;

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_scratch *first; /* by falling numbers */
	uint32_t count;
	uint64_t next_number; /* numbers given so far */
};

/* For the following functions the lock must be held. */

/* NULL if it was deleted. */
struct ck_scratch *ck_scratch_by_number(const struct ck_scratches *all,
					uint32_t number);
/* Frees the file if it has neither a name nor a reference. */
void ck_scratch_settle(struct ck_scratches *all, struct ck_scratch *s);
/* The time of a change. */
void ck_scratch_now(struct timespec *out);

/* The following functions need no lock. */

/* Frees the name. Caller must have removed the file from the list, or hold the
 * lock. */
void ck_scratch_unname(const struct ck_fs *fs, struct ck_scratch *s);
/* Appends the path of a name in a directory, for a message. */
void ck_dir_print(const struct ck_fs *fs, const struct ck_node *dir,
		  const char *name, struct ck_buf *out);
/* Appends the path of a scratch file, if it has a name. */
void ck_scratch_print(struct ck_fs *fs, struct ck_scratch *s,
		      struct ck_buf *out);

#endif
