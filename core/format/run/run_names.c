/* SPDX-License-Identifier: MIT */
/* run_names: makes the list of names in a run directory: steps, links to them, and
 * `latest`. A list is constant and counted; readers keep it while the directory
 * changes. The rest of the state is in struct ck_rundir, under its lock. */
#include "ckptfs/table.h"
#include "run_internal.h"

#include <errno.h>
#include <stdio.h>

#define LATEST	  "latest"
#define ITERATION "latest_checkpointed_iteration.txt"

/* Interval of scans of the run directory, in milliseconds; tests shorten it. */
#ifndef CK_RUN_SCAN_MSEC
#define CK_RUN_SCAN_MSEC 1000
#endif

/* Ids from here on are reserved for other uses. */
enum { IDS_MOST = 0xfffff0 };

/* A list with its references. */
struct list {
	struct ck_steps steps; /* must be the first member */
	unsigned refs;	       /* atomic */
	struct ck_step *rows;
	size_t cap;
	struct ck_arena text;
};

void ck_steps_put(const struct ck_steps *steps)
{
	struct list *l = (struct list *)(uintptr_t)steps;

	if (!l || __atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL))
		return;
	ck_arena_fini(&l->text);
	free(l->rows);
	free(l);
}

const struct ck_step *ck_steps_find(const struct ck_steps *s,
				    struct ck_str stem)
{
	for (uint32_t i = 0; i < s->nshown; i++)
		if (ck_str_is(stem, s->all[i].stem))
			return &s->all[i];
	return NULL;
}

const struct ck_step *ck_steps_at(const struct ck_steps *s, uint32_t id)
{
	size_t at = CK_COUNT_BEFORE(s->nshown, i, s->all[i].id < id);

	return at < s->nshown && s->all[at].id == id ? &s->all[at] : NULL;
}

/* --- making ------------------------------------------------------------------------ */

static const char *stem_of(struct list *l, const char *name)
{
	struct ck_buf stem = { 0 };
	struct ck_str text = { NULL, 0 };

	ck_name_stem(ck_str_from(name), 1, &stem);
	if (stem.err == 0)
		text = ck_arena_copy(&l->text,
				     (struct ck_str){ stem.data, stem.len });
	ck_buf_fini(&stem);
	return text.p;
}

static int row_add(struct list *l, const struct ck_step *step)
{
	struct ck_step *rows = ck_grow(l->rows, &l->cap, l->steps.n, 1,
				       sizeof(*rows));
	struct ck_step row = *step;

	if (!rows)
		return -ENOMEM;
	l->rows = rows;
	row.name = ck_arena_copy(&l->text, ck_str_from(step->name)).p;
	row.stem = stem_of(l, step->name);
	if (step->why)
		row.why = ck_arena_copy(&l->text, ck_str_from(step->why)).p;
	if (step->target)
		row.target = stem_of(l, step->target);
	if (!row.name || !row.stem || (step->why && !row.why) ||
	    (step->target && !row.target))
		return -ENOMEM;
	rows[l->steps.n++] = row;
	return 0;
}

static const struct ck_found *shown_find(const struct ck_rundir *r,
					 const char *name)
{
	for (size_t i = 0; i < r->n; i++)
		if (!r->found[i].why && strcmp(r->found[i].name, name) == 0)
			return &r->found[i];
	return NULL;
}

static void number_give(struct ck_rundir *r, uint32_t *id)
{
	if (*id == 0 && r->next < IDS_MOST)
		*id = r->next++;
}

static int steps_add(struct ck_rundir *r, struct list *l)
{
	int rc = 0;

	for (size_t i = 0; i < r->n && rc == 0; i++) {
		struct ck_found *f = &r->found[i];
		struct ck_step step = { .name = f->name,
					.why = f->why,
					.changes = f->changes };

		if (!f->why) {
			number_give(r, &f->id);
			step.id = f->id;
			step.why = f->id ? NULL : "no number is left for it";
		}
		rc = row_add(l, &step);
	}
	return rc;
}

/* Adds links to a shown step. */
static int links_add(struct ck_rundir *r, struct list *l, bool *latest)
{
	int rc = 0;

	for (size_t i = 0; i < r->nlinks && rc == 0; i++) {
		struct ck_found_link *k = &r->links[i];

		if (!shown_find(r, k->target))
			continue;
		number_give(r, &k->id);
		*latest |= strcmp(k->name, LATEST) == 0;
		l->steps.nlinks++;
		rc = row_add(l, &(struct ck_step){ .name = k->name,
						   .id = k->id,
						   .is_link = true,
						   .target = k->target });
	}
	return rc;
}

/* --- latest ------------------------------------------------------------------------- */

bool ck_step_number(const char *name, struct ck_str *out)
{
	const char *end = name + strlen(name), *at;

	while (end > name && (end[-1] < '0' || end[-1] > '9'))
		end--;
	for (at = end; at > name && at[-1] >= '0' && at[-1] <= '9';)
		at--;
	while (at + 1 < end && *at == '0')
		at++;
	*out = (struct ck_str){ at, (size_t)(end - at) };
	return out->len > 0;
}

int ck_step_number_cmp(const char *a, const char *b)
{
	struct ck_str x, y;
	bool has_a = ck_step_number(a, &x), has_b = ck_step_number(b, &y);

	if (!has_a || !has_b)
		return has_a - has_b;
	if (x.len != y.len)
		return x.len < y.len ? -1 : 1;
	return memcmp(x.p, y.p, x.len);
}

