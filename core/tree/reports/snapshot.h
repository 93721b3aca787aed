/* SPDX-License-Identifier: MIT */
/*
 * snapshot: texts printed at one moment, and reports, which are printed on
 * demand. The shown size of a report is that of its current snapshot; an open
 * file keeps the snapshot it was opened with. Reference-counted. A part of tree.
 * Any thread.
 */
#ifndef CKPTFS_SNAPSHOT_H
#define CKPTFS_SNAPSHOT_H

#include "ckptfs/slice.h"

#include <stdatomic.h>

/* An immutable text, shared by its users. */
struct ck_snapshot {
	atomic_uint refs;
	struct ck_buf text;
};

/* Makes a snapshot with one reference. Takes ownership of the text, which is empty
 * then. NULL if out of memory. */
struct ck_snapshot *ck_snapshot_make(struct ck_buf *text);
void ck_snapshot_put(struct ck_snapshot *s); /* NULL is allowed */
/* Makes a slice of the text. Takes the reference of the caller, also on error.
 * Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_snapshot_slice(struct ck_snapshot *text,
				  struct ck_slice **out);

#define CK_CONTROL_DIR ".ckptfs" /* directory of the reports */

struct ck_report {
	const char *name; /* file name */
	/* Appends the text. */
	void (*print)(void *arg, struct ck_buf *out);
	bool live; /* printed again at each lookup */
	/* True if the directory shows it; NULL: always. */
	bool (*is_shown)(const void *arg);
};

struct ck_snapshots;

/* Makes the snapshots of n reports. Caller owns the reports, and `arg` of print().
 * NULL if out of memory. */
struct ck_snapshots *ck_snapshots_make(const struct ck_report *reports,
				       size_t n, void *arg);
void ck_snapshots_free(struct ck_snapshots *s); /* NULL is allowed */
size_t ck_snapshots_count(const struct ck_snapshots *s);
size_t ck_snapshots_shown(
	const struct ck_snapshots *s); /* those that are shown */
/* Sets *out to the current snapshot of report i. Prints a new one if i has no snapshot,
 * or if the report is live and `renew` is set. Returns 0, or -ENOMEM. Caller must
 * call ck_snapshot_put(). */
CK_MUST_USE int ck_snapshots_get(struct ck_snapshots *s, size_t i, bool renew,
				 struct ck_snapshot **out);

#endif
