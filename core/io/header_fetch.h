/* SPDX-License-Identifier: MIT */
/*
 * header_fetch: remote ranges of a read. They are recorded while the read is planned, and
 * the values are changed after the backend has delivered the bytes. One thread at a
 * time.
 */
#ifndef CK_HEADER_FETCH_H
#define CK_HEADER_FETCH_H

#include "ckptfs/io.h"
#include "io/local/gather.h"

struct ck_remote_change; /* values that are changed after delivery */

/* Zero-initialise. */
struct ck_remote_batch {
	struct ck_copy_desc *list;
	size_t n, cap;
	struct ck_arena loops; /* loop nests of the descriptors */
	struct ck_remote_change *changes;
};

/* Records plan op i, which loads from an extent in a remote file. to: byte 0 of the
 * destination of the plan. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_remote_add(struct ck_remote_batch *m,
			      const struct ck_plan *plan, size_t i,
			      const struct ck_extent *extent, uint8_t *to);
/* Records that, after its bytes have arrived, the values of `whole`, which the plan fills,
 * are changed as the layout demands, and then delivered. Owns `whole` and the arrays of the
 * plan if it returns 0. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_remote_change(struct ck_remote_batch *m,
				 struct ck_plan *plan,
				 const struct ck_layout *layout, uint8_t *whole,
				 const struct ck_delivery *to);
/* Removes all that was recorded after there were n descriptors and `last` was the latest
 * change. */
void ck_remote_back(struct ck_remote_batch *m, size_t n,
		    const struct ck_remote_change *last);
/* Call after all descriptors have completed. Changes the values. Returns 0, or
 * the first error of a descriptor. */
CK_MUST_USE int ck_remote_finish(struct ck_remote_batch *m);
void ck_remote_fini(struct ck_remote_batch *m);

#endif
