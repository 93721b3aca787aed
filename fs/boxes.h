/* SPDX-License-Identifier: MIT */
/*
 * boxes: where the parts of an open file lie.
 */
#ifndef CK_BOXES_H
#define CK_BOXES_H

#include "internal.h"

struct ck_boxes {
	struct ck_boxes *older; /* those before, which reads may still use */
	bool passing;		/* an error of the moment was in the way */
	uint32_t n;
	const struct ck_layout *layouts[]; /* one for each part, or NULL */
};

/* Finds the boxes of a node, of which the slice was made. *faulty is set if a
 * box has a fault, of the moment too. -ESTALE: another version. */
CK_MUST_USE int ck_boxes_get(struct ck_fs *fs, const struct ck_node *n,
			     const struct ck_slice *slice,
			     struct ck_boxes **out, bool *faulty);
/* The older ones, too. */
void ck_boxes_free(struct ck_fs *fs, struct ck_boxes *boxes);

#endif
