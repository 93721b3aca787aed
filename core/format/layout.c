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
#include "format_internal.h"

#include <errno.h>
#include <pthread.h>

struct entry {
	struct ck_layout layout; /* first: the layout is the entry */
	/* Under ck_layouts.lock: */
	uint32_t refs;
	bool keep;
};

enum seen_object { NOT_SEEN, SEEN_GOOD, SEEN_FAULTY };

struct ck_layouts {
	/* Constant: */
	size_t n; /* tensors */

	pthread_mutex_t lock;
	/* Under lock: */
	struct entry **entries; /* by tensor */
	uint8_t *logged;	/* by tensor */

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
	l->entries = calloc(l->n + 1, sizeof(struct entry *));
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

static void entry_free(struct entry *e)
{
	if (!e)
		return;
	for (uint32_t i = 0; e->layout.extents && i < e->layout.n; i++)
		free((void *)(uintptr_t)e->layout.extents[i].memory);
	for (uint32_t i = 0; e->layout.faults && i < e->layout.n; i++)
		free(e->layout.faults[i]);
	free(e->layout.faults);
	free(e->layout.extents);
	free(e->layout.strides);
	free(e);
}

void ck_layouts_free(struct ck_layouts *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++)
		entry_free(l->entries[i]);
	pthread_mutex_destroy(&l->lock);
	free(l->entries);
	free(l->logged);
	ck_bits_fini(&l->seen);
	free(l->objects);
	free(l);
}

/* Faults that say something about the checkpoint, and will be there next
 * time. */
static bool is_lasting(int rc)
{
	return rc == -EIO || rc == -EBADMSG || rc == -ENODATA;
}

/* Keeps what was found in the item of box k, for those who will ask. */
static int keep_fault(struct entry *e, uint32_t k, const struct ck_diag *d)
{
	struct ck_str what = ck_diag_what(d);
	size_t expected = strlen(d->expected) + 1, found = strlen(d->found) + 1;
	struct ck_box_fault *f =
		malloc(sizeof(*f) + what.len + expected + found);
	char *p;

	if (!e->layout.faults)
		e->layout.faults = calloc(e->layout.n, sizeof(f));
	if (!e->layout.faults || !f) {
		free(f);
		return -ENOMEM;
	}
	p = (char *)(f + 1);
	*f = (struct ck_box_fault){ .what = { p, what.len } };
	memcpy(p, what.p, what.len);
	memcpy(p + what.len, d->expected, expected);
	memcpy(p + what.len + expected, d->found, found);
	if (expected > 1 || found > 1) {
		f->expected = p + what.len;
		f->found = f->expected + expected;
	}
	e->layout.faults[k] = f;
	return 0;
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
	const struct ck_tensor *t = &cp->catalog->tensors[layout->tensor];
	const struct ck_box_fault *f = layout->faults ? layout->faults[k]
						      : NULL;

	ck_catalog_box_fault_init(cp->catalog, t, layout->first + k, out);
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

	if (layout && i >= layout->first && i - layout->first < layout->n) {
		k = i - layout->first;
		err = item_err(cp, &layout->extents[k], &passing);
	}
	ck_checkpoint_lock(cp);
	has = ck_catalog_box_has_fault(c, &c->tensors[tensor], i, out);
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

/* --- finding them --------------------------------------------------------------- */

/* What locating box k has come to: its fault, or an error of the moment, which
 * the log has when somebody reads the box. */
static int take_fault(struct entry *e, uint32_t k, const struct ck_diag *d)
{
	struct ck_extent *extent = &e->layout.extents[k];

	extent->err = (uint16_t)d->err;
	extent->passing = d->passing;
	e->layout.passing |= d->passing;
	e->layout.faulty |= !d->passing;
	e->keep &= !d->passing && is_lasting(-d->err);
	return keep_fault(e, k, d);
}

/* Finds box number k of the layout, which is `item`; what is wrong with it goes
 * into its extent. */
static int locate(struct ck_checkpoint *cp, struct entry *e, uint32_t k,
		  const struct ck_chunk *item)
{
	const struct ck_catalog *c = cp->catalog;
	const struct ck_tensor *t = &c->tensors[e->layout.tensor];
	uint32_t i = e->layout.first + k;
	struct ck_extent *extent = &e->layout.extents[k];
	struct ck_diag d = { 0 };
	int rc;

	/* A box without elements may have no item: it needs no file. */
	extent->file = CK_NO_FILE;
	if (ck_catalog_box_is_empty(c, t, i))
		return 0;
	extent->file = item->file;
	if (item->err) {
		extent->err = item->err;
		e->layout.faulty = true;
		return 0;
	}
	rc = cp->format->locate(cp, t, i, item, extent,
				e->layout.strides + (size_t)k * t->ndim, &d);
	if (ck_is_shortage(rc))
		return rc;
	if (rc == 0 || !d.passing)
		ck_bits_set_atomic(&cp->layouts->seen, t->chunk + i);
	d.err = -rc;
	if (rc)
		return take_fault(e, k, &d);
	e->layout.change |= extent->change;
	e->keep &= !extent->memory;
	return 0;
}

/* Takes box k over from an older layout of the same boxes, if that has found
 * it. */
static bool reuse(struct entry *e, const struct entry *old, uint32_t k,
		  uint32_t ndim)
{
	const struct ck_extent *x = old ? &old->layout.extents[k] : NULL;

	if (!x || x->err || x->memory)
		return false;
	e->layout.extents[k] = *x;
	if (ndim)
		memcpy(e->layout.strides + (size_t)k * ndim,
		       old->layout.strides + (size_t)k * ndim,
		       ndim * sizeof(*e->layout.strides));
	e->layout.change |= x->change;
	return true;
}

/* What the catalog says of the boxes that are wanted, all of one version. Free
 * it. NULL: out of memory. */
static struct ck_chunk *items_copy(struct ck_checkpoint *cp,
				   struct ck_layout *want)
{
	const struct ck_tensor *t = &cp->catalog->tensors[want->tensor];
	struct ck_chunk *items = malloc((want->n + 1UL) * sizeof(*items));

	if (!items)
		return NULL;
	ck_checkpoint_lock(cp);
	want->version = t->version;
	if (want->n)
		memcpy(items, &cp->catalog->chunks[t->chunk + want->first],
		       want->n * sizeof(*items));
	ck_checkpoint_unlock(cp);
	return items;
}

static int entry_make(const struct ck_layout *want, uint32_t ndim,
		      struct entry **out)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->keep = true;
	e->layout = *want;
	e->layout.extents = calloc(want->n + 1UL, sizeof(*e->layout.extents));
	e->layout.strides = calloc((size_t)want->n * ndim + 1,
				   sizeof(*e->layout.strides));
	if (!e->layout.extents || !e->layout.strides) {
		entry_free(e);
		return -ENOMEM;
	}
	*out = e;
	return 0;
}

