/* SPDX-License-Identifier: MIT */
/* pickle_plain: objects that are read in one go, see pickle_plain.c. */
#ifndef CK_SYNTAX_PICKLE_PLAIN_H
#define CK_SYNTAX_PICKLE_PLAIN_H

#include "pickle_internal.h"

/* Sets a memo slot, if some GET names it, to a value that is shared. */
void ck_vm_memo(struct ck_vm *vm, uint64_t slot, struct ck_pv v);
/* A GET of a class was met. Returns 1 if a plain object follows and the hook has taken it:
 * *out stands for it, and what follows its BUILD is next; 0 if the class is a value like
 * any other; or a negative errno. */
CK_MUST_USE int ck_vm_plain(struct ck_vm *vm, const struct ck_pv *class,
			    struct ck_pv *out);

#endif
