/* SPDX-License-Identifier: MIT */
/*
 * late: requests that are answered when bytes of remote files have come.
 */
#ifndef CK_LATE_H
#define CK_LATE_H

#include "handle.h"

struct ck_lates;

struct ck_lates *ck_lates_make(void); /* NULL: out of memory */
/* Those that are on the way are interrupted; returns when all are answered. No
 * more come. NULL is allowed. */
void ck_lates_end(struct ck_fs *fs);
void ck_lates_free(struct ck_lates *all); /* ended; NULL is allowed */

/* A request on the way, at the beginning of what else is needed to answer it. */
struct ck_late {
	struct ck_late *next, *prev; /* under ck_lates.lock */
	/* Constant: */
	struct ck_fs *fs;
	fuse_req_t req;
	struct ck_waiter *waiter;
	bool may_end; /* when it is interrupted */
};

/* It begins to wait; before its mover knows it. */
void ck_late_begin(struct ck_late *l);
/* Is answered next, and not interrupted any more. */
void ck_late_came(const struct ck_late *l);
/* Was answered: the mount may end. */
void ck_late_end(struct ck_late *l);

/* Brings the bytes of a read of which ck_host_read() said -EREMOTE, and answers it
 * then. r: its from, vpos and len; size: as it was asked for; may_end: a signal ends
 * it. */
void ck_late_read(fuse_req_t req, struct ck_handle *h, const struct ck_read *r,
		  size_t size, bool may_end);

#endif
