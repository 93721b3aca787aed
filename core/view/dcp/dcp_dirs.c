/* SPDX-License-Identifier: MIT */
/*
 * dcp_dirs: the view dcp/: <spec>/ is a DCP checkpoint that a job of that number of ranks, or
 * of that mesh, would have saved: `.metadata`, and __<r>_0.distcp of each rank. Nothing is
 * stored; the elements are boxes of the tensors.
 *
 * ck_dir.a of dcp/ itself is { 0, 0 }, of <spec>/ { 1 + number of the spec, 0 }. Entries of
 * dcp/ are numbers of specs; of <spec>/ 0 is `.metadata` and 1 + r the file of rank r.
 *
 * The state of a mount has the current plan, the layouts that were used last, and texts of
 * `.metadata`, which stay while they are open, and after that up to a total size. All of it
 * is made under one lock; any thread.
 */
#include "dcp_view.h"
#include "view/specs.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>

enum {
	LAYOUTS = 8,		/* most that are kept */
	LAYOUT_RANKS = 1 << 20, /* of the layouts that are kept, together */
};

/* The state of the view. */
struct dcp {
	/* Constant; the table locks itself: */
	struct ck_specs *specs;
	const struct ck_view_options *options;
	struct ck_object_access objects;

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_view_plan *plan; /* of the newest listing; or NULL */
	struct ck_dcp_layout *layouts[LAYOUTS]; /* the last used one first */
	uint32_t nlayouts;
	struct ck_dcp_texts texts;
};

static struct dcp *dcp_of(const void *state)
{
	return (struct dcp *)(uintptr_t)state;
}

static int dcp_make(const struct ck_view_source *from, const void **state)
{
	struct dcp *s = calloc(1, sizeof(*s));
	int rc = s ? ck_specs_make(&s->specs) : -ENOMEM;

	if (rc) {
		free(s);
		return rc;
	}
	pthread_mutex_init(&s->lock, NULL);
	s->options = from->options;
	s->objects = from->objects;
	s->texts.most = CK_DCP_METADATA_MOST;
	*state = s;
	return 0;
}

static void dcp_free(const void *state)
{
	struct dcp *s = dcp_of(state);

	ck_dcp_texts_fini(&s->texts);
	for (uint32_t i = 0; i < s->nlayouts; i++)
		ck_dcp_layout_put(s->layouts[i]);
	ck_view_plan_put(s->plan);
	pthread_mutex_destroy(&s->lock);
	ck_specs_free(s->specs);
	free(s);
}

/* --- plans and layouts ------------------------------------------------------------------ */

static int plan_get(struct dcp *s, const struct ck_catalog *c,
		    struct ck_dcp_plan **out)
{
	int rc;

	*out = ck_view_plan_of(s->plan, c);
	if (*out)
		return 0;
	rc = ck_dcp_plan_make(c, &s->objects, s->plan, out);
	if (rc == 0)
		ck_view_plan_keep(&s->plan, &(*out)->base);
	return rc;
}

/* Makes a layout the last used one. */
static void layout_first(struct dcp *s, uint32_t i)
{
	struct ck_dcp_layout *l = s->layouts[i];

	memmove(s->layouts + 1, s->layouts, i * sizeof(*s->layouts));
	s->layouts[0] = l;
}

static void layout_keep(struct dcp *s, struct ck_dcp_layout *l)
{
	uint64_t ranks = 0;
	uint32_t n = 0;

	if (s->nlayouts == LAYOUTS)
		ck_dcp_layout_put(s->layouts[--s->nlayouts]);
	s->layouts[s->nlayouts] = ck_dcp_layout_hold(l);
	layout_first(s, s->nlayouts++);
	while (n < s->nlayouts &&
	       (n == 0 || ranks + s->layouts[n]->spec.ranks <= LAYOUT_RANKS))
		ranks += s->layouts[n++]->spec.ranks;
	while (s->nlayouts > n)
		ck_dcp_layout_put(s->layouts[--s->nlayouts]);
}

static int layout_make(struct dcp *s, const struct ck_catalog *c,
		       uint32_t number, struct ck_dcp_layout **out)
{
	struct ck_dcp_plan *p;
	struct ck_spec spec;
	struct ck_str name;
	int rc;

	if (!ck_specs_at(s->specs, number, &name, &spec))
		return -ENOENT;
	rc = plan_get(s, c, &p);
	if (rc)
		return rc;
	rc = ck_dcp_layout_make(p, c, number, &spec, s->options->rules, out);
	if (rc == 0)
		layout_keep(s, *out);
	ck_view_plan_put(p);
	return rc;
}

/* Under the lock. Caller must call ck_dcp_layout_put(). Returns 0, or: -ENOENT; -ENOMEM;
 * -EOVERFLOW; transient errors of reading objects. */
