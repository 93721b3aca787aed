/* SPDX-License-Identifier: MIT */
/*
 * report_run: rows are added while the curves are made, from the newest step to the oldest one. The
 * state is that of the struct.
 */
#include "report_run.h"
#include "cli.h"
#include "html_json.h"
#include "picked_source.h"
#include <math.h>

/* --- rows ------------------------------------------------------------------------------- */

static bool has_new_names(const struct ck_html_data *d,
			  const struct ck_catalog *c)
{
	for (uint32_t i = 0; i < c->tensors.n; i++)
		if (ck_tensor_is_whole(c, i) &&
		    ck_html_data_find(d, ck_tensor_names(c, i).name) ==
			    CK_HTML_NO_ROW)
			return true;
	return false;
}

static int part_add(struct ck_report_run *r, const struct ck_run_part *part,
		    struct ck_progress *progress)
{
	uint32_t first = r->data->n;
	struct ck_diag d = { 0 };
	int rc = ck_html_data_add(r->data, part->from.cp, part->from.c, &d);

	if (rc && d.text[0])
		(void)ck_trouble("%s", d.text);
	if (rc || !r->values)
		return rc;
	return ck_html_values_add(r->values, r->data, &part->from, first,
				  progress);
}

/* Most steps have no name that the newer ones lack, and their headers are not read. */
static int step_opened(void *arg, const struct ck_run_step *step,
		       struct ck_progress *progress)
{
	struct ck_report_run *r = arg;
	int rc = 0;

	for (size_t i = 0; i < step->nparts && rc == 0; i++)
		if (has_new_names(r->data, step->parts[i].from.c))
			rc = part_add(r, &step->parts[i], progress);
	return rc;
}

/* Names a tensor of a step that cannot be read, and marks its row. */
static int tensor_unread(void *arg, size_t step, const struct ck_run_part *part,
			 uint32_t tensor, int err)
{
	const struct ck_report_run *r = arg;
	const struct ck_picked_source source = { .from = part->from };
	uint32_t row = ck_html_data_find(
		r->data, ck_tensor_names(part->from.c, tensor).name);
	struct ck_buf line = { 0 };
	int rc;

	ck_buf_printf(&line, "%s: ", r->list.all[step]->stem);
	ck_picked_source_fault(&source, tensor, err, &line);
	rc = line.err;
	if (rc == 0)
		(void)ck_trouble("%s", line.data);
	if (rc == 0 && row != CK_HTML_NO_ROW &&
	    r->data->rows[row].damage.len == 0)
		rc = ck_html_data_damage(
			r->data, row, (struct ck_str){ line.data, line.len });
	ck_buf_fini(&line);
	return rc;
}

int ck_report_run_make(struct ck_rundir *run, const char *src,
		       struct ck_html_data *data, struct ck_html_values *values,
		       struct ck_report_run *out)
{
	const struct ck_run_curves_options o = { .opened = step_opened,
						 .unread = tensor_unread,
						 .arg = out };
	int rc = ck_run_list_make(run, src, &out->list);

	out->data = data;
	out->values = values;
	if (rc)
		return rc;
	rc = ck_run_curves_make(&out->list, &o, &out->curves);
	if (rc == 0)
		rc = ck_html_data_sort(data);
	if (rc == -ENOENT)
		return ck_trouble("%s: no step can be opened",
				  ck_show(ck_str_from(src)));
	return rc ? ck_trouble("%s: %s", ck_show(ck_str_from(src)),
			       strerror(-rc))
		  : CK_EXIT_FINE;
}

void ck_report_run_fini(struct ck_report_run *r)
{
	ck_run_curves_fini(&r->curves);
	ck_run_list_fini(&r->list);
}

/* --- JSON ------------------------------------------------------------------------------- */

