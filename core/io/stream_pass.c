/* SPDX-License-Identifier: MIT */
/* stream_pass: reads of those who wait. */
#include "ckptfs/stream.h"

#include <errno.h>
#include <semaphore.h>

struct wait {
	sem_t done;
	int rc;
};

static void wake(struct ck_stream_read *r, int rc)
{
	struct wait *w = r->arg;

	w->rc = rc;
	sem_post(&w->done);
}

/* As of ck_stream_read(). */
static int from_segments(struct ck_streams *all, struct ck_stream *s,
			 const struct ck_read *what, ck_stream_taker *take,
			 void *arg)
{
	struct wait w = { .rc = 0 };
	struct ck_stream_read r = { .done = wake, .arg = &w };
	int rc;

	sem_init(&w.done, 0, 0);
	rc = ck_stream_read(all, s, what, &r);
	if (rc == -EINPROGRESS) {
		while (sem_wait(&w.done))
			; /* a signal */
		rc = w.rc;
	}
	sem_destroy(&w.done);
	if (rc == 0) {
		take(arg, r.bytes, r.n);
		ck_stream_put(all, &r);
	}
	return rc;
}

int ck_stream_pass(struct ck_streams *all, struct ck_route *route,
		   struct ck_stream *s, struct ck_read *what,
		   ck_stream_taker *take, void *arg)
{
	int rc = from_segments(all, s, what, take, arg);
	bool alone = rc == -ENOENT;

	if (rc == 0)
		return 0;
	what->short_deadline = !alone;
	rc = ck_io_read(route, what);
	if (alone)
		ck_stream_note(all, s, what, what->remote);
	if (rc == 0)
		take(arg, &(struct iovec){ what->to, what->len }, 1);
	return rc;
}
