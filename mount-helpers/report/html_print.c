/* SPDX-License-Identifier: MIT */
/*
 * html_print: the data of the page as JSON, a column for each fact. No state.
 */
#include "html_data.h"
#include "html_json.h"
#include "model/catalog/items.h"

enum { BINS_MOST = 255 }; /* of the largest bin */

/* --- the source ----------------------------------------------------------------------------- */

int ck_html_source_of(const struct ck_checkpoint *cp,
		      const struct ck_catalog *c, struct ck_html_source *out)
{
	*out = (struct ck_html_source){ .path = cp->path,
					.kind = c->kind,
					.why = cp->why };
	for (uint32_t i = 0; i < c->objects.n; i++)
		out->objects += ck_object_is_there(c, i) &&
				ck_catalog_object(c, i)->entry.role ==
					CK_ROLE_WHOLE;
	return ck_catalog_count_ranks(c, &out->ranks);
}

static void text_print(const char *before, const char *text, struct ck_buf *out)
{
	ck_buf_text(out, before);
	ck_html_json_str(out, ck_str_from(text ? text : ""));
}

static void source_print(const struct ck_html_source *s, struct ck_buf *out)
{
	text_print(",\n\"source\":{\"path\":", s->path, out);
	text_print(",\"kind\":", s->kind, out);
	text_print(",\"why\":", s->why, out);
	ck_buf_text(out, ",\"ranks\":");
	if (s->ranks)
		ck_buf_decimal(out, s->ranks);
	else
		ck_buf_text(out, "null");
	ck_buf_text(out, ",\"objects\":");
	ck_buf_decimal(out, s->objects);
	ck_buf_text(out, "}");
}

/* --- columns -------------------------------------------------------------------------------- */

/* Begins an element of a list or object. *n: elements before. */
static void next(size_t *n, struct ck_buf *out)
{
	/* Lines of a moderate length, for those who look at the page's source. */
	if (*n)
		ck_buf_text(out, *n % 64 ? "," : ",\n");
	++*n;
}

static void column_print(const struct ck_html_data *d, const char *name,
			 void (*print)(const struct ck_html_row *row,
				       struct ck_buf *out),
			 struct ck_buf *out)
{
	size_t n = 0;

	ck_buf_text(out, name);
	ck_buf_text(out, "[");
	for (uint32_t i = 0; i < d->n; i++) {
		next(&n, out);
		print(&d->rows[i], out);
	}
	ck_buf_text(out, "]");
}

/* Prints an object with a member for each row for which print() returns true, which prints the
 * value; the key is the number of the row. */
static void some_print(const struct ck_html_data *d, const char *name,
		       bool (*has)(const struct ck_html_row *row),
		       void (*print)(const struct ck_html_row *row,
				     struct ck_buf *out),
		       struct ck_buf *out)
{
	size_t n = 0;

	ck_buf_text(out, name);
	ck_buf_text(out, "{");
	for (uint32_t i = 0; i < d->n; i++) {
		if (!has(&d->rows[i]))
			continue;
		next(&n, out);
		ck_buf_text(out, "\"");
		ck_buf_decimal(out, i);
		ck_buf_text(out, "\":");
		print(&d->rows[i], out);
	}
	ck_buf_text(out, "}");
}

static void name_print(const struct ck_html_row *row, struct ck_buf *out)
{
	ck_html_json_str(out, row->name);
}

static bool has_stem(const struct ck_html_row *row)
{
	return !ck_str_eq(row->stem, row->name);
}

static void stem_print(const struct ck_html_row *row, struct ck_buf *out)
{
	ck_html_json_str(out, row->stem);
}

static void dtype_print(const struct ck_html_row *row, struct ck_buf *out)
{
	ck_buf_decimal(out, row->dtype);
}

static void layout_print(const struct ck_html_row *row, struct ck_buf *out)
{
	ck_buf_decimal(out, row->layout);
}

static void bytes_print(const struct ck_html_row *row, struct ck_buf *out)
{
	ck_buf_decimal(out, row->bytes);
}

static bool has_alias(const struct ck_html_row *row)
{
	return row->alias != CK_HTML_NO_ROW;
}

static void alias_print(const struct ck_html_row *row, struct ck_buf *out)
{
	ck_buf_decimal(out, row->alias);
}

static bool has_damage(const struct ck_html_row *row)
{
	return row->damage.len > 0;
}

static void damage_print(const struct ck_html_row *row, struct ck_buf *out)
{
	ck_html_json_str(out, row->damage);
}

/* --- values --------------------------------------------------------------------------------- */

static bool has_values(const struct ck_html_row *row)
{
	return row->figures && row->figures->has_values;
}

static bool has_finite(const struct ck_html_row *row)
{
	return has_values(row) && row->figures->finite > 0;
}

#define COUNT_PRINT(field)                                                     \
	static void field##_print(const struct ck_html_row *row,               \
				  struct ck_buf *out)                          \
	{                                                                      \
		if (has_values(row))                                           \
			ck_buf_decimal(out, row->figures->field);              \
		else                                                           \
			ck_buf_text(out, "null");                              \
	}
#define FIGURE_PRINT(field)                                                    \
	static void field##_print(const struct ck_html_row *row,               \
				  struct ck_buf *out)                          \
	{                                                                      \
		if (has_finite(row))                                           \
			ck_html_json_float(out, row->figures->field);          \
		else                                                           \
			ck_buf_text(out, "null");                              \
	}
