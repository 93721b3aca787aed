/* SPDX-License-Identifier: MIT */
/*
 * pt_view: the view torch/, with one file, checkpoint.pt. Its state has the file of the
 * newest listing that was requested; several generations of the catalog may have one
 * listing. Any thread, under the lock of the state.
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
	struct ck_pt_file *file; /* or NULL */
	struct ck_sections *sections;
	uint64_t born; /* lowest version of the file */
	/* of which `about` has the facts of the file; or NULL */
	const struct ck_catalog *seen;
	struct ck_file_content about;
	bool noted_absent; /* the log has the reason for an absent torch/ */
};

/* The file of a catalog, in use. */
struct using
{
	struct ck_pt_file *file;
	struct ck_sections *sections;
	uint64_t born;
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

	ck_sections_put(s->sections);
	ck_catalog_put(s->seen);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* --- the file of a catalog ------------------------------------------------------------ */

/* Makes the file of a catalog, and keeps it unless there is one of a later catalog. */
static int file_make(struct pt *s, const struct ck_catalog *c,
		     struct using *out)
{
	int rc = ck_pt_file_make(c, &s->from, &out->file, &out->sections);

	if (rc)
		return rc;
	out->born = s->file ? c->generation : 0;
	if (s->file && s->file->tree.c->generation > c->generation)
		return 0;
	ck_sections_put(s->sections);
	s->file = out->file;
	s->sections = ck_sections_hold(out->sections);
	s->born = out->born;
	ck_catalog_put(s->seen);
	s->seen = NULL;
	return 0;
}

static bool is_present(const struct pt *s, const struct ck_catalog *c)
{
	return s->file && s->file->tree.c->listing == c->listing;
}

/* Gets the file of a catalog. Caller must call ck_sections_put(out->sections). */
static int file_get(struct pt *s, const struct ck_catalog *c, struct using *out)
{
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	if (!is_present(s, c))
		rc = file_make(s, c, out);
	else
		*out = (struct using){ s->file, ck_sections_hold(s->sections),
				       s->born };
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static void fact_add(struct ck_file_content *about, mode_t mode,
		     struct timespec mtime, uint64_t version)
{
	about->mode &= mode;
	if (ck_time_is_later(mtime, about->mtime))
		about->mtime = mtime;
	about->version = ck_max(about->version, version);
}

static struct ck_file_content about_make(const struct using *u,
					 const struct ck_catalog *c)
{
	struct ck_file_content about = {
		.topic = CK_FILE_KIND_MANY,
		.mode = 0444,
		.version = u->born,
		.size = ck_sections_size(u->sections),
	};

	for (uint32_t i = 0; i < u->file->ntensors; i++) {
		const struct ck_tensor_facts *facts =
			ck_catalog_tensor(c, u->file->tensors[i])->facts;

		fact_add(&about, facts->mode, facts->mtime, facts->version);
	}
	for (uint32_t i = 0; i < u->file->nshown; i++) {
		const struct ck_object *o =
			ck_catalog_object(c, u->file->shown[i]);

		fact_add(&about, o->mode, o->mtime, 0);
	}
	return about;
}

/* --- the directory ---------------------------------------------------------------------- */

static bool pt_is_empty(const struct ck_catalog *c, const void *state)
{
	return !ck_pt_has_some(c, pt_of(state)->from.options);
}

static int pt_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
		     struct ck_str name, struct ck_child *out)
{
	struct using u;
	int rc;

	if (!ck_str_is(name, NAME) || pt_is_empty(c, dir->state))
		return -ENOENT;
	out->entry = 0;
	rc = file_get(pt_of(dir->state), c, &u);
	if (rc == 0)
		ck_sections_put(u.sections);
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
	struct using u;
	int rc;

	if (entry || pt_is_empty(c, s))
		return -ENOENT;
	rc = file_get(s, c, &u);
	if (rc)
		return rc;
	pthread_mutex_lock(&s->lock);
	if (s->seen == c && s->file == u.file) {
		*out = s->about;
	} else {
		*out = about_make(&u, c);
		if (s->file == u.file) {
			ck_catalog_put(s->seen);
			s->seen = ck_catalog_hold(c);
			s->about = *out;
		}
	}
	pthread_mutex_unlock(&s->lock);
	ck_sections_put(u.sections);
	return 0;
}

static int pt_slice(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_slice **out)
{
	struct using u;
	int rc = entry ? -ENOENT : file_get(pt_of(dir->state), c, &u);

	if (rc)
		return rc;
	rc = ck_sections_slice(u.sections, out);
	ck_sections_put(u.sections);
	return rc;
}

static uint64_t pt_count(const struct ck_catalog *c, const void *state)
{
	return !pt_is_empty(c, state);
}

/* --- attributes, status and log ----------------------------------------------------------- */

static void many_put(void *arg)
{
	ck_sections_put(arg);
}

static int pt_many(const struct ck_catalog *c, const struct ck_dir *dir,
		   uint32_t entry, struct ck_many *out)
{
	struct using u;
	int rc = entry ? -ENOENT : file_get(pt_of(dir->state), c, &u);

	if (rc)
		return rc;
	*out = (struct ck_many){
		.kind = "torch",
		.tensors = u.file->tensors,
		.objects = u.file->shown,
		.left_out = u.file->tree.left_out.all,
		.n = u.file->ntensors,
		.nobjects = u.file->nshown,
		.nleft_out = u.file->tree.left_out.n,
		.put = many_put,
		.arg = u.sections,
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
	struct using u;
	bool present;

	pthread_mutex_lock(&s->lock);
	present = is_present(s, c);
	pthread_mutex_unlock(&s->lock);
	if (!present || file_get(s, c, &u))
		return;
	ck_left_outs_print(&u.file->tree.left_out, "torch", out);
	ck_sections_put(u.sections);
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