/* True if each step has a number of its own that JSON readers keep. */
static bool has_numbers(const struct ck_run_list *l)
{
	enum { DIGITS = 15 };
	struct ck_str number;

	for (size_t i = 0; i < l->n; i++)
		if (!ck_step_number(l->all[i]->name, &number) ||
		    number.len > DIGITS ||
		    (i > 0 && ck_step_number_cmp(l->all[i - 1]->name,
						 l->all[i]->name) == 0))
			return false;
	return true;
}

/* Appends the number of a step, or its stem. key: as a text. */
static void print_step(const struct ck_step *step, bool is_number, bool key,
		       struct ck_buf *out)
{
	struct ck_str text = ck_str_from(step->stem);

	if (is_number)
		(void)!ck_step_number(step->name, &text);
	if (is_number && !key)
		ck_buf_str(out, text);
	else
		ck_html_json_str(out, text);
}

static void print_steps(const struct ck_report_run *r, struct ck_buf *out)
{
	const struct ck_run_curves *c = &r->curves;
	bool is_number = has_numbers(&r->list), first = true;

	ck_buf_text(out, "\"steps\":[");
	for (size_t i = 0; i < c->nsamples; i++) {
		if (c->samples[i].why)
			continue;
		ck_buf_text(out, first ? "" : ",");
		print_step(r->list.all[c->samples[i].step], is_number, false,
			   out);
		first = false;
	}
	ck_buf_printf(out, "],\n\"all\":%zu,\n\"skipped\":{", r->list.n);
	first = true;
	for (size_t i = 0; i < c->nsamples; i++) {
		if (!c->samples[i].why)
			continue;
		ck_buf_text(out, first ? "" : ",");
		print_step(r->list.all[c->samples[i].step], is_number, true,
			   out);
		ck_buf_text(out, ":");
		ck_html_json_str(out, ck_str_from(c->samples[i].why));
		first = false;
	}
	ck_buf_text(out, "}");
}

/* The lists of a row. */
enum figure { NORM, CHANGE, NANS, INFS };

static void print_number(const struct ck_run_curve *curve, enum figure which,
			 size_t i, struct ck_buf *out)
{
	double x;

	if (which == NANS || which == INFS) {
		ck_buf_decimal(out,
			       which == NANS ? curve->nan[i] : curve->inf[i]);
		return;
	}
	x = which == NORM ? curve->norm[i] : curve->change[i];
	if (isfinite(x))
		ck_buf_printf(out, "%.6g", x);
	else
		ck_buf_text(out, "null");
}

static void print_curve(const struct ck_run_curves *c,
			const struct ck_run_curve *curve, enum figure which,
			struct ck_buf *out)
{
	bool first = true;

	if ((which == NANS && !curve->nan) || (which == INFS && !curve->inf)) {
		ck_buf_text(out, "null");
		return;
	}
	ck_buf_text(out, "[");
	for (size_t i = 0; i < c->nsamples; i++) {
		if (c->samples[i].why)
			continue;
		ck_buf_text(out, first ? "" : ",");
		print_number(curve, which, i, out);
		first = false;
	}
	ck_buf_text(out, "]");
}

/* Every row has a curve: both are made of the whole tensors of the same steps. */
static void print_curves(const struct ck_report_run *r, const char *name,
			 enum figure which, struct ck_buf *out)
{
	ck_buf_printf(out, ",\n\"%s\":[", name);
	for (uint32_t i = 0; i < r->data->n; i++) {
		const struct ck_run_curve *curve =
			ck_run_curves_find(&r->curves, r->data->rows[i].name);

		ck_buf_text(out, i ? ",\n" : "\n");
		if (curve)
			print_curve(&r->curves, curve, which, out);
		else
			ck_buf_text(out, "null");
	}
	ck_buf_text(out, "]");
}

void ck_report_run_print(void *run, struct ck_buf *out)
{
	const struct ck_report_run *r = run;

	ck_buf_text(out, ",\n\"run\":{");
	print_steps(r, out);
	print_curves(r, "norm", NORM, out);
	print_curves(r, "nan", NANS, out);
	print_curves(r, "inf", INFS, out);
	print_curves(r, "change", CHANGE, out);
	ck_buf_text(out, "}");
}
