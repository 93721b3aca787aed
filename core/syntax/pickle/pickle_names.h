/* SPDX-License-Identifier: MIT */
/*
 * pickle_names: names of classes and functions in a pickle: pickle_global.c,
 * pickle_renamed.c. A part of pickle_internal.h.
 */
#ifndef CK_PICKLE_NAMES_H
#define CK_PICKLE_NAMES_H

#include "ckptfs/pickle.h"

struct ck_vm;

/* One "module.name", interned. */
struct ck_pglobal {
	struct ck_str full;
	size_t module_len;
};

/* Finds or adds a global and returns its value. -EBADMSG if it is dangerous. */
CK_MUST_USE int ck_vm_global(struct ck_vm *vm, struct ck_str module,
			     struct ck_str name, struct ck_pv *out);
/* getattr(C, "name") as the global "C.name". */
CK_MUST_USE int ck_vm_getattr(struct ck_vm *vm, const struct ck_pv *args,
			      struct ck_pv *out);
/* True if the name is in the closed list of dangerous names. */
bool ck_global_dangerous(struct ck_str module, struct ck_str name);
/* Replaces a name by its spelling in Python 3, for protocols below 3 or for
 * all. False if Python 3 did not rename it. */
bool ck_global_rename(struct ck_str *module, struct ck_str *name,
		      bool is_python2);
/* True if the name may be the second argument of getattr(). */
bool ck_global_is_attribute(struct ck_str name);

#endif
