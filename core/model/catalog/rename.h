/* SPDX-License-Identifier: MIT */
/*
 * rename: a map from shown names to other names, as the user wrote it. An immutable value
 * with a reference count. A line of the text is
 *
 *	old<TAB>new	one name
 *	old*<TAB>new*	all names that begin with old: new replaces this prefix
 *
 * Empty lines and lines that begin with # are ignored; a CR before the end of a line is
 * removed. A line with one name has precedence over prefixes, a longer prefix over a shorter
 * one; the order of lines has no meaning. A part of model.
 */
#ifndef CKPTFS_RENAME_H
#define CKPTFS_RENAME_H

#include "ckptfs/base.h"

enum { CK_RENAMES_MOST = 100000000 }; /* bytes of a text */

struct ck_renames;

/* Parses a text and copies it. Caller owns *out. Returns 0, or: -EBADMSG if a line is
 * malformed, or if two lines have the same old or the same new name; -ENOMEM. */
CK_MUST_USE int ck_renames_parse(struct ck_str text,
				 const struct ck_renames **out,
				 struct ck_diag *d);
/* Count the users of a map. Any thread. NULL is allowed. */
const struct ck_renames *ck_renames_hold(const struct ck_renames *m);
void ck_renames_put(const struct ck_renames *m);

#endif
