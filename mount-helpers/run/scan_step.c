/* SPDX-License-Identifier: MIT */
/*
 * scan_step: searches the parts of a step one after the other, and stops at the first one with a
 * NaN or an infinity. The tensor found is read once more for its counts. No state.
 */
#include "scan_step.h"
#include "cli.h"
#include "picked_source.h"
#include "values/nonfinite.h"
#include "values/value_stats.h"

/* --- what cannot be read ------------------------------------------------------------------ */

void ck_unreads_fini(struct ck_unreads *u)
{
	for (size_t i = 0; i < u->n; i++) {
		free(u->all[i].name);
		free(u->all[i].what);
	}
	free(u->all);
}

/* Adds a row and prints it. Takes both texts; name: NULL for the step itself. */
static int unread_add(struct ck_unreads *u, const struct ck_run_list *l,
		      const struct ck_unread *row)
{
	struct ck_unread *all = ck_grow(u->all, &u->cap, u->n, 1, sizeof(*all));

	if (!all || !row->what) {
		free(row->name);
		free(row->what);
		return -ENOMEM;
	}
	u->all = all;
	all[u->n++] = *row;
	(void)ck_trouble("%s: %s", l->all[row->step]->stem, row->what);
	return 0;
}

static int step_unread(struct ck_unreads *u, const struct ck_run_list *l,
		       size_t step, int err, const char *what)
{
	return unread_add(u, l,
			  &(struct ck_unread){ .step = step,
					       .what = strdup(what),
					       .err = err });
}

/* The shown name of a tensor, with its part. Caller frees it. NULL if out of memory. */
static char *name_of(const struct ck_run_part *part, uint32_t tensor)
{
	struct ck_str name = ck_tensor_names(part->from.c, tensor).name;
	struct ck_buf text = { 0 };

	ck_buf_text(&text, part->prefix);
	ck_buf_str(&text, name);
	return text.err ? NULL : text.data;
}

static int tensor_unread(struct ck_unreads *u, const struct ck_run_list *l,
			 size_t step, const struct ck_run_part *part,
			 const struct ck_nonfinite *t)
{
	const struct ck_picked_source source = { .from = part->from };
	struct ck_buf what = { 0 };
	char *name = name_of(part, t->tensor);

	if (!name)
		return -ENOMEM;
	ck_buf_escaped(&what, ck_str_from(part->prefix));
	ck_picked_source_fault(&source, t->tensor, t->err, &what);
	return unread_add(u, l,
			  &(struct ck_unread){
				  .step = step,
				  .name = name,
				  .what = what.err ? NULL : what.data,
				  .err = t->err,
			  });
}

/* --- counts ---------------------------------------------------------------------------------- */

struct counting {
	struct ck_value_stats stats;
	int rc;
};

static int count_take(void *arg, const struct ck_pass_block *b)
{
	struct counting *k = arg;

	ck_value_stats_add(&k->stats, b->bytes[0], b->len);
	return 0;
}

static void count_end(void *arg, size_t row, unsigned from, int rc)
{
	struct counting *k = arg;

	(void)row, (void)from;
	k->rc = rc;
}

static int count(const struct ck_run_part *part, uint32_t tensor,
		 struct ck_scanned *out)
{
	struct counting k = {
		.stats = ck_value_stats_make(
			ck_catalog_tensor(part->from.c, tensor)->dtype)
	};
	const struct ck_pass pass = {
		.from = { part->from },
		.nfrom = 1,
		.rows = &(struct ck_pass_row){ .tensor = { tensor } },
		.n = 1,
		.threads = 1,
		.take = count_take,
		.end = count_end,
		.arg = &k,
	};
	int rc = ck_pass_run(&pass);

	out->counted = rc == 0 && k.rc == 0;
	out->nan = k.stats.nan;
	out->inf = k.stats.inf;
	return rc;
}

/* --- one step ----------------------------------------------------------------------------------- */

/* The argument of the functions below. */
struct scan {
	const struct ck_run_list *l;
	size_t step;
	struct ck_unreads *unread;
	struct ck_scanned *out;
};

static int part_result(struct scan *s, const struct ck_run_part *part,
		       const struct ck_nonfinite *all, size_t n, size_t first)
{
	int rc = 0;

	for (size_t i = 0; i < first && rc == 0; i++) {
		if (all[i].err == 0)
			continue;
		s->out->unsure = true;
		rc = tensor_unread(s->unread, s->l, s->step, part, &all[i]);
	}
	if (rc || first == n)
		return rc;
	s->out->verdict = CK_STEP_HAS;
	s->out->name = name_of(part, all[first].tensor);
	return s->out->name ? count(part, all[first].tensor, s->out) : -ENOMEM;
}

static int part_scan(struct scan *s, const struct ck_run_part *part)
{
	struct ck_progress progress = { 0 };
	const struct ck_nonfinite_options o = {
		.progress = ck_pass_progress_add, .arg = &progress
	};
	ck_auto_free struct ck_nonfinite *all = NULL;
	ck_auto_free uint32_t *tensors = NULL;
	size_t n = 0, first = 0;
	int rc = ck_run_part_tensors(part, &tensors, &n);

	all = calloc(n + 1, sizeof(*all));
	if (rc || !all)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		all[i].tensor = tensors[i];
	ck_pass_progress_begin(&progress,
			       ck_nonfinite_bytes(part->from.c, all, n));
	rc = ck_nonfinite_find(&part->from, all, n, &o, &first);
	ck_pass_progress_end(&progress);
	return rc ? rc : part_result(s, part, all, n, first);
}

static int parts_scan(struct scan *s, const struct ck_run_step *step)
{
	int rc = 0;

	s->out->verdict = CK_STEP_CLEAN;
	for (size_t i = 0;
	     i < step->nparts && rc == 0 && s->out->verdict == CK_STEP_CLEAN;
	     i++)
		rc = part_scan(s, &step->parts[i]);
	if (rc == 0 && step->nlosses) {
		s->out->unsure = true;
		rc = step_unread(s->unread, s->l, s->step, EBADMSG,
				 ck_shown("files and names that cannot be read "
					  "and are left out: %zu; ckptfs check "
					  "names them",
					  step->nlosses));
	}
	if (s->out->unsure && s->out->verdict == CK_STEP_CLEAN)
		s->out->verdict = CK_STEP_UNSURE;
	return rc;
}

int ck_step_scan(const struct ck_run_list *l, size_t i,
		 struct ck_unreads *unread, struct ck_scanned *out)
{
	struct scan s = { l, i, unread, out };
	struct ck_run_step step = { 0 };
	struct ck_diag d = { 0 };
	int rc = ck_run_step_open(l, i, &step, &d);

	*out = (struct ck_scanned){ .verdict = CK_STEP_UNSURE };
	if (rc == 0)
		rc = parts_scan(&s, &step);
	else if (!ck_is_shortage(rc))
		rc = step_unread(unread, l, i, -rc, d.text);
	ck_run_step_close(&step);
	return rc;
}
