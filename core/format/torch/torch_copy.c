/* SPDX-License-Identifier: MIT */
/*
 * torch_copy: copies rows from the pickle of their file to the arena of the
 * load, so that the pickle can be freed. A tensor becomes a description, which
 * tensors of other files may share, and the locations of its boxes. A struct
 * holding lives for the rows of one file.
 */
#include "entries.h"
#include "torch_listed.h"

#include <errno.h>
#include <inttypes.h>

/* A row while it is held. */
struct holding {
	struct ck_torch_load *l;
	const struct ck_torch_file *f;
	struct ck_torch_row *row;
	struct ck_torch_spec *spec; /* of the row */
	struct ck_buf text;
	/* The tensor that is being read: */
	struct ck_torch_tensor t;
	struct ck_torch_box box; /* its elements; `strides` below, or NULL */
	uint64_t strides[CK_MAX_DIMS];
	struct ck_torch_box *boxes; /* the boxes of the row */
	struct ck_diag d;
};

int ck_torch_lost_add(struct ck_torch_load *l, struct ck_torch_row *row,
		      int err, struct ck_str what)
{
	struct ck_torch_lost *lost = ck_arena_alloc(&l->arena, sizeof(*lost));
	struct ck_str copy = ck_arena_copy(&l->arena, what);
	struct ck_torch_lost **at = &row->lost;

	if (!lost || !copy.p)
		return -ENOMEM;
	while (*at)
		at = &(*at)->next;
	*lost = (struct ck_torch_lost){ .err = err, .what = copy.p };
	*at = lost;
	return 0;
}

/* --- descriptions of tensors ------------------------------------------------------ */

static void spec_text(struct ck_buf *text, const struct ck_torch_spec *s)
{
	uint32_t nmesh = s->sharding ? s->sharding->ndim : 0;

	text->len = 0;
	ck_buf_u8(text, s->kind);
	ck_buf_u8(text, s->is_known);
	ck_buf_u8(text, s->sharding != NULL);
	ck_buf_u32(text, s->ndim);
	ck_buf_add(text, (const char *)s->shape, s->ndim * sizeof(*s->shape));
	ck_buf_u64(text, s->dtype.len);
	ck_buf_str(text, s->dtype);
	ck_buf_text(text, s->fault ? s->fault : "");
	for (uint32_t i = 0; i < nmesh; i++) {
		const struct ck_mesh_dim *m = &s->sharding->dims[i];

		ck_buf_u64(text, m->size);
		ck_buf_u8(text, m->placement.type);
		ck_buf_u32(text, m->placement.dim);
		ck_buf_u64(text, m->placement.split);
		ck_buf_u64(text, m->name.len);
		ck_buf_str(text, m->name);
	}
}

static struct ck_torch_spec *spec_copy(struct ck_arena *arena,
				       const struct ck_torch_spec *s)
{
	struct ck_torch_spec *own = ck_arena_alloc(arena, sizeof(*own));
	struct ck_str dtype = ck_arena_copy(arena, s->dtype);
	struct ck_str fault =
		ck_arena_copy(arena, ck_str_from(s->fault ? s->fault : ""));
	int64_t *whole = ck_arena_alloc(arena,
					(s->ndim + 1UL) * 2 * sizeof(*whole));
	const struct ck_sharding *sharding = NULL;

	if (s->sharding)
		sharding = ck_sharding_copy(arena, s->sharding);
	if (!own || !dtype.p || !whole || !fault.p ||
	    (s->sharding && !sharding))
		return NULL;
	memset(whole, 0, s->ndim * sizeof(*whole));
	if (s->ndim)
		memcpy(whole + s->ndim, s->shape, s->ndim * sizeof(*whole));
	*own = *s;
	own->dtype = dtype;
	own->whole = own->last_at = whole;
	own->shape = whole + s->ndim;
	own->sharding = sharding;
	own->fault = s->fault ? fault.p : NULL;
	return own;
}

/* Gives the row the one copy of an equal description. */
static int spec_hold(struct holding *h, const struct ck_torch_spec *spec)
{
	struct ck_torch_interned *as;
	int rc;

	spec_text(&h->text, spec);
	if (h->text.err)
		return -ENOMEM;
	rc = ck_torch_intern_find(&h->l->known_specs, &h->l->arena,
				  (struct ck_str){ h->text.data, h->text.len },
				  &as);
	if (rc)
		return rc;
	if (!as->is)
		as->is = spec_copy(&h->l->arena, spec);
	h->spec = as->is;
	h->row->spec = h->spec;
	return h->spec ? 0 : -ENOMEM;
}

