/* SPDX-License-Identifier: MIT */
/*
 * scan_step: searches one step of a run directory for NaN and infinities. The main thread; the step
 * is read by several.
 */
#ifndef CKPTFS_SCAN_STEP_H
#define CKPTFS_SCAN_STEP_H

#include "bisect_search.h"
#include "run_steps.h"

/* A tensor or a step that cannot be read. Texts are owned. */
struct ck_unread {
	size_t step;
	char *name; /* NULL: the step itself */
	char *what; /* escaped; a line */
	int err;    /* positive errno */
};

/* Zero-initialise. */
struct ck_unreads {
	struct ck_unread *all;
	size_t n, cap;
};

void ck_unreads_fini(struct ck_unreads *u);

/* The result for one step. */
struct ck_scanned {
	enum ck_verdict verdict;
	/* CK_STEP_HAS: a tensor before the found one cannot be read. */
	bool unsure;
	/* CK_STEP_HAS: the first tensor in the checkpoint's order with a NaN or an infinity: its
	 * shown name, owned, and its counts of values, if `counted`. */
	char *name;
	bool counted;
	uint64_t nan, inf;
};

/* Searches step i. What cannot be read, and is not behind the found tensor, is named on stderr and
 * added to *unread. Returns 0, or: shortages of this process. Caller frees out->name. */
CK_MUST_USE int ck_step_scan(const struct ck_run_list *l, size_t i,
			     struct ck_unreads *unread, struct ck_scanned *out);

#endif
