/* SPDX-License-Identifier: MIT */
/*
 * html_data: the rows and their order. No state beside the struct.
 */
#include "html_data.h"

void ck_html_data_fini(struct ck_html_data *d)
{
	free(d->rows);
	free(d->optimizer);
	ck_texts_fini(&d->dtypes);
	ck_texts_fini(&d->states);
	ck_texts_fini(&d->layouts);
	ck_table_fini(&d->names);
	ck_buf_fini(&d->faults);
	ck_arena_fini(&d->texts);
	*d = (struct ck_html_data){ 0 };
}

uint32_t ck_html_data_find(const struct ck_html_data *d, struct ck_str name)
{
	int64_t at = ck_table_find(&d->names, name);

	return at < 0 ? CK_HTML_NO_ROW : (uint32_t)at;
}

int ck_html_data_damage(struct ck_html_data *d, uint32_t row,
			struct ck_str line)
{
	struct ck_str copy = ck_arena_copy(&d->texts, line);

	if (!copy.p)
		return -ENOMEM;
	d->rows[row].damage = copy;
	return 0;
}

/* --- order ---------------------------------------------------------------------------------- */

static int row_cmp(const void *a, const void *b, void *rows)
{
	const struct ck_html_row *all = rows;

	return ck_str_natural_cmp(all[*(const uint32_t *)a].name,
				  all[*(const uint32_t *)b].name);
}

static int state_cmp(const void *a, const void *b, void *states)
{
	const struct ck_html_state *x = a, *y = b;
	const struct ck_texts *names = states;

	if (x->parameter != y->parameter)
		return x->parameter < y->parameter ? -1 : 1;
	return ck_str_natural_cmp(names->all[x->name], names->all[y->name]);
}

/* Puts the rows into an order. place: scratch, d->n numbers. */
static int rows_move(struct ck_html_data *d, const uint32_t *order,
		     uint32_t *place)
{
	struct ck_html_row *rows = malloc((d->n + 1UL) * sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < d->n; i++) {
		rows[i] = d->rows[order[i]];
		place[order[i]] = i;
	}
	for (uint32_t i = 0; i < d->n; i++)
		if (rows[i].alias != CK_HTML_NO_ROW)
			rows[i].alias = place[rows[i].alias];
	for (size_t i = 0; i < d->noptimizer; i++) {
		struct ck_html_state *s = &d->optimizer[i];

		s->parameter = place[s->parameter];
		s->tensor = place[s->tensor];
	}
	free(d->rows);
	d->rows = rows;
	d->rows_cap = d->n + 1UL;
	return 0;
}

static int names_make(struct ck_html_data *d)
{
	struct ck_table table = { .key = d->names.key, .arg = d };
	uint32_t number;
	int rc = 0;

	ck_table_fini(&d->names);
	d->names = table;
	for (uint32_t i = 0; i < d->n && rc == 0; i++)
		rc = ck_table_add(&d->names, d->rows[i].name, i, &number);
	return rc;
}

static bool is_sorted(const struct ck_html_data *d)
{
	for (uint32_t i = 1; i < d->n; i++)
		if (ck_str_natural_cmp(d->rows[i - 1].name, d->rows[i].name) >
		    0)
			return false;
	return true;
}

static int rows_sort(struct ck_html_data *d)
{
	ck_auto_free uint32_t *order = calloc(d->n + 1UL, sizeof(*order));
	ck_auto_free uint32_t *place = calloc(d->n + 1UL, sizeof(*place));
	int rc;

	if (!order || !place)
		return -ENOMEM;
	for (uint32_t i = 0; i < d->n; i++)
		order[i] = i;
	if (d->n)
		qsort_r(order, d->n, sizeof(*order), row_cmp, d->rows);
	rc = rows_move(d, order, place);
	return rc ? rc : names_make(d);
}

int ck_html_data_sort(struct ck_html_data *d)
{
	int rc = is_sorted(d) ? 0 : rows_sort(d);

	if (rc == 0 && d->noptimizer)
		qsort_r(d->optimizer, d->noptimizer, sizeof(*d->optimizer),
			state_cmp, &d->states);
	return rc;
}