struct ck_str ck_torch_dtype_name(const struct ck_torch_tensor *t)
{
	struct ck_str name = t->name.len ? t->name : t->class;
	struct ck_str module = CK_STR("torch.");

	if (t->dtype != CK_DTYPE_UNKNOWN)
		return ck_str_from(ck_dtype_at(t->dtype)->name);
	return ck_str_starts(name, module)
		       ? (struct ck_str){ name.p + module.len,
					  name.len - module.len }
		       : name;
}

/* --- locations of elements -------------------------------------------------------- */

/* True if the strides are those of C order without gaps. Strides and element in
 * bytes. */
static bool is_dense(uint32_t ndim, const int64_t *sizes,
		     const uint64_t *strides, uint64_t element)
{
	for (uint32_t d = ndim; d > 0 && d--;) {
		if (sizes[d] != 1 && strides[d] != element)
			return false;
		element *= (uint64_t)sizes[d];
	}
	return true;
}

/* Returns why the elements cannot be read, or NULL; then h->box has their location. */
static const char *place_in(struct holding *h, const struct ck_torch_storage *s)
{
	const struct ck_torch_tensor *t = &h->t;
	uint64_t size = ck_dtype_at(t->dtype)->size, elements = 0;
	struct ck_item *item = &h->box.item;
	bool empty;

	if (s->bad)
		return s->bad;
	if (s->len != t->storage)
		return ck_shown("its storage has %" PRIu64
				" bytes, its pickle has %" PRIu64,
				s->len, t->storage);
	if (!ck_torch_tensor_reach(t, &empty, &elements))
		elements = UINT64_MAX;
	if (elements > s->len / size)
		return "its storage is too small";
	ck_torch_tensor_strides(t, h->strides);
	item->fpos = s->fpos + (empty ? 0 : t->offset * size);
	item->length = empty ? 0 : (elements - t->offset) * size;
	item->file = h->f->number;
	item->form = CK_FORM_ELEMENTS;
	item->change = (uint8_t)t->change;
	if (h->f->big && ck_dtype_at(t->dtype)->unit > 1)
		item->change |= CK_CHANGE_SWAP;
	if (!empty && !is_dense(t->ndim, t->size, h->strides, size))
		h->box.strides = h->strides;
	return NULL;
}

/* Finds the elements of h->t, whose dtype must be known. Sets *why to a text of
 * ck_shown() if they cannot be read, else to NULL; then h->box has their location.
 * Returns 0, or: -ENOMEM. */
static int place(struct holding *h, const char **why)
{
	struct ck_torch_storage s;
	int rc;

	*why = NULL;
	h->box = (struct ck_torch_box){ 0 };
	if (!h->t.class.len) {
		*why = "a meta tensor, which has no bytes";
		return 0;
	}
	rc = ck_torch_storage_find(h->f, h->t.key, &s, &h->d);
	if (rc == 0)
		*why = place_in(h, &s);
	if (rc == 0 && *why)
		*why = ck_shown("%s: storage %s: %s",
				ck_show(ck_str_from(h->f->name)),
				ck_show(h->t.key), *why);
	return rc;
}

/* Marks h->box as unreadable and records the reason. */
static int lose(struct holding *h, int err, const char *why)
{
	h->box = (struct ck_torch_box){
		.item = { .file = h->f->number,
			  .form = CK_FORM_ELEMENTS,
			  .err = (uint8_t)err },
	};
	return ck_torch_lost_add(h->l, h->row, err, ck_str_from(why));
}

/* Returns a copy of a box in the arena. Many rows have the same box, that of one rank
 * in tensors of one shape, so the last copy is reused. */
static const int64_t *at_copy(const struct holding *h, const int64_t *at)
{
	struct ck_torch_spec *s = h->spec;
	size_t bytes = s->ndim * 2UL * sizeof(*at);
	int64_t *copy;

	if (bytes == 0 || memcmp(at, s->last_at, bytes) == 0)
		return s->last_at;
	if (memcmp(at, s->whole, bytes) == 0)
		return s->whole;
	copy = ck_arena_alloc(&h->l->arena, bytes);
	if (copy) {
		memcpy(copy, at, bytes);
		s->last_at = copy;
	}
	return copy;
}

