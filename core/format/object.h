/* SPDX-License-Identifier: MIT */
/*
 * object: an entry that is no tensor, as JSON. Nothing is called: what the
 * pickle would call is printed as a call.
 *
 * Bounds for any pickle, the tree of pickle.h included: memory at most
 * 64 MiB + 40 bytes, time about 200 ns, for each byte of input.
 */
#ifndef CK_FORMAT_OBJECT_H
#define CK_FORMAT_OBJECT_H

#include "pickle.h"
#include "zip.h"

/* Appends the root of a pickle of len bytes, and a newline. -EBADMSG: two
 * equal keys, more than 200 levels, a malformed tensor, or longer than the
 * bounds allow. */
CK_MUST_USE int ck_pickle_json(const struct ck_pickle *p, size_t len,
			       struct ck_buf *out, struct ck_diag *d);
/* Appends the value of a torch.save archive. */
CK_MUST_USE int ck_item_json(const struct ck_zip_source *src,
			     struct ck_buf *out, struct ck_diag *d);

#endif
