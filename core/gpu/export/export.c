/* SPDX-License-Identifier: MIT */
/*
 * export: who uses which export. Requests search the table, wait for an export that
 * another thread fills, or add and fill one. All state is protected by
 * ck_exports.lock, which is released during allocation and fill. Threads: those
 * that call get(), and their helpers (export_fill.c).
 */
#include "export.h"

#include <errno.h>

static bool is_same(const struct ck_export *e,
		    const struct ck_export_request *w)
{
	return !e->own && e->slice == w->slice &&
	       memcmp(e->uuid, w->uuid, sizeof(e->uuid)) == 0;
}

/* --- release; all must hold the lock ------------------------------------------------ */

/* An export in the slab lost its last user. */
static void slab_left(struct ck_exports *all, struct ck_slab *s)
{
	if (--s->users == 0)
		all->kept += CK_SLAB;
}

/* Marks an export idle. */
static void rest(struct ck_exports *all, struct ck_export *e)
{
	ck_export_table_idle(&all->table, e);
	if (e->slab)
		slab_left(all, e->slab);
	else
		all->kept += e->room;
}

/* Marks an export used. */
static void resume(struct ck_exports *all, struct ck_export *e)
{
	if (!e->idle)
		return;
	ck_export_table_use(&all->table, e);
	if (!e->slab)
		all->kept -= e->room;
	else if (e->slab->users++ == 0)
		all->kept -= CK_SLAB;
}

/* Allocation to release with a dropped export; NULL if others need it. Transfers to
 * a failed export may still be in flight: release() waits for them. */
static struct ck_gather_memory *leave_memory(struct ck_exports *all,
					     struct ck_export *e)
{
	struct ck_gather_memory *memory;

	if (!e->slab)
		return e->memory;
	slab_left(all, e->slab);
	memory = ck_slab_put(&all->slabs, e, e->failed);
	if (memory)
		all->kept -= CK_SLAB;
	return memory;
}

static void drop(struct ck_exports *all, struct ck_export *e)
{
	struct ck_gather_engine *g = all->route.gather_engine;
	struct ck_gather_memory *memory;

	resume(all, e);
	ck_export_table_remove(&all->table, e);
	memory = leave_memory(all, e);
	if (memory)
		g->release(g, memory);
	free(e);
}

/* Drops idle exports until at most `most` bytes are kept, of tensors and of
 * memory. */
static void keep_most(struct ck_exports *all, uint64_t most)
{
	while (all->table.oldest &&
	       (all->table.idle > most || all->kept > most))
		drop(all, all->table.oldest);
}

static bool is_lost(const struct ck_exports *all, const struct ck_export *e)
{
	struct ck_gather_engine *g = all->route.gather_engine;

	return e->memory && !g->holds(g, e->memory);
}

/* An export above the limit is dropped, and evicts no other one. */
static void put(struct ck_exports *all, struct ck_export *e)
{
	if (--e->users)
		return;
	if (!e->there || e->own || e->room > all->cache || is_lost(all, e))
		drop(all, e);
	else
		rest(all, e);
	keep_most(all, all->cache);
}

static void exports_put(struct ck_exports *all, struct ck_export *e)
{
	pthread_mutex_lock(&all->lock);
	put(all, e);
	pthread_mutex_unlock(&all->lock);
}

/* --- allocation and fill -------------------------------------------------------------- */

static int allocate(struct ck_exports *all, const struct ck_export_request *w,
		    uint64_t bytes, struct ck_gather_memory **out)
{
	struct ck_gather_engine *g = all->route.gather_engine;
	struct ck_gather_alloc want = { .bytes = bytes,
					.with_file = w->with_file,
					.cancelled = &w->cancelled };

	memcpy(want.uuid, w->uuid, sizeof(want.uuid));
	return g->allocate(g, &want, out);
}

/* Allocates memory for one export. */
static int place_alone(struct ck_exports *all,
		       const struct ck_export_request *w, struct ck_export *e)
{
	struct ck_gather_memory *memory;
	int rc = allocate(all, w, w->len, &memory);

	if (rc)
		return rc;
	pthread_mutex_lock(&all->lock);
	e->memory = memory;
	e->room = memory->size;
	pthread_mutex_unlock(&all->lock);
	return 0;
}