/* Finds the boxes that are wanted. old: what was found of them before, or
 * NULL. Reads files, and so is called without a lock. */
static int find(struct ck_checkpoint *cp, struct ck_layout *want,
		const struct entry *old, struct entry **out)
{
	const struct ck_tensor *t = &cp->catalog->tensors[want->tensor];
	ck_auto_free struct ck_chunk *items = items_copy(cp, want);
	struct entry *e;
	int rc = items ? entry_make(want, t->ndim, &e) : -ENOMEM;

	if (rc)
		return rc;
	if (old && old->layout.version != want->version)
		old = NULL;
	for (uint32_t i = 0; rc == 0 && i < e->layout.n; i++)
		if (!reuse(e, old, i, t->ndim))
			rc = locate(cp, e, i, &items[i]);
	if (rc) {
		entry_free(e);
		return rc;
	}
	*out = e;
	return 0;
}

/* Takes a reference to what is known already. */
static struct entry *known(struct ck_layouts *l, uint32_t tensor)
{
	struct entry *e;

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
static struct entry *enter(struct ck_checkpoint *cp, struct entry *e)
{
	struct ck_layouts *l = cp->layouts;
	uint32_t tensor = e->layout.tensor;
	struct entry *first = NULL;
	bool log;

	ck_checkpoint_lock(cp);
	if (e->layout.version == cp->catalog->tensors[tensor].version) {
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
		entry_free(e);
	return first;
}

const struct ck_layout *ck_layout_known(struct ck_checkpoint *cp,
					uint32_t tensor)
{
	struct entry *e = known(cp->layouts, tensor);

	if (!e || !e->layout.passing)
		return e ? &e->layout : NULL;
	ck_layout_put(cp, &e->layout);
	return NULL;
}

void ck_layouts_forget(struct ck_layouts *l, uint32_t tensor)
{
	struct entry *e;

	pthread_mutex_lock(&l->lock);
	e = l->entries[tensor];
	l->entries[tensor] = NULL;
	l->logged[tensor] = false;
	if (e && e->refs) {
		e->keep = false;
		e = NULL; /* whoever uses it frees it */
	}
	pthread_mutex_unlock(&l->lock);
	entry_free(e);
}

void ck_layouts_note_object(struct ck_checkpoint *cp, uint32_t object, int rc)
{
	if (rc == 0 || is_lasting(rc))
		__atomic_store_n(&cp->layouts->objects[object],
				 rc ? SEEN_FAULTY : SEEN_GOOD,
				 __ATOMIC_RELAXED);
}

bool ck_object_known_faulty(const struct ck_checkpoint *cp, uint32_t object)
{
	return cp->catalog->objects[object].item.err ||
	       __atomic_load_n(&cp->layouts->objects[object],
			       __ATOMIC_RELAXED) == SEEN_FAULTY;
}

/* Boxes that have an item at all. */
static uint64_t items_count(const struct ck_catalog *c)
{
	uint64_t n = c->nobjects;

	for (size_t i = 0; i < c->ntensors; i++)
		for (uint32_t k = 0; k < c->tensors[i].nchunks; k++)
			n += !ck_catalog_box_is_empty(c, &c->tensors[i], k);
	return n;
}

void ck_layouts_count(struct ck_checkpoint *cp, uint64_t *seen, uint64_t *items)
{
	const struct ck_layouts *l = cp->layouts;

	*items = items_count(cp->catalog);
	*seen = ck_bits_count(&l->seen);
	for (size_t i = 0; i < cp->catalog->nobjects; i++)
		*seen += __atomic_load_n(&l->objects[i], __ATOMIC_RELAXED) !=
			 NOT_SEEN;
}

/* What is there, or is found and entered; NULL in *out: a commit came between. */
static int get_once(struct ck_checkpoint *cp, struct ck_layout *want,
		    struct entry **out)
{
	struct entry *old = known(cp->layouts, want->tensor);
	struct entry *e;
	int rc;

