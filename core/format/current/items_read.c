/* SPDX-License-Identifier: MIT */
/*
 * items_read: counts the items whose header was read, and stores the result of reading each
 * object. An item is unread, or read; that of an object is good or faulty. It becomes unread
 * again after a change of the ctime of its file. States are atomic. Any thread may write
 * them; the lock lets one thread at a time reset them.
 */
#include "items_read.h"
#include "base/bits.h"

#include <errno.h>

enum object_state { NOT_READ, READ_GOOD, READ_FAULTY };

struct ck_items_read {
	pthread_mutex_t lock;
	/* Under lock; read atomically without it: */
	uint64_t touches; /* number of the last ctime change that was applied */

	/* Atomic: */
	struct ck_bits boxes; /* by chunk: the header of its item was read */
	uint8_t *objects;     /* by object: enum object_state */
};

struct ck_items_read *ck_items_read_make(const struct ck_catalog *c)
{
	struct ck_items_read *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	pthread_mutex_init(&r->lock, NULL);
	r->objects = calloc(c->objects.n + 1UL, 1);
	if (ck_bits_make(&r->boxes, c->chunks.n) == 0 && r->objects)
		return r;
	ck_items_read_free(r);
	return NULL;
}

void ck_items_read_free(struct ck_items_read *r)
{
	if (!r)
		return;
	ck_bits_fini(&r->boxes);
	pthread_mutex_destroy(&r->lock);
	free(r->objects);
	free(r);
}

bool ck_is_lasting(int rc)
{
	return rc == -EIO || rc == -EBADMSG || rc == -ENODATA;
}

/* --- after a change of ctime ------------------------------------------------------ */

bool ck_file_is_touched(const struct ck_checkpoint *cp, uint32_t file,
			uint64_t since)
{
	return file != CK_NO_FILE && file < ck_files_count(cp->files) &&
	       ck_files_touched(cp->files, file) > since;
}

/* Resets the items in files whose ctime changed after change number `since`. Must hold the
 * lock. */
static void drop_touched(const struct ck_checkpoint *cp,
			 const struct ck_catalog *c, uint64_t since)
{
	struct ck_items_read *r = cp->items_read;
	struct ck_item_walk walk = { 0 };

	for (uint32_t i = 0; i < c->chunks.n; i++)
		if (ck_bits_has(&r->boxes, i) &&
		    ck_file_is_touched(cp, ck_item_walk_to(&walk, c, i)->file,
				       since))
			ck_bits_clear_atomic(&r->boxes, i);
	for (uint32_t i = 0; i < c->objects.n; i++)
		if (ck_file_is_touched(cp, ck_catalog_object(c, i)->item.file,
				       since))
			__atomic_store_n(&r->objects[i], NOT_READ,
					 __ATOMIC_RELAXED);
}

/* Applies new ctime changes. Must be called before a state is recorded or counted. */
static void drop_old(const struct ck_checkpoint *cp)
{
	struct ck_items_read *r = cp->items_read;
	uint64_t now = ck_files_touches(cp->files);
	const struct ck_catalog *c;

	if (__atomic_load_n(&r->touches, __ATOMIC_ACQUIRE) >= now)
		return;
	c = ck_checkpoint_catalog(cp);
	pthread_mutex_lock(&r->lock);
	if (r->touches < now) {
		drop_touched(cp, c, r->touches);
		__atomic_store_n(&r->touches, now, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&r->lock);
	ck_catalog_put(c);
}

/* --- records ------------------------------------------------------------------------ */

void ck_items_read_box(struct ck_checkpoint *cp, uint32_t chunk)
{
	drop_old(cp);
	ck_bits_set_atomic(&cp->items_read->boxes, chunk);
}

void ck_items_read_object(struct ck_checkpoint *cp, uint32_t object, int rc)
{
	drop_old(cp);
	if (rc == 0 || ck_is_lasting(rc))
		__atomic_store_n(&cp->items_read->objects[object],
				 rc ? READ_FAULTY : READ_GOOD,
				 __ATOMIC_RELAXED);
}

bool ck_object_known_faulty(const struct ck_checkpoint *cp, uint32_t object)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct ck_items items =
		ck_items_of_object(c, ck_catalog_object(c, object));
	bool faulty;

	drop_old(cp);
	faulty = __atomic_load_n(&cp->items_read->objects[object],
				 __ATOMIC_RELAXED) == READ_FAULTY;
	for (uint32_t i = 0; i < items.n && !faulty; i++) {
		const struct ck_item *item = ck_items_at(items, i);

		faulty = item->err || ck_checkpoint_down(cp, item->file);
	}
	return faulty;
}

/* Counts items of boxes and of objects. A box within another archive has no item of its
 * own. */
static uint64_t items_count(const struct ck_catalog *c)
{
	uint64_t n = c->objects.n - c->hidden_objects;

	for (uint32_t i = 0; i < c->tensors.n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(c, i);

		if (t->entry.role == CK_ROLE_COPY ||
		    t->entry.role == CK_ROLE_HIDDEN)
			continue;
		for (uint32_t k = 0; k < t->nchunks; k++)
			n += !ck_tensor_box_is_empty(t, k) &&
			     ck_catalog_item(c, t->chunk + k)->form !=
				     CK_FORM_WITHIN;
	}
	return n;
}

void ck_layouts_count(struct ck_checkpoint *cp, uint64_t *seen, uint64_t *items)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	const struct ck_items_read *r = cp->items_read;

	drop_old(cp);
	*items = items_count(c);
	*seen = ck_bits_count(&r->boxes);
	for (uint32_t i = 0; i < c->objects.n; i++)
		*seen += __atomic_load_n(&r->objects[i], __ATOMIC_RELAXED) !=
			 NOT_READ;
}
