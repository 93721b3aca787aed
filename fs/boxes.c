/* SPDX-License-Identifier: MIT */
/*
 * boxes: where the parts of an open file lie. Found at the open; where an error
 * of the moment was in the way, found again later: what a handle was given
 * first stays with it, since others may be reading from that.
 */
#include "boxes.h"
#include <errno.h>

void ck_boxes_free(struct ck_fs *fs, struct ck_boxes *boxes)
{
	while (boxes) {
		struct ck_boxes *older = boxes->older;

		for (uint32_t i = 0; i < boxes->n; i++)
			ck_layout_put(fs->cp, boxes->layouts[i]);
		free(boxes);
		boxes = older;
	}
}

static int find(struct ck_fs *fs, const struct ck_node *n,
		const struct ck_slice *slice, struct ck_boxes *boxes,
		bool *faulty)
{
	for (uint32_t i = 0; i < slice->nparts; i++) {
		const struct ck_layout **layout = &boxes->layouts[i];
		bool this_one;
		int rc;

		if (slice->parts[i].kind != CK_PART_TENSOR)
			continue;
		rc = ck_node_layout(fs, n, layout, &this_one);
		if (rc == 0 && (*layout)->version != n->version)
			rc = -ESTALE;
		if (rc)
			return rc;
		*faulty = *faulty || this_one;
		boxes->passing = boxes->passing || (*layout)->passing;
	}
	return 0;
}

int ck_boxes_get(struct ck_fs *fs, const struct ck_node *n,
		 const struct ck_slice *slice, struct ck_boxes **out,
		 bool *faulty)
{
	struct ck_boxes *boxes = calloc(
		1, sizeof(*boxes) + slice->nparts * sizeof(boxes->layouts[0]));
	int rc;

	if (!boxes)
		return -ENOMEM;
	boxes->n = slice->nparts;
	rc = find(fs, n, slice, boxes, faulty);
	if (rc)
		ck_boxes_free(fs, boxes);
	else
		*out = boxes;
	return rc;
}
