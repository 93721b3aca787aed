/* SPDX-License-Identifier: MIT */
/*
 * run_steps: sorts the steps of a list, and opens them. A step may change between the list and
 * the open, as a training job saves and removes steps: then it is looked up in a new list. The
 * state is that of the structs.
 */
#include "run_steps.h"
#include "cli.h"
#include <stdio.h>

/* --- the list --------------------------------------------------------------------------- */

static int step_cmp(const void *a, const void *b)
{
	const struct ck_step *const *x = a, *const *y = b;
	int order = ck_step_number_cmp((*x)->name, (*y)->name);

	return order ? order
		     : ck_str_natural_cmp(ck_str_from((*x)->name),
					  ck_str_from((*y)->name));
}

static void left_out(const char *name, const char *why)
{
	(void)ck_trouble("%s: left out: %s", ck_show(ck_str_from(name)),
			 ck_show(ck_str_from(why)));
}

/* Steps without a number come first in the order. */
static void numberless_drop(struct ck_run_list *l)
{
	struct ck_str number;
	size_t n = 0;

	while (n < l->n && !ck_step_number(l->all[n]->name, &number))
		n++;
	if (n == l->n)
		return;
	for (size_t i = 0; i < n; i++)
		left_out(l->all[i]->name, "its name has no number");
	l->n -= n;
	memmove(l->all, l->all + n, l->n * sizeof(struct ck_step *));
}

/* Subdirectories whose names have no number are seldom steps. */
static void incomplete_name(const struct ck_steps *steps)
{
	struct ck_str number;

	for (uint32_t i = steps->nshown; i < steps->n; i++)
		if (ck_step_number(steps->all[i].name, &number))
			left_out(steps->all[i].name, steps->all[i].why);
}

int ck_run_list_make(struct ck_rundir *run, const char *src,
		     struct ck_run_list *out)
{
	int rc = ck_run_steps(run, &out->steps);

	if (rc)
		return ck_trouble("%s: its steps cannot be listed: %s",
				  ck_show(ck_str_from(src)), strerror(-rc));
	out->run = run;
	out->all = calloc(out->steps->nshown + 1UL, sizeof(struct ck_step *));
	if (!out->all)
		return ck_trouble("out of memory");
	for (uint32_t i = 0; i < out->steps->nshown; i++)
		if (!out->steps->all[i].is_link)
			out->all[out->n++] = &out->steps->all[i];
	qsort(out->all, out->n, sizeof(struct ck_step *), step_cmp);
	incomplete_name(out->steps);
	numberless_drop(out);
	return out->n ? CK_EXIT_FINE
		      : ck_trouble("%s: no step is complete",
				   ck_show(ck_str_from(src)));
}

const char *ck_run_list_gap(const struct ck_run_list *l, size_t i)
{
	const struct ck_steps *steps = l->steps;
	struct ck_str number;

	for (uint32_t k = steps->nshown; k < steps->n; k++) {
		const char *name = steps->all[k].name;

		if (ck_step_number(name, &number) &&
		    ck_step_number_cmp(name, l->all[i]->name) < 0 &&
		    (i == 0 ||
		     ck_step_number_cmp(name, l->all[i - 1]->name) > 0))
			return name;
	}
	return NULL;
}

void ck_run_list_fini(struct ck_run_list *l)
{
	free(l->all);
	ck_steps_put(l->steps);
}

/* --- one step ----------------------------------------------------------------------------- */

/* Opens a step by its name in a present list. */
static int step_reopen(struct ck_rundir *run, const char *stem,
		       struct ck_checkpoint **out, struct ck_diag *d)
{
	const struct ck_steps *steps;
	const struct ck_step *step;
	int rc = ck_run_steps(run, &steps);

	if (rc)
		return ck_fail(d, -rc, "%s", strerror(-rc));
	step = ck_steps_find(steps, ck_str_from(stem));
	rc = step ? ck_run_open(run, step, out, d) : -EAGAIN;
	ck_steps_put(steps);
	return rc;
}

