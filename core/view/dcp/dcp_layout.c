/* SPDX-License-Identifier: MIT */
/*
 * dcp_layout: the boxes that the ranks of a spec store, and the size of the file of each
 * rank. A box is stored by the lowest rank that holds it; a tensor without elements has one
 * box, of its whole shape, in the file of rank 0. All files are measured in one pass over
 * the boxes of all ranks, with 40 bytes of memory for each rank.
 */
#include "dcp_view.h"
#include "syntax/item_form.h"

#include <errno.h>

/* --- lengths of archives ---------------------------------------------------------------- */

enum {
	SLOTS = 256,
	DIMS = 8, /* shapes of more dimensions are not kept */
};

struct slot {
	int64_t size[DIMS];
	uint32_t ndim;
	uint8_t dtype; /* CK_DTYPE_UNKNOWN: the slot is free */
	struct ck_dcp_len len;
};

struct ck_dcp_lens {
	struct slot slots[SLOTS];
};

struct ck_dcp_lens *ck_dcp_lens_make(void)
{
	return calloc(1, sizeof(struct ck_dcp_lens));
}

static int measure(uint8_t dtype, uint32_t ndim, const int64_t *size,
		   struct ck_dcp_len *out)
{
	struct ck_item_form form;
	int rc = ck_item_form_bare(&form, dtype, ndim, size);

	if (rc)
		return rc;
	*out = (struct ck_dcp_len){ (uint32_t)form.head.len,
				    (uint32_t)form.tail.len, form.data_len };
	ck_item_form_fini(&form);
	return 0;
}

int ck_dcp_len_of(struct ck_dcp_lens *lens, uint8_t dtype, uint32_t ndim,
		  const int64_t *size, struct ck_dcp_len *out)
{
	const struct ck_str key = { (const char *)size, ndim * sizeof(*size) };
	struct slot *slot;
	int rc;

	if (ndim > DIMS)
		return measure(dtype, ndim, size, out);
	slot = &lens->slots[ck_hash64_seeded(key, dtype) % SLOTS];
	if (slot->dtype != dtype || slot->ndim != ndim ||
	    memcmp(slot->size, size, key.len) != 0) {
		rc = measure(dtype, ndim, size, &slot->len);
		if (rc) {
			slot->dtype = CK_DTYPE_UNKNOWN;
			return rc;
		}
		slot->dtype = dtype;
		slot->ndim = ndim;
		memcpy(slot->size, size, key.len);
	}
	*out = slot->len;
	return 0;
}

/* --- boxes --------------------------------------------------------------------------- */

static const struct ck_tensor *tensor_of(const struct ck_dcp_layout *l,
					 uint32_t entry)
{
	return ck_catalog_tensor(l->plan->base.c, l->plan->entries[entry].i);
}

/* Sets the placements of a tensor; those of an alias are those of the tensor whose items
 * it has. */
static int dims_set(const struct ck_dcp_layout *l, uint32_t entry,
		    struct ck_dcp_boxes *b)
{
	const struct ck_dcp_shown *e = &l->plan->entries[entry];
	uint32_t ndim = tensor_of(l, entry)->ndim;

	if (e->other != CK_DCP_OWN)
		e = &l->plan->entries[e->other];
	ck_spec_dims(&l->spec, ndim, b->dims);
	return ck_place_rules_apply(l->rules,
				    ck_tensor_names(l->plan->base.c, e->i).name,
				    ndim, b->dims, l->spec.ndim);
}

static void whole_set(const struct ck_tensor *t, int64_t *box)
{
	for (uint32_t d = 0; d < t->ndim; d++) {
		box[d] = 0;
		box[t->ndim + d] = t->shape[d];
	}
}

int ck_dcp_boxes_begin(const struct ck_dcp_layout *l, uint32_t entry,
		       struct ck_dcp_boxes *b)
{
	const struct ck_tensor *t = tensor_of(l, entry);
	int rc;

	b->is_single = ck_dims_have_zero(t->shape, t->ndim);
	b->rank = 0;
	if (b->is_single) {
		whole_set(t, b->box);
		return 0;
	}
	rc = dims_set(l, entry, b);
	b->walk = (struct ck_box_walk){ b->dims, l->spec.ndim, t->shape,
					t->ndim, .ended = true };
	if (rc == 0)
		ck_box_walk_begin(&b->walk);
	return rc;
}

bool ck_dcp_boxes_next(struct ck_dcp_boxes *b)
{
	if (!b->is_single)
		return ck_box_walk_next(&b->walk, &b->rank, b->box);
	b->is_single = false;
	b->walk.ended = true;
	return true;
}

int ck_dcp_box_of(const struct ck_dcp_layout *l, uint32_t entry, uint32_t rank,
		  struct ck_dcp_boxes *b, bool *has)
{
	const struct ck_tensor *t = tensor_of(l, entry);
	int rc;

	*has = rank == 0;
	if (ck_dims_have_zero(t->shape, t->ndim)) {
		whole_set(t, b->box);
		return 0;
	}
	rc = dims_set(l, entry, b);
	if (rc)
		return rc;
	*has = ck_local_box_is_first(b->dims, l->spec.ndim, rank);
	if (!*has)
		return 0;
	ck_local_box_of(b->dims, l->spec.ndim, rank, t->shape, t->ndim, b->box);
	*has = !ck_dims_have_zero(b->box + t->ndim, t->ndim);
	return 0;
}

