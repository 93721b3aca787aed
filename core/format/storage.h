/* SPDX-License-Identifier: MIT */
/*
 * storage: the persistent ids of torch.save.
 */
#ifndef CK_FORMAT_STORAGE_H
#define CK_FORMAT_STORAGE_H

#include "ckptfs/model.h"
#include "pickle.h"

/* The parts of a persistent id that count; false if it is of another form. */
bool ck_storage_take(const struct ck_pickle *p, const struct ck_pv *v,
		     struct ck_str *class, struct ck_str *key, int64_t *numel);
/* Its elements are bytes, whatever the tensor's dtype. */
bool ck_storage_is_untyped(struct ck_str class);

#endif
