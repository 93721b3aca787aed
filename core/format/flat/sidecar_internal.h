/* SPDX-License-Identifier: MIT */
/* sidecar_internal: shared by sidecar.c, which parses the text, and sidecar_names.c,
 * which checks it and finds names. */
#ifndef CK_SIDECAR_INTERNAL_H
#define CK_SIDECAR_INTERNAL_H

#include "sidecar.h"

/* A name of a parameter. A further name has the parameter that it shares. */
struct ck_sidecar_name {
	struct ck_str name;
	uint32_t unit, param;
};

/* Called after all was parsed. Checks that names are unique, and parameters disjoint
 * and inside their units; makes the tables of names. Returns 0, or: -EBADMSG;
 * -ENOMEM. */
CK_MUST_USE int ck_sidecar_check(struct ck_sidecar *s, struct ck_diag *d);
/* Returns the entry of a name; NULL if no parameter has it. */
const struct ck_sidecar_name *ck_sidecar_named(const struct ck_sidecar *s,
					       struct ck_str name);

#endif