static int checkpoint_open(struct ck_rundir *run, const struct ck_step *step,
			   struct ck_checkpoint **out, struct ck_diag *d)
{
	enum { TRIES = 3 };

	int rc = ck_run_open(run, step, out, d);

	for (int i = 1; i < TRIES && rc == -EAGAIN; i++)
		rc = step_reopen(run, step->stem, out, d);
	if (rc == -EAGAIN)
		return ck_fail(d, EAGAIN,
			       "%s: it was removed or replaced meanwhile",
			       ck_show(ck_str_from(step->name)));
	return rc;
}

/* Adds a part. Takes cp. name: NULL if the step has one part. */
static int part_add(struct ck_run_step *s, struct ck_checkpoint *cp,
		    const char *name, struct ck_diag *d)
{
	struct ck_run_part *part = realloc(s->parts,
					   (s->nparts + 1) * sizeof(*part));
	char *prefix = NULL;

	if (part)
		s->parts = part;
	if (!part ||
	    asprintf(&prefix, "%s%s", name ? name : "", name ? "/" : "") < 0) {
		ck_checkpoint_close(cp);
		return ck_fail(d, ENOMEM, "out of memory");
	}
	part += s->nparts++;
	*part = (struct ck_run_part){
		.from = { .cp = cp, .c = ck_checkpoint_catalog(cp) },
		.prefix = prefix,
	};
	s->nlosses += part->from.c->nlosses;
	return 0;
}

/* Opens the parts of a nested run directory. */
static int parts_open(struct ck_rundir *nested, struct ck_run_step *s,
		      struct ck_diag *d)
{
	const struct ck_steps *steps;
	int rc = ck_run_steps(nested, &steps);

	if (rc)
		return ck_fail(d, -rc, "%s", strerror(-rc));
	for (uint32_t i = 0; i < steps->nshown && rc == 0; i++) {
		struct ck_checkpoint *cp = NULL;

		if (steps->all[i].is_link)
			continue;
		rc = checkpoint_open(nested, &steps->all[i], &cp, d);
		if (rc == 0)
			rc = part_add(s, cp, steps->all[i].stem, d);
	}
	ck_steps_put(steps);
	return rc;
}

int ck_run_step_open(const struct ck_run_list *l, size_t i,
		     struct ck_run_step *out, struct ck_diag *d)
{
	struct ck_checkpoint *cp = NULL;
	struct ck_rundir *nested;
	int rc = checkpoint_open(l->run, l->all[i], &cp, d);

	if (rc)
		return rc;
	nested = ck_checkpoint_run(cp);
	if (!nested)
		return part_add(out, cp, NULL, d);
	rc = parts_open(nested, out, d);
	ck_checkpoint_close(cp);
	return rc;
}

void ck_run_step_close(struct ck_run_step *s)
{
	for (size_t i = 0; i < s->nparts; i++) {
		ck_catalog_put(s->parts[i].from.c);
		ck_checkpoint_close(s->parts[i].from.cp);
		free(s->parts[i].prefix);
	}
	free(s->parts);
	*s = (struct ck_run_step){ 0 };
}

/* --- tensors -------------------------------------------------------------------------------- */

static bool is_repeated(const struct ck_catalog *c, uint32_t tensor)
{
	uint32_t of = ck_tensor_alias_of(ck_catalog_tensor(c, tensor));

	return of != CK_NO_TENSOR && ck_tensor_is_whole(c, of) &&
	       c->listing->of_tensor[of] < c->listing->of_tensor[tensor];
}

int ck_run_part_tensors(const struct ck_run_part *part, uint32_t **out,
			size_t *n)
{
	const struct ck_catalog *c = part->from.c;

	*n = 0;
	*out = calloc(c->listing->n + 1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (size_t i = 0; i < c->listing->n; i++) {
		struct ck_entry_id e = c->listing->entries[i];

		if (!e.is_object && ck_tensor_is_whole(c, e.i) &&
		    !is_repeated(c, e.i))
			(*out)[(*n)++] = e.i;
	}
	return 0;
}
