/* SPDX-License-Identifier: MIT */
/*
 * report: prints tensors.csv and tensors.jsonl, in natural order of the shown
 * names. No state beside the catalog; any thread.
 */
#include "ckptfs/report.h"
#include "ckptfs/json.h"

#include <errno.h>
#include <inttypes.h>

/* Maximum number of names in a list in one line. */
enum { NAMES = 6 };

/* --- order ------------------------------------------------------------------ */

static struct ck_str name_of(const struct ck_catalog *c, uint32_t entry)
{
	return ck_entry_names(c, entry).name;
}

static int name_cmp(const void *a, const void *b, void *catalog)
{
	return ck_str_natural_cmp(name_of(catalog, *(const uint32_t *)a),
				  name_of(catalog, *(const uint32_t *)b));
}

static struct ck_str tensor_name(const struct ck_catalog *c, uint32_t tensor)
{
	return ck_tensor_names(c, tensor).name;
}

static int tensor_cmp(const void *a, const void *b, void *catalog)
{
	return ck_str_natural_cmp(tensor_name(catalog, *(const uint32_t *)a),
				  tensor_name(catalog, *(const uint32_t *)b));
}

/* Sorts a list, unless it is in order: most checkpoints are. */
static void sort(const struct ck_catalog *c, uint32_t *list, size_t n,
		 int (*cmp)(const void *a, const void *b, void *catalog))
{
	union {
		const struct ck_catalog *c;
		void *arg;
	} catalog = { .c = c };

	size_t i = 1;

	while (i < n && cmp(&list[i - 1], &list[i], catalog.arg) <= 0)
		i++;
	if (i < n)
		qsort_r(list, n, sizeof(*list), cmp, catalog.arg);
}

uint32_t *ck_report_order(const struct ck_catalog *c)
{
	uint32_t *order = calloc(c->listing->n + 1, sizeof(*order));

	if (!order)
		return NULL;
	for (uint32_t i = 0; i < c->listing->n; i++)
		order[i] = i;
	sort(c, order, c->listing->n, name_cmp);
	return order;
}

void ck_report_sort(const struct ck_catalog *c, uint32_t *tensors, size_t n)
{
	sort(c, tensors, n, tensor_cmp);
}

void ck_report_prefixed(const struct ck_catalog *c, struct ck_buf *out)
{
	size_t n = c->listing->nprefixed > NAMES ? NAMES - 1
						 : c->listing->nprefixed;
	ck_auto_free uint32_t *list = calloc(c->listing->nprefixed + 1,
					     sizeof(*list));

	if (!list) {
		out->err = -ENOMEM;
		return;
	}
	if (c->listing->nprefixed)
		memcpy(list, c->listing->prefixed,
		       c->listing->nprefixed * sizeof(*list));
	sort(c, list, c->listing->nprefixed, name_cmp);
	for (size_t i = 0; i < n; i++) {
		struct ck_buf name = { 0 };

		ck_buf_escaped(&name, name_of(c, list[i]));
		ck_buf_text(out, i ? ", " : "");
		ck_buf_listed(out, (struct ck_str){ name.data, name.len });
		ck_buf_fini(&name);
	}
	if (n < c->listing->nprefixed)
		ck_buf_printf(out, " and %zu more", c->listing->nprefixed - n);
}

/* Calls print for each tensor in that order. */
static void tensors_print(const struct ck_catalog *c,
			  void (*print)(const struct ck_catalog *c,
					uint32_t tensor, struct ck_buf *out),
			  struct ck_buf *out)
{
	ck_auto_free uint32_t *order = ck_report_order(c);

	if (!order)
		out->err = -ENOMEM;
	for (size_t i = 0; order && i < c->listing->n; i++)
		if (!c->listing->entries[order[i]].is_object &&
		    ck_tensor_is_whole(c, c->listing->entries[order[i]].i))
			print(c, c->listing->entries[order[i]].i, out);
}

/* --- csv -------------------------------------------------------------------- */

/* Prints one field as in RFC 4180, quoted if necessary. */
static void field_print(struct ck_buf *out, struct ck_str s)
{
	bool plain = true;

	for (size_t i = 0; i < s.len; i++)
		plain &= !memchr("\",\r\n", s.p[i], 4);
	if (plain) {
		ck_buf_str(out, s);
		return;
	}
	ck_buf_text(out, "\"");
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] == '"')
			ck_buf_text(out, "\"");
		ck_buf_add(out, s.p + i, 1);
	}
	ck_buf_text(out, "\"");
}

