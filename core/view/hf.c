/* SPDX-License-Identifier: MIT */
/*
 * hf: the view hf/: the model of a checkpoint in the layout of a hub: safetensors
 * files, an index if there are several, and the small files beside them ("aside"). The
 * state of a mount, struct hf, has the current plan and the numbers of all names, which
 * never change; any thread, under its lock.
 */
#include "hf.h"
#include "syntax/weight_map.h"

#include <errno.h>
#include <pthread.h>

enum { NO_FILE = UINT32_MAX };

/* A name that a file has or had. Its index is its number. */
struct name {
	char *text;
	/* number of the small file; NO_FILE for a file of plans */
	uint32_t aside;
};

/* The state of the view. */
struct hf {
	/* Constant: */
	const struct ck_view_options *options;
	struct ck_aside *aside;

	pthread_mutex_t lock;
	/* Under lock: */
	/* of the newest generation that was requested; or NULL */
	struct ck_view_plan *plan;
	struct name *names;
	size_t nnames, cap;
	bool has_asides;   /* small files are in names */
	bool noted;	   /* the log has the line about a missing CONFIG */
	bool noted_absent; /* the log has the reason for an absent hf/ */
};

#define CONFIG "config.json"

static struct hf *hf_of(const void *state)
{
	return (struct hf *)(uintptr_t)state;
}

static int hf_make(const struct ck_view_source *from, const void **state)
{
	struct hf *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	s->options = from->options;
	s->aside = from->aside;
	*state = s;
	return 0;
}

