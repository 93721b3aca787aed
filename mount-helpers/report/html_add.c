/* SPDX-License-Identifier: MIT */
/*
 * html_add: the rows of one checkpoint, in steps: rows, aliases, faults, optimizers. No state beside
 * the structs.
 */
#include "base/system/process.h"
#include "html_data.h"
#include "html_json.h"
#include "html_layouts.h"
#include "tree/object.h"
#include "view/optim_states.h"

/* One checkpoint on its way into the data. */
struct adding {
	struct ck_html_data *d;
	struct ck_checkpoint *cp;
	const struct ck_catalog *c;
	uint32_t
		first; /* its first row: rows before it are of other checkpoints */
	uint32_t *row_of;   /* by tensor; CK_HTML_NO_ROW */
	struct ck_buf text; /* scratch */
};

static struct ck_str text_of(const struct ck_buf *b)
{
	return (struct ck_str){ b->data ? b->data : "", b->len };
}

/* --- rows ----------------------------------------------------------------------------------- */

static struct ck_str name_of(const void *arg, uint32_t number)
{
	const struct ck_html_data *d = arg;

	return d->rows[number].name;
}

/* Copies a text. The arena adds a terminator, so that an empty text has memory, too. */
static int text_copy(struct ck_html_data *d, struct ck_str from,
		     struct ck_str *to)
{
	*to = ck_arena_copy(&d->texts, from);
	return to->p ? 0 : -ENOMEM;
}

static int row_fill(struct adding *a, uint32_t tensor, struct ck_html_row *row)
{
	const struct ck_tensor *t = ck_catalog_tensor(a->c, tensor);
	struct ck_names names = ck_tensor_names(a->c, tensor);
	int rc;

	*row = (struct ck_html_row){ .alias = CK_HTML_NO_ROW,
				     .bytes = t->nbytes,
				     .tensor = tensor };
	rc = text_copy(a->d, names.name, &row->name);
	row->stem = row->name;
	if (rc == 0 && !ck_str_eq(names.stem, names.name))
		rc = text_copy(a->d, names.stem, &row->stem);
	if (rc == 0)
		rc = ck_texts_add(&a->d->dtypes, t->facts->dtype_name, true,
				  &row->dtype);
	a->text.len = 0;
	ck_html_layout_print(a->c, tensor, &a->text);
	if (rc == 0)
		rc = a->text.err;
	return rc ? rc
		  : ck_texts_add(&a->d->layouts, text_of(&a->text), true,
				 &row->layout);
}

