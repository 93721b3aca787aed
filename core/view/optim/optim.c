/* SPDX-License-Identifier: MIT */
/*
 * optim: the view optim/: the state of optimizers by parameter. The first lookup or
 * listing in it makes a map of all optimizers (optim.h), and so does the first one after
 * a commit that added, renamed or removed entries. A mount that does not use optim/ has
 * none.
 *
 * ck_dir.a[0] is the number of the directory's path. Entries are numbers of paths, in
 * directories of parameters codes of rows, and GROUPS. The state of a mount, struct
 * optim, is under its lock; any thread.
 */
#include "optim.h"

#include <errno.h>
#include <pthread.h>

#define GROUPS_NAME "param_groups.json"

/* Entry of GROUPS_NAME: the number of optim/ itself, which is in no directory. */
enum { GROUPS = 0 };

/* With more directories than this a listing gives them no numbers, of which a mount has
 * a limited number. */
enum { NUMBERED_MOST = 4096 };

/* Facts of a param_groups.json. */
struct facts {
	/* Under the lock of the view: */
	const struct ck_catalog *seen; /* held; NULL: no facts yet */
	struct ck_view_facts facts;
	bool has_size;
	uint64_t size;
};

/* A map that several threads use. */
struct plan {
	struct ck_view_plan base;
	/* Constant: */
	struct ck_optim_map *map;
	struct facts *facts; /* of each tree; under the lock of the view */
};

/* The state of the view. */
struct optim {
	/* Constant: */
	const struct ck_view_options *options;
	struct ck_object_access objects;

	pthread_mutex_t lock;
	/* Under lock: */
	/* of the newest generation that was requested; or NULL */
	struct ck_view_plan *plan;
	struct ck_texts paths;
	/* the listing for which is_empty was found; held, or NULL */
	const struct ck_listing *listing;
	bool is_empty;
};

static struct optim *optim_of(const void *state)
{
	return (struct optim *)(uintptr_t)state;
}

static int optim_make(const struct ck_view_source *from, const void **state)
{
	struct optim *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	s->options = from->options;
	s->objects = from->objects;
	*state = s;
	return 0;
}

/* --- the plan of a catalog ---------------------------------------------------------- */

static void plan_free(void *plan)
{
	struct plan *p = plan;

	for (uint32_t i = 0; p->facts && i < p->map->found->ntrees; i++)
		ck_catalog_put(p->facts[i].seen);
	free(p->facts);
	ck_optim_map_free(p->map);
	free(p);
}