static void hf_free(const void *state)
{
	struct hf *s = hf_of(state);

	ck_view_plan_put(s->plan);
	for (size_t i = 0; i < s->nnames; i++)
		free(s->names[i].text);
	free(s->names);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* --- names ------------------------------------------------------------------------ */

static int64_t name_find(const struct hf *s, struct ck_str name)
{
	for (size_t i = 0; i < s->nnames; i++)
		if (ck_str_is(name, s->names[i].text))
			return (int64_t)i;
	return -1;
}

static int name_add(struct hf *s, const char *text, uint32_t aside)
{
	struct name *names = ck_grow(s->names, &s->cap, s->nnames, 1,
				     sizeof(*names));

	if (!names)
		return -ENOMEM;
	s->names = names;
	names[s->nnames] = (struct name){ strdup(text), aside };
	if (!names[s->nnames].text)
		return -ENOMEM;
	s->nnames++;
	return 0;
}

/* Logs once that CONFIG is missing, when a program looks it up or lists the whole
 * directory. */
static void note_no_config(struct hf *s)
{
	bool is_first;

	pthread_mutex_lock(&s->lock);
	is_first = s->has_asides && !s->noted &&
		   name_find(s, CK_STR(CONFIG)) < 0;
	s->noted |= is_first;
	pthread_mutex_unlock(&s->lock);
	if (is_first)
		ck_log("hf: " CK_NO_CONFIG "; " CK_USE_TEMPLATE);
}

/* Drops the names behind the first n, which were not published yet. */
static void names_drop(struct hf *s, size_t n)
{
	while (s->nnames > n)
		free(s->names[--s->nnames].text);
}

/* Gives the files of a plan the numbers of their names. */
static int numbers_give(struct hf *s, struct ck_hf_plan *p)
{
	size_t before = s->nnames;
	int rc = 0;

	for (uint32_t i = 0; i < p->nfiles && rc == 0; i++) {
		int64_t found =
			s->plan ? name_find(s, ck_str_from(p->files[i].name))
				: -1;

		if (found < 0) {
			found = (int64_t)s->nnames;
			rc = name_add(s, p->files[i].name, NO_FILE);
		}
		p->files[i].number = (uint32_t)found;
	}
	if (rc)
		names_drop(s, before);
	return rc;
}

/* --- the plan of a catalog ---------------------------------------------------------- */

static int plan_make(struct hf *s, const struct ck_catalog *c,
		     struct ck_hf_plan **out)
{
	int rc = ck_hf_plan_make(c, s->options, s->plan, out);

	if (rc)
		return rc;
	rc = numbers_give(s, *out);
	if (rc) {
		ck_view_plan_put(*out);
		return rc;
	}
	ck_view_plan_keep(&s->plan, &(*out)->base);
	return 0;
}

static int asides_add(struct hf *s)
{
	size_t before = s->nnames;
	uint32_t n = 0;
	int rc = s->has_asides || !s->aside ? 0 : s->aside->count(s->aside, &n);

	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = name_add(s, s->aside->name(s->aside, i), i);
	s->has_asides |= rc == 0;
	if (rc)
		names_drop(s, before);
	return ck_is_shortage(rc) ? rc : 0; /* the next call tries again */
}

/* Gets the plan of a catalog, and lists the small files. Caller must call
 * ck_view_plan_put(). Returns 0, or: -ENOMEM; -EOVERFLOW; other transient errors of
 * listing. */
static int plan_get(const struct ck_dir *dir, const struct ck_catalog *c,
		    struct ck_hf_plan **out)
{
	struct hf *s = hf_of(dir->state);
	int rc;

	pthread_mutex_lock(&s->lock);
	*out = ck_view_plan_of(s->plan, c);
	rc = *out ? 0 : plan_make(s, c, out);
	if (rc == 0) {
		rc = asides_add(s);
		if (rc)
			ck_view_plan_put(*out);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* --- entries ---------------------------------------------------------------------------- */

/* Finds a file by its number. In the first plan, numbers are indexes. */
static uint32_t file_find(const struct ck_hf_plan *p, uint32_t number)
{
	if (number < p->nfiles && p->files[number].number == number)
		return number;
	for (uint32_t i = 0; i < p->nfiles; i++)
		if (p->files[i].number == number)
			return i;
	return NO_FILE;
}

/* The file of a number in a catalog: a file of the plan, or a small file. */
struct entry {
	struct ck_hf_plan *plan;
	uint32_t file, aside; /* NO_FILE if it is the other one */
};

/* Finds the file of a number. Returns 0, or: -ENOENT. */
static int entry_find(const struct ck_dir *dir, uint32_t number,
		      struct entry *e)
{
	struct hf *s = hf_of(dir->state);

	e->file = file_find(e->plan, number);
	e->aside = NO_FILE;
	pthread_mutex_lock(&s->lock);
	if (number < s->nnames)
		e->aside = s->names[number].aside;
	pthread_mutex_unlock(&s->lock);
	return e->file != NO_FILE || e->aside != NO_FILE ? 0 : -ENOENT;
}

/* entry_find() with the plan of a catalog. After success caller must call
 * ck_view_plan_put(e->plan). */
static int entry_get(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t number, struct entry *e)
{
	int rc = plan_get(dir, c, &e->plan);

	if (rc)
		return rc;
	rc = entry_find(dir, number, e);
	if (rc)
		ck_view_plan_put(e->plan);
	return rc;
}

static int hf_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
		     struct ck_str name, struct ck_child *out)
{
	struct hf *s = hf_of(dir->state);
	struct entry e;
	int64_t found;
	int rc = plan_get(dir, c, &e.plan);

	if (rc)
		return rc;
	pthread_mutex_lock(&s->lock);
	found = name_find(s, name);
	pthread_mutex_unlock(&s->lock);
	rc = found < 0 ? -ENOENT : entry_find(dir, (uint32_t)found, &e);
	ck_view_plan_put(e.plan);
	out->entry = (uint32_t)found;
	if (rc == -ENOENT && ck_str_is(name, CONFIG))
		note_no_config(s);
	return rc;
}

static int hf_next(const struct ck_catalog *c, const struct ck_dir *dir,
		   uint64_t *at, struct ck_child *out)
{
	struct hf *s = hf_of(dir->state);
	struct entry e;
	uint64_t n;
	int rc = plan_get(dir, c, &e.plan);

	if (rc)
		return rc;
	pthread_mutex_lock(&s->lock);
	n = s->nnames;
	pthread_mutex_unlock(&s->lock);
	while (*at < n && entry_find(dir, (uint32_t)*at, &e))
		++*at;
	ck_view_plan_put(e.plan);
	if (*at >= n) {
		note_no_config(s);
		return -ENOENT;
	}
	out->entry = (uint32_t)*at;
	return 0;
}

static void hf_name(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_buf *out)
{
	struct hf *s = hf_of(dir->state);

	(void)c;
	pthread_mutex_lock(&s->lock);
	if (entry < s->nnames)
		ck_buf_text(out, s->names[entry].text);
	pthread_mutex_unlock(&s->lock);
}

static int hf_stat(const struct ck_catalog *c, const struct ck_dir *dir,
		   uint32_t entry, struct ck_file_content *out)
{
	struct hf *s = hf_of(dir->state);
	struct entry e;
	int rc = entry_get(c, dir, entry, &e);

	if (rc)
		return rc;
	if (e.file != NO_FILE) {
		ck_hf_plan_about(e.plan, c, e.file, out);
	} else {
		*out = (struct ck_file_content){ .topic = CK_FILE_KIND_ASIDE };
		s->aside->stat(s->aside, c, e.aside, out);
	}
	ck_view_plan_put(e.plan);
	return 0;
}

static int file_slice(const struct ck_hf_file *f, struct ck_slice **out)
{
	struct ck_slice_builder b = { 0 };

	if (f->sections)
		return ck_sections_slice(f->sections, out);
	ck_slice_add_bytes(&b, (struct ck_str){ f->text, f->bytes });
	return ck_slice_make(&b, out);
}

static int hf_slice(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_slice **out)
{
	struct hf *s = hf_of(dir->state);
	struct entry e;
	int rc = entry_get(c, dir, entry, &e);

	if (rc)
		return rc;
	rc = e.file != NO_FILE ? file_slice(&e.plan->files[e.file], out)
			       : s->aside->slice(s->aside, e.aside, out);
	ck_view_plan_put(e.plan);
	return rc;
}

/* --- status and log --------------------------------------------------------------- */

static int hf_many(const struct ck_catalog *c, const struct ck_dir *dir,
		   uint32_t entry, struct ck_many *out)
{
	struct entry e;
	int rc = entry_get(c, dir, entry, &e);

	if (rc)
		return rc;
	if (e.file == NO_FILE) {
		ck_view_plan_put(e.plan);
		return -ENOENT;
	}
	*out = (struct ck_many){
		.kind = "hf",
		.tensors = e.plan->files[e.file].tensors,
		.n = e.plan->files[e.file].n,
		.left_out = e.plan->chosen.left_out.all,
		.nleft_out = e.plan->chosen.left_out.n,
		.put = ck_view_plan_put,
		.arg = e.plan,
	};
	return 0;
}

/* Answers without making a plan, except for a template, whose names may all be
 * absent. */
static bool hf_is_empty(const struct ck_catalog *c, const void *state)
{
	const struct ck_dir dir = { .state = state };
	struct hf *s = hf_of(state);
	struct ck_hf_plan *p;
	bool empty;

	pthread_mutex_lock(&s->lock);
	p = ck_view_plan_of(s->plan, c);
	pthread_mutex_unlock(&s->lock);
	if (!p) {
		empty = !ck_hf_has_some(c, s->options);
		if (empty || !s->options->weight_map || plan_get(&dir, c, &p))
			return empty;
	}
	empty = p->nfiles == 0;
	ck_view_plan_put(p);
	return empty;
}

static uint64_t hf_count(const struct ck_catalog *c, const void *state)
{
	const struct ck_dir dir = { .state = state };
	struct hf *s = hf_of(state);
	struct ck_hf_plan *p;
	uint64_t n;

	if (hf_is_empty(c, state) || plan_get(&dir, c, &p))
		return 0;
	n = p->nfiles;
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->nnames; i++)
		n += s->names[i].aside != NO_FILE;
	pthread_mutex_unlock(&s->lock);
	ck_view_plan_put(p);
	return n;
}

/* Prints why hf/ is empty, and the option that changes it. */
static void print_absent(const struct hf *s, const struct ck_catalog *c,
			 struct ck_buf *out)
{
	ck_buf_text(out, "hf: absent: ");
	if (c->tensors.n && s->options->root && s->options->root[0]) {
		ck_buf_text(out, "option root=");
		ck_buf_escaped(out, ck_str_from(s->options->root));
		ck_buf_text(out, ": no tensor for hf/; names begin with ");
		ck_hf_print_tops(c, out);
	} else if (s->options->weight_map && ck_hf_has_some(c, s->options)) {
		ck_buf_text(out, "hf_template: its index names no tensor of "
				 "the checkpoint; names begin with ");
		ck_hf_print_tops(c, out);
		ck_buf_text(out, "; rename= gives other names");
	} else {
		ck_buf_text(out, "no tensor for hf/; root=NAME selects those "
				 "below NAME, and root= all");
	}
}

static void hf_absent(const struct ck_catalog *c, const void *state)
{
	struct hf *s = hf_of(state);
	struct ck_buf line = { 0 };
	bool is_first;

	pthread_mutex_lock(&s->lock);
	is_first = !s->noted_absent;
	s->noted_absent = true;
	pthread_mutex_unlock(&s->lock);
	if (!is_first)
		return;
	print_absent(s, c, &line);
	if (!line.err)
		ck_view_note(s->options, line.data);
	ck_buf_fini(&line);
}

static void hf_status(const struct ck_catalog *c, const void *state,
		      struct ck_buf *out)
{
	const struct ck_dir dir = { .state = state };
	struct hf *s = hf_of(state);
	struct ck_hf_plan *p;

	if (plan_get(&dir, c, &p))
		return;
	if (p->nfiles == 0 && c->tensors.n) {
		print_absent(s, c, out);
		ck_buf_text(out, "\n");
	}
	pthread_mutex_lock(&s->lock);
	if (p->nfiles && s->has_asides && name_find(s, CK_STR(CONFIG)) < 0)
		ck_buf_text(out, "hf: " CK_NO_CONFIG "; " CK_USE_TEMPLATE "\n");
	pthread_mutex_unlock(&s->lock);
	ck_left_outs_print(&p->chosen.left_out, "hf", out);
	ck_view_plan_put(p);
}

/* True if hf_template= is given and its directory has no CONFIG. */
static bool template_lacks_config(struct hf *s)
{
	struct ck_aside *aside = s->options->aside;
	uint32_t n = 0;

	if (!aside || aside->count(aside, &n))
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(aside->name(aside, i), CONFIG) == 0)
			return false;
	s->noted = true;
	return true;
}

