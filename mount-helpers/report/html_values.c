/* SPDX-License-Identifier: MIT */
/*
 * html_values: lists the rows that are no aliases, reads their tensors in one pass, and gives aliases
 * the figures of the rows whose memory they share. No state beside the struct.
 */
#include "html_values.h"

static bool is_own(const struct ck_html_row *row)
{
	return row->alias == CK_HTML_NO_ROW;
}

uint64_t ck_html_values_bytes(const struct ck_html_data *d,
			      const struct ck_pass_source *from, uint32_t first)
{
	uint64_t bytes = 0;

	for (uint32_t i = first; i < d->n; i++)
		if (is_own(&d->rows[i]))
			bytes += ck_pass_tensor_bytes(from->c,
						      d->rows[i].tensor);
	return bytes;
}

/* Adds a list with an element for each row that is no alias. NULL if out of memory. */
static struct ck_figured *list_add(struct ck_html_values *v,
				   const struct ck_html_data *d, uint32_t first,
				   size_t *n)
{
	struct ck_figured *list = calloc(d->n - first + 1UL, sizeof(*list));
	struct ck_figured **lists = ck_grow(v->lists, &v->cap, v->n, 1,
					    sizeof(struct ck_figured *));

	*n = 0;
	if (lists)
		v->lists = lists;
	if (!list || !lists) {
		free(list);
		return NULL;
	}
	for (uint32_t i = first; i < d->n; i++)
		if (is_own(&d->rows[i]))
			list[(*n)++].tensor = d->rows[i].tensor;
	lists[v->n++] = list;
	return list;
}

/* Marks a row that cannot be read, if no line says so yet. */
static int damage_add(struct ck_html_data *d, uint32_t row,
		      const struct ck_pass_source *from,
		      const struct ck_figured *f)
{
	const struct ck_picked_source source = { .from = *from };
	struct ck_buf line = { 0 };
	int rc;

	if (d->rows[row].damage.len)
		return 0;
	ck_picked_source_fault(&source, f->tensor, f->err, &line);
	rc = line.err;
	if (rc == 0)
		rc = ck_html_data_damage(
			d, row, (struct ck_str){ line.data, line.len });
	ck_buf_fini(&line);
	return rc;
}

static int rows_fill(struct ck_html_data *d, const struct ck_pass_source *from,
		     uint32_t first, const struct ck_figured *f)
{
	int rc = 0;

	for (uint32_t i = first; i < d->n && rc == 0; i++) {
		if (!is_own(&d->rows[i]))
			continue;
		if (f->err)
			rc = damage_add(d, i, from, f);
		else
			d->rows[i].figures = &f->figures;
		f++;
	}
	for (uint32_t i = first; i < d->n && rc == 0; i++) {
		struct ck_html_row *row = &d->rows[i];

		if (is_own(row))
			continue;
		row->figures = d->rows[row->alias].figures;
		if (row->damage.len == 0)
			row->damage = d->rows[row->alias].damage;
	}
	return rc;
}

int ck_html_values_add(struct ck_html_values *v, struct ck_html_data *d,
		       const struct ck_pass_source *from, uint32_t first,
		       struct ck_progress *progress)
{
	const struct ck_figures_options o = { .progress = ck_pass_progress_add,
					      .arg = progress };
	size_t n;
	struct ck_figured *list = list_add(v, d, first, &n);
	int rc = list ? ck_figures_compute(from, list, n, &o) : -ENOMEM;

	d->has_values = true;
	return rc ? rc : rows_fill(d, from, first, list);
}

void ck_html_values_fini(struct ck_html_values *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->lists[i]);
	free(v->lists);
}