/* Allocates a range in a slab. */
static int place_small(struct ck_exports *all,
		       const struct ck_export_request *w, struct ck_export *e)
{
	struct ck_gather_engine *g = all->route.gather_engine;
	struct ck_gather_memory *memory;
	bool placed;
	int rc;

	pthread_mutex_lock(&all->lock);
	placed = ck_slab_take(all->slabs, g, e);
	if (placed && e->slab->users == 1) /* its other exports are idle */
		all->kept -= CK_SLAB;
	pthread_mutex_unlock(&all->lock);
	if (placed)
		return 0;
	rc = allocate(all, w, CK_SLAB, &memory);
	if (rc)
		return rc;
	pthread_mutex_lock(&all->lock);
	rc = ck_slab_add(&all->slabs, memory, e);
	if (rc)
		g->release(g, memory);
	pthread_mutex_unlock(&all->lock);
	return rc;
}

/* Drops the oldest idle export of the device. Returns false if no export is idle. */
static bool make_room(struct ck_exports *all, const uint8_t *uuid)
{
	struct ck_export *e;
	bool found;

	pthread_mutex_lock(&all->lock);
	e = all->table.oldest;
	while (e && memcmp(e->uuid, uuid, sizeof(e->uuid)) != 0)
		e = e->newer;
	found = e;
	if (e)
		drop(all, e);
	pthread_mutex_unlock(&all->lock);
	return found;
}

static int find_place(struct ck_exports *all, const struct ck_export_request *w,
		      struct ck_export *e)
{
	bool small = w->len <= CK_SLAB_MOST && !w->own && !w->with_file;
	int rc;

	do {
		rc = small ? place_small(all, w, e) : -ENOSPC;
		if (rc == -ENOSPC)
			rc = place_alone(all, w, e);
	} while (rc == -ENOSPC && make_room(all, w->uuid));
	return rc;
}

static int make(struct ck_exports *all, struct ck_export_request *w,
		struct ck_export *e)
{
	int rc = find_place(all, w, e);

	return rc ? rc : ck_export_fill(all, w, e);
}

static struct ck_files *files_of(const struct ck_exports *all,
				 const struct ck_export_request *w)
{
	return w->files ? w->files : all->route.files;
}

/* Must hold the lock. NULL if out of memory. */
static struct ck_export *add(struct ck_exports *all,
			     const struct ck_export_request *w)
{
	struct ck_export *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	*e = (struct ck_export){ .bytes = w->len,
				 .slice = w->slice,
				 .touches = ck_files_touches(files_of(all, w)),
				 .own = w->own,
				 .with_file = w->with_file,
				 .users = 1 };
	memcpy(e->uuid, w->uuid, sizeof(e->uuid));
	ck_export_table_add(&all->table, e);
	return e;
}

/* --- requests --------------------------------------------------------------------------- */

static struct ck_export *find(const struct ck_exports *all,
			      const struct ck_export_request *w)
{
	struct ck_export *e =
		w->own ? NULL : ck_export_table_find(&all->table, w->slice);

	while (e && (e->failed || !is_same(e, w) || is_lost(all, e)))
		e = e->next;
	return e;
}

static bool is_unwanted(const struct ck_export_request *w)
{
	return __atomic_load_n(&w->cancelled, __ATOMIC_ACQUIRE);
}

/* Must hold the lock. Waits until the export is filled or has failed. */
static int wait_for(struct ck_exports *all, const struct ck_export_request *w,
		    struct ck_export *e)
{
	resume(all, e);
	e->users++;
	while (!e->there && !e->failed && !is_unwanted(w))
		pthread_cond_wait(&all->changed, &all->lock);
	if (e->there)
		return 0;
	put(all, e);
	return is_unwanted(w) ? -EINTR : -EAGAIN;
}

/* Must hold the lock, which is released while it fills. Returns -EAGAIN if the fill
 * of another thread failed. */
static int get(struct ck_exports *all, struct ck_export_request *w,
	       struct ck_export **out)
{
	struct ck_export *e = find(all, w);
	int rc;

	*out = e;
	if (is_unwanted(w))
		return -EINTR;
	if (e && e->with_file == w->with_file)
		return wait_for(all, w, e);
	if (e && e->users)
		return -EBUSY;
	if (e)
		drop(all, e);
	e = *out = add(all, w);
	if (!e)
		return -ENOMEM;
	pthread_mutex_unlock(&all->lock);
	rc = make(all, w, e);
	pthread_mutex_lock(&all->lock);
	e->there = rc == 0;
	e->failed = rc != 0;
	pthread_cond_broadcast(&all->changed);
	if (rc)
		put(all, e);
	return rc;
}

/* --- changed files ---------------------------------------------------------------------- */