/* --- files --------------------------------------------------------------------------- */

/* r bits that all files share unless some are denied. */
static mode_t mode_of_all(const struct ck_catalog *c)
{
	return c->meta.mode & c->dir_mode & 0444;
}

static void object_add(struct ck_dcp_layout *l, uint32_t object)
{
	const struct ck_object *o = ck_catalog_object(l->c, object);

	ck_view_facts_add(&l->files[0].facts, o->mode, o->mtime, 0);
	ck_view_facts_add(&l->metadata.facts, 0444, o->mtime, 0);
}

/* Sets the mode of a box: r bits of the data files that have its elements. Returns 0, or
 * -ENOMEM. */
static int box_mode(const struct ck_dcp_layout *l, uint32_t tensor,
		    const int64_t *box, mode_t *mode)
{
	const struct ck_tensor *t = ck_catalog_tensor(l->c, tensor);
	ck_auto_free uint32_t *chunks = NULL;
	bool covered;
	uint32_t n;
	int rc;

	*mode = t->facts->mode;
	if ((*mode & mode_of_all(l->c)) == mode_of_all(l->c))
		return 0;
	rc = ck_tensor_window(t, (const uint64_t *)box, &chunks, &n, &covered);
	*mode = mode_of_all(l->c);
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		*mode &= ck_catalog_attr(l->c,
					 (struct ck_items){ .of = l->c,
							    .chunk = t->chunk +
								     chunks[i],
							    .n = 1 })
				 .mode;
	return rc;
}

static int tensor_add(struct ck_dcp_layout *l, uint32_t entry)
{
	const struct ck_dcp_shown *e = &l->plan->entries[entry];
	const struct ck_tensor *t = tensor_of(l, entry);
	const struct ck_tensor_facts *now =
		ck_catalog_tensor(l->c, e->i)->facts;
	struct ck_dcp_boxes b;
	int rc = ck_dcp_boxes_begin(l, entry, &b);

	ck_view_facts_add(&l->metadata.facts, 0444, now->mtime, 0);
	while (rc == 0 && ck_dcp_boxes_next(&b)) {
		struct ck_dcp_file *f = &l->files[b.rank];
		struct ck_dcp_len len;
		mode_t mode;

		if (++l->nboxes > CK_DCP_BOXES_MOST)
			return -EFBIG;
		rc = box_mode(l, e->i, b.box, &mode);
		ck_view_facts_add(&f->facts, mode, now->mtime, now->version);
		if (rc || e->other != CK_DCP_OWN)
			continue;
		rc = ck_dcp_len_of(l->lens, t->dtype, t->ndim, b.box + t->ndim,
				   &len);
		if (rc == 0 &&
		    (!ck_add(&f->size, f->size, ck_dcp_len_sum(&len)) ||
		     f->size > INT64_MAX))
			rc = -EOVERFLOW;
	}
	return rc;
}

static int files_measure(struct ck_dcp_layout *l)
{
	const struct ck_dcp_plan *p = l->plan;
	int rc = 0;

	for (uint32_t r = 0; r < l->spec.ranks; r++)
		l->files[r] = (struct ck_dcp_file){
			.facts = { .mode = 0444, .version = p->base.born }
		};
	l->metadata = l->files[0];
	ck_view_facts_add(&l->metadata.facts, mode_of_all(l->c),
			  l->c->meta.mtime, 0);
	l->files[0].size = p->objects;
	for (uint32_t i = 0; i < p->n && rc == 0; i++) {
		if (p->entries[i].is_object)
			object_add(l, p->entries[i].i);
		else
			rc = tensor_add(l, i);
	}
	/* A file without items has the rights and time of the checkpoint. */
	for (uint32_t r = 0; r < l->spec.ranks; r++)
		if (l->files[r].size == 0)
			ck_view_facts_add(&l->files[r].facts, mode_of_all(l->c),
					  l->c->meta.mtime, 0);
	return rc;
}

int ck_dcp_layout_make(struct ck_dcp_plan *plan, const struct ck_catalog *c,
		       uint32_t number, const struct ck_spec *spec,
		       const struct ck_place_rules *rules,
		       struct ck_dcp_layout **out)
{
	struct ck_dcp_layout *l =
		malloc(sizeof(*l) + spec->ranks * sizeof(l->files[0]));
	int rc;

	if (!l)
		return -ENOMEM;
	*l = (struct ck_dcp_layout){
		.refs = 1,
		.plan = ck_view_plan_hold(plan),
		.c = ck_catalog_hold(c),
		.number = number,
		.spec = *spec,
		.rules = rules,
		.lens = ck_dcp_lens_make(),
	};
	rc = l->lens ? files_measure(l) : -ENOMEM;
	free(ck_steal(&l->lens));
	if (rc)
		ck_dcp_layout_put(l);
	else
		*out = l;
	return rc;
}

struct ck_dcp_layout *ck_dcp_layout_hold(struct ck_dcp_layout *l)
{
	__atomic_fetch_add(&l->refs, 1, __ATOMIC_RELAXED);
	return l;
}

void ck_dcp_layout_put(struct ck_dcp_layout *l)
{
	if (!l || __atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	ck_view_plan_put(l->plan);
	ck_catalog_put(l->c);
	free(l);
}
