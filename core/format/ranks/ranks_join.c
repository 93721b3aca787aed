/* SPDX-License-Identifier: MIT */
/*
 * ranks_join: joins the rows that files of several ranks have at one path into entries of the
 * catalog. First all rows are compared. Then the path becomes one of:
 *
 *   one tensor               Its chunks are the boxes of all ranks; equal boxes are replicas.
 *   one object               No row is a tensor: the value of the lowest rank.
 *   entries of single ranks  Rows differ, or are summands. If not all are plain tensors, there
 *                            is also a tensor with EIO and the reason.
 *
 * For files of ranks, local/ also shows the rows of each rank. The state is local to one path.
 * Used by the thread that loads the checkpoint.
 */
#include "ranks_flat.h"

#include <errno.h>

/* A box that one rank has. */
struct box {
	const struct ck_torch_box *is;
	const struct ck_torch_row *row;
	uint32_t number; /* in the order of ranks */
	bool odd;	 /* its strides differ from those of an equal box */
};

/* The entry that is being made. */
struct joining {
	struct ck_torch_load *l;
	struct ck_str key;
	const struct ck_torch_row
		*first; /* first tensor that is not malformed */
	const struct ck_torch_spec *spec; /* of `first` */
	struct box *boxes;		  /* owned */
	size_t nboxes, cap;
	const char *
		why; /* reason why there is no whole tensor; NULL: there is one */
	bool looked; /* lines of damage of malformed rows were added */
	bool mixed;  /* not all rows are plain tensors */
	/* Entry whose name this one has, if is_own. */
	struct ck_entry_id of;
	bool is_own; /* an entry of one rank, with the name of another one */
};

static int no_memory(const struct ck_torch_load *l)
{
	return ck_fail(l->d, ENOMEM, "out of memory");
}

static const struct ck_torch_file *file_of(const struct joining *j,
					   const struct ck_torch_row *row)
{
	return &j->l->files[row->file];
}

/* Adds a line of damage about the row of one rank. */
static int lose(const struct joining *j, const struct ck_torch_row *row,
		int err, const char *what)
{
	const struct ck_loss loss = { .name = j->key,
				      .file = file_of(j, row)->number,
				      .err = err,
				      .what = ck_str_from(what) };

	return ck_catalog_loss_add(j->l->c, &loss) ? no_memory(j->l) : 0;
}

/* --- comparing rows -------------------------------------------------------------------- */

/* Makes the reason that a row differs from the first one. It is valid as long as the load. */
static const char *differ(const struct joining *j,
			  const struct ck_torch_row *row, const char *what)
{
	const char *text =
		ck_shown("its %s in %s and %s differ", what,
			 ck_show(ck_str_from(file_of(j, j->first)->name)),
			 ck_show(ck_str_from(file_of(j, row)->name)));
	struct ck_str copy = ck_arena_copy(&j->l->arena, ck_str_from(text));

	return copy.p ? copy.p : "its ranks differ";
}

static bool is_same_shape(const struct ck_torch_spec *a,
			  const struct ck_torch_spec *b)
{
	return a->ndim == b->ndim &&
	       (a->ndim == 0 ||
		memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)) == 0);
}

/* Compares a tensor with the first one. Sets j->why if they differ. */
static void compare(struct joining *j, const struct ck_torch_row *row)
{
	const struct ck_torch_spec *a = j->spec, *b = row->spec;
	const char *what = NULL;

	j->mixed |= b->kind != CK_KIND_TENSOR;
	if (a == b)
		return;
	if (a->kind != b->kind)
		what = "kinds";
	else if (!ck_str_eq(a->dtype, b->dtype))
		what = "dtypes";
	else if (!is_same_shape(a, b))
		what = "shapes";
	if (what && !j->why)
		j->why = differ(j, row, what);
}

