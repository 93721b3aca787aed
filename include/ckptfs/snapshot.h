/* SPDX-License-Identifier: MIT */
/*
 * snapshot: texts that were printed at one moment, and reports, which are printed
 * when somebody looks: the size that is shown of a report is that of its present
 * snapshot, and an open file keeps the one it was opened with. A part of tree. Any
 * thread.
 */
#ifndef CKPTFS_SNAPSHOT_H
#define CKPTFS_SNAPSHOT_H

#include "ckptfs/slice.h"

#include <stdatomic.h>

/* Shared by those who look at it. */
struct ck_snapshot {
	atomic_uint refs;
	struct ck_buf text;
};

/* With one reference; takes the text, which is empty then. NULL: out of memory. */
struct ck_snapshot *ck_snapshot_make(struct ck_buf *text);
void ck_snapshot_put(struct ck_snapshot *s); /* NULL is allowed */
/* A file that consists of it. Takes the caller's reference in any case.
 * -ENOMEM. */
CK_MUST_USE int ck_snapshot_slice(struct ck_snapshot *text,
				  struct ck_slice **out);

#define CK_CONTROL_DIR ".ckptfs" /* where they are */

struct ck_report {
	const char *name; /* of its file */
	/* Appends the text. */
	void (*print)(void *arg, struct ck_buf *out);
	bool live; /* its text changes: it is printed anew at each lookup */
};

struct ck_snapshots;

/* Of n reports, which stay the caller's; arg is theirs. NULL: out of memory. */
struct ck_snapshots *ck_snapshots_make(const struct ck_report *reports,
				       size_t n, void *arg);
void ck_snapshots_free(struct ck_snapshots *s); /* NULL is allowed */
size_t ck_snapshots_count(const struct ck_snapshots *s);
/* The present snapshot of report i; a new one if there is none, or if it is live
 * and `renew`. -ENOMEM. Put it back. */
CK_MUST_USE int ck_snapshots_get(struct ck_snapshots *s, size_t i, bool renew,
				 struct ck_snapshot **out);

#endif
