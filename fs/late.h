/* SPDX-License-Identifier: MIT */
/*
 * late: reads that are answered when their mover has the bytes.
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

/* Has the mount's mover, which is late, do this read and answers it then. r: its
 * from, vpos and len; size: as it was asked for; may_end: a signal ends it. */
void ck_late_read(fuse_req_t req, struct ck_handle *h, const struct ck_read *r,
		  size_t size, bool may_end);

#endif
