/* SPDX-License-Identifier: MIT */
/* inspect_summary: what a user wants to know of a directory at first: how large
 * a model, in which dtypes, saved by how many ranks. */
#include "inspect_summary.h"
#include "ckptfs/json.h"
#include "model/catalog/items.h"

enum { DTYPES = 8 }; /* named at most */

/* --- counting --------------------------------------------------------------- */

int ck_summary_make(struct ck_checkpoint *cp, const struct ck_totals *dtypes,
		    size_t objects, struct ck_summary *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);

	*out = (struct ck_summary){
		.dtypes = dtypes,
		.objects = objects,
		.files = c->files.n,
		.dead_known = true,
	};
	for (size_t i = 0; i < dtypes->n; i++)
		ck_total_add(&out->all, &dtypes->rows[i]);
	if (ck_checkpoint_dead(cp, &out->dead))
		out->dead_known = false;
	return ck_catalog_count_ranks(c, &out->ranks);
}

/* --- for people --------------------------------------------------------------- */

static void print_scaled(struct ck_buf *out, uint64_t n, unsigned step,
			 const char *const units[4])
{
	double value = (double)n / step;
	int i = 0;

	for (; i < 3 && value >= step; i++)
		value /= step;
	ck_buf_printf(out, "%.2f %s", value, units[i]);
}

static void print_bytes(struct ck_buf *out, uint64_t n)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };

	if (n < 1024)
		ck_buf_printf(out, "%ju bytes", (uintmax_t)n);
	else
		print_scaled(out, n, 1024, units);
}

static void print_parameters(const struct ck_summary *s, struct ck_buf *out)
{
	static const char *const units[] = { "K", "M", "B", "T" };
	uint64_t n = s->all.parameters;

	if (n < 10000) {
		ck_buf_printf(out, "%ju parameters (", (uintmax_t)n);
	} else {
		print_scaled(out, n, 1000, units);
		ck_buf_text(out, " parameters (");
	}
	if (n >= 10000 || n != s->all.elements)
		ck_buf_printf(out, "%ju ", (uintmax_t)s->all.elements);
	ck_buf_printf(out, "elements of %ju tensor%s), ",
		      (uintmax_t)s->all.tensors,
		      s->all.tensors == 1 ? "" : "s");
}

static void print_dtypes(const struct ck_totals *t, struct ck_buf *out)
{
	size_t n = t->n > DTYPES ? DTYPES - 1 : t->n;

	for (size_t i = 0; i < n; i++) {
		ck_buf_text(out, ", ");
		ck_buf_escaped(out, t->rows[i].name);
		if (t->n == 1)
			continue;
		ck_buf_text(out, " ");
		print_bytes(out, t->rows[i].bytes);
	}
	if (n < t->n)
		ck_buf_printf(out, " and %zu dtypes more", t->n - n);
}

void ck_summary_print(const struct ck_summary *s, struct ck_buf *out)
{
	print_parameters(s, out);
	print_bytes(out, s->all.bytes);
	print_dtypes(s->dtypes, out);
	ck_buf_printf(out, "; ranks %zu, files %zu, dead bytes ", s->ranks,
		      s->files);
	if (!s->dead_known)
		ck_buf_text(out, "not known");
	else if (s->dead < 1024)
		ck_buf_printf(out, "%ju", (uintmax_t)s->dead);
	else
		print_bytes(out, s->dead);
	ck_buf_text(out, "\n");
}

/* --- for programs ------------------------------------------------------------- */

void ck_totals_print_json(const struct ck_totals *t, const char *list,
			  const char *name, struct ck_buf *out)
{
	ck_buf_printf(out, "\"%s\":[", list);
	for (size_t i = 0; i < t->n; i++) {
		ck_buf_printf(out, "%s{\"%s\":", i ? ",\n" : "\n", name);
		ck_buf_json_str(out, t->rows[i].name);
		ck_buf_text(out, ",");
		ck_total_print_json(&t->rows[i], out);
		ck_buf_text(out, "}");
	}
	ck_buf_text(out, "]");
}

void ck_summary_print_json(const struct ck_summary *s, struct ck_buf *out)
{
	ck_buf_printf(out, "\"parameters\":%ju,", (uintmax_t)s->all.parameters);
	ck_total_print_json(&s->all, out);
	ck_buf_printf(out, ",\"objects\":%zu,\"ranks\":%zu,\"files\":%zu,",
		      s->objects, s->ranks, s->files);
	if (s->dead_known)
		ck_buf_printf(out, "\"dead_bytes\":%ju,\n", (uintmax_t)s->dead);
	else
		ck_buf_text(out, "\"dead_bytes\":null,\n");
	ck_totals_print_json(s->dtypes, "dtypes", "dtype", out);
}
