/* SPDX-License-Identifier: MIT */
/*
 * specs: directories that are there when their name is looked up, and are listed from
 * then on: one for each spec. There are 4,096 at most for as long as a mount lives, so
 * that nobody fills its memory with names.
 */
#ifndef CK_SPECS_H
#define CK_SPECS_H

#include "ckptfs/spec.h"

enum { CK_SPECS_MOST = 4096 };

struct ck_specs; /* locks itself */

CK_MUST_USE int ck_specs_make(struct ck_specs **out); /* -ENOMEM */
void ck_specs_free(struct ck_specs *s);		      /* NULL is allowed */
/* The number of the directory of that name, from 0, which it has from now on. -ENOENT:
 * the name is none; -ENOSPC: it is one too many; -ENOMEM. */
CK_MUST_USE int ck_specs_find(struct ck_specs *s, struct ck_str name,
			      uint32_t *number);
/* Name and spec of one, valid as long as the table. False: there is none. */
CK_MUST_USE bool ck_specs_at(struct ck_specs *s, uint32_t number,
			     struct ck_str *name, struct ck_spec *spec);

#endif
