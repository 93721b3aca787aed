/* SPDX-License-Identifier: MIT */
/*
 * move: waits for a read that is answered later.
 */
#include "ckptfs/move.h"

#include <errno.h>
#include <semaphore.h>

struct wait {
	sem_t done;
	int rc;
};

static void wake(struct ck_read *r, int rc)
{
	struct wait *w = r->arg;

	w->rc = rc;
	sem_post(&w->done);
}

int ck_move_read(struct ck_mover *m, struct ck_read *r)
{
	struct wait w;
	int rc;

	if (!m->is_late)
		return m->read(m, r);
	sem_init(&w.done, 0, 0);
	r->done = wake;
	r->arg = &w;
	rc = m->read(m, r);
	if (rc == -EINPROGRESS) {
		while (sem_wait(&w.done))
			; /* a signal */
		rc = w.rc;
	}
	sem_destroy(&w.done);
	return rc;
}
