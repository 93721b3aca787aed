/* SPDX-License-Identifier: MIT */
/* numbered: file names `<text>-<i>-of-<n><suffix>`, as programs name the files that one
 * state dict was split into. Stateless; used by the thread of the load. */
#ifndef CK_NUMBERED_H
#define CK_NUMBERED_H

#include "ckptfs/catalog.h"
#include "load_names.h"

struct ck_numbered_name {
	struct ck_str text;
	uint64_t i, n;
	uint32_t digits; /* of n */
};

/* True if the name has this form. Numbers have at most 9 digits. */
bool ck_numbered_of(const char *name, const char *suffix,
		    struct ck_numbered_name *out);
/* Adds a line of damage for each number from 1 to n that no name of its text and n has, and
 * for very many one line with their count. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_numbered_lose(struct ck_catalog *c,
				 const struct ck_dir_names *names,
				 const char *suffix);

#endif
