/* SPDX-License-Identifier: MIT */
/*
 * file: an open file has the slice that its view made, the catalog of its open, and the
 * layouts located so far. Slice and catalog do not change while it is open. Any thread may
 * read; open and close are for one.
 */
#include "tree_internal.h"

/* Locates a tensor. A fault found during the open is recorded in f->faulty, before the
 * first read. */
static int locate(struct ck_locator *l, uint32_t tensor, const uint64_t *window,
		  const struct ck_layout **out)
{
	struct ck_tree_file *f = (struct ck_tree_file *)l;
	const struct ck_root *r = f->node.dir.root;
	bool faulty = false;
	int rc = ck_damage_locate(r->damage, f->catalog, tensor, window, out,
				  &faulty);

	if (rc)
		return rc;
	if (!f->is_open) {
		f->faulty |= faulty;
		return 0;
	}
	rc = f->located ? f->located(f) : 0;
	if (rc)
		ck_layout_put(r->cp, *out);
	return rc;
}

static bool is_old(struct ck_locator *l, const struct ck_layout *layout)
{
	const struct ck_tree_file *f = (struct ck_tree_file *)l;

	return ck_layout_is_old(f->node.dir.root->cp, layout);
}

/* Read access was checked when the tensor was located first. */
static int renew(struct ck_locator *l, uint32_t tensor, const uint64_t *window,
		 const struct ck_layout **out)
{
	const struct ck_tree_file *f = (struct ck_tree_file *)l;
	bool faulty;

	return ck_damage_locate(f->node.dir.root->damage, f->catalog, tensor,
				window, out, &faulty);
}

static void layout_put(struct ck_locator *l, const struct ck_layout *layout)
{
	const struct ck_tree_file *f = (struct ck_tree_file *)l;

	ck_layout_put(f->node.dir.root->cp, layout);
}

/* A walk over the bytes of boxes, one behind the other, for their overlaps with
 * [begin, end). */
struct guessed {
	const struct ck_catalog *c;
	uint64_t at, begin, end;
	ck_range_use *each;
	void *arg;
};

/* Returns false if the sum of lengths overflows. */
static bool guess_item(struct guessed *g, uint32_t chunk)
{
	const struct ck_item *item = ck_catalog_item(g->c, chunk);
	uint64_t at = g->at, from = ck_max(g->begin, at), till;

	if (!ck_add(&g->at, at, item->length))
		return false;
	till = ck_min(g->end, g->at);
	if (!item->err && item->file != CK_NO_FILE && from < till)
		g->each(g->arg, item->file, item->fpos + (from - at),
			till - from);
	return true;
}

/* Guesses file ranges for read-ahead as if the elements of boxes followed each other, as
 * with shards of rows. Item headers lie in these ranges too. */
static void guess(struct ck_locator *l, uint32_t tensor, const uint64_t *window,
		  uint64_t begin, uint64_t end, ck_range_use *each, void *arg)
{
	const struct ck_tree_file *f = (const struct ck_tree_file *)l;
	const struct ck_tensor *t = ck_catalog_tensor(f->catalog, tensor);
	struct guessed g = { f->catalog, 0, begin, end, each, arg };
	ck_auto_free uint32_t *chunks = NULL;
	uint32_t n = t->err ? 0 : t->nchunks;
	bool covered;

	if (n && window && ck_tensor_window(t, window, &chunks, &n, &covered))
		return;
	for (uint32_t i = 0; i < n && g.at < end; i++)
		if (!guess_item(&g, t->chunk + (chunks ? chunks[i]
						       : t->facts->order[i])))
			break;
}

/* True if a fault of the file is known before its items are checked by reads. */
static bool has_known_fault(const struct ck_tree_file *f,
			    const struct ck_slice *slice)
{
	for (uint32_t i = 0; i < slice->nparts; i++) {
		struct ck_part part = ck_slice_part(slice, i);

		if (part.kind == CK_PART_BOX &&
		    ck_damage_is_known(f->node.dir.root->damage, part.number))
			return true;
	}
	return false;
}

/* Takes the slice. */
static int slice_open(struct ck_tree_file *f, struct ck_slice *slice)
{
	int rc;

	f->locator = (struct ck_locator){ locate, layout_put, guess, is_old,
					  renew };
	rc = ck_open_slice_make(slice, &f->locator, &f->opened);
	if (rc)
		ck_slice_free(slice);
	else if (slice->at_open)
		rc = ck_open_slice_locate(f->opened);
	else
		f->faulty = slice->has_loss || has_known_fault(f, slice);
	return rc;
}

int ck_tree_file_open(struct ck_tree_file *f)
{
	struct ck_slice *slice;
	int rc = ck_tree_slice(f->catalog, &f->node, &slice);

	return rc ? rc : ck_tree_boxes_open(f, slice);
}

int ck_tree_boxes_open(struct ck_tree_file *f, struct ck_slice *slice)
{
	int rc = 0;

	f->err = slice->err;
	if (f->err)
		ck_slice_free(slice);
	else
		rc = slice_open(f, slice);
	f->is_open = rc == 0;
	return rc;
}

void ck_tree_file_changed(const struct ck_tree_file *f)
{
	const struct ck_slice *slice = ck_open_slice_slice(f->opened);

	for (uint32_t i = 0; i < slice->nparts; i++) {
		const struct ck_layout *layout = NULL;

		if (ck_slice_part(slice, i).kind == CK_PART_BOX)
			layout = ck_open_slice_known(f->opened, i);
		if (layout)
			ck_damage_check_files(f->node.dir.root->damage, layout);
	}
}

void ck_tree_file_close(struct ck_tree_file *f)
{
	ck_open_slice_free(f->opened);
	ck_catalog_put(f->catalog);
	f->opened = NULL;
	f->catalog = NULL;
}
