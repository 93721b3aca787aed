/* SPDX-License-Identifier: MIT */
/*
 * inspect_summary: a checkpoint in one line, or as members of a JSON object.
 */
#ifndef CKPTFS_INSPECT_SUMMARY_H
#define CKPTFS_INSPECT_SUMMARY_H

#include "ckptfs/format.h"
#include "inspect_totals.h"

struct ck_summary {
	struct ck_total all;		/* of the tensors that were picked */
	const struct ck_totals *dtypes; /* of these; borrowed */
	size_t objects;			/* other entries that were picked */
	size_t ranks, files;		/* of the checkpoint */
	uint64_t dead;			/* bytes, if dead_known */
	bool dead_known;
};

/* -ENOMEM. */
CK_MUST_USE int ck_summary_make(struct ck_checkpoint *cp,
				const struct ck_totals *dtypes, size_t objects,
				struct ck_summary *out);
/* In units for people, with the newline. */
void ck_summary_print(const struct ck_summary *s, struct ck_buf *out);
/* Members, without braces around. */
void ck_summary_print_json(const struct ck_summary *s, struct ck_buf *out);
/* A list of rows as a member `list`, in which `name` is what they are of. */
void ck_totals_print_json(const struct ck_totals *t, const char *list,
			  const char *name, struct ck_buf *out);

#endif
