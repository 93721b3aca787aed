/* SPDX-License-Identifier: MIT */
/*
 * html_layouts: boxes are printed in the order of their offsets. Boxes with equal offsets and sizes
 * are one, with copies. No state.
 */
#include "html_layouts.h"
#include "html_json.h"

static void dims_print(struct ck_buf *out, const int64_t *dims, uint32_t ndim)
{
	ck_buf_text(out, "[");
	for (uint32_t i = 0; i < ndim; i++) {
		ck_buf_text(out, i ? "," : "");
		ck_buf_i64(out, dims[i]);
	}
	ck_buf_text(out, "]");
}

/* Appends the rank of the file of an item; the path of the file if its rank is unknown; or null. */
static void rank_print(const struct ck_catalog *c, const struct ck_item *item,
		       struct ck_buf *out)
{
	const struct ck_data_file *file;

	if (item->file >= c->files.n) {
		ck_buf_text(out, "null");
		return;
	}
	file = ck_catalog_file(c, item->file);
	if (file->rank != CK_NO_RANK)
		ck_buf_decimal(out, file->rank);
	else
		ck_html_json_str(out, file->path);
}

/* --- boxes ---------------------------------------------------------------------------------- */

struct boxes {
	const struct ck_catalog *c;
	const struct ck_tensor *t;
	uint32_t n;		       /* at most t->nchunks */
	uint32_t first[CK_HTML_BOXES]; /* positions in the order, and the end */
};

static uint32_t chunk_at(const struct boxes *b, uint32_t i)
{
	return b->t->facts->order ? b->t->facts->order[i] : i;
}

static bool is_same_box(const struct ck_tensor *t, uint32_t a, uint32_t b)
{
	return t->ndim == 0 || memcmp(ck_tensor_box(t, a), ck_tensor_box(t, b),
				      2 * t->ndim * sizeof(*t->boxes)) == 0;
}

/* Counts the boxes, and lists the first ones. */
static void boxes_find(struct boxes *b)
{
	for (uint32_t i = 0; i < b->t->nchunks; i++) {
		if (i && is_same_box(b->t, chunk_at(b, i - 1), chunk_at(b, i)))
			continue;
		if (b->n < CK_HTML_BOXES)
			b->first[b->n] = i;
		b->n++;
	}
}

/* The position behind the last chunk of box i. */
static uint32_t box_end(const struct boxes *b, uint32_t i)
{
	return i + 1 < b->n ? b->first[i + 1] : b->t->nchunks;
}

static void boxes_print(const struct boxes *b, struct ck_buf *out)
{
	for (uint32_t i = 0; i < b->n; i++) {
		uint32_t chunk = chunk_at(b, b->first[i]);
		const int64_t *box = ck_tensor_box(b->t, chunk);

		ck_buf_text(out, i ? ",[" : "[");
		rank_print(b->c, ck_catalog_item(b->c, b->t->chunk + chunk),
			   out);
		ck_buf_text(out, ",");
		dims_print(out, box, b->t->ndim);
		ck_buf_text(out, ",");
		dims_print(out, box + b->t->ndim, b->t->ndim);
		ck_buf_text(out, "]");
	}
}

/* Appends the ranks of the replicas of a chunk. *n: printed before. */
static void replicas_print(const struct boxes *b, uint32_t chunk, size_t *n,
			   struct ck_buf *out)
{
	uint32_t count, at;

	at = ck_catalog_replicas(b->c, b->t->chunk + chunk, 1, &count);
	for (uint32_t i = 0; i < count; i++) {
		ck_buf_text(out, (*n)++ ? "," : "");
		rank_print(b->c, &ck_catalog_replica(b->c, at + i)->item, out);
	}
}

/* Appends the ranks of all copies of box i but the first. Returns their number. */
static size_t copies_print(const struct boxes *b, uint32_t i,
			   struct ck_buf *out)
{
	size_t n = 0;

	ck_buf_text(out, i ? ",[" : "[");
	for (uint32_t k = b->first[i]; k < box_end(b, i); k++) {
		uint32_t chunk = chunk_at(b, k);

		if (k > b->first[i]) {
			ck_buf_text(out, n++ ? "," : "");
			rank_print(b->c,
				   ck_catalog_item(b->c, b->t->chunk + chunk),
				   out);
		}
		replicas_print(b, chunk, &n, out);
	}
	ck_buf_text(out, "]");
	return n;
}

static void all_copies_print(const struct boxes *b, struct ck_buf *out)
{
	size_t begin = out->len, n = 0;

	ck_buf_text(out, ",\"copies\":[");
	for (uint32_t i = 0; i < b->n; i++)
		n += copies_print(b, i, out);
	ck_buf_text(out, "]");
	if (n == 0 && !out->err)
		out->len = begin;
}

/* A tensor with a fault may have boxes that lie outside of it, or are not known. */
static bool boxes_are_known(const struct ck_tensor *t)
{
	uint64_t n = 2ULL * t->ndim * t->nchunks;

	for (uint64_t i = 0; i < n; i++)
		if (t->boxes[i] < 0)
			return false;
	return true;
}

void ck_html_layout_print(const struct ck_catalog *c, uint32_t tensor,
			  struct ck_buf *out)
{
	struct boxes b = { .c = c, .t = ck_catalog_tensor(c, tensor) };

	if (boxes_are_known(b.t))
		boxes_find(&b);
	ck_buf_text(out, "{\"shape\":");
	dims_print(out, b.t->shape, b.t->ndim);
	ck_buf_text(out, ",\"boxes\":[");
	if (b.n > CK_HTML_BOXES) {
		ck_buf_text(out, "],\"omitted\":");
		ck_buf_decimal(out, b.n);
		ck_buf_text(out, ",\"total\":");
		ck_buf_decimal(out, b.n);
		ck_buf_text(out, "}");
		return;
	}
	boxes_print(&b, out);
	ck_buf_text(out, "]");
	all_copies_print(&b, out);
	ck_buf_text(out, ",\"omitted\":0}");
}
