/* SPDX-License-Identifier: MIT */
/*
 * late: see late.h. A request that waits for another host keeps no thread of the
 * mount: the mover calls back when it is done. A program that opens, or reads
 * directly, and is interrupted, gets EINTR; what fills pages waits, since a page
 * fault that failed would kill a program that only got a signal, or be EFAULT of a
 * call. A read(2) says whose it is, and what fills pages does not. A signal that
 * ends a program ends its read(2) by the kernel alone, but not a fault on a page
 * of which nothing was asked for ahead: that waits for the mover's answer.
 */
#include "late.h"
#include "ckptfs/memory.h"
#include <errno.h>

struct ck_lates {
	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed;
	struct ck_late *first;
};

struct ck_lates *ck_lates_make(void)
{
	struct ck_lates *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	pthread_mutex_init(&all->lock, NULL);
	pthread_cond_init(&all->changed, NULL);
	return all;
}

void ck_lates_free(struct ck_lates *all)
{
	if (!all)
		return;
	pthread_cond_destroy(&all->changed);
	pthread_mutex_destroy(&all->lock);
	free(all);
}

/* libfuse holds the request's lock, so it is not answered meanwhile. */
static void interrupted(fuse_req_t req, void *arg)
{
	const struct ck_late *l = arg;

	(void)req;
	ck_route_interrupt(&l->fs->route, l->waiter);
}

/* It begins to wait; before its mover knows it. */
static void late_begin(struct ck_late *l)
{
	struct ck_lates *all = l->fs->lates;

	pthread_mutex_lock(&all->lock);
	l->next = all->first;
	if (l->next)
		l->next->prev = l;
	all->first = l;
	pthread_mutex_unlock(&all->lock);
	if (l->may_end)
		fuse_req_interrupt_func(l->req, interrupted, l);
}

/* Is answered next, and not interrupted any more. */
static void late_came(const struct ck_late *l)
{
	if (l->may_end)
		fuse_req_interrupt_func(l->req, NULL, NULL);
}

/* Was answered: the mount may end. */
static void late_end(struct ck_late *l)
{
	struct ck_lates *all = l->fs->lates;

	pthread_mutex_lock(&all->lock);
	if (l->prev)
		l->prev->next = l->next;
	else
		all->first = l->next;
	if (l->next)
		l->next->prev = l->prev;
	pthread_cond_broadcast(&all->changed);
	pthread_mutex_unlock(&all->lock);
}

void ck_lates_end(struct ck_fs *fs)
{
	struct ck_lates *all = fs->lates;

	if (!all)
		return;
	pthread_mutex_lock(&all->lock);
	for (struct ck_late *l = all->first; l; l = l->next)
		ck_route_interrupt(&fs->route, l->waiter);
	while (all->first)
		pthread_cond_wait(&all->changed, &all->lock);
	pthread_mutex_unlock(&all->lock);
}

/* --- reads ------------------------------------------------------------------------- */

struct late_read {
	struct ck_late late; /* first */
	struct ck_read read;
	struct ck_handle *handle;
	size_t size; /* as it was asked for */
};

static void done(struct ck_read *r, int rc)
{
	struct late_read *l = r->arg;
	struct ck_handle *h = l->handle;
	struct ck_fs *fs = h->fs;

	late_came(&l->late);
	ck_handle_reply(l->late.req, h, r, l->size, rc);
	ck_pages_free(r->to, r->len);
	ck_handle_put(fs, h);
	late_end(&l->late);
	free(l);
}

static struct late_read *late_make(struct ck_handle *h, const struct ck_read *r)
{
	struct late_read *l = calloc(1, sizeof(*l));
	void *to = l ? ck_pages_alloc(r->len) : NULL;

	if (!to) {
		free(l);
		return NULL;
	}
	l->handle = h;
	l->read = (struct ck_read){ .from = r->from,
				    .vpos = r->vpos,
				    .len = r->len,
				    .to = to,
				    .done = done,
				    .arg = l };
	atomic_fetch_add(&h->refs, 1);
	return l;
}

void ck_late_read(fuse_req_t req, struct ck_handle *h, const struct ck_read *r,
		  size_t size, bool may_end)
{
	struct ck_fs *fs = h->fs;
	struct late_read *l = late_make(h, r);
	int rc;

	if (!l) {
		ck_handle_reply(req, h, r, size, -ENOMEM);
		return;
	}
	l->size = size;
	l->late = (struct ck_late){ .fs = fs,
				    .req = req,
				    .waiter = &l->read.waiter,
				    .may_end = may_end };
	late_begin(&l->late);
	rc = ck_route_read(&fs->route, &l->read);
	if (rc != -EINPROGRESS)
		done(&l->read, rc);
}

/* --- other requests ---------------------------------------------------------------- */

static void fetched(struct ck_errand *e, int rc)
{
	struct ck_late_fetch *l = e->arg;

	l->rc = rc;
	l->again(l);
}

void ck_late_fetch_init(struct ck_late_fetch *l, struct ck_fs *fs,
			fuse_req_t req, void (*again)(struct ck_late_fetch *l))
{
	*l = (struct ck_late_fetch){
		.late = { .fs = fs,
			  .req = req,
			  .waiter = &l->errand.waiter,
			  .may_end = true },
		.errand = { .done = fetched, .arg = l },
		.again = again,
	};
}

int ck_late_run(struct ck_late_fetch *l, int (*run)(void *arg), void *arg)
{
	int rc = l->rc;

	while (rc == 0) {
		ck_fetch_begin(&l->errand.fetch);
		rc = run(arg);
		ck_fetch_end(&l->errand.fetch);
		if (rc != -EREMOTE)
			break;
		if (!l->waits)
			late_begin(&l->late);
		l->waits = true;
		rc = ck_route_errand(&l->late.fs->route, &l->errand);
		if (rc == -EINPROGRESS)
			return 1;
	}
	if (l->waits)
		late_came(&l->late);
	return rc;
}

void ck_late_fetch_end(struct ck_late_fetch *l)
{
	if (l->waits)
		late_end(&l->late);
	ck_errand_fini(&l->errand);
}
