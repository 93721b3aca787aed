/* SPDX-License-Identifier: MIT */
/* Calls of those who may wait: see link.h. */
#include "ckptfs/link.h"

#include <errno.h>
#include <semaphore.h>

struct wait {
	struct ck_call call; /* first */
	sem_t done;
	int rc;
	int (*take)(const struct ck_ask *a, const struct ck_message *m,
		    void *arg);
	void *arg;
};

static void came(struct ck_call *c, const struct ck_message *m, int rc)
{
	struct wait *w = (struct wait *)c;

	w->rc = m ? w->take(&c->ask, m, w->arg) : rc;
	sem_post(&w->done);
}

int ck_calls_wait(struct ck_calls *all, uint32_t peer, struct ck_ask *a,
		  int (*take)(const struct ck_ask *a,
			      const struct ck_message *m, void *arg),
		  void *arg)
{
	struct wait w = { .call = { .ask = *a, .peer = peer, .came = came },
			  .take = take,
			  .arg = arg };

	sem_init(&w.done, 0, 0);
	ck_calls_send(all, &w.call);
	while (sem_wait(&w.done))
		; /* a signal */
	sem_destroy(&w.done);
	*a = w.call.ask;
	return w.rc;
}

static int take_look(const struct ck_ask *a, const struct ck_message *m,
		     void *out)
{
	return ck_take_look(a, m, out);
}

int ck_calls_look(struct ck_calls *all, uint32_t peer, struct ck_ids shown,
		  const struct ck_str *names, size_t n, struct ck_looked *out)
{
	int rc = 0;

	for (size_t done = 0, taken; done < n && rc == 0; done += taken) {
		struct ck_ask a;

		rc = ck_ask_look(&a, shown, names + done, n - done, &taken);
		if (rc)
			break;
		rc = ck_calls_wait(all, peer, &a, take_look, out + done);
		ck_ask_fini(&a);
	}
	return rc;
}
