/* SPDX-License-Identifier: MIT */
/*
 * selection: which shown names the user selects, by the patterns of options only= and
 * exclude=. A pattern is one of fnmatch(3) without flags, for a whole name; `+` separates
 * patterns. A name is selected if a pattern of `only` matches it, or if there are no such
 * patterns, and if no pattern of `exclude` matches it. An immutable value with a reference
 * count. A part of model.
 */
#ifndef CKPTFS_SELECTION_H
#define CKPTFS_SELECTION_H

#include "ckptfs/base.h"

struct ck_selection;

/* Copies the texts, each of which may be NULL. *out is NULL if both are. Returns 0, or:
 * -EINVAL if a pattern is empty; -ENOMEM. Caller must call ck_selection_put(). */
CK_MUST_USE int ck_selection_make(const char *only, const char *exclude,
				  const struct ck_selection **out,
				  struct ck_diag *d);
/* Count the users. Any thread. NULL is allowed. */
const struct ck_selection *ck_selection_hold(const struct ck_selection *s);
void ck_selection_put(const struct ck_selection *s);
/* True if s selects the name; NULL selects all. */
CK_MUST_USE bool ck_selection_has(
	const struct ck_selection *s, struct
	ck_str name); /* The same for a selection, and sets used[i] of each pattern that matches the name; NULL is
 * allowed. Without memory for a long name, the name is selected. */
CK_MUST_USE bool ck_selection_judge(const struct ck_selection *s,
				    struct ck_str name, bool *used);
/* Number of patterns. */
size_t ck_selection_count(const struct ck_selection *s);
/* Pattern i; *only: it is one of option only=. */
const char *ck_selection_at(const struct ck_selection *s, size_t i, bool *only);

#endif