static void optim_free(const void *state)
{
	struct optim *s = optim_of(state);

	ck_view_plan_put(s->plan);
	ck_texts_fini(&s->paths);
	ck_listing_put(s->listing);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Makes a plan, under lock. Takes `found`. GROUPS_NAME of later plans is another file. */
static int plan_make(struct optim *s, struct ck_optim_found *found,
		     struct plan **out)
{
	struct plan *p = calloc(1, sizeof(*p));
	int rc;

	if (!p) {
		ck_optim_found_free(found);
		return -ENOMEM;
	}
	ck_view_plan_begin(&p->base, s->plan, found->c, plan_free);
	rc = ck_optim_map_make(found, s->options, &s->paths, &p->map);
	if (rc == 0) {
		p->facts = calloc(p->map->found->ntrees + 1UL,
				  sizeof(*p->facts));
		rc = p->facts ? 0 : -ENOMEM;
	}
	if (rc) {
		ck_view_plan_put(p);
		return rc;
	}
	ck_view_plan_keep(&s->plan, &p->base);
	*out = p;
	return 0;
}

/* Gets the plan of a catalog. The lists of groups are read without the lock. Caller must
 * call ck_view_plan_put(). Returns 0, or: -ENOMEM; a transient error. */
static int plan_get(struct optim *s, const struct ck_catalog *c,
		    struct plan **out)
{
	struct ck_optim_found *found = NULL;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	*out = ck_view_plan_of(s->plan, c);
	pthread_mutex_unlock(&s->lock);
	if (*out)
		return 0;
	rc = ck_optim_found_make(c, &s->objects, &found);
	if (rc)
		return rc;
	pthread_mutex_lock(&s->lock);
	*out = ck_view_plan_of(s->plan, c);
	if (!*out)
		rc = plan_make(s, found, out);
	pthread_mutex_unlock(&s->lock);
	if (*out && (*out)->map->found != found)
		ck_optim_found_free(found);
	return rc;
}

/* A directory in the plan of a catalog. */
struct place {
	struct optim *s;
	struct plan *plan;
	const struct ck_optim_map *map;
	const struct ck_optim_dir *dir;
	const struct ck_optim_tree
		*tree; /* whose GROUPS_NAME it has; or NULL */
};

/* The directory of a number; NULL if the plan has none. */
static const struct ck_optim_dir *dir_of(const struct ck_optim_map *m,
					 uint32_t number)
{
	uint32_t at = number < m->nnumbers ? m->of_number[number]
					   : CK_OPTIM_NONE;

	return at == CK_OPTIM_NONE ? NULL : &m->dirs[at];
}

/* After success caller must call ck_view_plan_put(p->plan). Returns 0, or: -ENOENT if the
 * directory was removed; errors of plan_get(). */
static int place_get(const struct ck_catalog *c, const struct ck_dir *dir,
		     struct place *p)
{
	int rc;

	*p = (struct place){ .s = optim_of(dir->state) };
	rc = plan_get(p->s, c, &p->plan);
	if (rc)
		return rc;
	p->map = p->plan->map;
	p->dir = dir_of(p->map, dir->a[0]);
	if (!p->dir) {
		ck_view_plan_put(p->plan);
		return -ENOENT;
	}
	if (p->dir->tree != CK_OPTIM_NONE &&
	    p->map->found->trees[p->dir->tree].ngroups)
		p->tree = &p->map->found->trees[p->dir->tree];
	return 0;
}

/* --- names -------------------------------------------------------------------------- */

static void dir_set(const struct ck_dir *in, uint32_t number,
		    struct ck_child *out)
{
	*out = (struct ck_child){
		.type = CK_TYPE_DIR,
		.entry = number,
		.dir = { .view = &ck_view_optim,
			 .state = in->state,
			 .a = { number } },
	};
}

/* Finds a directory in one. */
static int dir_find(const struct place *p, const struct ck_dir *in,
		    struct ck_str name, struct ck_child *out)
{
	const struct ck_optim_dir *found = NULL;
	struct ck_buf path = { 0 };
	int64_t number = -1;

	pthread_mutex_lock(&p->s->lock);
	ck_buf_str(&path, p->s->paths.all[p->dir->number]);
	ck_buf_text(&path, path.len ? "/" : "");
	ck_buf_str(&path, name);
	if (!path.err)
		number = ck_table_find(&p->s->paths.table,
				       (struct ck_str){ path.data, path.len });
	pthread_mutex_unlock(&p->s->lock);
	if (number >= 0)
		found = dir_of(p->map, (uint32_t)number);
	if (found &&
	    (found == p->map->dirs || &p->map->dirs[found->parent] != p->dir))
		found = NULL;
	if (found)
		dir_set(in, found->number, out);
	ck_buf_fini(&path);
	return path.err ? path.err : found ? 0 : -ENOENT;
}

static int optim_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
			struct ck_str name, struct ck_child *out)
{
	struct place p;
	uint32_t file;
	int rc = place_get(c, dir, &p);

	if (rc)
		return rc;
	if (p.dir->has_files) {
		file = ck_optim_file_named(&p.map->keys, p.dir->first, p.dir->n,
					   name);
		if (file == CK_OPTIM_NONE)
			rc = -ENOENT;
		else
			out->entry = p.map->keys.files[file].code;
	} else if (p.tree && ck_str_is(name, GROUPS_NAME)) {
		out->entry = GROUPS;
	} else {
		rc = dir_find(&p, dir, name, out);
	}
	ck_view_plan_put(p.plan);
	return rc;
}

/* Directories, then GROUPS_NAME; or files. */
static int optim_next(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint64_t *at, struct ck_child *out)
{
	struct place p;
	int rc = place_get(c, dir, &p);

	if (rc)
		return rc;
	if (*at >= p.dir->n) {
		rc = *at == p.dir->n && p.tree ? 0 : -ENOENT;
		out->entry = GROUPS;
	} else if (p.dir->has_files) {
		out->entry = p.map->keys.files[p.dir->first + *at].code;
	} else {
		dir_set(dir, p.map->dirs[p.dir->first + *at].number, out);
		if (p.dir->n > NUMBERED_MOST)
			out->dir.view = NULL;
	}
	ck_view_plan_put(p.plan);
	return rc;
}

