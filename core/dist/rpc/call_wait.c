/* SPDX-License-Identifier: MIT */
/*
 * call_wait: synchronous calls. The caller sleeps on a semaphore that the
 * callback of the call posts in the line's thread. State: one struct wait on
 * the caller's stack for each call. Any thread may call, except the line's.
 */
#include "calls.h"

#include <errno.h>
#include <semaphore.h>

struct wait {
	struct ck_call call; /* first */
	sem_t done;
	int rc;
	int (*take)(const struct ck_query *a, const struct ck_message *m,
		    void *arg);
	void *arg;
};

static int call_done(struct ck_call *c, const struct ck_message *m, int rc)
{
	struct wait *w = (struct wait *)c;

	if (m)
		rc = w->take(&c->query, m, w->arg);
	w->rc = rc;
	sem_post(&w->done);
	return rc == -EPROTO ? rc : 0;
}

static void begin(struct wait *w, struct ck_calls *all)
{
	sem_init(&w->done, 0, 0);
	ck_calls_send(all, &w->call);
}

static int end(struct wait *w)
{
	while (sem_wait(&w->done))
		; /* retry after a signal */
	sem_destroy(&w->done);
	return w->rc;
}

int ck_calls_wait(struct ck_calls *all, uint32_t peer, struct ck_query *a,
		  int (*take)(const struct ck_query *a,
			      const struct ck_message *m, void *arg),
		  void *arg)
{
	struct wait w = {
		.call = { .query = *a, .peer = peer, .done = call_done },
		.take = take,
		.arg = arg
	};
	int rc;

	begin(&w, all);
	rc = end(&w);
	*a = w.call.query;
	return rc;
}

/* --- names ------------------------------------------------------------------------ */

/* STATs in flight at a time: enough to keep the peer busy, and few, since they
 * share the time that each of them has. */
enum { LOOKS = 4 };

static int take_look(const struct ck_query *a, const struct ck_message *m,
		     void *out)
{
	return ck_reply_stat(a, m, out);
}

/* A ring of STATs, in order; those from `ended` to `begun` are in flight. */
struct looks {
	struct wait waits[LOOKS];
	unsigned begun, ended;
	int rc; /* the first error */
};

static void end_first(struct looks *l)
{
	struct wait *w = &l->waits[l->ended++ % LOOKS];
	int rc = end(w);

	ck_query_fini(&w->call.query);
	l->rc = l->rc ? l->rc : rc;
}

int ck_calls_stat(struct ck_calls *all, uint32_t peer, struct ck_ids shown,
		  const struct ck_str *names, size_t n,
		  struct ck_name_stat *out)
{
	struct looks l = { 0 };

	for (size_t done = 0, taken = 0; done < n; done += taken) {
		struct wait *w = &l.waits[l.begun % LOOKS];

		if (l.begun - l.ended == LOOKS)
			end_first(&l);
		if (l.rc)
			break;
		*w = (struct wait){ .call = { .peer = peer, .done = call_done },
				    .take = take_look,
				    .arg = out + done };
		l.rc = ck_query_stat(&w->call.query, shown, names + done,
				     n - done, &taken);
		if (l.rc)
			break;
		begin(w, all);
		l.begun++;
	}
	while (l.ended < l.begun)
		end_first(&l);
	return l.rc;
}
