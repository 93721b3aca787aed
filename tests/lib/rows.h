/* SPDX-License-Identifier: MIT */
/*
 * rows: a tensor of rows of eight bytes, row i in file i % NFILES, at 1000 * i; and a
 * slice of all of it.
 */
#ifndef CK_ROWS_H
#define CK_ROWS_H

#include "world.h"

enum { NROWS = 8, ROW_BYTES = 8, ROWS_BYTES = NROWS * ROW_BYTES };

static inline void rows_boxes(struct boxes *b)
{
	b->ndim = 2;
	b->item = 1;
	b->n = NROWS;
	b->dense = true;
	b->shape[0] = NROWS;
	b->shape[1] = ROW_BYTES;
	for (unsigned i = 0; i < NROWS; i++) {
		int64_t *box = boxes_at(b, i);

		box[0] = i;
		box[2] = 1;
		box[3] = ROW_BYTES;
		b->order[i] = i;
	}
}

/* Each row is a part by itself, or all are one. Files with a bit are remote. */
static inline struct world *rows_make(unsigned remote, bool parts)
{
	static const uint64_t offs[NROWS][2] = { { 0 }, { 1 }, { 2 }, { 3 },
						 { 4 }, { 5 }, { 6 }, { 7 } };
	static const uint64_t size[2] = { 1, ROW_BYTES };
	struct world *w = world_make();

	rows_boxes(&w->b);
	make_world(w, dtype_of("uint8"));
	for (unsigned i = 0; i < NROWS; i++)
		w->extents[i] = (struct ck_extent){ .file = i % NFILES,
						    .pos = 1000 * i };
	for (unsigned i = 0; i < NROWS && parts; i++) {
		add_part(w, (struct world_part){ .is_box = true,
						 .len = ROW_BYTES,
						 .off = offs[i],
						 .size = size });
		w->parts[i].number = i;
	}
	if (!parts)
		add_part(w, (struct world_part){ .is_box = true,
						 .len = ROWS_BYTES });
	w->files = files_open_remote(remote);
	return w;
}

static inline void rows_free(struct world *w)
{
	ck_files_free(w->files);
	world_free(w);
}

/* Whether these are bytes [vpos, vpos + len) of it. */
static inline bool are_rows(const uint8_t *bytes, uint64_t vpos, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++) {
		uint64_t row = (vpos + i) / ROW_BYTES;

		if (bytes[i] !=
		    content[row % NFILES][1000 * row + (vpos + i) % ROW_BYTES])
			return false;
	}
	return true;
}

#endif
