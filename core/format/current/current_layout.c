/* SPDX-License-Identifier: MIT */
/*
 * current_layout: shares the layouts of tensors. A layout is made by locate.c when a tensor is
 * first opened, and is kept for the life of the mount. If it holds whole items in memory
 * (stream transforms) or a transient fault, it is freed with its last reference. A
 * layout with a transient error is not shared: the next open locates the boxes again.
 *
 * No lock is held while files are read. If two threads open the same tensor first, both
 * may locate its boxes, and one result is kept. Only layouts of the current version of a
 * tensor are shared; a reader of an older version has its own.
 */
#include "current.h"
#include "layout_internal.h"

#include <errno.h>
#include <pthread.h>

struct ck_layouts {
	/* Constant: */
	size_t n; /* tensors */

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_located **entries; /* of whole tensors, by tensor */
	uint8_t *logged;	     /* by tensor */
};

struct ck_layouts *ck_layouts_make(const struct ck_catalog *c)
{
	struct ck_layouts *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	pthread_mutex_init(&l->lock, NULL);
	l->n = c->tensors.n;
	l->entries = calloc(l->n + 1, sizeof(struct ck_located *));
	l->logged = calloc(l->n + 1, 1);
	if (l->entries && l->logged)
		return l;
	free(l->entries);
	free(l->logged);
	free(l);
	return NULL;
}

void ck_layouts_free(struct ck_layouts *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++)
		ck_located_free(l->entries[i]);
	pthread_mutex_destroy(&l->lock);
	free(l->entries);
	free(l->logged);
	free(l);
}

/* --- after a change of ctime ------------------------------------------------------ */

bool ck_layout_is_old(const struct ck_checkpoint *cp,
		      const struct ck_layout *layout)
{
	uint64_t since = ck_layout_touches(layout);
	uint64_t now = ck_files_touches(cp->files);

	if (now <= since)
		return false;
	for (uint32_t k = 0; k < layout->n; k++)
		if (ck_file_is_touched(cp, layout->extents[k].file, since))
			return true;
	ck_layout_renew(layout, now);
	return false;
}

/* --- faults ---------------------------------------------------------------------- */

/* Returns the positive errno of an item, or of a check of its file now; 0 if there is no
 * fault. */
static int item_err(struct ck_checkpoint *cp, const struct ck_extent *x,
		    bool *transient)
{
	*transient = x->transient;
	if (x->err || x->memory || x->file == CK_NO_FILE)
		return x->err;
	return -ck_files_check(cp->files, x->file, transient);
}

/* Fills *out with the fault of box k of the layout. */
static void item_fault_set(const struct ck_checkpoint *cp,
			   const struct ck_catalog *c,
			   const struct ck_layout *layout, uint32_t k, int err,
			   bool transient, struct ck_fault *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, layout->tensor);
	const struct ck_box_fault *f = layout->faults ? layout->faults[k]
						      : NULL;

	ck_catalog_box_fault_init(c, t, ck_layout_chunk(layout, k), out);
	out->err = err;
	out->host = ck_checkpoint_host(cp, layout->extents[k].file);
	if (f) {
		out->what = f->what;
		out->expected = f->expected;
		out->found = f->found;
	} else {
		out->what = ck_str_from(err == ESTALE && !transient
						? "changed since it was opened"
						: strerrordesc_np(err));
	}
}

/* True if all hosts that have the item of box i are down; fills *out. */
static bool box_is_away(const struct ck_checkpoint *cp,
			const struct ck_catalog *c, const struct ck_tensor *t,
			uint32_t i, struct ck_fault *out)
{
	const struct ck_item *item = ck_catalog_item(c, t->chunk + i);
	const char *why = ck_checkpoint_down(cp, item->file);

	if (!why)
		return false;
	ck_catalog_box_fault_init(c, t, i, out);
	out->err = EIO;
	out->host = ck_checkpoint_host(cp, item->file);
	out->what = ck_str_from(why);
	return true;
}

bool ck_box_has_fault(struct ck_checkpoint *cp, const struct ck_catalog *c,
		      const struct ck_layout *layout, uint32_t tensor,
		      uint32_t i, struct ck_fault *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	bool transient;
	uint32_t k = 0;
	int err = 0;

	if (ck_catalog_box_has_fault(c, t, i, out)) {
		out->host = ck_checkpoint_host(
			cp, ck_catalog_item(c, t->chunk + i)->file);
		return true;
	}
	if (box_is_away(cp, c, t, i, out))
		return true;
	if (layout && ck_layout_find(layout, i, &k))
		err = item_err(cp, &layout->extents[k], &transient);
	if (err)
		item_fault_set(cp, c, layout, k, err, transient, out);
	return err;
}

/* Logs one line for each box with a permanent fault. */
static void log_faults(const struct ck_checkpoint *cp,
		       const struct ck_catalog *c,
		       const struct ck_layout *layout)
{
	for (uint32_t k = 0; layout->faults && k < layout->n; k++) {
		const struct ck_extent *x = &layout->extents[k];
		struct ck_buf line = { 0 };
		struct ck_fault f;

		if (!layout->faults[k] || x->transient)
			continue;
		item_fault_set(cp, c, layout, k, x->err, false, &f);
		ck_fault_print(&f, true, &line);
		ck_log("%s", line.data ? line.data : "out of memory");
		ck_buf_fini(&line);
	}
}

/* --- shared layouts ---------------------------------------------------------------- */

/* Returns the entered layout of the tensor's version in the catalog, with a reference. NULL if
 * there is no such layout. */
