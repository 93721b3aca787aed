/* SPDX-License-Identifier: MIT */
/*
 * inspect_run: prints a run directory: its steps, and the subdirectories that are not complete
 * steps, as a table, as JSON or as CSV.
 */
#include "inspect_run.h"
#include "ckptfs/json.h"
#include "model/catalog/items.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* One row. Texts are owned, or static. */
struct row {
	const char *name; /* as the mount shows it */
	char kind[32];	  /* "-": unknown */
	uint64_t tensors, bytes;
	bool has_numbers;  /* of a checkpoint, not of a run directory */
	struct ck_buf why; /* empty: the step is complete */
};

enum { NAME, KIND, TENSORS, BYTES, COLUMNS };

struct table {
	struct row *rows;
	uint32_t n;
	int width[COLUMNS];
};

static void take_numbers(struct row *r, const struct ck_checkpoint *cp)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);

	snprintf(r->kind, sizeof(r->kind), "%s", c->kind);
	r->has_numbers = ck_checkpoint_run(cp) == NULL;
	r->tensors = ck_shown_tensors(c);
	r->bytes = c->nbytes;
}

/* Opens a step for its numbers. A step that fails to open is one that is not complete. */
static void row_fill(struct ck_rundir *run, const struct ck_step *step,
		     struct row *r)
{
	struct ck_checkpoint *cp = NULL;
	struct ck_diag d = { 0 };

	*r = (struct row){ .name = step->stem ? step->stem : step->name,
			   .kind = "-" };
	if (step->why) {
		ck_buf_escaped(&r->why, ck_str_from(step->why));
	} else if (ck_run_open(run, step, &cp, &d)) {
		ck_buf_text(&r->why,
			    d.text[0] ? d.text : "it changed meanwhile");
	} else {
		take_numbers(r, cp);
		ck_checkpoint_close(cp);
	}
}

static int max_int(int a, int b)
{
	return a > b ? a : b;
}

static int digits(uint64_t n)
{
	return snprintf(NULL, 0, "%" PRIu64, n);
}

static void widths_find(struct table *t)
{
	t->width[NAME] = (int)strlen("step");
	t->width[KIND] = (int)strlen("kind");
	t->width[TENSORS] = (int)strlen("tensors");
	t->width[BYTES] = (int)strlen("bytes");
	for (uint32_t i = 0; i < t->n; i++) {
		const struct row *r = &t->rows[i];

		t->width[NAME] = max_int(t->width[NAME], (int)strlen(r->name));
		t->width[KIND] = max_int(t->width[KIND], (int)strlen(r->kind));
		t->width[TENSORS] = max_int(t->width[TENSORS],
					    digits(r->tensors));
		t->width[BYTES] = max_int(t->width[BYTES], digits(r->bytes));
	}
}

static void cells_print(const struct table *t, const char *const cells[],
			const char *state, struct ck_buf *out)
{
	ck_buf_printf(out, "%-*s  %-*s  %*s  %*s  %s\n", t->width[NAME],
		      cells[NAME], t->width[KIND], cells[KIND],
		      t->width[TENSORS], cells[TENSORS], t->width[BYTES],
		      cells[BYTES], state);
}

static const char *state_of(const struct row *r)
{
	return r->why.len ? r->why.data : "complete";
}

static void table_print(const struct table *t, struct ck_buf *out)
{
	static const char *const head[] = { "step", "kind", "tensors",
					    "bytes" };

	cells_print(t, head, "state", out);
	for (uint32_t i = 0; i < t->n; i++) {
		const struct row *r = &t->rows[i];
		char tensors[24] = "-", bytes[24] = "-";
		const char *const cells[] = { r->name, r->kind, tensors,
					      bytes };

		if (r->has_numbers) {
			snprintf(tensors, sizeof(tensors), "%" PRIu64,
				 r->tensors);
			snprintf(bytes, sizeof(bytes), "%" PRIu64, r->bytes);
		}
		cells_print(t, cells, state_of(r), out);
	}
}

static void csv_field(struct ck_buf *out, const char *text)
{
	ck_buf_text(out, "\"");
	for (; *text; text++)
		ck_buf_printf(out, *text == '"' ? "\"\"" : "%c", *text);
	ck_buf_text(out, "\"");
}

static void csv_print(const struct table *t, struct ck_buf *out)
{
	ck_buf_text(out, "step,kind,tensors,bytes,state\n");
	for (uint32_t i = 0; i < t->n; i++) {
		const struct row *r = &t->rows[i];

		csv_field(out, r->name);
		ck_buf_printf(out, ",%s,", r->kind);
		if (r->has_numbers)
			ck_buf_printf(out, "%" PRIu64, r->tensors);
		ck_buf_text(out, ",");
		if (r->has_numbers)
			ck_buf_printf(out, "%" PRIu64, r->bytes);
		ck_buf_text(out, ",");
		csv_field(out, state_of(r));
		ck_buf_text(out, "\n");
	}
}

static void json_print(const struct table *t, struct ck_buf *out)
{
	ck_buf_text(out, "{\"kind\":\"run\",\"steps\":[");
	for (uint32_t i = 0; i < t->n; i++) {
		const struct row *r = &t->rows[i];

		ck_buf_text(out, i ? ",\n{\"name\":" : "\n{\"name\":");
		ck_buf_json_str(out, ck_str_from(r->name));
		if (r->kind[0] != '-')
			ck_buf_printf(out, ",\"kind\":\"%s\"", r->kind);
		if (r->has_numbers)
			ck_buf_printf(out,
				      ",\"tensors\":%" PRIu64
				      ",\"bytes\":%" PRIu64,
				      r->tensors, r->bytes);
		ck_buf_printf(out, ",\"complete\":%s",
			      r->why.len ? "false" : "true");
		if (r->why.len) {
			ck_buf_text(out, ",\"why\":");
			ck_buf_json_str(out, ck_str_from(r->why.data));
		}
		ck_buf_text(out, "}");
	}
	ck_buf_text(out, "]}\n");
}

int ck_inspect_run(struct ck_rundir *run, enum ck_run_style style,
		   struct ck_buf *out)
{
	const struct ck_steps *steps;
	struct table t = { 0 };
	int rc = ck_run_steps(run, &steps);

	if (rc)
		return rc;
	t.rows = calloc(steps->n + 1UL, sizeof(*t.rows));
	for (uint32_t i = 0; t.rows && i < steps->n; i++)
		if (!steps->all[i].is_link)
			row_fill(run, &steps->all[i], &t.rows[t.n++]);
	if (!t.rows) {
		rc = -ENOMEM;
	} else if (style == CK_RUN_TABLE) {
		widths_find(&t);
		table_print(&t, out);
	} else if (style == CK_RUN_JSON) {
		json_print(&t, out);
	} else {
		csv_print(&t, out);
	}
	for (uint32_t i = 0; i < t.n; i++)
		ck_buf_fini(&t.rows[i].why);
	free(t.rows);
	ck_steps_put(steps);
	return rc;
}