static const struct ck_found *greatest(const struct ck_rundir *r)
{
	const struct ck_found *out = NULL;

	for (size_t i = 0; i < r->n; i++)
		if (!r->found[i].why &&
		    (!out ||
		     ck_step_number_cmp(r->found[i].name, out->name) >= 0))
			out = &r->found[i];
	return out;
}

/* Returns the shown step that training programs name as the latest: by `name`,
 * the contents of `latest` or NULL, or by the file of Megatron. NULL if neither
 * names a shown step. */
static const struct ck_found *named(const struct ck_rundir *r, const char *name)
{
	const struct ck_found *out = name ? shown_find(r, name) : NULL;
	struct ck_buf text = { 0 };
	const char *at;
	uint64_t number;

	if (!out && ck_run_text(r, ITERATION, &text) == 0) {
		at = text.data;
		if (ck_digits_take(&at, &number) && !*at)
			out = shown_find(
				r, ck_shown("iter_%07ju", (uintmax_t)number));
	}
	ck_buf_fini(&text);
	return out;
}

/* Returns the contents of `latest`, a link or a file; NULL without one. It may name no
 * step. Caller must free it. */
static char *latest_name(const struct ck_rundir *r)
{
	struct ck_buf text = { 0 };
	char *name = NULL;

	for (size_t i = 0; i < r->nlinks && !name; i++)
		if (strcmp(r->links[i].name, LATEST) == 0)
			name = strdup(r->links[i].target);
	if (!name && ck_run_text(r, LATEST, &text) == 0 && text.len)
		name = strdup(text.data);
	ck_buf_fini(&text);
	return name;
}

/* Logs once that `latest` names no shown step, for example by a path, and leads
 * to another one. The first scan does not log: the step may be appearing right
 * now. Takes `name`, which may be NULL. */
static void overruled_log(struct ck_rundir *r, char *name,
			  const struct ck_found *by)
{
	bool again = name && r->overruled && strcmp(name, r->overruled) == 0;

	r->overruled_at = again ? r->overruled_at + 1 : 0;
	free(r->overruled);
	r->overruled = name;
	if (r->overruled_at == 1)
		ck_log("%s: " LATEST
		       " says %s, which is not the name of a step "
		       "that is shown; it leads to %s",
		       ck_show(ck_str_from(r->cp->path)),
		       ck_show(ck_str_from(name)),
		       ck_show(ck_str_from(by->name)));
}

static int latest_add(struct ck_rundir *r, struct list *l)
{
	ck_auto_free char *name = latest_name(r);
	const struct ck_found *f = named(r, name), *by = f ? f : greatest(r);

	if (!by || shown_find(r, LATEST))
		return 0;
	overruled_log(r, f ? NULL : ck_steal(&name), by);
	number_give(r, &r->latest);
	l->steps.nlinks++;
	return row_add(l, &(struct ck_step){ .name = LATEST,
					     .id = r->latest,
					     .is_link = true,
					     .target = by->name });
}

/* --- the list --------------------------------------------------------------------- */

static int row_cmp(const void *a, const void *b)
{
	const struct ck_step *x = a, *y = b;

	if (!x->id && !y->id)
		return ck_str_natural_cmp(ck_str_from(x->name),
					  ck_str_from(y->name));
	if (!x->id || !y->id)
		return x->id ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

int ck_run_names(struct ck_rundir *r)
{
	struct list *l = calloc(1, sizeof(*l));
	bool latest = false;
	int rc;

	if (!l)
		return -ENOMEM;
	l->refs = 1;
	rc = steps_add(r, l);
	if (rc == 0)
		rc = links_add(r, l, &latest);
	if (rc == 0 && !latest)
		rc = latest_add(r, l);
	if (rc) {
		ck_steps_put(&l->steps);
		return rc;
	}
	if (l->steps.n)
		qsort(l->rows, l->steps.n, sizeof(*l->rows), row_cmp);
	while (l->steps.nshown < l->steps.n && l->rows[l->steps.nshown].id)
		l->steps.nshown++;
	l->steps.all = l->rows;
	ck_steps_put(r->steps);
	r->steps = &l->steps;
	return 0;
}

int ck_run_steps(struct ck_rundir *r, const struct ck_steps **out)
{
	int rc = 0;

	pthread_mutex_lock(&r->lock);
	if (!r->steps || ck_msec_now() - r->last_scan >= CK_RUN_SCAN_MSEC) {
		rc = ck_run_scan(r);
		if (rc == 0)
			rc = ck_run_names(r);
		r->last_scan = ck_msec_now();
	}
	if (rc == 0) {
		struct list *l = (struct list *)(uintptr_t)r->steps;

		__atomic_add_fetch(&l->refs, 1, __ATOMIC_ACQ_REL);
		*out = r->steps;
	}
	pthread_mutex_unlock(&r->lock);
	return rc;
}

void ck_run_renew(struct ck_rundir *r, uint32_t id)
{
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < r->n; i++)
		if (r->found[i].id == id)
			r->found[i].id = 0;
	(void)!ck_run_names(r); /* on failure the next scan does it */
	pthread_mutex_unlock(&r->lock);
}