static struct ck_located *known(struct ck_layouts *l,
				const struct ck_catalog *c, uint32_t tensor)
{
	uint64_t version = ck_catalog_tensor(c, tensor)->facts->version;
	struct ck_located *e;

	pthread_mutex_lock(&l->lock);
	e = l->entries[tensor];
	if (e && e->layout.version != version)
		e = NULL;
	if (e)
		e->refs++;
	pthread_mutex_unlock(&l->lock);
	return e;
}

/* Removes the entry of a tensor if it has another version than `version`, or is `old`. Returns
 * the entry if it has no reference; the caller frees it. Must hold the lock. */
static struct ck_located *take_out(struct ck_layouts *l, uint32_t tensor,
				   uint64_t version,
				   const struct ck_located *old)
{
	struct ck_located *e = l->entries[tensor];

	if (!e || (e->layout.version == version && e != old))
		return NULL;
	l->entries[tensor] = NULL;
	l->logged[tensor] = false;
	e->keep = false; /* the last reference frees it */
	return e->refs ? NULL : e;
}

/* Enters e in place of `replaced`, which may be NULL. Frees e if another thread has entered a
 * layout without transient errors first. Returns the entry to use, with a reference. A layout
 * of another version than the current one is not entered, so that it is not shared. */
static struct ck_located *enter(struct ck_checkpoint *cp,
				const struct ck_catalog *c,
				struct ck_located *e,
				const struct ck_located *replaced)
{
	struct ck_layouts *l = cp->layouts;
	uint32_t tensor = e->layout.tensor;
	struct ck_located *first = e, *old = NULL;
	const struct ck_catalog *now;
	bool log = false;

	pthread_mutex_lock(&l->lock);
	now = ck_checkpoint_catalog(cp);
	if (ck_catalog_tensor(now, tensor)->facts->version ==
	    e->layout.version) {
		old = take_out(l, tensor, e->layout.version, replaced);
		first = l->entries[tensor];
		if (!first || first->layout.transient)
			first = l->entries[tensor] = e;
		log = !l->logged[tensor];
		l->logged[tensor] |= e->layout.faulty;
	} else {
		e->keep = false;
	}
	first->refs++;
	pthread_mutex_unlock(&l->lock);
	ck_catalog_put(now);
	if (log)
		log_faults(cp, c, &e->layout);
	if (first != e)
		ck_located_free(e);
	ck_located_free(old);
	return first;
}

const struct ck_layout *ck_layout_known(struct ck_checkpoint *cp,
					const struct ck_catalog *c,
					uint32_t tensor)
{
	struct ck_located *e = known(cp->layouts, c, tensor);

	if (!e || (!e->layout.transient && !ck_layout_is_old(cp, &e->layout)))
		return e ? &e->layout : NULL;
	ck_layout_put(cp, &e->layout);
	return NULL;
}

void ck_layouts_forget(struct ck_checkpoint *cp, uint32_t tensor)
{
	struct ck_layouts *l = cp->layouts;
	const struct ck_catalog *now;
	struct ck_located *e;

	pthread_mutex_lock(&l->lock);
	now = ck_checkpoint_catalog(cp);
	e = take_out(l, tensor, ck_catalog_tensor(now, tensor)->facts->version,
		     NULL);
	pthread_mutex_unlock(&l->lock);
	ck_catalog_put(now);
	ck_located_free(e);
}

/* Returns the entered layout, or locates the tensor and enters it. If a change of ctime
 * moved no elements, the old layout is kept. */
static int get_whole(struct ck_checkpoint *cp, const struct ck_catalog *c,
		     uint32_t tensor, struct ck_located **out)
{
	struct ck_located *old = known(cp->layouts, c, tensor);
	bool is_old = old && ck_layout_is_old(cp, &old->layout);
	struct ck_located *l;
	int rc;

	*out = old;
	if (old && !is_old && !old->layout.transient)
		return 0;
	rc = ck_locate(cp, c, tensor, NULL, old, &l);
	if (rc == 0 && is_old && ck_layout_is_same(&old->layout, &l->layout)) {
		ck_layout_renew(&old->layout, l->layout.touches);
		ck_located_free(l);
		return 0;
	}
	if (rc == 0)
		*out = enter(cp, c, l, is_old ? old : NULL);
	if (old)
		ck_layout_put(cp, &old->layout);
	return rc;
}

/* Locates the boxes in a window. Such a layout is not shared, and its faults are logged each
 * time. */
static int get_window(struct ck_checkpoint *cp, const struct ck_catalog *c,
		      uint32_t tensor, const uint64_t *window,
		      struct ck_located **out)
{
	int rc = ck_locate(cp, c, tensor, window, NULL, out);

	if (rc)
		return rc;
	log_faults(cp, c, &(*out)->layout);
	(*out)->keep = false;
	(*out)->refs = 1;
	return 0;
}

int ck_layout_get(struct ck_checkpoint *cp, const struct ck_catalog *c,
		  uint32_t tensor, const uint64_t *window,
		  const struct ck_layout **out)
{
	struct ck_located *l = NULL;
	int rc = window ? get_window(cp, c, tensor, window, &l)
			: get_whole(cp, c, tensor, &l);

	if (rc == 0)
		*out = &l->layout;
	ck_checkpoint_learn(cp);
	return rc;
}

void ck_layout_put(struct ck_checkpoint *cp, const struct ck_layout *layout)
{
	struct ck_layouts *l = cp->layouts;
	struct ck_located *e = (struct ck_located *)(uintptr_t)layout;
	bool last;

	if (!layout)
		return;
	pthread_mutex_lock(&l->lock);
	last = --e->refs == 0 && !e->keep;
	if (last && l->entries[layout->tensor] == e)
		l->entries[layout->tensor] = NULL;
	pthread_mutex_unlock(&l->lock);
	if (last)
		ck_located_free(e);
}
