/* SPDX-License-Identifier: MIT */
/*
 * late: see late.h. A read that waits for another host or a GPU keeps no thread
 * of the mount: the mover calls back when it is done. A program that reads
 * directly, and is interrupted, gets EINTR; what fills pages waits, since a page
 * fault that failed would kill a program that only got a signal, or be EFAULT of a
 * call. A read(2) says whose it is, and what fills pages does not. A signal that
 * ends a program ends its read(2) by the kernel alone, but not a fault on a page
 * of which nothing was asked for ahead: that waits for the mover's answer.
 */
#include "late.h"
#include "ckptfs/memory.h"
#include <errno.h>

/* A read on the way. */
struct late {
	struct late *next, *prev; /* under ck_lates.lock */
	/* Constant: */
	struct ck_read read;
	fuse_req_t req;
	struct ck_handle *handle;
	size_t size;  /* as it was asked for */
	bool may_end; /* when it is interrupted */
};

struct ck_lates {
	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed;
	struct late *first;
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

static void link_in(struct ck_lates *all, struct late *l)
{
	pthread_mutex_lock(&all->lock);
	l->next = all->first;
	if (l->next)
		l->next->prev = l;
	all->first = l;
	pthread_mutex_unlock(&all->lock);
}

static void link_out(struct ck_lates *all, struct late *l)
{
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

static void late_interrupt(struct ck_mover *mover, struct late *l)
{
	__atomic_store_n(&l->read.unwanted, true, __ATOMIC_RELEASE);
	mover->interrupt(mover, &l->read);
}

/* libfuse holds the request's lock, so the read is not answered meanwhile. */
static void interrupted(fuse_req_t req, void *arg)
{
	const struct ck_fs *fs = fuse_req_userdata(req);

	late_interrupt(fs->mover, arg);
}

static void done(struct ck_read *r, int rc)
{
	struct late *l = r->arg;
	struct ck_fs *fs = l->handle->fs;

	if (l->may_end)
		fuse_req_interrupt_func(l->req, NULL, NULL);
	ck_handle_reply(l->req, l->handle, r, l->size, rc);
	ck_pages_free(r->to, r->len);
	ck_handle_put(fs, l->handle);
	link_out(fs->lates, l);
	free(l);
}

static struct late *late_make(fuse_req_t req, struct ck_handle *h,
			      const struct ck_read *r)
{
	struct late *l = calloc(1, sizeof(*l));
	void *to = l ? ck_pages_alloc(r->len) : NULL;

	if (!to) {
		free(l);
		return NULL;
	}
	l->req = req;
	l->handle = h;
	l->read = *r;
	l->read.to = to;
	l->read.done = done;
	l->read.arg = l;
	atomic_fetch_add(&h->refs, 1);
	return l;
}

void ck_late_read(fuse_req_t req, struct ck_handle *h, const struct ck_read *r,
		  size_t size, bool may_end)
{
	struct ck_mover *mover = h->fs->mover;
	struct late *l = late_make(req, h, r);
	int rc;

	if (!l) {
		ck_handle_reply(req, h, r, size, -ENOMEM);
		return;
	}
	l->size = size;
	l->may_end = may_end;
	link_in(h->fs->lates, l);
	if (may_end)
		fuse_req_interrupt_func(req, interrupted, l);
	rc = mover->read(mover, &l->read);
	if (rc != -EINPROGRESS)
		done(&l->read, rc);
}

void ck_lates_end(struct ck_fs *fs)
{
	struct ck_lates *all = fs->lates;

	if (!all)
		return;
	pthread_mutex_lock(&all->lock);
	for (struct late *l = all->first; l; l = l->next)
		late_interrupt(fs->mover, l);
	while (all->first)
		pthread_cond_wait(&all->changed, &all->lock);
	pthread_mutex_unlock(&all->lock);
}