/* Adds a box to the row. at: ndim offsets, then ndim sizes. */
static int box_add(struct holding *h, const int64_t *at,
		   const struct ck_torch_box *from)
{
	struct ck_torch_box *box = &h->boxes[h->row->nboxes];
	struct ck_str strides = { (const char *)from->strides,
				  h->spec->ndim * sizeof(*from->strides) };
	struct ck_torch_interned *as;
	int rc = 0;

	*box = *from;
	box->at = at_copy(h, at);
	if (strides.p)
		rc = ck_torch_intern_find(&h->l->known_strides, &h->l->arena,
					  strides, &as);
	if (strides.p && rc == 0)
		box->strides = (const uint64_t *)(const void *)as->text.p;
	h->row->nboxes++;
	return box->at ? rc : -ENOMEM;
}

static int boxes_make(struct holding *h, size_t n)
{
	h->boxes = ck_arena_alloc(&h->l->arena, n * sizeof(*h->boxes));
	h->row->boxes = h->boxes;
	return h->boxes ? 0 : -ENOMEM;
}

/* --- a plain tensor ------------------------------------------------------------------------ */

static int plain_hold(struct holding *h)
{
	const struct ck_torch_tensor *t = &h->t;
	const struct ck_torch_spec spec = {
		.kind = CK_KIND_TENSOR,
		.is_known = t->dtype != CK_DTYPE_UNKNOWN,
		.ndim = t->ndim,
		.dtype = ck_torch_dtype_name(t),
		.shape = t->size,
	};
	const char *why;
	int rc = spec_hold(h, &spec);

	if (rc || !spec.is_known)
		return rc;
	rc = boxes_make(h, 1);
	if (rc == 0)
		rc = place(h, &why);
	if (rc == 0 && why)
		rc = lose(h, t->class.len ? EBADMSG : ENODATA, why);
	return rc ? rc : box_add(h, h->spec->whole, &h->box);
}

/* --- a part of a sharded tensor --------------------------------------------------- */

/* Narrows h->box, which has a local tensor, to one box of it. at: offsets and sizes in
 * the whole tensor; local: offsets in the local tensor. */
static void narrow(const struct holding *h, const int64_t *at,
		   const int64_t *local, struct ck_torch_box *out)
{
	uint32_t ndim = h->spec->ndim;
	uint64_t size = ck_dtype_at(h->t.dtype)->size, span = size;

	for (uint32_t d = 0; d < ndim; d++) {
		out->item.fpos += (uint64_t)local[d] * h->strides[d];
		span += ((uint64_t)at[ndim + d] - 1) * h->strides[d];
	}
	out->item.length = span;
	out->strides = is_dense(ndim, at + ndim, h->strides, size) ? NULL
								   : h->strides;
}

static int boxes_of(struct holding *h, const struct ck_rank_piece *piece)
{
	uint32_t ndim = h->spec->ndim;
	int rc = 0;

	for (uint32_t i = 0; i < piece->nboxes && rc == 0; i++) {
		const int64_t *at = piece->boxes + (size_t)i * 3 * ndim;
		struct ck_torch_box part = h->box;

		if (ck_dims_have_zero(at + ndim, ndim))
			part.strides = NULL;
		else if (!part.item.err)
			narrow(h, at, at + 2UL * ndim, &part);
		rc = box_add(h, at, &part);
	}
	return rc;
}

/* Marks all boxes of this rank as unreadable. */
static int piece_lose(struct holding *h, const struct ck_rank_piece *piece,
		      int err, const char *why)
{
	int rc = lose(h, err, why);

	return rc ? rc : boxes_of(h, piece);
}

