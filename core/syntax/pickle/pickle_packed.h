/* SPDX-License-Identifier: MIT */
/* pickle_packed: stores tensors of torch.save compactly. Part of the machine of
 * pickle_internal.h, with its state. */
#ifndef CK_PICKLE_PACKED_H
#define CK_PICKLE_PACKED_H

#include "pickle_internal.h"

enum { CK_PACKED_DEPTH = 4 }; /* of a packed tensor */

/* Packs a value that becomes an item of a container, if it is a tensor that only the
 * container refers to. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_vm_pack(struct ck_vm *vm, struct ck_pv *v);
/* All empty tuples share one node. */
struct ck_pv ck_vm_empty_tuple(void);

#endif