void ck_report_tensor_csv(const struct ck_catalog *c, uint32_t tensor,
			  struct ck_buf *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	struct ck_buf shape = { 0 }, dtype = { 0 };

	ck_dims_print(&shape, t->shape, t->ndim);
	/* The name of an unknown dtype can be any bytes; escape for
	 * terminals. */
	ck_buf_escaped(&dtype, t->facts->dtype_name);
	field_print(out, ck_tensor_names(c, t->entry.number).stem);
	ck_buf_text(out, ",");
	field_print(out, (struct ck_str){ dtype.data, dtype.len });
	ck_buf_text(out, ",");
	field_print(out, (struct ck_str){ shape.data, shape.len });
	ck_buf_printf(out, ",%" PRIu64 ",%" PRIu32 ",%s\n", t->nbytes,
		      t->nchunks, ck_tensor_kind_name(t->kind));
	if (shape.err || dtype.err)
		out->err = -ENOMEM;
	ck_buf_fini(&shape);
	ck_buf_fini(&dtype);
}

void ck_report_csv(const struct ck_catalog *c, struct ck_buf *out)
{
	ck_buf_text(out, CK_REPORT_CSV_HEADER);
	tensors_print(c, ck_report_tensor_csv, out);
}

/* --- json ------------------------------------------------------------------- */

static void json_field(struct ck_buf *out, const char *before, struct ck_str s)
{
	ck_buf_text(out, before);
	ck_buf_json_str(out, s);
}

static void box_print(const struct ck_catalog *c, const struct ck_tensor *t,
		      uint32_t i, const struct ck_report_boxes *boxes,
		      struct ck_buf *out)
{
	const struct ck_item *chunk = ck_catalog_item(c, t->chunk + i);
	const int64_t *box = ck_tensor_box(t, i);

	ck_buf_text(out, i ? ",{\"offset\":" : "{\"offset\":");
	ck_dims_print(out, box, t->ndim);
	ck_buf_text(out, ",\"size\":");
	ck_dims_print(out, box + t->ndim, t->ndim);
	if (chunk->file < c->files.n)
		json_field(out,
			   ",\"file\":", ck_catalog_file(c, chunk->file)->path);
	else
		ck_buf_text(out, ",\"file\":null");
	ck_buf_printf(out, ",\"pos\":%" PRIu64 ",\"length\":%" PRIu64,
		      chunk->fpos, chunk->length);
	if (boxes->more)
		boxes->more(boxes->arg, chunk, out);
	ck_buf_text(out, "}");
}

static void boxes_print(const struct ck_catalog *c, const struct ck_tensor *t,
			const struct ck_report_boxes *boxes, struct ck_buf *out)
{
	int64_t grid[CK_MAX_DIMS];
	int rc = ck_report_grid(t, grid);

	ck_buf_text(out, ",\"grid\":");
	if (rc == 0)
		ck_dims_print(out, grid, t->ndim);
	else
		ck_buf_text(out, "null");
	if (rc == -ENOMEM)
		out->err = rc;
	ck_buf_text(out, ",\"boxes\":[");
	for (uint32_t i = 0; i < t->nchunks; i++)
		box_print(c, t, i, boxes, out);
	ck_buf_text(out, "]");
}

void ck_report_tensor_json(const struct ck_catalog *c, uint32_t tensor,
			   const struct ck_report_boxes *boxes,
			   struct ck_buf *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	struct ck_str name = ck_tensor_names(c, t->entry.number).name;
	struct ck_str key = t->entry.key;

	json_field(out, "{\"fqn\":", name);
	json_field(out, ",\"stem\":", ck_tensor_names(c, t->entry.number).stem);
	json_field(out, ",\"dtype\":", t->facts->dtype_name);
	ck_buf_text(out, ",\"shape\":");
	ck_dims_print(out, t->shape, t->ndim);
	ck_buf_printf(out,
		      ",\"bytes\":%" PRIu64 ",\"chunks\":%" PRIu32
		      ",\"kind\":\"%s\"",
		      t->nbytes, t->nchunks, ck_tensor_kind_name(t->kind));
	if (!ck_str_eq(key, name))
		json_field(out, ",\"raw_key\":", key);
	if (ck_tensor_alias_of(t) != CK_NO_TENSOR)
		json_field(out, ",\"alias_of\":",
			   ck_tensor_names(c, ck_tensor_alias_of(t)).name);
	if (boxes)
		boxes_print(c, t, boxes, out);
	ck_buf_text(out, "}");
}

static void line_print(const struct ck_catalog *c, uint32_t tensor,
		       struct ck_buf *out)
{
	ck_report_tensor_json(c, tensor, NULL, out);
	ck_buf_text(out, "\n");
}

void ck_report_jsonl(const struct ck_catalog *c, struct ck_buf *out)
{
	tensors_print(c, line_print, out);
}
