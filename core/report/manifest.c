/* SPDX-License-Identifier: MIT */
/*
 * manifest: parses a manifest, and compares it with a catalog by a table of its names. A
 * manifest is constant after it was parsed; any thread.
 */
#include "manifest.h"
#include "ckptfs/json.h"
#include "ckptfs/table.h"
#include "syntax/json_reader.h"

#include <errno.h>
#include <inttypes.h>

struct row {
	struct ck_str name, dtype; /* dtype.p NULL: any */
	size_t shape;		   /* index of its first size in `sizes` */
	uint32_t ndim;		   /* ANY_SHAPE: any */
	bool has_name;		   /* while it is read */
};

enum { ANY_SHAPE = UINT16_MAX };

struct ck_manifest {
	struct row *rows;
	size_t n, cap;
	int64_t *sizes;
	size_t nsizes, sizes_cap;
	struct ck_table by_name;
	struct ck_json_reader json; /* owns names with escapes */
	struct ck_buf text;	    /* owns the others */
};

/* --- parsing -------------------------------------------------------------------------- */

static struct ck_str name_of(const void *arg, uint32_t i)
{
	return ((const struct ck_manifest *)arg)->rows[i].name;
}

static int shape_take(struct ck_manifest *m, const struct ck_json_value *list,
		      struct row *row)
{
	struct ck_json_value v;
	int rc = 0;

	if (list->type != CK_JSON_ARRAY)
		return ck_json_refuse(&m->json, list,
				      "expected a list of sizes");
	row->shape = m->nsizes;
	row->ndim = 0;
	while (rc == 0 && (rc = ck_json_next(&m->json, &v)) == 0 &&
	       v.type != CK_JSON_END) {
		int64_t *sizes = ck_grow(m->sizes, &m->sizes_cap, m->nsizes, 1,
					 sizeof(*sizes));
		uint64_t size;

		if (!sizes)
			return -ENOMEM;
		m->sizes = sizes;
		if (!ck_json_u63(&v, &size) || row->ndim == ANY_SHAPE - 1)
			return ck_json_refuse(&m->json, &v, "expected a size");
		m->sizes[m->nsizes++] = (int64_t)size;
		row->ndim++;
	}
	return rc;
}

/* Takes a member of the object of a tensor. Names are members "fqn" in a list. */
static int member_take(struct ck_manifest *m, const struct ck_json_value *v,
		       struct row *row, bool in_list)
{
	bool is_name = in_list && ck_str_is(v->key, "fqn");

	if (ck_str_is(v->key, "shape"))
		return shape_take(m, v, row);
	if (!is_name && !ck_str_is(v->key, "dtype"))
		return ck_json_skip(&m->json, v);
	row->has_name |= is_name;
	if (v->type != CK_JSON_STRING && is_name) /* {"$str": ...} */
		return ck_json_skip(&m->json, v);
	if (v->type != CK_JSON_STRING)
		return ck_json_refuse(&m->json, v, "expected a string");
	if (is_name)
		row->name = v->text;
	else
		row->dtype = v->text;
	if (!is_name && ck_str_starts(v->text, CK_STR("torch.")))
		row->dtype = (struct ck_str){ v->text.p + 6, v->text.len - 6 };
	return 0;
}

static int row_add(struct ck_manifest *m, const struct row *row,
		   const struct ck_json_value *at)
{
	struct row *rows = ck_grow(m->rows, &m->cap, m->n, 1, sizeof(*rows));
	uint32_t first;

	if (!rows || m->n >= UINT32_MAX)
		return -ENOMEM;
	m->rows = rows;
	rows[m->n] = *row;
	if (ck_table_add(&m->by_name, row->name, (uint32_t)m->n, &first))
		return -ENOMEM;
	if (first != m->n)
		return ck_json_refuse(&m->json, at, "a name occurs twice");
	m->n++;
	return 0;
}

/* Takes the object of a tensor that `at` begins. */
static int tensor_take(struct ck_manifest *m, const struct ck_json_value *at)
{
	struct row row = { .name = at->key,
			   .has_name = at->key.p,
			   .ndim = ANY_SHAPE };
	struct ck_json_value v;
	int rc = 0;

	if (at->type != CK_JSON_OBJECT)
		return ck_json_refuse(&m->json, at,
				      "expected an object with shape and "
				      "dtype");
	while (rc == 0 && (rc = ck_json_next(&m->json, &v)) == 0 &&
	       v.type != CK_JSON_END)
		rc = member_take(m, &v, &row, at->key.p == NULL);
	if (rc == 0 && !row.has_name)
		return ck_json_refuse(&m->json, at, "expected a member fqn");
	/* Names that are not Unicode are not compared. */
	return rc || !row.name.p ? rc : row_add(m, &row, at);
}