static int layout_find(struct dcp *s, const struct ck_catalog *c,
		       uint32_t number, struct ck_dcp_layout **out)
{
	for (uint32_t i = 0; i < s->nlayouts; i++)
		if (s->layouts[i]->number == number && s->layouts[i]->c == c) {
			layout_first(s, i);
			*out = ck_dcp_layout_hold(s->layouts[0]);
			return 0;
		}
	return layout_make(s, c, number, out);
}

static int layout_get(const struct ck_catalog *c, const struct ck_dir *dir,
		      struct ck_dcp_layout **out)
{
	struct dcp *s = dcp_of(dir->state);
	int rc;

	pthread_mutex_lock(&s->lock);
	rc = layout_find(s, c, dir->a[0] - 1, out);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* Caller must call ck_dcp_text_put(). Returns 0, or errors of ck_dcp_text_get() and
 * layout_find(). */
static int text_get(const struct ck_catalog *c, const struct ck_dir *dir,
		    struct ck_dcp_text **out)
{
	struct dcp *s = dcp_of(dir->state);
	struct ck_dcp_layout *l = NULL;
	int rc;

	pthread_mutex_lock(&s->lock);
	rc = layout_find(s, c, dir->a[0] - 1, &l);
	if (rc == 0)
		rc = ck_dcp_text_get(&s->texts, l, out);
	pthread_mutex_unlock(&s->lock);
	ck_dcp_layout_put(l);
	return rc;
}

/* --- directories ------------------------------------------------------------------------- */

#define PREFIX	 "__"
#define SUFFIX	 "_0.distcp"
#define METADATA ".metadata"

static bool dcp_is_empty(const struct ck_catalog *c, const void *state)
{
	(void)state;
	return !ck_dcp_plan_has_some(c);
}

static void dir_set(const struct ck_dir *dir, uint32_t number,
		    struct ck_child *out)
{
	*out = (struct ck_child){
		.type = CK_TYPE_DIR,
		.entry = number,
		.dir = { .view = &ck_view_dcp,
			 .state = dir->state,
			 .a = { 1 + number } },
	};
}

/* The spec of <spec>/. */
static bool spec_of(const struct ck_dir *dir, struct ck_spec *out)
{
	struct ck_str name;

	return ck_specs_at(dcp_of(dir->state)->specs, dir->a[0] - 1, &name,
			   out);
}

static int dcp_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
		      struct ck_str name, struct ck_child *out)
{
	struct dcp *s = dcp_of(dir->state);
	struct ck_spec spec;
	uint64_t number = 0;
	uint32_t found;
	int rc;

	if (!dir->a[0]) {
		ck_specs_add_own(s->specs, c);
		rc = ck_specs_find(s->specs, name, &found);
		if (rc == 0)
			dir_set(dir, found, out);
		return rc;
	}
	if (ck_str_is(name, METADATA))
		out->entry = 0;
	else if (ck_view_number_in(name, CK_STR(PREFIX), CK_STR(SUFFIX),
				   &number) &&
		 spec_of(dir, &spec) && number < spec.ranks)
		out->entry = 1 + (uint32_t)number;
	else
		return -ENOENT;
	return 0;
}

static int dcp_next(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint64_t *at, struct ck_child *out)
{
	struct dcp *s = dcp_of(dir->state);
	struct ck_spec spec;
	struct ck_str name;

	if (dir->a[0]) {
		if (!spec_of(dir, &spec) || *at > spec.ranks)
			return -ENOENT;
		out->entry = (uint32_t)*at;
		return 0;
	}
	ck_specs_add_own(s->specs, c);
	if (*at > UINT32_MAX ||
	    !ck_specs_at(s->specs, (uint32_t)*at, &name, &spec))
		return -ENOENT;
	dir_set(dir, (uint32_t)*at, out);
	return 0;
}

static void dcp_name(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_buf *out)
{
	struct ck_spec spec;
	struct ck_str name;

	(void)c;
	if (dir->a[0] && entry)
		ck_buf_printf(out, PREFIX "%" PRIu32 SUFFIX, entry - 1);
	else if (dir->a[0])
		ck_buf_text(out, METADATA);
	else if (ck_specs_at(dcp_of(dir->state)->specs, entry, &name, &spec))
		ck_buf_str(out, name);
}

static uint64_t dcp_count(const struct ck_catalog *c, const void *state)
{
	struct dcp *s = dcp_of(state);
	struct ck_spec spec;
	struct ck_str name;
	uint64_t n = 0;

	if (dcp_is_empty(c, state))
		return 0;
	ck_specs_add_own(s->specs, c);
	for (uint32_t i = 0; ck_specs_at(s->specs, i, &name, &spec); i++)
		n += 2 + (uint64_t)spec.ranks;
	return n;
}

/* --- files ------------------------------------------------------------------------------- */