COUNT_PRINT(n)
COUNT_PRINT(zeros)
COUNT_PRINT(nan)
COUNT_PRINT(inf)
FIGURE_PRINT(min)
FIGURE_PRINT(max)
FIGURE_PRINT(mean)
FIGURE_PRINT(deviation)
FIGURE_PRINT(norm)

static void bins_print(const struct ck_html_row *row, struct ck_buf *out)
{
	char bytes[CK_WIDE_BINS];
	uint64_t most = 0;

	if (!has_finite(row)) {
		ck_buf_text(out, "null");
		return;
	}
	for (size_t i = 0; i < CK_WIDE_BINS; i++)
		most = ck_max(most, row->figures->bins[i]);
	for (size_t i = 0; i < CK_WIDE_BINS; i++) {
		uint64_t n = row->figures->bins[i];
		double share = (double)n / (double)most * BINS_MOST;

		bytes[i] =
			(char)(uint8_t)(n ? ck_max(1, (uint64_t)(share + 0.5))
					  : 0);
	}
	ck_buf_text(out, "\"");
	ck_buf_base64(out, (struct ck_str){ bytes, sizeof(bytes) });
	ck_buf_text(out, "\"");
}

static void stats_print(const struct ck_html_data *d, struct ck_buf *out)
{
	column_print(d, ",\n\"stats\":{\"count\":", n_print, out);
	column_print(d, ",\n\"min\":", min_print, out);
	column_print(d, ",\n\"max\":", max_print, out);
	column_print(d, ",\n\"mean\":", mean_print, out);
	column_print(d, ",\n\"std\":", deviation_print, out);
	column_print(d, ",\n\"norm\":", norm_print, out);
	column_print(d, ",\n\"zeros\":", zeros_print, out);
	column_print(d, ",\n\"nan\":", nan_print, out);
	column_print(d, ",\n\"inf\":", inf_print, out);
	column_print(d, ",\n\"bins\":", bins_print, out);
	ck_buf_text(out, "}");
}

/* --- the rest ------------------------------------------------------------------------------- */

static void dtypes_print(const struct ck_html_data *d, struct ck_buf *out)
{
	ck_buf_text(out, ",\n\"dtypes\":[");
	for (uint32_t i = 0; i < d->dtypes.n; i++) {
		ck_buf_text(out, i ? "," : "");
		ck_html_json_str(out, d->dtypes.all[i]);
	}
	ck_buf_text(out, "],\n\"layouts\":[");
	for (uint32_t i = 0; i < d->layouts.n; i++) {
		ck_buf_text(out, i ? ",\n" : "");
		ck_buf_str(out, d->layouts.all[i]);
	}
	ck_buf_text(out, "]");
}

/* The states of a parameter are neighbours. A second optimizer may have the same name for another
 * tensor: the first one counts. */
static void optimizer_print(const struct ck_html_data *d, struct ck_buf *out)
{
	const struct ck_html_state *before = NULL;
	size_t n = 0;

	ck_buf_text(out, ",\n\"optimizer\":{");
	for (size_t i = 0; i < d->noptimizer; i++) {
		const struct ck_html_state *s = &d->optimizer[i];
		bool is_new = !before || before->parameter != s->parameter;

		if (!is_new && before->name == s->name)
			continue;
		if (is_new) {
			ck_buf_text(out, before ? "}" : "");
			next(&n, out);
			ck_buf_text(out, "\"");
			ck_buf_decimal(out, s->parameter);
			ck_buf_text(out, "\":{");
		} else {
			ck_buf_text(out, ",");
		}
		ck_html_json_str(out, d->states.all[s->name]);
		ck_buf_text(out, ":");
		ck_buf_decimal(out, s->tensor);
		before = s;
	}
	ck_buf_text(out, before ? "}}" : "}");
}

static void faults_print(const struct ck_html_data *d, struct ck_buf *out)
{
	ck_buf_text(out, ",\n\"faults\":[");
	ck_buf_str(out, (struct ck_str){ d->faults.data ? d->faults.data : "",
					 d->faults.len });
	if (d->nfaults > CK_HTML_FAULTS)
		ck_buf_printf(out, ",\"and %zu more\"",
			      d->nfaults - CK_HTML_FAULTS);
	ck_buf_text(out, "]");
}

void ck_html_data_print(const struct ck_html_data *d,
			const struct ck_html_source *s,
			void (*more)(void *arg, struct ck_buf *out), void *arg,
			struct ck_buf *out)
{
	ck_buf_text(out, "{\"version\":1,\"program\":\"" CK_VERSION "\"");
	source_print(s, out);
	ck_buf_text(out, d->has_values ? ",\n\"values\":true"
				       : ",\n\"values\":false");
	dtypes_print(d, out);
	column_print(d, ",\n\"names\":", name_print, out);
	some_print(d, ",\n\"stems\":", has_stem, stem_print, out);
	column_print(d, ",\n\"dtype\":", dtype_print, out);
	column_print(d, ",\n\"layout\":", layout_print, out);
	column_print(d, ",\n\"bytes\":", bytes_print, out);
	some_print(d, ",\n\"alias\":", has_alias, alias_print, out);
	some_print(d, ",\n\"damage\":", has_damage, damage_print, out);
	optimizer_print(d, out);
	faults_print(d, out);
	if (d->has_values)
		stats_print(d, out);
	if (more)
		more(arg, out);
	ck_buf_text(out, "}\n");
}