static int tensors_take(struct ck_manifest *m, const struct ck_json_value *all)
{
	struct ck_json_value v;
	int rc = 0;

	if (all->type != CK_JSON_OBJECT && all->type != CK_JSON_ARRAY)
		return ck_json_refuse(&m->json, all,
				      "expected an object or list of tensors");
	while (rc == 0 && (rc = ck_json_next(&m->json, &v)) == 0 &&
	       v.type != CK_JSON_END)
		rc = tensor_take(m, &v);
	return rc;
}

static int text_take(struct ck_manifest *m)
{
	struct ck_json_value v, top;
	bool found = false;
	int rc = ck_json_next(&m->json, &top);

	if (rc == 0 && top.type != CK_JSON_OBJECT)
		return ck_json_refuse(&m->json, &top, "expected an object");
	while (rc == 0 && (rc = ck_json_next(&m->json, &v)) == 0 &&
	       v.type != CK_JSON_END) {
		bool tensors = ck_str_is(v.key, "tensors");

		found |= tensors;
		rc = tensors ? tensors_take(m, &v) : ck_json_skip(&m->json, &v);
	}
	if (rc == 0)
		rc = ck_json_next(&m->json, &v); /* the end of the text */
	if (rc == 0 && !found)
		rc = ck_json_refuse(&m->json, &top, "no member \"tensors\"");
	return rc;
}

int ck_manifest_parse(struct ck_buf *text, struct ck_manifest **out,
		      struct ck_diag *d)
{
	struct ck_manifest *m = calloc(1, sizeof(*m));
	int rc;

	if (!m) {
		ck_buf_fini(text);
		return ck_fail(d, ENOMEM, "out of memory");
	}
	m->text = *text;
	*text = (struct ck_buf){ 0 };
	m->by_name = (struct ck_table){ .key = name_of, .arg = m };
	ck_json_reader_init(&m->json,
			    (struct ck_str){ m->text.data, m->text.len }, d);
	rc = text_take(m);
	if (rc == -ENOMEM)
		(void)ck_fail(d, ENOMEM, "out of memory");
	if (rc)
		ck_manifest_free(m);
	else
		*out = m;
	return rc;
}

void ck_manifest_free(struct ck_manifest *m)
{
	if (!m)
		return;
	ck_table_fini(&m->by_name);
	ck_json_reader_fini(&m->json);
	ck_buf_fini(&m->text);
	free(m->rows);
	free(m->sizes);
	free(m);
}

/* --- differences ---------------------------------------------------------------------- */

