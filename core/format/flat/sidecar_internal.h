/* SPDX-License-Identifier: MIT */
/* What the parts share: sidecar.c (the text), names.c (names, and what is compared). */
#ifndef CK_SIDECAR_INTERNAL_H
#define CK_SIDECAR_INTERNAL_H

#include "sidecar.h"

/* A name of a parameter; of a further one that parameter. */
struct ck_sidecar_name {
	struct ck_str name;
	uint32_t unit, param;
};

/* All has been read: are names different, parameters inside their units and disjoint;
 * finds what names mean. -EBADMSG, -ENOMEM. */
CK_MUST_USE int ck_sidecar_check(struct ck_sidecar *s, struct ck_diag *d);
/* The parameter that has a name; NULL: none. */
const struct ck_sidecar_name *ck_sidecar_named(const struct ck_sidecar *s,
					       struct ck_str name);

#endif
