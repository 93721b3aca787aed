/* SPDX-License-Identifier: MIT */
/*
 * undone: undoes stream transforms of archives, and caches the last few results.
 *
 * A result is private to its thread until ck_undones_keep() adds it to the cache. There it is
 * constant. It has one reference for the cache and one for each user, and is freed with the
 * last. A result from before the last change of its file's ctime is dropped when it is found.
 * No lock is held while an archive is read: two threads may undo the same one. Any thread.
 */
#include "undone.h"

#include <errno.h>

enum { KEPT = 8 };

/* Limit in bytes of the cache. A longer archive is undone each time. */
static const size_t bytes_most = 256 << 20;

struct ck_undones {
	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_undone *kept[KEPT]; /* the first n, last used first */
	unsigned n;
	size_t bytes;
};

struct ck_undones *ck_undones_make(void)
{
	struct ck_undones *u = calloc(1, sizeof(*u));

	if (u)
		pthread_mutex_init(&u->lock, NULL);
	return u;
}

/* Drops a reference. */
static void let_go(struct ck_undone *undone)
{
	if (!undone || --undone->refs)
		return;
	free(undone->bytes);
	free(undone);
}

/* Removes number i from the cache. */
static void drop(struct ck_undones *u, unsigned i)
{
	u->bytes -= u->kept[i]->len;
	let_go(u->kept[i]);
	u->n--;
	memmove(u->kept + i, u->kept + i + 1, (u->n - i) * sizeof(*u->kept));
}

/* Moves number i to the front; or adds a new one there, if i is the number of entries. */
static void put_first(struct ck_undones *u, struct ck_undone *undone,
		      unsigned i)
{
	memmove(u->kept + 1, u->kept, i * sizeof(*u->kept));
	u->kept[0] = undone;
}

void ck_undones_free(struct ck_undones *u)
{
	if (!u)
		return;
	while (u->n)
		drop(u, u->n - 1);
	pthread_mutex_destroy(&u->lock);
	free(u);
}

static bool is_of(const struct ck_undone *undone, const struct ck_item *item)
{
	const struct ck_item *i = &undone->item;

	return i->file == item->file && i->fpos == item->fpos &&
	       i->length == item->length && i->transform == item->transform;
}

/* Number of the entry of an item; u->n if there is no such entry. */
static unsigned place_of(const struct ck_undones *u, const struct ck_item *item)
{
	unsigned i = 0;

	while (i < u->n && !is_of(u->kept[i], item))
		i++;
	return i;
}

/* Finds the entry of an item, and takes a reference. Drops one from before the last change of
 * the file's ctime. NULL if there is no entry. */
static struct ck_undone *find(struct ck_undones *u, const struct ck_item *item,
			      uint64_t touched)
{
	struct ck_undone *found = NULL;
	unsigned i;

	pthread_mutex_lock(&u->lock);
	i = place_of(u, item);
	if (i < u->n && u->kept[i]->touched != touched) {
		drop(u, i);
	} else if (i < u->n) {
		found = u->kept[i];
		put_first(u, found, i);
		found->refs++;
	}
	pthread_mutex_unlock(&u->lock);
	return found;
}

int ck_archive_undo(struct ck_stored *stored, struct ck_str transforms,
		    const struct ck_item_want *want, struct ck_undone *out,
		    uint64_t *strides, struct ck_diag *d)
{
	struct ck_zip_source src;
	uint16_t change = 0;
	void *bytes = NULL;
	int rc = ck_stored_undo(stored, transforms,
				ck_undone_box(ck_item_bytes(want)), &bytes,
				&out->len, d);

	if (rc)
		return rc;
	src = ck_source_memory(bytes, out->len);
	rc = ck_item_locate(&src, want, &out->pos, strides, &change, d);
	if (rc) {
		free(bytes);
		return rc;
	}
	out->bytes = bytes;
	out->change = (uint8_t)change;
	return 0;
}

int ck_undone_get(struct ck_undones *u, const struct ck_item *item,
		  struct ck_stored *stored, struct ck_str transforms,
		  const struct ck_item_want *want, struct ck_undone **out,
		  struct ck_diag *d)
{
	*out = find(u, item, stored->file.touched);
	if (*out)
		return ck_stored_touch(stored, d);
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return ck_fail_transient(d, ENOMEM, "out of memory");
	(*out)->item = *item;
	(*out)->touched = stored->file.touched;
	(*out)->refs = 1;
	return ck_archive_undo(stored, transforms, want, *out, &(*out)->stride,
			       d);
}

static void keep(struct ck_undones *u, struct ck_undone *undone)
{
	if (undone->len > bytes_most)
		return;
	while (u->n == KEPT || u->bytes > bytes_most - undone->len)
		drop(u, u->n - 1);
	put_first(u, undone, u->n++);
	undone->refs++;
	u->bytes += undone->len;
}

void ck_undones_keep(struct ck_undones *u, struct ck_undone *undone, bool same)
{
	unsigned i;

	if (!undone)
		return;
	pthread_mutex_lock(&u->lock);
	i = place_of(u, &undone->item);
	if (same && i == u->n)
		keep(u, undone);
	else if (!same && i < u->n)
		drop(u, i);
	let_go(undone);
	pthread_mutex_unlock(&u->lock);
}
