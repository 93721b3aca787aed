/* SPDX-License-Identifier: MIT */
/*
 * run_curves: chooses the steps, opens them from the newest to the oldest one, and stores the
 * figures of each when the next older one is open too. No state beside the struct.
 */
#include "run_curves.h"
#include "cli.h"
#include "picked_source.h"
#include "step_figures.h"
#include <math.h>

/* --- curves ------------------------------------------------------------------------------- */

static struct ck_str name_at(const void *arg, uint32_t number)
{
	const struct ck_run_curves *r = arg;

	return r->all[number].name;
}

/* Returns n numbers that are NaN. NULL if out of memory. */
static double *numbers_make(struct ck_run_curves *r)
{
	double *x = ck_arena_alloc(&r->texts, r->nsamples * sizeof(*x));

	for (size_t i = 0; x && i < r->nsamples; i++)
		x[i] = (double)NAN;
	return x;
}

static int curve_make(struct ck_run_curves *r, struct ck_str name,
		      struct ck_run_curve *out)
{
	*out = (struct ck_run_curve){
		.name = ck_arena_copy(&r->texts, name),
		.norm = numbers_make(r),
		.change = numbers_make(r),
		.last = SIZE_MAX,
	};
	return out->name.p && out->norm && out->change ? 0 : -ENOMEM;
}

/* Finds the curve of a name, or adds one. NULL if out of memory. */
static struct ck_run_curve *curve_of(struct ck_run_curves *r,
				     struct ck_str name)
{
	int64_t at = ck_table_find(&r->names, name);
	struct ck_run_curve *all;
	uint32_t number;

	if (at >= 0)
		return &r->all[at];
	all = ck_grow(r->all, &r->cap, r->n, 1, sizeof(*all));
	if (!all)
		return NULL;
	r->all = all;
	if (curve_make(r, name, &all[r->n]) ||
	    ck_table_add(&r->names, all[r->n].name, (uint32_t)r->n, &number))
		return NULL;
	return &all[r->n++];
}

/* Stores a count. Most tensors have zeros in all steps, and no list. */
static int count_store(struct ck_run_curves *r, uint64_t **list, size_t sample,
		       uint64_t count)
{
	size_t len = r->nsamples * sizeof(**list);

	if (count == 0 && !*list)
		return 0;
	if (!*list) {
		*list = ck_arena_alloc(&r->texts, len);
		if (!*list)
			return -ENOMEM;
		memset(*list, 0, len);
	}
	(*list)[sample] = count;
	return 0;
}

const struct ck_run_curve *ck_run_curves_find(const struct ck_run_curves *r,
					      struct ck_str name)
{
	int64_t at = ck_table_find(&r->names, name);

	return at < 0 ? NULL : &r->all[at];
}

/* --- one step ----------------------------------------------------------------------------- */

/* The argument of the functions below. */
struct making {
	const struct ck_run_list *l;
	const struct ck_run_curves_options *o;
	struct ck_run_curves *r;
	struct ck_progress progress;
};

/* f: figures whose values are those of the tensor. */
static int figure_store(struct ck_run_curves *r, struct ck_run_curve *c,
			size_t sample, const struct ck_step_figure *f)
{
	int rc;

	c->norm[sample] = ck_value_change_norm(&f->values);
	if (f->is_compared)
		c->change[sample] = ck_value_change_distance(&f->values);
	rc = count_store(r, &c->nan, sample, f->values.nan);
	return rc ? rc : count_store(r, &c->inf, sample, f->values.inf);
}

static int figures_store(const struct making *m, size_t sample,
			 const struct ck_run_step *step,
			 const struct ck_step_figures *figures)
{
	int rc = 0;

	for (size_t i = 0; i < figures->n && rc == 0; i++) {
		const struct ck_step_figure *f = &figures->all[i];
		const struct ck_step_figure *own =
			f->same == SIZE_MAX ? f : &figures->all[f->same];
		struct ck_run_curve *c = curve_of(m->r, f->name);

		if (!c)
			return -ENOMEM;
		if (c->last == sample) /* another part has the name too */
			continue;
		c->last = sample;
		rc = own->err ? m->o->unread(m->o->arg,
					     m->r->samples[sample].step,
					     &step->parts[f->part], f->tensor,
					     own->err)
			      : figure_store(m->r, c, sample, own);
	}
	return rc;
}

