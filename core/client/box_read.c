/* SPDX-License-Identifier: MIT */
/*
 * box_read: reads a box into memory of any strides.
 *
 *	tensor, 6 x 8           covering box        destination
 *	. . . . . . . .
 *	. a . b . c . .         a . b . c           a b c
 *	. . . . . . . .   ──▶   . . . . .    ──▶    d e f
 *	. d . e . f . .         d . e . f
 *	. . . . . . . .
 *
 * The I/O engine reads byte ranges of the covering box, in C order. A range whose elements lie
 * in the destination as they do in the tensor is read there. Others go through a stage that
 * stays in the cache of the processor, and are scattered from there.
 */
#include "box_read.h"

#include <errno.h>

/* --- ranges --------------------------------------------------------------------- */

static const struct ck_tensor *tensor_of(const struct ck_box_read *r)
{
	return ck_catalog_tensor(r->ck->catalog, r->row);
}

static int arrays_make(struct ck_box_read *r)
{
	uint64_t *all = calloc(6 * (size_t)r->ndim + 1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	r->offsets = all;
	r->counts = all + r->ndim;
	r->cover = r->counts + r->ndim;
	r->steps = r->cover + r->ndim;
	r->blocks = r->steps + r->ndim;
	r->strides = (int64_t *)(r->blocks + r->ndim);
	return 0;
}

/* Takes dimension d of the request. */
static int dim_set(struct ck_box_read *r, uint32_t d)
{
	const struct ckptfs_box *b = r->box;
	uint64_t size = r->part ? r->part[r->ndim + d]
				: (uint64_t)tensor_of(r)->shape[d];
	uint64_t step = b->steps ? b->steps[d] : 1;
	uint64_t offset = b->offsets ? b->offsets[d] : 0, left, count;

	if (step == 0)
		return -EINVAL;
	if (offset > size)
		return -ERANGE;
	left = size - offset;
	count = b->sizes ? b->sizes[d] : left / step + (left % step != 0);
	if (count && (left == 0 || count - 1 > (left - 1) / step))
		return -ERANGE;
	r->offsets[d] = offset + (r->part ? r->part[d] : 0);
	r->counts[d] = count;
	r->steps[d] = count > 1 ? step : 1;
	r->cover[d] = count ? (count - 1) * r->steps[d] + 1 : 0;
	return 0;
}

static bool has_elements(const struct ck_box_read *r)
{
	for (uint32_t d = 0; d < r->ndim; d++)
		if (r->counts[d] == 0)
			return false;
	return true;
}

/* The box has elements, so it has no more bytes than the tensor, which fit into 64 bits. */
static void strides_set(struct ck_box_read *r)
{
	uint64_t block = r->item, dense = r->item;

	for (uint32_t k = 0; k < r->ndim; k++) {
		uint32_t d = r->ndim - 1 - k;

		r->blocks[d] = block;
		r->strides[d] = r->box->strides ? r->box->strides[d]
						: (int64_t)dense;
		block *= r->cover[d];
		dense *= r->counts[d];
	}
}

static int request_set(struct ck_box_read *r)
{
	const struct ckptfs_box *b = r->box;
	bool has_arrays = b->offsets || b->sizes || b->steps || b->strides;
	int rc = 0;

	if (has_arrays ? b->ndim != r->ndim : b->ndim && b->ndim != r->ndim)
		return -EINVAL;
	rc = arrays_make(r);
	for (uint32_t d = 0; rc == 0 && d < r->ndim; d++)
		rc = dim_set(r, d);
	if (rc == 0 && has_elements(r))
		strides_set(r);
	return rc;
}

/* --- pieces ----------------------------------------------------------------------------- */

/* The first dimension whose blocks have at most `most` bytes; the last one if none has. */
static uint32_t split_for(const struct ck_box_read *r, uint64_t most)
{
	uint32_t d = 0;

	while (d + 1 < r->ndim && r->blocks[d] > most)
		d++;
	return d;
}

/* The first dimension from which on all elements lie in the destination as in the tensor. */
static uint32_t dense_from(const struct ck_box_read *r)
{
	uint64_t dense = r->item;
	uint32_t d = r->ndim;

	while (d > 0 && r->steps[d - 1] == 1 &&
	       (r->counts[d - 1] == 1 || r->strides[d - 1] == (int64_t)dense))
		dense *= r->counts[--d];
	return d;
}

/* Sets `split` and `per` for pieces of at most `most` bytes. */
static void split_at(struct ck_box_read *r, uint32_t d, uint64_t most)
{
	uint64_t step = r->blocks[d] * r->steps[d];
	bool has_gaps = step - r->blocks[d] >= CK_BOX_GAP;

	r->split = d;
	r->per = has_gaps ? 1 : ck_max(1, most / step);
	r->per = ck_min(r->per, r->counts[d]);
}

static void pieces_set(struct ck_box_read *r)
{
	uint32_t dense, d;

	r->direct = true;
	r->per = r->pieces = has_elements(r);
	if (r->ndim == 0 || r->pieces == 0)
		return;
	dense = dense_from(r);
	d = (uint32_t)ck_max(split_for(r, CK_BOX_DIRECT), dense);
	if (d < r->ndim)
		split_at(r, d, CK_BOX_DIRECT);
	r->direct = d < r->ndim && (dense == 0 || r->per * r->blocks[d] >=
							  CK_BOX_DIRECT_LEAST);
	if (!r->direct)
		split_at(r, split_for(r, CK_BOX_STAGE), CK_BOX_STAGE);
	for (d = 0; d < r->split; d++)
		r->pieces *= r->counts[d];
	r->pieces *= (r->counts[d] + r->per - 1) / r->per;
}

/* --- opening ------------------------------------------------------------------------------ */

static int file_open(struct ck_box_read *r)
{
	const struct ck_tensor *t = tensor_of(r);
	struct ck_slice_builder b = { .n = 0 };
	uint64_t bytes = r->item;
	struct ck_slice *slice;
	bool is_whole = true;
	int rc;

	for (uint32_t d = 0; d < r->ndim; d++) {
		bytes *= r->cover[d];
		is_whole &= r->cover[d] == (uint64_t)t->shape[d];
	}
	/* offsets, then sizes, as `cover` does not follow `offsets` */
	if (!is_whole) {
		uint64_t window[2 * CK_MAX_DIMS];

		memcpy(window, r->offsets, r->ndim * sizeof(*window));
		memcpy(window + r->ndim, r->cover, r->ndim * sizeof(*window));
		ck_slice_add_box(&b, r->row, r->ndim, window, bytes);
		rc = ck_slice_make(&b, &slice);
	} else {
		ck_slice_add_box(&b, r->row, r->ndim, NULL, bytes);
		rc = ck_slice_make(&b, &slice);
	}
	if (rc)
		return rc;
	r->file.node.dir = ck_root_dir(r->ck->s.root);
	r->file.node.about.topic = CK_FILE_KIND_TENSOR;
	r->file.node.about.number = r->row;
	r->file.catalog = ck_catalog_hold(r->ck->catalog);
	return ck_tree_boxes_open(&r->file, slice);
}

/* Takes the tensor and the part of it from the slice of a file. */
static int part_set(struct ck_box_read *r, const struct ck_slice *slice)
{
	for (uint32_t i = 0; i < slice->nparts; i++) {
		struct ck_part part = ck_slice_part(slice, i);
		size_t n;

		if (part.kind != CK_PART_BOX)
			continue;
		/* several tensors, or elements that f32/ converts */
		if (r->row != UINT32_MAX || part.from != CK_DTYPE_UNKNOWN)
			return -ENOTTY;
		r->row = part.number;
		n = 2 * (size_t)tensor_of(r)->ndim * sizeof(*r->part);
		r->part = part.at.box && n ? malloc(n) : NULL;
		if (r->part)
			memcpy(r->part, part.at.box, n);
		else if (part.at.box && n)
			return -ENOMEM;
	}
	return r->row == UINT32_MAX ? -ENOTTY : 0;
}

static int file_find(struct ck_box_read *r)
{
	struct ckptfs *ck = r->ck;
	struct ck_slice *slice = NULL;
	struct ck_node n;
	int rc = ck_session_find(&ck->s, r->box->path, true, &n);

	if (rc)
		return rc;
	if (n.about.type != CK_TYPE_FILE ||
	    n.about.topic == CK_FILE_KIND_MANY || n.dir.root != ck->s.root)
		rc = -ENOTTY;
	else
		rc = ck_tree_slice(ck->catalog, &n, &slice);
	if (rc == 0)
		rc = slice->err ? -slice->err : part_set(r, slice);
	ck_slice_free(slice);
	ck_tree_forget(ck->s.tree, n.number, 1);
	return rc;
}

/* Finds the row of the tensor, and the part of it. */
static int tensor_find(struct ck_box_read *r)
{
	const struct ckptfs_box *box = r->box;
	uint64_t i = box->tensor;

	if (!box->fqn && box->path)
		return file_find(r);
	if (box->fqn)
		i = ck_client_find(r->ck, ck_str_from(box->fqn));
	if (i >= r->ck->ntensors)
		return -ENOENT;
	r->row = r->ck->rows[i];
	return 0;
}

int ck_box_read_begin(struct ckptfs *ck, struct ckptfs_box *box,
		      struct ck_box_read *r)
{
	const struct ck_tensor *t;
	int rc;

	*r = (struct ck_box_read){ .ck = ck, .box = box, .row = UINT32_MAX };
	rc = tensor_find(r);
	if (rc)
		return rc;
	t = tensor_of(r);
	r->ndim = t->ndim;
	r->item = ck_dtype_at(t->dtype)->size;
	if (t->err || t->ndim > CK_MAX_DIMS)
		return -(t->err ? t->err : EBADMSG);
	rc = request_set(r);
	if (rc)
		return rc;
	pieces_set(r);
	return r->pieces ? file_open(r) : 0;
}

void ck_box_read_end(struct ck_box_read *r)
{
	ck_tree_file_close(&r->file);
	free(r->offsets);
	free(r->part);
}

/* --- reading ------------------------------------------------------------------------------ */

/* Copies `n` elements of `item` bytes, which lie at these strides. */
static void scatter_row(const struct ck_box_read *r, const uint8_t *from,
			uint64_t from_step, uint8_t *to, int64_t to_step,
			uint64_t n)
{
	if (from_step == r->item && to_step == (int64_t)r->item) {
		memcpy(to, from, n * r->item);
		return;
	}
	for (; n > 0; n--, from += from_step, to += to_step)
		switch (r->item) {
		case 1: *to = *from; break;
		case 2: memcpy(to, from, 2); break;
		case 4: memcpy(to, from, 4); break;
		case 8: memcpy(to, from, 8); break;
		default: memcpy(to, from, r->item);
		}
}

/* Copies dimensions from d on; n: indexes of dimension d. Recursive in the dimensions, of
 * which there are at most CK_MAX_DIMS. */
static void scatter(const struct ck_box_read *r, uint32_t d, uint64_t n,
		    const uint8_t *from, uint8_t *to)
{
	uint64_t step = r->blocks[d] * r->steps[d];

	if (d + 1 == r->ndim) {
		scatter_row(r, from, step, to, r->strides[d], n);
		return;
	}
	for (; n > 0; n--, from += step, to += r->strides[d])
		scatter(r, d + 1, r->counts[d + 1], from, to);
}

/* Where a piece is. */
struct place {
	uint64_t vpos, len; /* in the covering box */
	uint64_t n;	    /* indexes of dimension `split` */
	uint8_t *to;
};

static struct place place_of(const struct ck_box_read *r, uint64_t piece)
{
	struct place p = { .len = r->item, .n = 1, .to = r->box->to };
	uint64_t parts, at;
	uint32_t d = r->split;

	if (r->ndim == 0)
		return p;
	parts = (r->counts[d] + r->per - 1) / r->per;
	at = piece % parts * r->per;
	piece /= parts;
	p.n = ck_min(r->per, r->counts[d] - at);
	p.len = ((p.n - 1) * r->steps[d] + 1) * r->blocks[d];
	for (;;) {
		p.vpos += at * r->steps[d] * r->blocks[d];
		p.to += (int64_t)at * r->strides[d];
		if (d == 0)
			return p;
		d--;
		at = piece % r->counts[d];
		piece /= r->counts[d];
	}
}

int ck_box_read_piece(struct ck_box_read *r, uint64_t piece, void *stage)
{
	struct place p = place_of(r, piece);
	int rc = ck_session_read(&r->file, p.vpos, p.len,
				 r->direct ? p.to : stage);

	if (rc == 0 && !r->direct)
		scatter(r, r->split, p.n, stage, p.to);
	ck_session_count(&r->file, p.len, rc);
	return rc;
}
