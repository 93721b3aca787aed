/* SPDX-License-Identifier: MIT */
/*
 * warnings: what a user of a checkpoint may have to know beside its damage. A part of format.
 */
#ifndef CKPTFS_WARNINGS_H
#define CKPTFS_WARNINGS_H

#include "ckptfs/format.h"

/* Classes that are unknown, of the metadata and of the items that were read, each once and
 * sorted. */
struct ck_unknown_classes {
	struct ck_str *all;
	size_t n;
	struct ck_arena text; /* private */
};

/* -ENOMEM: there are none, or not all of them. To be freed in each case. */
CK_MUST_USE int ck_checkpoint_unknown(const struct ck_checkpoint *cp,
				      const struct ck_catalog *c,
				      struct ck_unknown_classes *out);
void ck_unknown_classes_fini(struct ck_unknown_classes *u);

#endif