/* Stores the figures of an open step. older: NULL if there is none. */
static int step_read(struct making *m, size_t sample,
		     const struct ck_run_step *step,
		     const struct ck_run_step *older)
{
	const struct ck_step_figures_options o = {
		.progress = ck_pass_progress_add, .arg = &m->progress
	};
	struct ck_step_figures figures = { 0 };
	int rc = ck_step_figures_compute(step, older, &o, &figures);

	if (rc == 0)
		rc = figures_store(m, sample, step, &figures);
	ck_step_figures_fini(&figures);
	return rc;
}

/* --- all steps ------------------------------------------------------------------------------ */

/* Opens a sample. Returns 0, or 1 if that is not possible; or shortages. */
static int sample_open(struct making *m, size_t sample, struct ck_run_step *out)
{
	struct ck_run_sample *s = &m->r->samples[sample];
	struct ck_diag d = { 0 };
	int rc = ck_run_step_open(m->l, s->step, out, &d);

	if (rc == 0)
		return m->o->opened(m->o->arg, out, &m->progress);
	ck_run_step_close(out);
	if (ck_is_shortage(rc))
		return rc;
	s->why = strdup(d.text);
	(void)ck_trouble("%s: skipped: %s", m->l->all[s->step]->stem, d.text);
	return s->why ? 1 : -ENOMEM;
}

static int samples_read(struct making *m)
{
	struct ck_run_step newer = { 0 };
	size_t at = SIZE_MAX; /* the sample of `newer` */
	int rc = 0;

	for (size_t i = m->r->nsamples; i-- > 0 && rc == 0;) {
		struct ck_run_step step = { 0 };

		rc = sample_open(m, i, &step);
		if (rc == 1) {
			rc = 0;
			continue;
		}
		if (rc == 0 && at != SIZE_MAX)
			rc = step_read(m, at, &newer, &step);
		ck_run_step_close(&newer);
		newer = step;
		at = i;
	}
	if (rc == 0)
		rc = at == SIZE_MAX ? -ENOENT : step_read(m, at, &newer, NULL);
	ck_run_step_close(&newer);
	return rc;
}

/* Tensors and bytes of the newest step that can be opened. */
static void newest_count(const struct ck_run_list *l, size_t *tensors,
			 uint64_t *bytes)
{
	struct ck_run_step step = { 0 };
	struct ck_diag d = { 0 };
	int rc = -ENOENT;

	*tensors = 0;
	*bytes = 0;
	for (size_t i = l->n; i-- > 0 && rc;) {
		rc = ck_run_step_open(l, i, &step, &d);
		for (size_t k = 0; k < step.nparts && rc == 0; k++) {
			*tensors += step.parts[k].from.c->tensors.n;
			*bytes += step.parts[k].from.c->nbytes;
		}
		ck_run_step_close(&step);
	}
}

static int samples_choose(const struct ck_run_list *l, size_t tensors,
			  struct ck_run_curves *r)
{
	size_t most = ck_max(2, CK_RUN_CELLS / ck_max(tensors, 1));
	size_t n = ck_min(ck_min(CK_RUN_SAMPLES, most), l->n);

	r->samples = calloc(n + 1, sizeof(*r->samples));
	if (!r->samples)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		r->samples[i].step = n > 1 ? i * (l->n - 1) / (n - 1) : 0;
	r->nsamples = n;
	return 0;
}

int ck_run_curves_make(const struct ck_run_list *l,
		       const struct ck_run_curves_options *o,
		       struct ck_run_curves *out)
{
	struct making m = { .l = l, .o = o, .r = out };
	uint64_t bytes;
	size_t tensors;
	int rc;

	out->names.key = name_at;
	out->names.arg = out;
	newest_count(l, &tensors, &bytes);
	rc = samples_choose(l, tensors, out);
	if (rc)
		return rc;
	ck_pass_progress_begin(&m.progress, bytes * out->nsamples);
	rc = samples_read(&m);
	ck_pass_progress_end(&m.progress);
	return rc;
}

void ck_run_curves_fini(struct ck_run_curves *r)
{
	for (size_t i = 0; i < r->nsamples; i++)
		free(r->samples[i].why);
	free(r->samples);
	free(r->all);
	ck_table_fini(&r->names);
	ck_arena_fini(&r->texts);
}
