/* SPDX-License-Identifier: MIT */
/*
 * whiteout: files that were removed in this mount only, by the place of their
 * name. The directory of each stays in use, so that its place is not reused.
 *
 * States of a name: absent (the file is visible); removed; recreated (visible
 * again, and the next writer replaces all of it). Names are in a tree of
 * tsearch(3).
 *
 * Threads: any; an atomic counter answers the common case without the lock.
 */
#include "../internal.h"
#include <errno.h>
#include <search.h>

/* A name that was removed, or recreated and not yet opened. */
struct name {
	uint64_t place;	 /* first: the key */
	uint64_t number; /* of the file at its removal; in use */
	bool recreated;
};

struct ck_whiteouts {
	pthread_rwlock_t lock;
	/* Under lock: */
	void *names; /* of tsearch(3) */

	/* Atomic: */
	atomic_size_t n; /* number of names, mostly 0 */
};

struct ck_whiteouts *ck_whiteouts_make(void)
{
	struct ck_whiteouts *h = calloc(1, sizeof(*h));

	if (h)
		pthread_rwlock_init(&h->lock, NULL);
	return h;
}

void ck_whiteouts_free(struct ck_whiteouts *h)
{
	if (!h)
		return;
	tdestroy(h->names, free);
	pthread_rwlock_destroy(&h->lock);
	free(h);
}

static int place_cmp(const void *a, const void *b)
{
	const struct name *x = a, *y = b;

	return (x->place > y->place) - (x->place < y->place);
}

/* Under the lock. */
static struct name *find(struct ck_whiteouts *h, const struct ck_node *n)
{
	const struct name key = { .place = n->place };
	struct name **at = tfind(&key, &h->names, place_cmp);

	return at ? *at : NULL;
}

/* True if there is such a name, recreated or not. */
static bool is_there(const struct ck_fs *fs, const struct ck_node *n,
		     bool recreated)
{
	struct ck_whiteouts *h = fs->whiteouts;
	const struct name *name;
	bool found;

	if (!h || !ck_node_accepts(n) || atomic_load(&h->n) == 0)
		return false;
	pthread_rwlock_rdlock(&h->lock);
	name = find(h, n);
	found = name && name->recreated == recreated;
	pthread_rwlock_unlock(&h->lock);
	return found;
}

bool ck_whiteout_has(const struct ck_fs *fs, const struct ck_node *n)
{
	return is_there(fs, n, false);
}

bool ck_whiteout_is_recreated(const struct ck_fs *fs, const struct ck_node *n)
{
	return is_there(fs, n, true);
}

/* Under the lock. */
static int name_add(struct ck_fs *fs, const struct ck_node *n)
{
	struct ck_whiteouts *h = fs->whiteouts;
	struct name *name = malloc(sizeof(*name));

	if (!name)
		return -ENOMEM;
	*name = (struct name){ .place = n->place, .number = n->number };
	if (!tsearch(name, &h->names, place_cmp)) {
		free(name);
		return -ENOMEM;
	}
	ck_tree_hold(fs->tree, n->number);
	atomic_fetch_add(&h->n, 1);
	return 0;
}

int ck_whiteout_add(struct ck_fs *fs, const struct ck_node *n)
{
	struct ck_whiteouts *h = fs->whiteouts;
	struct name *name;
	int rc = 0;

	pthread_rwlock_wrlock(&h->lock);
	name = find(h, n);
	if (name)
		name->recreated = false;
	else
		rc = name_add(fs, n);
	pthread_rwlock_unlock(&h->lock);
	return rc;
}

void ck_whiteout_remove(struct ck_fs *fs, const struct ck_node *n)
{
	struct ck_whiteouts *h = fs->whiteouts;
	struct name *name;

	if (atomic_load(&h->n) == 0)
		return;
	pthread_rwlock_wrlock(&h->lock);
	name = find(h, n);
	if (name) {
		tdelete(name, &h->names, place_cmp);
		atomic_fetch_sub(&h->n, 1);
		ck_tree_forget(fs->tree, name->number, 1);
		free(name);
	}
	pthread_rwlock_unlock(&h->lock);
}

void ck_whiteout_recreate(struct ck_fs *fs, const struct ck_node *n)
{
	struct ck_whiteouts *h = fs->whiteouts;
	struct name *name;

	pthread_rwlock_wrlock(&h->lock);
	name = find(h, n);
	if (name)
		name->recreated = true;
	pthread_rwlock_unlock(&h->lock);
}

void ck_whiteout_opened(struct ck_fs *fs, const struct ck_node *n)
{
	if (ck_whiteout_is_recreated(fs, n))
		ck_whiteout_remove(fs, n);
}