static int dcp_stat(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_file_content *out)
{
	const struct ck_dcp_file *f;
	struct ck_dcp_layout *l;
	struct ck_spec spec;
	int rc;

	if (!dir->a[0] || !spec_of(dir, &spec) || entry > spec.ranks)
		return -ENOENT;
	rc = layout_get(c, dir, &l);
	if (rc)
		return rc;
	f = entry ? &l->files[entry - 1] : &l->metadata;
	*out = (struct ck_file_content){
		.topic = entry ? CK_FILE_KIND_MANY : CK_FILE_KIND_ASIDE,
		.made = entry == 0,
		.size = f->size,
		.mode = f->facts.mode,
		.mtime = f->facts.mtime,
		.version = f->facts.version,
	};
	ck_dcp_layout_put(l);
	return 0;
}

/* Of `.metadata`. */
static int dcp_size(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, uint64_t *size)
{
	struct ck_dcp_text *t;
	int rc = text_get(c, dir, &t);

	(void)entry;
	if (rc)
		return rc;
	*size = ck_dcp_text_len(t);
	ck_dcp_text_put(t);
	return 0;
}

static int dcp_slice(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_slice **out)
{
	struct ck_dcp_layout *l;
	struct ck_dcp_text *t;
	int rc = entry ? layout_get(c, dir, &l) : text_get(c, dir, &t);

	if (rc)
		return rc;
	if (entry == 0)
		return ck_dcp_text_slice(t, out);
	rc = entry <= l->spec.ranks ? ck_dcp_file_slice(l, entry - 1, out)
				    : -ENOENT;
	ck_dcp_layout_put(l);
	return rc;
}

/* --- attributes and status ----------------------------------------------------------------- */

struct many {
	struct ck_dcp_plan *plan; /* held: has left_out */
	uint32_t n;
	uint32_t tensors[];
};

static void many_put(void *arg)
{
	struct many *m = arg;

	ck_view_plan_put(m->plan);
	free(m);
}

/* Aliases are in the files of the tensor whose items they have. */
static int many_fill(struct many *m, const struct ck_dcp_layout *l,
		     uint32_t rank)
{
	int rc = 0;

	for (uint32_t i = 0; i < m->plan->n && rc == 0; i++) {
		struct ck_dcp_boxes b;
		bool has = false;

		if (!m->plan->entries[i].is_object)
			rc = ck_dcp_box_of(l, i, rank, &b, &has);
		if (has)
			m->tensors[m->n++] = m->plan->entries[i].i;
	}
	return rc;
}

static int dcp_many(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_many *out)
{
	struct ck_dcp_layout *l;
	struct many *m;
	int rc = layout_get(c, dir, &l);

	if (rc)
		return rc;
	m = malloc(sizeof(*m) + l->plan->n * sizeof(*m->tensors));
	if (m) {
		m->plan = ck_view_plan_hold(l->plan);
		m->n = 0;
	}
	rc = m ? many_fill(m, l, entry - 1) : -ENOMEM;
	ck_dcp_layout_put(l);
	if (rc) {
		if (m)
			many_put(m);
		return rc;
	}
	*out = (struct ck_many){
		.kind = "dcp",
		.tensors = m->tensors,
		.n = m->n,
		.left_out = m->plan->left_out.all,
		.nleft_out = m->plan->left_out.n,
		.put = many_put,
		.arg = m,
	};
	return 0;
}

/* Of a mount with sharded/ that view has the line. */
static void dcp_log(const struct ck_catalog *c, const void *state,
		    struct ck_buf *out)
{
	const struct ck_view_options *o = dcp_of(state)->options;

	if (!ck_view_is_wanted(o, ck_view_sharded.top))
		ck_view_place_note(o, c, out);
}

/* No entries until a program has used the view: a plan may read objects. */
static void dcp_status(const struct ck_catalog *c, const void *state,
		       struct ck_buf *out)
{
	struct dcp *s = dcp_of(state);
	struct ck_dcp_plan *p;
	size_t begin = out->len;

	dcp_log(c, state, out);
	if (out->len > begin)
		ck_buf_text(out, "\n");
	pthread_mutex_lock(&s->lock);
	p = ck_view_plan_of(s->plan, c);
	pthread_mutex_unlock(&s->lock);
	if (p)
		ck_left_outs_print(&p->left_out, "dcp", out);
	ck_view_plan_put(p);
}

const struct ck_view ck_view_dcp = {
	.top = "dcp",
	.make = dcp_make,
	.free = dcp_free,
	.lookup = dcp_lookup,
	.next = dcp_next,
	.name = dcp_name,
	.stat = dcp_stat,
	.size = dcp_size,
	.slice = dcp_slice,
	.many = dcp_many,
	.is_empty = dcp_is_empty,
	.status = dcp_status,
	.log = dcp_log,
	.count = dcp_count,
	.is_form = true,
	.is_on_request = true,
};
