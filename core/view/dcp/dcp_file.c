/* SPDX-License-Identifier: MIT */
/*
 * dcp_file: the file of a rank as sections: of rank 0 the pieces of objects first, then for
 * each box the archive before its elements, the elements, and the archive behind them. The
 * archives are generated when they are read. A struct maker is constant; any thread.
 */
#include "dcp_view.h"
#include "model/sections.h"
#include "syntax/item_form.h"

#include <errno.h>

enum { OBJECTS, ITEMS, SECTIONS };

enum { HEAD, DATA, TAIL, COLUMNS };

struct item {
	uint32_t tensor;
	uint32_t head, tail; /* bytes */
	uint64_t data;
	size_t box; /* index in maker.boxes */
};

struct maker {
	struct ck_sections_maker ops; /* first member */
	struct ck_dcp_plan *plan;     /* held */
	struct item *items;
	uint64_t *boxes; /* offsets, then sizes of each item */
	size_t nitems, nboxes, items_cap, boxes_cap;
};

static uint64_t file_len(const struct ck_sections_maker *ops,
			 struct ck_section_at at)
{
	const struct maker *m = (const struct maker *)ops;
	const struct item *item;

	if (at.section == OBJECTS)
		return m->plan->pieces[at.row].len;
	item = &m->items[at.row];
	if (at.column == DATA)
		return item->data;
	return at.column == HEAD ? item->head : item->tail;
}

static struct ck_part file_part(const struct ck_sections_maker *ops,
				struct ck_section_at at)
{
	const struct maker *m = (const struct maker *)ops;
	const struct ck_dcp_piece *piece;

	if (at.section == ITEMS && at.column == DATA)
		return (struct ck_part){
			.kind = CK_PART_BOX,
			.number = m->items[at.row].tensor,
			.at.box = m->boxes + m->items[at.row].box,
		};
	if (at.section == ITEMS)
		return (struct ck_part){ .kind = CK_PART_MADE };
	piece = &m->plan->pieces[at.row];
	if (piece->part != CK_DCP_IN_FILE)
		return (struct ck_part){ .kind = CK_PART_MADE };
	return (struct ck_part){ .kind = CK_PART_RANGE,
				 .number = piece->file,
				 .at.fpos = piece->fpos };
}

/* Appends the bytes of a piece, from a record that is made again. */
static int piece_make(const struct ck_dcp_plan *p,
		      const struct ck_dcp_piece *piece, struct ck_buf *out)
{
	struct ck_slice *slice;
	struct ck_part part;
	bool transient;
	int rc;

	if (piece->part == CK_DCP_LOST)
		return -piece->err;
	rc = p->access.record(p->access.cp, piece->object, &slice, &transient);
	if (rc)
		return rc;
	rc = -EIO;
	if (piece->part < slice->nparts &&
	    ck_slice_part_len(slice, piece->part) == piece->len) {
		part = ck_slice_part(slice, piece->part);
		rc = part.kind == CK_PART_BYTES ? 0 : -EIO;
	}
	if (rc == 0)
		ck_buf_add(out, part.at.bytes, piece->len);
	ck_slice_free(slice);
	return rc ? rc : out->err;
}

static int file_make(const struct ck_sections_maker *ops,
		     struct ck_section_at at, struct ck_buf *out)
{
	const struct maker *m = (const struct maker *)ops;
	const struct ck_tensor *t;
	struct ck_item_form form;
	int rc;

	if (at.section == OBJECTS)
		return piece_make(m->plan, &m->plan->pieces[at.row], out);
	t = ck_catalog_tensor(m->plan->base.c, m->items[at.row].tensor);
	rc = ck_item_form_bare(&form, t->dtype, t->ndim,
			       (const int64_t *)m->boxes +
				       m->items[at.row].box + t->ndim);
	if (rc)
		return rc;
	if (at.column == HEAD)
		ck_buf_add(out, form.head.data, form.head.len);
	else
		ck_buf_add(out, form.tail.data, form.tail.len);
	ck_item_form_fini(&form);
	return out->err;
}

static void file_free(struct ck_sections_maker *ops)
{
	struct maker *m = (struct maker *)ops;

	ck_view_plan_put(m->plan);
	free(m->items);
	free(m->boxes);
	free(m);
}

static int item_add(struct maker *m, uint32_t tensor, const int64_t *box,
		    const struct ck_dcp_len *len)
{
	uint32_t ndim = ck_catalog_tensor(m->plan->base.c, tensor)->ndim;
	struct item *items = ck_grow(m->items, &m->items_cap, m->nitems, 1,
				     sizeof(*items));
	uint64_t *boxes = ck_grow(m->boxes, &m->boxes_cap, m->nboxes,
				  2UL * ndim, sizeof(*boxes));

	m->items = items ? items : m->items;
	m->boxes = boxes ? boxes : m->boxes;
	if (!items || !boxes)
		return -ENOMEM;
	items[m->nitems++] = (struct item){ tensor, len->head, len->tail,
					    len->data, m->nboxes };
	memcpy(boxes + m->nboxes, box, 2UL * ndim * sizeof(*boxes));
	m->nboxes += 2UL * ndim;
	return 0;
}

static int items_add(struct maker *m, const struct ck_dcp_layout *l,
		     uint32_t rank, struct ck_dcp_lens *lens)
{
	const struct ck_dcp_plan *p = m->plan;
	int rc = 0;

	for (uint32_t i = 0; i < p->n && rc == 0; i++) {
		const struct ck_dcp_shown *e = &p->entries[i];
		const struct ck_tensor *t;
		struct ck_dcp_boxes b;
		struct ck_dcp_len len;
		bool has;

		if (e->is_object || e->other != CK_DCP_OWN)
			continue;
		t = ck_catalog_tensor(p->base.c, e->i);
		rc = ck_dcp_box_of(l, i, rank, &b, &has);
		if (rc || !has)
			continue;
		rc = ck_dcp_len_of(lens, t->dtype, t->ndim, b.box + t->ndim,
				   &len);
		if (rc == 0)
			rc = item_add(m, e->i, b.box, &len);
	}
	return rc;
}

/* Takes the maker, also on error. */
static int slice_make(struct maker *m, uint32_t npieces, struct ck_slice **out)
{
	const struct ck_section sections[SECTIONS] = {
		[OBJECTS] = { npieces, 1 },
		[ITEMS] = { (uint32_t)m->nitems, COLUMNS },
	};
	bool has_loss = npieces && m->plan->has_loss;
	struct ck_sections *made;
	int rc = ck_sections_make(sections, SECTIONS, &m->ops, &made);

	if (rc)
		return rc;
	rc = ck_sections_slice(made, out);
	ck_sections_put(made);
	if (rc == 0)
		(*out)->has_loss = has_loss;
	return rc;
}

int ck_dcp_file_slice(const struct ck_dcp_layout *l, uint32_t rank,
		      struct ck_slice **out)
{
	struct ck_dcp_lens *lens = ck_dcp_lens_make();
	struct maker *m = calloc(1, sizeof(*m));
	int rc = -ENOMEM;

	if (m) {
		m->ops = (struct ck_sections_maker){ file_len, file_part,
						     file_make, file_free };
		m->plan = ck_view_plan_hold(l->plan);
		rc = lens ? items_add(m, l, rank, lens) : -ENOMEM;
	}
	free(lens);
	if (rc == 0)
		return slice_make(m, rank ? 0 : l->plan->npieces, out);
	if (m)
		file_free(&m->ops);
	return rc;
}