/* Adds a line of damage for each loss of a row. */
static int losses_add(const struct joining *j, const struct ck_torch_row *row)
{
	int rc = 0;

	for (const struct ck_torch_lost *lost = row->lost; lost && rc == 0;
	     lost = lost->next)
		rc = lose(j, row, lost->err, lost->what);
	return rc;
}

/* The first tensor becomes the description; others are compared with it. */
static void tensor_look(struct joining *j, const struct ck_torch_row *row)
{
	if (j->first) {
		compare(j, row);
	} else {
		j->first = row;
		j->spec = row->spec;
		j->mixed = row->spec->kind != CK_KIND_TENSOR;
	}
	if (row->spec->fault && !j->why)
		j->why = row->spec->fault;
}

/* Returns 1 if the row is a tensor, or a malformed one; 0 if it is another value; or
 * -ENOMEM. */
static int row_look(struct joining *j, const struct ck_torch_row *row)
{
	int rc = 0;

	if (row->is_value)
		return 0;
	if (row->spec)
		tensor_look(j, row);
	else if (!j->looked)
		rc = losses_add(j, row);
	return rc ? rc : 1;
}

/* Adds the boxes of one row to j->boxes, and lines of damage for its losses. */
static int boxes_add(struct joining *j, const struct ck_torch_row *row)
{
	struct box *boxes;
	int rc;

	if (!row->spec)
		return 0;
	rc = losses_add(j, row);
	if (rc)
		return rc;
	boxes = ck_grow(j->boxes, &j->cap, j->nboxes, row->nboxes,
			sizeof(*boxes));
	if (!boxes)
		return no_memory(j->l);
	j->boxes = boxes;
	for (uint32_t i = 0; i < row->nboxes; i++, j->nboxes++)
		boxes[j->nboxes] = (struct box){
			.is = &row->boxes[i],
			.row = row,
			.number = (uint32_t)j->nboxes,
		};
	return 0;
}

/* --- the entry ------------------------------------------------------------------------------- */

