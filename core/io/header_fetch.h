/* SPDX-License-Identifier: MIT */
/*
 * header_fetch: what a read needs of remote files. It is noted while the read is planned,
 * and done when the mover has brought it.
 */
#ifndef CK_HEADER_FETCH_H
#define CK_HEADER_FETCH_H

#include "ckptfs/move.h"

struct ck_remote_change; /* values that are changed when they are there */

/* Zero-initialise. */
struct ck_remote_moves {
	struct ck_move *list;
	size_t n, cap;
	struct ck_arena loops; /* of the moves */
	struct ck_remote_change *changes;
};

/* What copy i of a plan brings, from an extent in a remote file. `to`: byte 0 of the
 * plan's destination. -ENOMEM. */
CK_MUST_USE int ck_remote_add(struct ck_remote_moves *m,
			      const struct ck_plan *plan, size_t i,
			      const struct ck_extent *extent, uint8_t *to);
/* Bytes [skip, skip + len) of `whole`, which the plan fills, go to `to` after the
 * changes of the layout. Takes `whole` and what is in the plan if it returns 0.
 * -ENOMEM. */
CK_MUST_USE int ck_remote_change(struct ck_remote_moves *m,
				 struct ck_plan *plan,
				 const struct ck_layout *layout, uint8_t *whole,
				 uint64_t skip, uint64_t len, uint8_t *to);
/* All are done: the first error among them, or 0 and the values are right. */
CK_MUST_USE int ck_remote_finish(struct ck_remote_moves *m);
void ck_remote_fini(struct ck_remote_moves *m);

#endif