/* The number of names that only the index of the template has. */
static uint32_t template_only(const struct ck_catalog *c, const void *state)
{
	const struct ck_dir dir = { .state = state };
	struct ck_hf_plan *p;
	uint32_t n = 0;

	if (!hf_of(state)->options->weight_map || plan_get(&dir, c, &p))
		return 0;
	for (uint32_t i = 0; i < p->chosen.left_out.n; i++)
		n += p->chosen.left_out.all[i].why == ck_hf_only_template;
	ck_view_plan_put(p);
	return n;
}

/* root= or hf_template= without an effect that the user expects. */
static void hf_log(const struct ck_catalog *c, const void *state,
		   struct ck_buf *out)
{
	struct hf *s = hf_of(state);
	uint32_t lacks;

	if ((s->options->root || s->options->weight_map) &&
	    hf_is_empty(c, state)) {
		print_absent(s, c, out);
		s->noted_absent = true;
		return;
	}
	lacks = template_only(c, state);
	if (lacks)
		ck_buf_printf(out,
			      "hf_template: %u names of its index are not "
			      "in the checkpoint; .ckptfs/status has them",
			      lacks);
	else if (template_lacks_config(s))
		ck_buf_text(out, "hf_template: " CK_NO_CONFIG);
}

const struct ck_view ck_view_hf = {
	.top = "hf",
	.make = hf_make,
	.free = hf_free,
	.lookup = hf_lookup,
	.next = hf_next,
	.name = hf_name,
	.stat = hf_stat,
	.slice = hf_slice,
	.many = hf_many,
	.is_empty = hf_is_empty,
	.absent = hf_absent,
	.status = hf_status,
	.log = hf_log,
	.count = hf_count,
	.is_form = true,
};
