/* SPDX-License-Identifier: MIT */
/*
 * value: what a pickle holds, as JSON; and what torch.save puts into one.
 * Nothing is called: what the pickle would call is printed as a call.
 *
 * Bounds for any pickle, the tree of pickle.h included: memory at most
 * 64 MiB + 40 bytes, time about 200 ns, for each byte of input.
 */
#ifndef CKPTFS_VALUE_H
#define CKPTFS_VALUE_H

#include "ckptfs/pickle.h"

/* Appends the root of a pickle of len bytes, and a newline. -EBADMSG: two
 * equal keys, more than 200 levels, a malformed tensor, or longer than the
 * bounds allow. */
CK_MUST_USE int ck_pickle_json(const struct ck_pickle *p, size_t len,
			       struct ck_buf *out, struct ck_diag *d);

/* --- persistent ids of torch.save: the storage of a tensor ----------------- */

/* The parts of a persistent id that count; false if it is of another form. */
bool ck_storage_take(const struct ck_pickle *p, const struct ck_pv *v,
		     struct ck_str *class, struct ck_str *key, int64_t *numel);
/* Its elements are bytes, whatever the tensor's dtype. */
bool ck_storage_is_untyped(struct ck_str class);

#endif