static int row_add(struct adding *a, uint32_t tensor)
{
	struct ck_html_data *d = a->d;
	uint32_t at = ck_html_data_find(d, ck_tensor_names(a->c, tensor).name);
	struct ck_html_row *rows;
	int rc;

	a->row_of[tensor] = at;
	if (at != CK_HTML_NO_ROW)
		return 0;
	rows = ck_grow(d->rows, &d->rows_cap, d->n, 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	d->rows = rows;
	rc = row_fill(a, tensor, &rows[d->n]);
	if (rc)
		return rc;
	d->names.key = name_of;
	d->names.arg = d;
	d->n++;
	return ck_table_add(&d->names, rows[d->n - 1].name, d->n - 1,
			    &a->row_of[tensor]);
}

static int rows_add(struct adding *a)
{
	int rc = 0;

	for (uint32_t i = 0; i < a->c->tensors.n && rc == 0; i++) {
		a->row_of[i] = CK_HTML_NO_ROW;
		if (ck_tensor_is_whole(a->c, i))
			rc = row_add(a, i);
	}
	return rc;
}

/* Rows of other checkpoints keep the aliases that they have there. */
static void aliases_add(struct adding *a)
{
	for (uint32_t i = a->first; i < a->d->n; i++) {
		struct ck_html_row *row = &a->d->rows[i];
		uint32_t of = ck_tensor_alias_of(
			ck_catalog_tensor(a->c, row->tensor));

		if (of != CK_NO_TENSOR && a->row_of[of] >= a->first)
			row->alias = a->row_of[of];
	}
}

/* --- faults ----------------------------------------------------------------------------------- */

/* Adds a line about a fault that is not of a tensor. */
static int fault_list(struct adding *a, const struct ck_fault *f)
{
	struct ck_html_data *d = a->d;

	if (d->nfaults++ >= CK_HTML_FAULTS)
		return 0;
	a->text.len = 0;
	ck_fault_print(f, true, &a->text);
	ck_buf_text(&d->faults, d->faults.len ? ",\n" : "");
	ck_html_json_str(&d->faults, text_of(&a->text));
	return a->text.err ? a->text.err : d->faults.err;
}

/* Adds the n faults of one name. */
static int faults_add(struct adding *a, const struct ck_fault *f, size_t n)
{
	uint32_t at = f->name.p ? ck_html_data_find(a->d, f->name)
				: CK_HTML_NO_ROW;
	int rc = 0;

	if (at == CK_HTML_NO_ROW) {
		for (size_t i = 0; i < n && rc == 0; i++)
			rc = fault_list(a, &f[i]);
		return rc;
	}
	if (at < a->first)
		return 0;
	a->text.len = 0;
	ck_fault_print(f, false, &a->text);
	if (n > 1)
		ck_buf_printf(&a->text, "; and %zu more", n - 1);
	return a->text.err ? a->text.err
			   : ck_html_data_damage(a->d, at, text_of(&a->text));
}

/* Number of faults from the first one on that have its name and are damage. */
static size_t same_name(const struct ck_fault *f, size_t n)
{
	size_t i = 1;

	while (i < n && !f[i].is_warning && f[0].name.p && f[i].name.p &&
	       ck_str_eq(f[0].name, f[i].name))
		i++;
	return i;
}

static int damage_add(struct adding *a, struct ck_diag *d)
{
	const struct ck_check_options o = { .threads = ck_processors() };
	struct ck_findings found;
	int rc = ck_checkpoint_check(a->cp, &o, &found, d);
	size_t n;

	if (rc)
		return rc;
	for (size_t i = 0; i < found.n && rc == 0; i += n) {
		n = 1;
		if (found.faults[i].is_warning)
			continue;
		n = same_name(&found.faults[i], found.n - i);
		rc = faults_add(a, &found.faults[i], n);
	}
	ck_findings_fini(&found);
	for (uint32_t i = a->first; i < a->d->n; i++) {
		struct ck_html_row *row = &a->d->rows[i];

		if (row->alias != CK_HTML_NO_ROW && row->damage.len == 0)
			row->damage = a->d->rows[row->alias].damage;
	}
	return rc;
}

/* --- optimizers --------------------------------------------------------------------------------- */

static int state_add(void *arg, const struct ck_optim_state *s)
{
	struct adding *a = arg;
	struct ck_html_data *d = a->d;
	struct ck_html_state *all,
		new = { a->row_of[s->parameter], a->row_of[s->tensor], 0 };
	int rc;

	if (new.parameter == CK_HTML_NO_ROW || new.parameter < a->first ||
	    new.tensor == CK_HTML_NO_ROW)
		return 0;
	rc = ck_texts_add(&d->states, s->name, true, &new.name);
	if (rc)
		return rc;
	all = ck_grow(d->optimizer, &d->optimizer_cap, d->noptimizer, 1,
		      sizeof(*all));
	if (!all)
		return -ENOMEM;
	d->optimizer = all;
	all[d->noptimizer++] = new;
	return 0;
}

/* --- all ---------------------------------------------------------------------------------------- */

int ck_html_data_add(struct ck_html_data *data, struct ck_checkpoint *cp,
		     const struct ck_catalog *c, struct ck_diag *d)
{
	struct adding a = { .d = data,
			    .cp = cp,
			    .c = c,
			    .first = data->n,
			    .row_of = calloc(c->tensors.n + 1UL,
					     sizeof(*a.row_of)) };
	const struct ck_object_access objects = { cp, ck_object_record,
						  ck_object_print,
						  ck_object_pickle };
	int rc = a.row_of ? rows_add(&a) : -ENOMEM;

	if (rc == 0) {
		aliases_add(&a);
		rc = damage_add(&a, d);
	}
	if (rc == 0)
		rc = ck_optim_states_each(c, &objects, state_add, &a);
	ck_buf_fini(&a.text);
	free(a.row_of);
	return rc;
}