static int strict_add(struct ck_strict *s, struct ck_strict_row row)
{
	struct ck_strict_row *rows = ck_grow(s->rows, &s->cap, s->n, 1,
					     sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	s->rows = rows;
	rows[s->n++] = row;
	return 0;
}

static bool is_as_expected(const struct ck_manifest *m, const struct row *row,
			   const struct ck_tensor *t)
{
	if (row->dtype.p && !ck_str_eq(row->dtype, t->facts->dtype_name))
		return false;
	if (row->ndim == ANY_SHAPE)
		return true;
	return row->ndim == t->ndim &&
	       (t->ndim == 0 || memcmp(m->sizes + row->shape, t->shape,
				       t->ndim * sizeof(*t->shape)) == 0);
}

/* Compares a tensor of the catalog, and marks its row of the manifest. */
static int tensor_compare(const struct ck_catalog *c,
			  const struct ck_manifest *m, uint32_t tensor,
			  bool *found, struct ck_strict *out)
{
	struct ck_strict_row row = {
		.name = ck_tensor_names(c, tensor).name,
		.kind = CK_STRICT_UNEXPECTED,
		.tensor = tensor,
	};
	int64_t i = ck_table_find(&m->by_name, row.name);

	if (i < 0 && !ck_utf8_valid(row.name))
		return 0; /* a manifest cannot name it */
	if (i < 0)
		return strict_add(out, row);
	found[i] = true;
	if (is_as_expected(m, &m->rows[i], ck_catalog_tensor(c, tensor)))
		return 0;
	row.kind = CK_STRICT_MISMATCHED;
	row.expected = (uint32_t)i;
	return strict_add(out, row);
}

static int row_cmp(const void *a, const void *b)
{
	return ck_str_natural_cmp(((const struct ck_strict_row *)a)->name,
				  ((const struct ck_strict_row *)b)->name);
}

int ck_strict_find(const struct ck_catalog *c, const struct ck_manifest *m,
		   struct ck_strict *out)
{
	ck_auto_free bool *found = calloc(m->n + 1, sizeof(*found));
	int rc = found ? 0 : -ENOMEM;

	*out = (struct ck_strict){ 0 };
	for (uint32_t i = 0; rc == 0 && i < c->tensors.n; i++)
		if (ck_tensor_is_whole(c, i))
			rc = tensor_compare(c, m, i, found, out);
	for (uint32_t i = 0; rc == 0 && i < m->n; i++)
		if (!found[i] &&
		    ck_selection_has(c->listing->selection, m->rows[i].name))
			rc = strict_add(out, (struct ck_strict_row){
						     .name = m->rows[i].name,
						     .kind = CK_STRICT_MISSING,
						     .expected = i });
	if (out->n)
		qsort(out->rows, out->n, sizeof(*out->rows), row_cmp);
	return rc;
}

int ck_strict_require(const struct ck_catalog *c, const struct ck_manifest *m,
		      struct ck_diag *d)
{
	size_t n[CK_STRICT_MISMATCHED + 1] = { 0 };
	struct ck_strict s;
	int rc = ck_strict_find(c, m, &s);

	for (size_t i = 0; i < s.n; i++)
		n[s.rows[i].kind]++;
	if (rc)
		(void)ck_fail(d, ENOMEM, "out of memory");
	else if (s.n)
		rc = ck_fail(d, EBADMSG,
			     "differs from the manifest: %zu tensors are "
			     "missing, %zu unexpected, %zu have another dtype "
			     "or shape; the first is %s",
			     n[CK_STRICT_MISSING], n[CK_STRICT_UNEXPECTED],
			     n[CK_STRICT_MISMATCHED], ck_show(s.rows[0].name));
	free(s.rows);
	return rc;
}

/* --- as text -------------------------------------------------------------------------- */

void ck_strict_print_expected(const struct ck_manifest *m, uint32_t row,
			      struct ck_buf *out)
{
	const struct row *r = &m->rows[row];

	ck_buf_text(out, "{");
	if (r->dtype.p) {
		ck_buf_text(out, "\"dtype\":");
		ck_buf_json_str(out, r->dtype);
	}
	if (r->ndim != ANY_SHAPE) {
		ck_buf_text(out, r->dtype.p ? ",\"shape\":" : "\"shape\":");
		ck_dims_print(out, m->sizes + r->shape, r->ndim);
	}
	ck_buf_text(out, "}");
}

void ck_strict_print_found(const struct ck_catalog *c, uint32_t tensor,
			   struct ck_buf *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);

	ck_buf_text(out, "{\"dtype\":");
	ck_buf_json_str(out, t->facts->dtype_name);
	ck_buf_text(out, ",\"shape\":");
	ck_dims_print(out, t->shape, t->ndim);
	ck_buf_text(out, "}");
}

static void names_print(const struct ck_strict *s, enum ck_strict_kind kind,
			struct ck_buf *out)
{
	bool first = true;

	for (size_t i = 0; i < s->n; i++) {
		if (s->rows[i].kind != kind)
			continue;
		ck_buf_text(out, first ? "\n" : ",\n");
		ck_buf_json_str(out, s->rows[i].name);
		first = false;
	}
}

static void mismatches_print(const struct ck_catalog *c,
			     const struct ck_manifest *m,
			     const struct ck_strict *s, struct ck_buf *out)
{
	bool first = true;

	for (size_t i = 0; i < s->n; i++) {
		const struct ck_strict_row *row = &s->rows[i];

		if (row->kind != CK_STRICT_MISMATCHED)
			continue;
		ck_buf_text(out, first ? "\n{\"fqn\":" : ",\n{\"fqn\":");
		ck_buf_json_str(out, row->name);
		ck_buf_text(out, ",\"expected\":");
		ck_strict_print_expected(m, row->expected, out);
		ck_buf_text(out, ",\"found\":");
		ck_strict_print_found(c, row->tensor, out);
		ck_buf_text(out, "}");
		first = false;
	}
}

void ck_strict_report(const struct ck_catalog *c, const struct ck_manifest *m,
		      struct ck_buf *out)
{
	struct ck_strict s;

	if (ck_strict_find(c, m, &s))
		out->err = -ENOMEM;
	ck_buf_text(out, "{\"missing_keys\":[");
	names_print(&s, CK_STRICT_MISSING, out);
	ck_buf_text(out, "],\n\"unexpected_keys\":[");
	names_print(&s, CK_STRICT_UNEXPECTED, out);
	ck_buf_text(out, "],\n\"mismatched\":[");
	mismatches_print(c, m, &s, out);
	ck_buf_text(out, "]}\n");
	free(s.rows);
}
