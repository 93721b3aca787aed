/* SPDX-License-Identifier: MIT */
/*
 * specs: directories that a lookup of their name creates, one for each spec;
 * from then on they are listed. A mount has at most 4,096 of them, so that
 * lookups cannot exhaust its memory.
 */
#ifndef CK_SPECS_H
#define CK_SPECS_H

#include "ckptfs/catalog.h"
#include "model/spec.h"

enum { CK_SPECS_MOST = 4096 };

struct ck_specs; /* locks itself */

CK_MUST_USE int ck_specs_make(struct ck_specs **out); /* -ENOMEM */
void ck_specs_free(struct ck_specs *s);		      /* NULL is allowed */
/* The number of the directory of a name, from 0; a new name gets the next
 * number. Returns 0, or: -ENOENT if the name is not a spec; -ENOSPC if the
 * table is full; -ENOMEM. */
CK_MUST_USE int ck_specs_find(struct ck_specs *s, struct ck_str name,
			      uint32_t *number);
/* Name and spec of directory `number`, valid as long as the table. False if
 * there is no such directory. */
CK_MUST_USE bool ck_specs_at(struct ck_specs *s, uint32_t number,
			     struct ck_str *name, struct ck_spec *spec);
/* Gives the first directory the number of ranks of the source, if it has ranks. Must
 * be called before each other function of a view that shows the table. */
void ck_specs_add_own(struct ck_specs *s, const struct ck_catalog *c);

#endif
