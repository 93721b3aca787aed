/* SPDX-License-Identifier: MIT */
/*
 * layout: where the boxes of a tensor lie, found when it is first opened and
 * shared by all who open it. A layout is kept for the life of the mount
 * unless it holds whole items in memory (stream transforms) or a fault that
 * may pass; then it lives as long as somebody uses it. One that met an error
 * of the moment is given out to nobody else: whoever comes next asks again.
 *
 * Two threads that open the same tensor first may both look; one result is
 * kept. No lock is held while files are read: what the catalog says of the items
 * is copied first, and what was found of them is entered if the tensor still has
 * the version that was looked at. Else a commit came between, and it is looked
 * at again.
 */
#include "ckptfs/bits.h"
#include "layout_internal.h"

#include <errno.h>
#include <pthread.h>

enum seen_object { NOT_SEEN, SEEN_GOOD, SEEN_FAULTY };

struct ck_layouts {
	/* Constant: */
	size_t n; /* tensors */

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_located **entries; /* of whole tensors, by tensor */
	uint8_t *logged;	     /* by tensor */

	/* Atomic: */
	struct ck_bits seen; /* of chunks: looked at */
	uint8_t *objects;    /* enum seen_object for each */
};

struct ck_layouts *ck_layouts_make(const struct ck_catalog *c)
{
	struct ck_layouts *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	pthread_mutex_init(&l->lock, NULL);
	l->n = c->ntensors;
	l->entries = calloc(l->n + 1, sizeof(struct ck_located *));
	l->logged = calloc(l->n + 1, 1);
	l->objects = calloc(c->nobjects + 1, 1);
	if (ck_bits_make(&l->seen, c->nchunks) == 0 && l->entries &&
	    l->logged && l->objects)
		return l;
	free(l->objects);
	free(l->entries);
	free(l->logged);
	ck_bits_fini(&l->seen);
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
	ck_bits_fini(&l->seen);
	free(l->objects);
	free(l);
}

bool ck_is_lasting(int rc)
{
	return rc == -EIO || rc == -EBADMSG || rc == -ENODATA;
}

void ck_layouts_note_box(struct ck_checkpoint *cp, uint32_t chunk)
{
	ck_bits_set_atomic(&cp->layouts->seen, chunk);
}

/* --- what is wrong with them ---------------------------------------------------- */

/* Whether an item has a fault, or its file one now: a positive errno, or 0.
 * Looks at the file. */
static int item_err(struct ck_checkpoint *cp, const struct ck_extent *x,
		    bool *passing)
{
	*passing = x->passing;
	if (x->err || x->memory || x->file == CK_NO_FILE)
		return x->err;
	return -ck_files_check(cp->files, x->file, passing);
}

/* Says in *out what is wrong with box k of the layout. Locked. */
static void item_fault_set(const struct ck_checkpoint *cp,
			   const struct ck_layout *layout, uint32_t k, int err,
			   bool passing, struct ck_fault *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(cp->catalog,
						      layout->tensor);
	const struct ck_box_fault *f = layout->faults ? layout->faults[k]
						      : NULL;

	ck_catalog_box_fault_init(cp->catalog, t, ck_layout_chunk(layout, k),
				  out);
	out->err = err;
	if (f) {
		out->what = f->what;
		out->expected = f->expected;
		out->found = f->found;
	} else {
		out->what = ck_str_from(err == ESTALE && !passing
						? "changed since it was opened"
						: strerrordesc_np(err));
	}
}

bool ck_box_has_fault(struct ck_checkpoint *cp, const struct ck_layout *layout,
		      uint32_t tensor, uint32_t i, struct ck_fault *out)
{
	const struct ck_catalog *c = cp->catalog;
	bool passing, has;
	uint32_t k = 0;
	int err = 0;

	if (layout && ck_layout_find(layout, i, &k))
		err = item_err(cp, &layout->extents[k], &passing);
	ck_checkpoint_lock(cp);
	has = ck_catalog_box_has_fault(c, ck_catalog_tensor(c, tensor), i, out);
	if (!has && err)
		item_fault_set(cp, layout, k, err, passing, out);
	ck_checkpoint_unlock(cp);
	return has || err;
}

/* What was found in the items, a line each. Locked. */
static void log_faults(const struct ck_checkpoint *cp,
		       const struct ck_layout *layout)
{
	for (uint32_t k = 0; layout->faults && k < layout->n; k++) {
		const struct ck_extent *x = &layout->extents[k];
		struct ck_buf line = { 0 };
		struct ck_fault f;

		if (!layout->faults[k] || x->passing)
			continue;
		item_fault_set(cp, layout, k, x->err, false, &f);
		ck_fault_print(&f, true, &line);
		ck_log("%s", line.data ? line.data : "out of memory");
		ck_buf_fini(&line);
	}
}

/* --- sharing them ---------------------------------------------------------------- */

/* Takes a reference to what is known already. */
static struct ck_located *known(struct ck_layouts *l, uint32_t tensor)
{
	struct ck_located *e;

	pthread_mutex_lock(&l->lock);
	e = l->entries[tensor];
	if (e)
		e->refs++;
	pthread_mutex_unlock(&l->lock);
	return e;
}