/* Appends the last name of a path. */
static void path_name(struct optim *s, uint32_t number, struct ck_buf *out)
{
	struct ck_str path = { 0 };
	const char *slash;
	size_t skip;

	pthread_mutex_lock(&s->lock);
	if (number < s->paths.n)
		path = s->paths.all[number];
	slash = path.len ? memrchr(path.p, '/', path.len) : NULL;
	skip = slash ? (size_t)(slash + 1 - path.p) : 0;
	ck_buf_add(out, path.p + skip, path.len - skip);
	pthread_mutex_unlock(&s->lock);
}

static void optim_name(const struct ck_catalog *c, const struct ck_dir *dir,
		       uint32_t entry, struct ck_buf *out)
{
	struct place p;
	uint32_t file;

	if (place_get(c, dir, &p))
		return;
	if (p.dir->has_files) {
		file = ck_optim_file_of(&p.map->keys, p.dir->first, p.dir->n,
					entry);
		if (file != CK_OPTIM_NONE)
			ck_buf_str(out,
				   p.map->keys.names
					   .all[p.map->keys.files[file].name]);
	} else if (entry == GROUPS) {
		ck_buf_text(out, GROUPS_NAME);
	} else {
		path_name(p.s, entry, out);
	}
	ck_view_plan_put(p.plan);
}

/* --- files -------------------------------------------------------------------------- */

static void facts_find(const struct ck_catalog *c, const struct place *p,
		       struct facts *f)
{
	const struct ck_optim_found *found = p->map->found;

	ck_catalog_put(f->seen);
	f->seen = ck_catalog_hold(c);
	f->facts = (struct ck_view_facts){ .mode = 0444,
					   .mtime.tv_sec = INT64_MIN };
	for (uint32_t i = 0; i < p->tree->ngroups; i++) {
		uint32_t entry = found->groups[p->tree->group + i].entry;

		ck_view_facts_of(&f->facts, c,
				 found->c->listing->entries[entry]);
	}
}

static void groups_stat(const struct ck_catalog *c, const struct place *p,
			struct ck_file_content *out)
{
	struct facts *f = &p->plan->facts[p->dir->tree];

	pthread_mutex_lock(&p->s->lock);
	if (f->seen != c)
		facts_find(c, p, f);
	*out = (struct ck_file_content){
		.topic = CK_FILE_KIND_ASIDE,
		.made = true,
		.mode = f->facts.mode,
		.mtime = f->facts.mtime,
		.version = p->plan->base.born,
	};
	pthread_mutex_unlock(&p->s->lock);
}

static int entry_stat(const struct ck_catalog *c, uint32_t code,
		      struct ck_file_content *out)
{
	struct ck_entry_id id = ck_optim_id(code);

	if (id.is_object ? !ck_object_is_there(c, id.i)
			 : !ck_tensor_is_whole(c, id.i))
		return -ENOENT;
	*out = (struct ck_file_content){ .number = id.i };
	out->topic = id.is_object ? CK_FILE_KIND_OBJECT : CK_FILE_KIND_TENSOR;
	out->made = id.is_object;
	if (!id.is_object) {
		out->size = ck_view_full.size(c, id.i);
		out->version = ck_catalog_tensor(c, id.i)->facts->version;
	}
	return 0;
}

/* True if the directory has the file. */
static bool has_file(const struct place *p, uint32_t entry)
{
	if (!p->dir->has_files)
		return entry == GROUPS && p->tree;
	return ck_optim_file_of(&p->map->keys, p->dir->first, p->dir->n,
				entry) != CK_OPTIM_NONE;
}

static int optim_stat(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint32_t entry, struct ck_file_content *out)
{
	struct place p;
	int rc = place_get(c, dir, &p);

	if (rc)
		return rc;
	if (!has_file(&p, entry))
		rc = -ENOENT;
	else if (p.dir->has_files)
		rc = entry_stat(c, entry, out);
	else
		groups_stat(c, &p, out);
	ck_view_plan_put(p.plan);
	return rc;
}

static int groups_print(const struct place *p, struct ck_buf *out,
			bool *transient)
{
	return ck_optim_groups_print(p->map->found, p->tree, p->s->options,
				     &p->s->objects, out, transient);
}