static int piece_hold(struct holding *h, const struct ck_rank_part *part,
		      const struct ck_rank_piece *piece)
{
	struct ck_torch_tensor *t = &h->t;
	const char *why;
	int rc = ck_torch_tensor_take(&h->f->pickle, &piece->tensor, t, &h->d);

	if (rc == 0)
		rc = ck_fail(&h->d, EBADMSG, "its local tensor is %s",
			     ck_show(t->name));
	if (rc > 0)
		rc = ck_rank_piece_check(part, piece, ck_torch_dtype_name(t),
					 t->ndim, t->size, &h->d);
	if (rc < 0)
		return piece_lose(h, piece, -rc, h->d.text);
	if (part->bad)
		return piece_lose(h, piece, EIO, part->bad);
	if (t->dtype == CK_DTYPE_UNKNOWN)
		return 0; /* the catalog shows that its dtype is unknown */
	rc = place(h, &why);
	if (rc)
		return rc;
	return why ? piece_lose(h, piece, t->class.len ? EBADMSG : ENODATA, why)
		   : boxes_of(h, piece);
}

/* Adds the description of a part, and memory for its boxes. */
static int part_begin(struct holding *h, const struct ck_rank_part *part)
{
	const struct ck_torch_spec spec = {
		.kind = part->kind,
		.fault = part->fault,
		.is_known = true,
		.ndim = part->ndim,
		.dtype = part->dtype,
		.shape = part->shape,
		.sharding = part->sharding,
	};
	size_t n = 0;
	int rc = spec_hold(h, &spec);

	for (uint32_t i = 0; i < part->npieces; i++)
		n += part->pieces[i].nboxes;
	return rc ? rc : boxes_make(h, n);
}

static int part_hold(struct holding *h, const struct ck_rank_part *part)
{
	int rc = part_begin(h, part);

	for (uint32_t i = 0; i < part->npieces && rc == 0; i++)
		rc = piece_hold(h, part, &part->pieces[i]);
	return rc;
}

static int dense_hold(struct holding *h, const struct ck_rank_part *part,
		      const struct ck_torch_dense *dense)
{
	const struct ck_rank_piece *piece = part->pieces;
	uint64_t stride = ck_dtype_at(h->t.dtype)->size;
	int rc = part_begin(h, part);

	if (rc || part->npieces == 0 || h->t.dtype == CK_DTYPE_UNKNOWN)
		return rc;
	for (uint32_t d = dense->ndim; d > 0 && d--;) {
		h->strides[d] = stride;
		stride *= (uint64_t)dense->size[d];
	}
	h->box.item = dense->item;
	if (ck_rank_piece_check(part, piece, dense->dtype, dense->ndim,
				dense->size, &h->d))
		return piece_lose(h, piece, EIO, h->d.text);
	return part->bad ? piece_lose(h, piece, EIO, part->bad)
			 : boxes_of(h, piece);
}

int ck_torch_dense_hold(struct ck_torch_load *l, struct ck_torch_row *row,
			const struct ck_rank_part *part,
			const struct ck_torch_dense *dense)
{
	struct holding *h = calloc(1, sizeof(*h));
	int rc = -ENOMEM;

	if (h) {
		h->l = l;
		h->row = row;
		h->f = &l->files[row->file];
		h->t.dtype = ck_dtype_by_name(dense->dtype);
		rc = dense_hold(h, part, dense);
		ck_buf_fini(&h->text);
	}
	free(h);
	return rc ? ck_fail(l->d, ENOMEM, "out of memory") : 0;
}

/* --- rows ---------------------------------------------------------------------------------- */

static int row_hold(struct holding *h, const struct ck_torch_read *read)
{
	int rc;

	if (read->part)
		return part_hold(h, read->part);
	rc = ck_torch_tensor_take(&h->f->pickle, read->value, &h->t, &h->d);
	if (rc > 0)
		return plain_hold(h);
	if (rc < 0)
		return ck_torch_lost_add(h->l, h->row, EBADMSG,
					 h->l->by_rank ? ck_str_from(h->d.text)
						       : ck_diag_what(&h->d));
	h->row->is_value = true;
	return ck_torch_value_hold(h->l, h->row, read->value);
}

int ck_torch_rows_hold(struct ck_torch_load *l, size_t first, struct ck_diag *d)
{
	struct holding *h = calloc(1, sizeof(*h));
	int rc = h ? 0 : -ENOMEM;

	for (size_t i = 0; i < l->nreads && rc == 0; i++) {
		h->l = l;
		h->row = &l->rows[first + i];
		h->f = &l->files[h->row->file];
		if (!h->row->unread)
			rc = row_hold(h, &l->reads[i]);
	}
	if (h)
		ck_buf_fini(&h->text);
	free(h);
	return rc ? ck_fail(d, ENOMEM, "out of memory") : 0;
}
