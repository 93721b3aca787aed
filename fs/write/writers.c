/* SPDX-License-Identifier: MIT */
/*
 * writers: the list of write handles. open(2) adds one, and the last reference
 * removes it. A tensor has at most one, by whichever of its files.
 *
 * A request that finds a closing handle waits for its release (deferred.h).
 *
 * Threads: any; ck_write_handles.lock protects the list and references.
 */
#include "write_handle_internal.h"
#include <errno.h>

#define BUSY_LOGGED 64
/* seconds between two log lines about one tensor */
#define BUSY_SEC    10

struct ck_write_handles {
	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_write_handle *first;

	/* Atomic: by tensor number modulo the size, seconds of the last log
	 * line about a busy tensor; 0 is never: */
	atomic_uint busy_logged[BUSY_LOGGED];
};

struct ck_write_handles *ck_write_handles_make(void)
{
	struct ck_write_handles *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	pthread_mutex_init(&all->lock, NULL);
	return all;
}

void ck_write_handles_free(struct ck_write_handles *all)
{
	if (!all)
		return;
	pthread_mutex_destroy(&all->lock);
	free(all);
}

/* --- the list ------------------------------------------------------------- */

/* The write handle of a tensor. Under the lock. */
static struct ck_write_handle *of_tensor(const struct ck_write_handles *all,
					 uint32_t tensor)
{
	struct ck_write_handle *wh = all->first;

	while (wh && wh->node.about.number != tensor)
		wh = wh->next;
	return wh;
}

static void enter(struct ck_write_handles *all, struct ck_write_handle *wh)
{
	wh->next = all->first;
	all->first = wh;
}

static void leave(struct ck_write_handles *all, struct ck_write_handle *wh)
{
	struct ck_write_handle **at = &all->first;

	while (*at != wh)
		at = &(*at)->next;
	*at = wh->next;
}

/* Adds a handle if its tensor has no other. */
static int enter_alone(struct ck_write_handles *all, struct ck_write_handle *wh)
{
	const struct ck_write_handle *other;
	int rc = 0;

	pthread_mutex_lock(&all->lock);
	other = of_tensor(all, wh->node.about.number);
	if (!other)
		enter(all, wh);
	else
		rc = atomic_load(&other->closing) ? CK_AFTER_RELEASE : -EBUSY;
	pthread_mutex_unlock(&all->lock);
	return rc;
}

bool ck_write_handle_is_closing(struct ck_fs *fs, uint32_t tensor)
{
	const struct ck_write_handle *wh;
	bool leaves;

	pthread_mutex_lock(&fs->write_handles->lock);
	wh = of_tensor(fs->write_handles, tensor);
	leaves = wh && atomic_load(&wh->closing);
	pthread_mutex_unlock(&fs->write_handles->lock);
	return leaves;
}

static void write_handle_free(struct ck_fs *fs, struct ck_write_handle *wh)
{
	ck_tree_forget(fs->tree, wh->node.number, 1);
	pthread_mutex_destroy(&wh->lock);
	ck_caller_fini(&wh->by);
	free(wh);
}

struct ck_write_handle *ck_write_handle_ref(struct ck_fs *fs,
					    struct ck_write_handle *wh)
{
	pthread_mutex_lock(&fs->write_handles->lock);
	wh->refs++;
	pthread_mutex_unlock(&fs->write_handles->lock);
	return wh;
}

int ck_write_handle_find(struct ck_fs *fs, const struct ck_node *n, bool last,
			 struct ck_write_handle **out)
{
	struct ck_write_handle *wh;
	int rc = 0;

	*out = NULL;
	pthread_mutex_lock(&fs->write_handles->lock);
	wh = of_tensor(fs->write_handles, n->about.number);
	if (wh && atomic_load(&wh->closing) && !last)
		rc = CK_AFTER_RELEASE;
	else if (wh && wh->node.place == n->place && wh->refs) {
		wh->refs++;
		*out = wh;
	}
	pthread_mutex_unlock(&fs->write_handles->lock);
	return rc;
}

/* The stage is closed first: no other handle of the tensor can be opened while
 * this one is in the list. */
void ck_write_handle_put(struct ck_fs *fs, struct ck_write_handle *wh)
{
	bool last;

	pthread_mutex_lock(&fs->write_handles->lock);
	last = --wh->refs == 0;
	pthread_mutex_unlock(&fs->write_handles->lock);
	if (!last)
		return;
	ck_write_handle_close_stage(fs, wh);
	pthread_mutex_lock(&fs->write_handles->lock);
	leave(fs->write_handles, wh);
	pthread_mutex_unlock(&fs->write_handles->lock);
	ck_deferred_queue_retry(fs->deferred);
	write_handle_free(fs, wh);
}

/* --- opening -------------------------------------------------------------- */

/* Programs that retry would fill the log. */
int ck_write_handle_busy(struct ck_fs *fs, uint32_t tensor)
{
	atomic_uint *logged =
		&fs->write_handles->busy_logged[tensor % BUSY_LOGGED];
	struct timespec t;
	unsigned now, before = atomic_load(logged);

	clock_gettime(CLOCK_MONOTONIC, &t);
	now = (unsigned)t.tv_sec + BUSY_SEC; /* never 0 */
	if ((before == 0 || now - before >= BUSY_SEC) &&
	    atomic_compare_exchange_strong(logged, &before, now))
		ck_log("%s: is being written already",
		       ck_tensor_name(fs, tensor));
	return -EBUSY;
}

int ck_write_handle_open(struct ck_fs *fs, const struct ck_node *n,
			 struct ck_write_handle **out)
{
	struct ck_write_handle *wh = calloc(1, sizeof(*wh));
	int rc;

	if (!wh)
		return -ENOMEM;
	wh->refs = 1;
	wh->node = *n;
	ck_tree_hold(fs->tree, n->number);
	wh->by.uid = (uid_t)-1; /* until ck_write_handle_opened_by() */
	wh->size = n->about.size;
	pthread_mutex_init(&wh->lock, NULL);
	rc = enter_alone(fs->write_handles, wh);
	if (rc) {
		write_handle_free(fs, wh);
		return rc == -EBUSY ? ck_write_handle_busy(fs, n->about.number)
				    : rc;
	}
	rc = ck_write_handle_open_stage(fs, wh);
	if (rc)
		ck_write_handle_put(fs, wh);
	else
		*out = wh;
	return rc;
}