/* The size of GROUPS_NAME is kept with the plan. */
static int groups_size(const struct place *p, uint64_t *size)
{
	struct facts *f = &p->plan->facts[p->dir->tree];
	struct ck_buf text = { 0 };
	bool transient, known;
	int rc;

	pthread_mutex_lock(&p->s->lock);
	known = f->has_size;
	*size = f->size;
	pthread_mutex_unlock(&p->s->lock);
	if (known)
		return 0;
	rc = groups_print(p, &text, &transient);
	if (rc == 0) {
		*size = text.len;
		pthread_mutex_lock(&p->s->lock);
		f->has_size = true;
		f->size = text.len;
		pthread_mutex_unlock(&p->s->lock);
	}
	ck_buf_fini(&text);
	return transient ? rc : 0;
}

static int optim_size(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint32_t entry, uint64_t *size)
{
	struct place p;
	int rc = place_get(c, dir, &p);

	*size = 0;
	if (rc)
		return rc;
	if (!p.dir->has_files && has_file(&p, entry))
		rc = groups_size(&p, size);
	ck_view_plan_put(p.plan);
	return rc;
}

static int groups_slice(const struct place *p, struct ck_slice **out)
{
	struct ck_slice_builder b = { 0 };
	struct ck_buf text = { 0 };
	bool transient;
	int rc = groups_print(p, &text, &transient);

	ck_slice_add_bytes(&b, (struct ck_str){ text.data, text.len });
	if (rc == 0)
		rc = ck_slice_make(&b, out);
	ck_buf_fini(&text);
	return rc;
}

static int optim_slice(const struct ck_catalog *c, const struct ck_dir *dir,
		       uint32_t entry, struct ck_slice **out)
{
	uint32_t tensor = ck_optim_id(entry).i;
	struct place p;
	int rc = place_get(c, dir, &p);

	if (rc)
		return rc;
	if (!has_file(&p, entry))
		rc = -ENOENT;
	else if (!p.dir->has_files)
		rc = groups_slice(&p, out);
	else if (!ck_tensor_is_whole(c, tensor))
		rc = -ENOENT;
	else
		rc = ck_view_slice_checked(ck_catalog_tensor(c, tensor),
					   ck_view_full.slice(c, tensor, out),
					   out);
	ck_view_plan_put(p.plan);
	return rc;
}

/* --- the whole view ------------------------------------------------------------------ */

static bool optim_is_empty(const struct ck_catalog *c, const void *state)
{
	struct optim *s = optim_of(state);
	bool is_empty;

	pthread_mutex_lock(&s->lock);
	if (s->listing != c->listing) {
		ck_listing_put(s->listing);
		s->listing = ck_listing_hold(c->listing);
		s->is_empty = !ck_optim_has_some(c);
	}
	is_empty = s->is_empty;
	pthread_mutex_unlock(&s->lock);
	return is_empty;
}

/* The plan, if there is one; caller must call ck_view_plan_put(). */
static struct plan *plan_present(const struct ck_catalog *c, const void *state)
{
	struct optim *s = optim_of(state);
	struct plan *p;

	pthread_mutex_lock(&s->lock);
	p = ck_view_plan_of(s->plan, c);
	pthread_mutex_unlock(&s->lock);
	return p;
}

/* Counts nothing until a program uses the view. */
static uint64_t optim_count(const struct ck_catalog *c, const void *state)
{
	struct plan *p = plan_present(c, state);
	uint64_t n = 0;

	for (uint32_t i = 0; p && i < p->map->ndirs; i++) {
		const struct ck_optim_dir *dir = &p->map->dirs[i];

		n += i > 0;
		n += dir->has_files ? dir->n : 0;
		n += dir->tree != CK_OPTIM_NONE &&
		     p->map->found->trees[dir->tree].ngroups > 0;
	}
	ck_view_plan_put(p);
	return n;
}

/* Nothing until a program has used the view. */
static void optim_status(const struct ck_catalog *c, const void *state,
			 struct ck_buf *out)
{
	struct plan *p = plan_present(c, state);

	if (p)
		ck_optim_map_status(p->map, out);
	ck_view_plan_put(p);
}

const struct ck_view ck_view_optim = {
	.top = "optim",
	.make = optim_make,
	.free = optim_free,
	.lookup = optim_lookup,
	.next = optim_next,
	.name = optim_name,
	.stat = optim_stat,
	.size = optim_size,
	.slice = optim_slice,
	.is_empty = optim_is_empty,
	.status = optim_status,
	.count = optim_count,
	.is_form = true,
	.is_on_request = true,
};