/* Compares offsets, then sizes, then ranks. */
static int box_cmp(const void *a, const void *b, void *arg)
{
	const struct joining *j = arg;
	const struct box *x = a, *y = b;

	for (uint32_t d = 0; x->is->at != y->is->at && d < 2 * j->spec->ndim;
	     d++)
		if (x->is->at[d] != y->is->at[d])
			return x->is->at[d] < y->is->at[d] ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

/* Sorts the boxes. In the order of ranks they usually are sorted already. */
static void boxes_sort(struct joining *j)
{
	for (size_t i = 1; i < j->nboxes; i++)
		if (box_cmp(&j->boxes[i - 1], &j->boxes[i], j) > 0) {
			qsort_r(j->boxes, j->nboxes, sizeof(*j->boxes), box_cmp,
				j);
			return;
		}
}

static bool is_same_box(const struct joining *j, const struct ck_torch_box *a,
			const struct ck_torch_box *b)
{
	return a->at == b->at ||
	       memcmp(a->at, b->at, 2UL * j->spec->ndim * sizeof(*a->at)) == 0;
}

/* Removes a box that one file has several times, except for the first: in local/ both would
 * have the same name. Adds one line of damage for each row with such boxes. */
static int doubles_drop(struct joining *j)
{
	const struct ck_torch_row *reported = NULL;
	struct box *last = j->boxes;
	int rc = 0;

	for (size_t i = 1; i < j->nboxes && rc == 0; i++) {
		struct box *b = &j->boxes[i];

		if (b->row->file != last->row->file ||
		    !is_same_box(j, last->is, b->is)) {
			*++last = *b;
		} else if (reported != b->row) {
			rc = lose(j, b->row, EBADMSG,
				  "it has a part of it several times; the "
				  "first is shown");
			reported = b->row;
		}
	}
	j->nboxes = j->nboxes ? (size_t)(last - j->boxes) + 1 : 0;
	return rc;
}

/* True if box b can be a replica of a: replicas are read with the strides of their chunk. The
 * strides of a box that cannot be read do not matter. */
static bool has_same_strides(const struct joining *j,
			     const struct ck_torch_box *a,
			     const struct ck_torch_box *b)
{
	if (b->item.err)
		return true;
	if (!a->strides || !b->strides)
		return a->strides == b->strides;
	return memcmp(a->strides, b->strides,
		      j->spec->ndim * sizeof(*a->strides)) == 0;
}

/* Returns the first of the boxes equal to box i that can be read; box i if there is no such
 * box. */
static const struct ck_torch_box *good_of(const struct joining *j, size_t i)
{
	for (size_t k = i; k < j->nboxes; k++) {
		if (!is_same_box(j, j->boxes[i].is, j->boxes[k].is))
			break;
		if (!j->boxes[k].is->item.err)
			return j->boxes[k].is;
	}
	return j->boxes[i].is;
}

static uint32_t count_different(const struct joining *j)
{
	uint32_t n = 0;

	for (size_t i = 0; i < j->nboxes; i++)
		n += i == 0 ||
		     !is_same_box(j, j->boxes[i - 1].is, j->boxes[i].is);
	return n;
}

static int chunk_add(const struct joining *j, const struct ck_torch_box *b,
		     const uint64_t *strides)
{
	int rc = ck_catalog_chunk_add(j->l->c, b->at, b->at + j->spec->ndim,
				      &b->item);

	if (rc == 0 && strides)
		rc = ck_catalog_strides_add(j->l->c, strides);
	return rc;
}

/* Adds the boxes with other strides as tensors that only local/ shows. */
static int odd_add(const struct joining *j, struct ck_entry_id of)
{
	int rc = 0;

	for (size_t i = 0; i < j->nboxes && rc == 0; i++) {
		const struct ck_torch_box *b = j->boxes[i].is;

		if (!j->boxes[i].odd)
			continue;
		rc = ck_catalog_own_add(j->l->c, of, CK_ROLE_COPY,
					j->spec->dtype, j->spec->ndim,
					j->spec->shape);
		if (rc == 0)
			rc = chunk_add(j, b, b->strides);
	}
	return rc;
}

/* Adds the boxes as chunks and replicas. Marks those with other strides, and sets *odd. */
static int shown_add(struct joining *j, bool *odd)
{
	const struct ck_torch_box *last = NULL;
	int rc = ck_catalog_chunks_expect(j->l->c, count_different(j));

	for (size_t i = 0; i < j->nboxes && rc == 0; i++) {
		const struct ck_torch_box *b = j->boxes[i].is;
		bool copy = last && is_same_box(j, last, b);

		if (copy && has_same_strides(j, last, b)) {
			rc = ck_catalog_replica_add(j->l->c, &b->item);
		} else if (copy) {
			j->boxes[i].odd = *odd = true;
		} else {
			last = good_of(j, i);
			rc = chunk_add(j, b, last->strides);
		}
	}
	return rc;
}

/* Adds the chunks of the tensor that was begun last. number: of that tensor. */
static int chunks_add(struct joining *j, uint32_t number)
{
	bool odd = false;
	int rc;

	boxes_sort(j);
	rc = doubles_drop(j);
	if (rc)
		return rc;
	rc = shown_add(j, &odd);
	if (rc == 0)
		rc = ck_catalog_copies_add(j->l->c, odd);
	if (rc == 0 && odd)
		rc = odd_add(j, (struct ck_entry_id){ number, false });
	return rc ? no_memory(j->l) : 0;
}

/* Adds a row of l->flats, with shards in the order of ranks. Must be called before the boxes are
 * sorted. */
static int flat_add(struct joining *j)
{
	struct ck_torch_flat *flat = ck_rank_flat_begin(j->l, j->nboxes);

	if (!flat)
		return no_memory(j->l);
	flat->key = j->key;
	flat->path = j->first->path;
	flat->dtype = j->spec->dtype;
	flat->numel = (uint64_t)j->spec->shape[0];
	for (size_t i = 0; i < j->nboxes; i++) {
		const struct ck_torch_box *b = j->boxes[i].is;

		flat->shards[flat->nshards++] = (struct ck_flat_shard){
			.begin = (uint64_t)b->at[0],
			.count = b->strides ? 0 : (uint64_t)b->at[1],
			.item = b->item,
		};
	}
	return 0;
}

static bool is_flat(const struct joining *j)
{
	return j->spec->ndim == 1 && j->spec->kind == CK_KIND_SHARDED_TENSOR &&
	       ck_name_is_flat(j->key);
}

static int sharding_add(const struct joining *j)
{
	const struct ck_sharding *sharding = j->spec->sharding;

	ck_catalog_tensor_kind(j->l->c,
			       is_flat(j) ? CK_KIND_FLAT_PARAM : j->spec->kind);
	if (!sharding || sharding->ndim == 0)
		return 0;
	return ck_catalog_tensor_sharding(j->l->c, sharding) ? no_memory(j->l)
							     : 0;
}

/* Begins a tensor of the catalog, without chunks. */
static int tensor_begin(const struct joining *j)
{
	struct ck_torch_load *l = j->l;
	int rc = 0;

	if (j->is_own &&
	    ck_catalog_own_add(l->c, j->of, CK_ROLE_OWN, j->spec->dtype,
			       j->spec->ndim, j->spec->shape))
		rc = no_memory(l);
	else if (!j->is_own)
		rc = ck_torch_tensor_begin(l, j->first, j->key);
	return rc || j->spec->kind == CK_KIND_TENSOR ? rc : sharding_add(j);
}

/* Adds the boxes to the tensor that was begun, and a flat parameter to l->flats. */
static int boxes_show(struct joining *j, uint32_t number)
{
	int rc = j->is_own || !is_flat(j) ? 0 : flat_add(j);

	return rc ? rc : chunks_add(j, number);
}

/* The rows of one path, one of each rank; owned by the caller. */
struct rows {
	const struct ck_torch_row *const *all;
	uint32_t n;
};

static int whole_show(struct joining *j, const struct rows *rows)
{
	uint32_t number = j->l->c->tensors.n;
	int rc = tensor_begin(j);

	for (uint32_t i = 0; i < rows->n && rc == 0; i++)
		rc = boxes_add(j, rows->all[i]);
	return rc ? rc : boxes_show(j, number);
}

/* --- entries of single ranks --------------------------------------------------------------- */

/* Adds the value of one rank as an object that only local/ shows, the first one of its name.
 * Does nothing unless the files are of ranks. */
static int value_own(const struct joining *j, const struct ck_torch_row *row)
{
	uint32_t before = j->l->c->objects.n;
	int rc = 0;

	if (j->l->by_rank)
		rc = ck_torch_value_add(j->l, row, j->key);
	if (rc == 0 && j->l->c->objects.n > before)
		ck_catalog_object_unwhole(j->l->c);
	return rc;
}

/* Adds the row of one rank as an entry that only local/ shows. named: the entry whose name it
 * gets; NULL: it is the first entry of this name. why: see ck_catalog_tensor_unwhole(). */
static int own_show(const struct joining *of, const struct ck_torch_row *row,
		    const struct ck_entry_id *named, const char *why)
{
	struct joining *j = calloc(1, sizeof(*j));
	uint32_t number = of->l->c->tensors.n;
	int rc;

	if (!j)
		return no_memory(of->l);
	j->l = of->l;
	j->key = of->key;
	j->looked = of->looked;
	j->is_own = named != NULL;
	if (named)
		j->of = *named;
	rc = row_look(j, row);
	if (rc > 0 && j->first) {
		rc = tensor_begin(j);
		if (rc == 0 && !named &&
		    ck_catalog_tensor_unwhole(j->l->c, why))
			rc = no_memory(j->l);
		if (rc == 0)
			rc = boxes_add(j, row);
		if (rc == 0)
			rc = boxes_show(j, number);
	} else if (rc == 0 && named) {
		rc = ck_torch_value_own(j->l, row, j->key, *named);
	} else if (rc == 0) {
		rc = value_own(j, row);
	}
	free(j->boxes);
	free(j);
	return rc < 0 ? rc : 0;
}

/* Adds an entry for each row. If `named` is NULL, the first one added gives the name. */
static int own_all(const struct joining *j, const struct rows *rows,
		   const struct ck_entry_id *named, const char *why)
{
	const struct ck_catalog *c = j->l->c;
	struct ck_entry_id first = { c->tensors.n, false };
	struct ck_entry_id value = { c->objects.n, true };
	int rc = 0;

	for (uint32_t i = 0; i < rows->n && rc == 0; i++) {
		rc = own_show(j, rows->all[i], named, why);
		if (c->tensors.n > first.i && !named)
			named = &first;
		if (c->objects.n > value.i && !named)
			named = &value;
	}
	return rc;
}

/* Adds entries of single ranks. Unless all are plain tensors, also adds a tensor whose reads
 * fail with EIO and the reason. */
static int parts_show(struct joining *j, const struct rows *rows)
{
	struct ck_entry_id named = { j->l->c->tensors.n, false };
	int rc;

	if (!j->mixed)
		return own_all(j, rows, NULL, j->why);
	rc = tensor_begin(j);
	if (rc == 0 && ck_catalog_tensor_fault(j->l->c, EIO, j->why))
		rc = no_memory(j->l);
	return rc ? rc : own_all(j, rows, &named, NULL);
}

/* Adds values that are not tensors. objects/ shows that of the lowest rank. */
static int values_show(const struct joining *j, const struct rows *rows)
{
	struct ck_torch_load *l = j->l;
	struct ck_entry_id first = { l->c->objects.n, true };
	int rc = 0;

	for (uint32_t i = 0; i < rows->n && rc == 0; i++) {
		if (!rows->all[i]->is_value)
			continue;
		if (l->c->objects.n > first.i)
			rc = ck_torch_value_own(l, rows->all[i], j->key, first);
		else
			rc = ck_torch_value_add(l, rows->all[i], j->key);
	}
	return rc;
}

/* Compares all rows. Sets j->first if there is a tensor, and j->why if there is no whole one. */
static int look(struct joining *j, const struct rows *rows)
{
	const struct ck_torch_row *other = NULL;
	int rc = 0;

	for (uint32_t i = 0; i < rows->n && rc >= 0; i++) {
		rc = row_look(j, rows->all[i]);
		if (rc == 0 && !other)
			other = rows->all[i];
	}
	if (rc >= 0 && j->first && other) {
		j->mixed = true;
		if (!j->why)
			j->why = differ(j, other, "kinds");
	}
	j->looked = true;
	return rc < 0 ? rc : 0;
}

int ck_rank_rows_join(struct ck_torch_load *l,
		      const struct ck_torch_row *const *rows, uint32_t n,
		      struct ck_str key)
{
	const struct rows all = { rows, n };
	struct joining *j = calloc(1, sizeof(*j));
	int rc;

	if (!j)
		return no_memory(l);
	j->l = l;
	j->key = key;
	rc = look(j, &all);
	if (rc == 0 && !j->first)
		rc = values_show(j, &all);
	else if (rc == 0)
		rc = j->why ? parts_show(j, &all) : whole_show(j, &all);
	free(j->boxes);
	free(j);
	return rc;
}

int ck_rank_pieces_join(struct ck_torch_load *l,
			const struct ck_torch_row *const *rows, uint32_t n,
			struct ck_str key, const struct ck_entry_id *named)
{
	const struct joining j = { .l = l, .key = key };

	return own_all(&j, &(struct rows){ rows, n }, named, NULL);
}