/* Enters e, or lets it go for one that came first. One with an error of the
 * moment is left to those who use it. NULL: the tensor has another version by
 * now, and e is gone. */
static struct ck_located *enter(struct ck_checkpoint *cp, struct ck_located *e)
{
	struct ck_layouts *l = cp->layouts;
	uint32_t tensor = e->layout.tensor;
	struct ck_located *first = NULL;
	bool log;

	ck_checkpoint_lock(cp);
	if (e->layout.version ==
	    ck_catalog_tensor(cp->catalog, tensor)->version) {
		pthread_mutex_lock(&l->lock);
		first = l->entries[tensor];
		if (!first || first->layout.passing)
			first = l->entries[tensor] = e;
		first->refs++;
		log = !l->logged[tensor];
		l->logged[tensor] |= e->layout.faulty;
		pthread_mutex_unlock(&l->lock);
		if (log)
			log_faults(cp, &e->layout);
	}
	ck_checkpoint_unlock(cp);
	if (first != e)
		ck_located_free(e);
	return first;
}

const struct ck_layout *ck_layout_known(struct ck_checkpoint *cp,
					uint32_t tensor)
{
	struct ck_located *e = known(cp->layouts, tensor);

	if (!e || !e->layout.passing)
		return e ? &e->layout : NULL;
	ck_layout_put(cp, &e->layout);
	return NULL;
}

void ck_layouts_forget(struct ck_layouts *l, uint32_t tensor)
{
	struct ck_located *e;

	pthread_mutex_lock(&l->lock);
	e = l->entries[tensor];
	l->entries[tensor] = NULL;
	l->logged[tensor] = false;
	if (e && e->refs) {
		e->keep = false;
		e = NULL; /* whoever uses it frees it */
	}
	pthread_mutex_unlock(&l->lock);
	ck_located_free(e);
}

void ck_layouts_note_object(struct ck_checkpoint *cp, uint32_t object, int rc)
{
	if (rc == 0 || ck_is_lasting(rc))
		__atomic_store_n(&cp->layouts->objects[object],
				 rc ? SEEN_FAULTY : SEEN_GOOD,
				 __ATOMIC_RELAXED);
}

bool ck_object_known_faulty(const struct ck_checkpoint *cp, uint32_t object)
{
	return ck_catalog_object(cp->catalog, object)->item.err ||
	       __atomic_load_n(&cp->layouts->objects[object],
			       __ATOMIC_RELAXED) == SEEN_FAULTY;
}

/* Boxes that have an item at all. */
static uint64_t items_count(const struct ck_catalog *c)
{
	uint64_t n = c->nobjects;

	for (uint32_t i = 0; i < c->ntensors; i++)
		for (uint32_t k = 0; k < ck_catalog_tensor(c, i)->nchunks; k++)
			n += !ck_catalog_box_is_empty(
				c, ck_catalog_tensor(c, i), k);
	return n;
}

void ck_layouts_count(struct ck_checkpoint *cp, uint64_t *seen, uint64_t *items)
{
	const struct ck_layouts *l = cp->layouts;

	*items = items_count(cp->catalog);
	*seen = ck_bits_count(&l->seen);
	for (uint32_t i = 0; i < cp->catalog->nobjects; i++)
		*seen += __atomic_load_n(&l->objects[i], __ATOMIC_RELAXED) !=
			 NOT_SEEN;
}

/* What is there, or is found and entered; NULL in *out: a commit came between. */
static int get_once(struct ck_checkpoint *cp, uint32_t tensor,
		    struct ck_located **out)
{
	struct ck_located *old = known(cp->layouts, tensor);
	struct ck_located *l;
	int rc;

	*out = old;
	if (old && !old->layout.passing)
		return 0;
	rc = ck_locate(cp, tensor, NULL, old, &l);
	if (rc == 0)
		*out = enter(cp, l);
	if (old)
		ck_layout_put(cp, &old->layout);
	return rc;
}

/* Whether no commit came between; then what was found is logged. */
static bool is_present(struct ck_checkpoint *cp, const struct ck_layout *layout)
{
	bool present;

	ck_checkpoint_lock(cp);
	present = layout->version ==
		  ck_catalog_tensor(cp->catalog, layout->tensor)->version;
	if (present)
		log_faults(cp, layout);
	ck_checkpoint_unlock(cp);
	return present;
}

/* Of a window, kept for nobody else; NULL in *out: a commit came between. */
static int get_window(struct ck_checkpoint *cp, uint32_t tensor,
		      const uint64_t *window, struct ck_located **out)
{
	struct ck_located *l;
	int rc = ck_locate(cp, tensor, window, NULL, &l);

	*out = NULL;
	if (rc)
		return rc;
	if (!is_present(cp, &l->layout)) {
		ck_located_free(l);
		return 0;
	}
	l->keep = false;
	l->refs = 1;
	*out = l;
	return 0;
}

int ck_layout_get(struct ck_checkpoint *cp, uint32_t tensor,
		  const uint64_t *window, const struct ck_layout **out)
{
	struct ck_located *l = NULL;
	int rc = 0;

	while (rc == 0 && !l)
		rc = window ? get_window(cp, tensor, window, &l)
			    : get_once(cp, tensor, &l);
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