	*out = old;
	if (old && !old->layout.passing)
		return 0;
	rc = find(cp, want, old, &e);
	if (rc == 0)
		*out = enter(cp, e);
	if (old)
		ck_layout_put(cp, &old->layout);
	return rc;
}

int ck_layout_get(struct ck_checkpoint *cp, uint32_t tensor,
		  const struct ck_layout **out)
{
	const struct ck_tensor *t = &cp->catalog->tensors[tensor];
	/* Of a tensor that cannot be served no item is looked at. */
	struct ck_layout want = { .tensor = tensor,
				  .n = t->err ? 0 : t->nchunks,
				  .faulty = t->holes || t->err };
	struct entry *e = NULL;
	int rc = 0;

	while (rc == 0 && !e)
		rc = get_once(cp, &want, &e);
	if (rc == 0)
		*out = &e->layout;
	ck_checkpoint_learn(cp);
	return rc;
}

/* Whether no commit came between; then what was found is logged. */
static bool is_present(struct ck_checkpoint *cp, const struct entry *e)
{
	const struct ck_layout *layout = &e->layout;
	bool present;

	ck_checkpoint_lock(cp);
	present = layout->version ==
		  cp->catalog->tensors[layout->tensor].version;
	if (present)
		log_faults(cp, layout);
	ck_checkpoint_unlock(cp);
	return present;
}

int ck_layout_get_box(struct ck_checkpoint *cp, uint32_t tensor, uint32_t i,
		      const struct ck_layout **out)
{
	const struct ck_tensor *t = &cp->catalog->tensors[tensor];
	struct ck_layout want = { .tensor = tensor,
				  .first = i,
				  .n = t->err ? 0 : 1,
				  .faulty = t->err != 0 };
	struct entry *e = NULL;
	int rc = 0;

	while (rc == 0 && !e) {
		rc = find(cp, &want, NULL, &e);
		if (rc == 0 && !is_present(cp, e)) {
			entry_free(e);
			e = NULL;
		}
	}
	ck_checkpoint_learn(cp);
	if (rc)
		return rc;
	e->keep = false;
	e->refs = 1;
	*out = &e->layout;
	return 0;
}

void ck_layout_put(struct ck_checkpoint *cp, const struct ck_layout *layout)
{
	struct ck_layouts *l = cp->layouts;
	struct entry *e = (struct entry *)(uintptr_t)layout;
	bool last;

	if (!layout)
		return;
	pthread_mutex_lock(&l->lock);
	last = --e->refs == 0 && !e->keep;
	if (last && l->entries[layout->tensor] == e)
		l->entries[layout->tensor] = NULL;
	pthread_mutex_unlock(&l->lock);
	if (last)
		entry_free(e);
}
