/* SPDX-License-Identifier: MIT */
/*
 * value: prints the value of a pickle as JSON, and parses the persistent ids of
 * torch.save. Nothing is called: a call in the pickle is printed as a call. Any
 * thread.
 *
 * Bounds for any pickle, the tree of pickle.h included: memory at most
 * 64 MiB + 40 bytes, time about 200 ns, for each byte of input.
 */
#ifndef CKPTFS_VALUE_H
#define CKPTFS_VALUE_H

#include "ckptfs/pickle.h"

/* Appends the root of a pickle of len bytes, and a newline. Returns 0, -ENOMEM,
 * or -EBADMSG for two equal keys, more than 200 levels, a malformed tensor, or
 * a text longer than the bounds allow. */
CK_MUST_USE int ck_pickle_json(const struct ck_pickle *p, size_t len,
			       struct ck_buf *out, struct ck_diag *d);

/* --- persistent ids of torch.save: the storage of a tensor ----------------- */

/* The relevant parts of a persistent id; false if it is of another form. */
bool ck_storage_take(const struct ck_pickle *p, const struct ck_pv *v,
		     struct ck_str *class, struct ck_str *key, int64_t *numel);
/* True if the elements of the storage are bytes, for any dtype of the
 * tensor. */
bool ck_storage_is_untyped(struct ck_str class);

#endif
