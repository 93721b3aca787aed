/* SPDX-License-Identifier: MIT */
/*
 * io_wait: blocking forms of reads and header fetches. The calling thread waits
 * on a semaphore that done() posts.
 */
#include "ckptfs/io.h"

#include <errno.h>
#include <semaphore.h>

struct wait {
	sem_t done;
	int rc;
};

static void wake(struct wait *w, int rc)
{
	w->rc = rc;
	sem_post(&w->done);
}

static void wait_begin(struct wait *w)
{
	sem_init(&w->done, 0, 0);
}

/* rc: result of the start. Returns the result of the operation. */
static int wait_end(struct wait *w, int rc)
{
	if (rc == -EINPROGRESS) {
		while (sem_wait(&w->done))
			; /* interrupted by a signal */
		rc = w->rc;
	}
	sem_destroy(&w->done);
	return rc;
}

static void wake_reader(struct ck_read *r, int rc)
{
	wake(r->arg, rc);
}

static void wake_sender(struct ck_header_fetch *e, int rc)
{
	wake(e->arg, rc);
}

int ck_io_read(struct ck_route *route, struct ck_read *r)
{
	struct ck_fetch none = { 0 };
	struct wait w;
	int rc;

	r->remote = false;
	/* The route fetches all remote ranges in one batch. */
	ck_fetch_begin(&none);
	rc = ck_host_read(route->files, r);
	ck_fetch_end(&none);
	ck_fetch_fini(&none);
	if (rc != -EREMOTE)
		return rc;
	wait_begin(&w);
	r->done = wake_reader;
	r->arg = &w;
	return wait_end(&w, ck_route_read(route, r));
}

int ck_io_header_fetch(struct ck_route *route, struct ck_header_fetch *e)
{
	struct wait w;

	wait_begin(&w);
	e->done = wake_sender;
	e->arg = &w;
	return wait_end(&w, ck_route_fetch(route, e));
}
