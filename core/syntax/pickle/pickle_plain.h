/* SPDX-License-Identifier: MIT */
/* pickle_plain: objects that are read in one pass, see pickle_plain.c. */
#ifndef CK_PICKLE_PLAIN_H
#define CK_PICKLE_PLAIN_H

#include "pickle_internal.h"

/* Sets a memo slot to a value, which is shared then, if a GET refers to the
 * slot. */
void ck_vm_memo(struct ck_vm *vm, uint64_t slot, struct ck_pv v);
/* Called after the GET of a class. Returns 1 if a plain object follows and the
 * hook has taken it: *out replaces the object, and vm->p is behind its BUILD.
 * Returns 0 if the class is an ordinary value, or a negative errno. */
CK_MUST_USE int ck_vm_plain(struct ck_vm *vm, const struct ck_pv *class,
			    struct ck_pv *out);

#endif