/* *touched: the last ctime change of one of its files. */
static int look_at(struct ck_files *files, const struct ck_layout *layout,
		   uint64_t *touched)
{
	uint32_t last = CK_NO_FILE;

	if (layout->err)
		return -layout->err;
	for (uint32_t i = 0; i < layout->n; i++) {
		const struct ck_extent *e = &layout->extents[i];
		struct ck_file file;
		int rc;

		if (e->err || e->file == last ||
		    e->file >= ck_files_count(files))
			continue;
		last = e->file;
		rc = ck_files_get(files, e->file, &file);
		if (rc)
			return rc;
		*touched = ck_max(*touched, file.touched);
		ck_files_put(files, &file);
	}
	return 0;
}

/* Drops a cached export if a read would fail now, or the ctime of one of its files
 * changed after the fill. */
static int look_again(struct ck_exports *all, const struct ck_export_request *w)
{
	uint32_t part = ck_slice_find(ck_open_slice_slice(w->from), w->vpos);
	const struct ck_layout *layout = ck_open_slice_known(w->from, part);
	struct ck_files *files = files_of(all, w);
	uint64_t touched = 0;
	int rc = layout ? look_at(files, layout, &touched) : 0;
	struct ck_export *e;

	if (rc != -ESTALE && touched == 0)
		return 0;
	pthread_mutex_lock(&all->lock);
	e = find(all, w);
	if (e && rc != -ESTALE && e->touches >= touched)
		e = NULL;
	if (e && e->users)
		e->own = true; /* stays with its users only */
	else if (e)
		drop(all, e);
	pthread_mutex_unlock(&all->lock);
	return rc == -ESTALE ? rc : 0;
}

/* --- waiting requests ------------------------------------------------------------------- */

/* Must hold the lock, both. */
static void enter(struct ck_exports *all, struct ck_export_request *w)
{
	w->next = all->wishes;
	all->wishes = w;
}

static void leave(struct ck_exports *all, const struct ck_export_request *w)
{
	struct ck_export_request **at = &all->wishes;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
}

static int exports_get(struct ck_exports *all, struct ck_export_request *w,
		       struct ck_export **out)
{
	int rc = look_again(all, w);

	if (rc)
		return rc;
	pthread_mutex_lock(&all->lock);
	enter(all, w);
	do
		rc = all->stopped ? -EINTR : get(all, w, out);
	while (rc == -EAGAIN);
	leave(all, w);
	pthread_mutex_unlock(&all->lock);
	return rc;
}

/* Must hold the lock. */
static void interrupt(struct ck_exports *all, struct ck_export_request *w)
{
	__atomic_store_n(&w->cancelled, true, __ATOMIC_RELEASE);
	if (w->fill)
		ck_export_fill_stop(w->fill);
	pthread_cond_broadcast(&all->changed);
}

static void exports_interrupt(struct ck_exports *all,
			      struct ck_export_request *w)
{
	pthread_mutex_lock(&all->lock);
	interrupt(all, w);
	pthread_mutex_unlock(&all->lock);
}

static void exports_stop(struct ck_exports *all)
{
	pthread_mutex_lock(&all->lock);
	all->stopped = true;
	for (struct ck_export_request *w = all->wishes; w; w = w->next)
		interrupt(all, w);
	pthread_mutex_unlock(&all->lock);
}

/* --- all exports of a mount ----------------------------------------------------------- */

static struct ck_exports *exports_make(struct ck_files *files,
				       struct ck_backend *remote,
				       struct ck_gather_engine *gather_engine,
				       uint64_t cache)
{
	struct ck_exports *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	if (ck_export_table_make(&all->table)) {
		free(all);
		return NULL;
	}
	ck_route_init(&all->route, files, remote);
	all->route.gather_engine = gather_engine;
	all->cache = cache;
	pthread_mutex_init(&all->lock, NULL);
	pthread_cond_init(&all->changed, NULL);
	return all;
}

static void exports_free(struct ck_exports *all)
{
	if (!all)
		return;
	keep_most(all, 0);
	ck_export_table_fini(&all->table);
	ck_route_fini(&all->route);
	pthread_cond_destroy(&all->changed);
	pthread_mutex_destroy(&all->lock);
	free(all);
}

const struct ck_export_ops ck_gpu_exports = {
	.make = exports_make,
	.free = exports_free,
	.get = exports_get,
	.interrupt = exports_interrupt,
	.stop = exports_stop,
	.put = exports_put,
};
