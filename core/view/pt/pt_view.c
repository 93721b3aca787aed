/* SPDX-License-Identifier: MIT */
/*
 * pt_view: the view torch/, with one file, checkpoint.pt. Its state has the file of the
 * newest listing that was requested. Any thread, under the lock of the state.
 */
#include "pt.h"

#include <errno.h>
#include <pthread.h>

#define NAME "checkpoint.pt"

/* The state of the view. */
struct pt {
	/* Constant: */
	struct ck_view_source from;

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_view_plan *plan; /* of the newest listing; or NULL */
	bool noted_absent; /* the log has the reason for an absent torch/ */
};

/* The file of a listing. */
struct plan {
	struct ck_view_plan base;
	/* Constant: */
	struct ck_pt_file *file; /* owned by the sections */
	struct ck_sections *sections;
	/* Under the lock of the state: facts in `seen`, which is held; or NULL */
	const struct ck_catalog *seen;
	struct ck_file_content about;
};

static struct pt *pt_of(const void *state)
{
	return (struct pt *)(uintptr_t)state;
}

static int pt_make(const struct ck_view_source *from, const void **state)
{
	struct pt *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	s->from = *from;
	*state = s;
	return 0;
}

static void pt_free(const void *state)
{
	struct pt *s = pt_of(state);

	ck_view_plan_put(s->plan);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* --- the file of a catalog ------------------------------------------------------------ */

static void plan_free(void *plan)
{
	struct plan *p = plan;

	ck_sections_put(p->sections);
	ck_catalog_put(p->seen);
	free(p);
}

static int plan_make(struct pt *s, const struct ck_catalog *c,
		     struct plan **out)
{
	struct plan *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return -ENOMEM;
	ck_view_plan_begin(&p->base, s->plan, c, plan_free);
	rc = ck_pt_file_make(c, &s->from, &p->file, &p->sections);
	if (rc) {
		ck_view_plan_put(p);
		return rc;
	}
	ck_view_plan_keep(&s->plan, &p->base);
	*out = p;
	return 0;
}

/* Gets the plan of a catalog. Caller must call ck_view_plan_put(). */
static int plan_get(struct pt *s, const struct ck_catalog *c, struct plan **out)
{
	int rc;

	pthread_mutex_lock(&s->lock);
	*out = ck_view_plan_of(s->plan, c);
	rc = *out ? 0 : plan_make(s, c, out);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static struct ck_file_content about_make(const struct plan *p,
					 const struct ck_catalog *c)
{
	struct ck_view_facts f = { .mode = 0444, .version = p->base.born };

	for (uint32_t i = 0; i < p->file->tree.n; i++)
		if (!p->file->tree.entries[i].empty)
			ck_view_facts_of(&f, c, p->file->tree.entries[i].id);
	return (struct ck_file_content){
		.topic = CK_FILE_KIND_MANY,
		.mode = f.mode,
		.mtime = f.mtime,
		.version = f.version,
		.size = ck_sections_size(p->sections),
	};
}

/* --- the directory ---------------------------------------------------------------------- */

static bool pt_is_empty(const struct ck_catalog *c, const void *state)
{
	return !ck_pt_has_some(c, pt_of(state)->from.options);
}

static int pt_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
		     struct ck_str name, struct ck_child *out)
{
	struct plan *p;
	int rc;

	if (!ck_str_is(name, NAME) || pt_is_empty(c, dir->state))
		return -ENOENT;
	out->entry = 0;
	rc = plan_get(pt_of(dir->state), c, &p);
	if (rc == 0)
		ck_view_plan_put(p);
	return rc;
}

static int pt_next(const struct ck_catalog *c, const struct ck_dir *dir,
		   uint64_t *at, struct ck_child *out)
{
	if (*at || pt_is_empty(c, dir->state))
		return -ENOENT;
	out->entry = 0;
	return 0;
}

static void pt_name(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_buf *out)
{
	(void)c;
	(void)dir;
	(void)entry;
	ck_buf_text(out, NAME);
}

static int pt_stat(const struct ck_catalog *c, const struct ck_dir *dir,
		   uint32_t entry, struct ck_file_content *out)
{
	struct pt *s = pt_of(dir->state);
	struct plan *p;
	int rc;

	if (entry || pt_is_empty(c, s))
		return -ENOENT;
	rc = plan_get(s, c, &p);
	if (rc)
		return rc;
	pthread_mutex_lock(&s->lock);
	if (p->seen != c) {
		ck_catalog_put(p->seen);
		p->seen = ck_catalog_hold(c);
		p->about = about_make(p, c);
	}
	*out = p->about;
	pthread_mutex_unlock(&s->lock);
	ck_view_plan_put(p);
	return 0;
}

static int pt_slice(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_slice **out)
{
	struct plan *p;
	int rc = entry ? -ENOENT : plan_get(pt_of(dir->state), c, &p);

	if (rc)
		return rc;
	rc = ck_sections_slice(p->sections, out);
	ck_view_plan_put(p);
	return rc;
}

static uint64_t pt_count(const struct ck_catalog *c, const void *state)
{
	return !pt_is_empty(c, state);
}

/* --- attributes, status and log ----------------------------------------------------------- */

static int pt_many(const struct ck_catalog *c, const struct ck_dir *dir,
		   uint32_t entry, struct ck_many *out)
{
	struct plan *p;
	int rc = entry ? -ENOENT : plan_get(pt_of(dir->state), c, &p);

	if (rc)
		return rc;
	*out = (struct ck_many){
		.kind = "torch",
		.tensors = p->file->tensors,
		.objects = p->file->shown,
		.left_out = p->file->tree.left_out.all,
		.n = p->file->ntensors,
		.nobjects = p->file->nshown,
		.nleft_out = p->file->tree.left_out.n,
		.put = ck_view_plan_put,
		.arg = p,
	};
	return 0;
}

static void print_absent(const struct pt *s, struct ck_buf *out)
{
	ck_buf_text(out, "torch: absent: ");
	if (s->from.options->root && s->from.options->root[0]) {
		ck_buf_text(out, "option root=");
		ck_buf_escaped(out, ck_str_from(s->from.options->root));
		ck_buf_text(out, ": no entry for torch/ has such a name");
	} else {
		ck_buf_text(out, "no entry for torch/");
	}
}

static void pt_absent(const struct ck_catalog *c, const void *state)
{
	struct pt *s = pt_of(state);
	struct ck_buf line = { 0 };
	bool is_first;

	(void)c;
	pthread_mutex_lock(&s->lock);
	is_first = !s->noted_absent;
	s->noted_absent = true;
	pthread_mutex_unlock(&s->lock);
	if (!is_first)
		return;
	print_absent(s, &line);
	if (!line.err)
		ck_view_note(s->from.options, line.data);
	ck_buf_fini(&line);
}

/* Nothing until a program has used the view: making the file reads objects. */
static void pt_status(const struct ck_catalog *c, const void *state,
		      struct ck_buf *out)
{
	struct pt *s = pt_of(state);
	struct plan *p;

	pthread_mutex_lock(&s->lock);
	p = ck_view_plan_of(s->plan, c);
	pthread_mutex_unlock(&s->lock);
	if (p)
		ck_left_outs_print(&p->file->tree.left_out, "torch", out);
	ck_view_plan_put(p);
}

const struct ck_view ck_view_torch = {
	.top = "torch",
	.make = pt_make,
	.free = pt_free,
	.lookup = pt_lookup,
	.next = pt_next,
	.name = pt_name,
	.stat = pt_stat,
	.slice = pt_slice,
	.many = pt_many,
	.is_empty = pt_is_empty,
	.absent = pt_absent,
	.status = pt_status,
	.count = pt_count,
	.is_form = true,
	.is_on_request = true,
};
