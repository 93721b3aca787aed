/* SPDX-License-Identifier: MIT */
/*
 * warnings: signs of a mistake or an unfinished save that are not damage: they change
 * neither the exit status of check nor the data that is read. A part of format.
 */
#ifndef CKPTFS_WARNINGS_H
#define CKPTFS_WARNINGS_H

#include "ckptfs/format.h"

/* Calls warn() for each warning, with a fault whose err is 0. `what` is a sentence that is
 * complete, or if `expected` is set, one whose subject is the file. Texts are valid during
 * the call. Looks into the directory. */
void ck_checkpoint_warn(struct ck_checkpoint *cp, const struct ck_catalog *c,
			void (*warn)(void *arg, const struct ck_fault *f),
			void *arg);
/* Appends that sentence. */
void ck_warning_print(const struct ck_fault *f, struct ck_buf *out);
/* Appends the lines of `status`: data files that are newer than the metadata by name, and
 * the other warnings, the first ones each in a line, less notes of the catalog. */
void ck_checkpoint_print_warnings(struct ck_checkpoint *cp,
				  const struct ck_catalog *c,
				  struct ck_buf *out);

/* Classes that are unknown, of the metadata and of the items that were read, each once and
 * sorted. */
struct ck_unknown_classes {
	struct ck_str *all;
	size_t n;
	struct ck_arena text; /* private */
};

/* Lists them. On -ENOMEM the list may be incomplete. Caller frees it in each case. */
CK_MUST_USE int ck_checkpoint_unknown(const struct ck_checkpoint *cp,
				      const struct ck_catalog *c,
				      struct ck_unknown_classes *out);
void ck_unknown_classes_fini(struct ck_unknown_classes *u);

#endif
