/* SPDX-License-Identifier: MIT */
/*
 * transaction: stages with a common commit. A transaction has open stages, and the
 * files of complete items until their commit. A writer may have several; each
 * commits only its own items, one commit at a time. The list of stages is changed
 * under ck_writer.lock with placing held for reading.
 */
#include "commit_internal.h"

#include <errno.h>

/* Prefers writers, so that programs that write continuously do not delay a
 * commit. */
static void placing_init(pthread_rwlock_t *placing)
{
	pthread_rwlockattr_t attr;

	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(
		&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(placing, &attr);
	pthread_rwlockattr_destroy(&attr);
}

int ck_transaction_begin(struct ck_writer *w, bool together,
			 struct ck_transaction **out)
{
	struct ck_transaction *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	x->w = w;
	placing_init(&x->placing);
	if (together)
		x->batch = ck_batch_make(w, true);
	if (together && !x->batch) {
		ck_transaction_end(x);
		return -ENOMEM;
	}
	*out = x;
	return 0;
}

void ck_transaction_end(struct ck_transaction *x)
{
	if (!x)
		return;
	pthread_rwlock_destroy(&x->placing);
	ck_batch_free(x->batch);
	free(x);
}

/* --- open stages ----------------------------------------------------------- */

int ck_transaction_enlist(struct ck_transaction *x, struct ck_stage *s)
{
	struct ck_writer *w = x->w;
	int rc = -EBUSY;

	pthread_rwlock_rdlock(&x->placing);
	pthread_mutex_lock(&w->lock);
	if (!ck_bits_has(&w->busy, s->of.tensor)) {
		ck_bits_set(&w->busy, s->of.tensor);
		s->next = x->stages;
		x->stages = s;
		x->nstages++;
		rc = 0;
	}
	pthread_mutex_unlock(&w->lock);
	pthread_rwlock_unlock(&x->placing);
	return rc;
}

void ck_transaction_delist(struct ck_transaction *x, struct ck_stage *s)
{
	struct ck_stage **at = &x->stages;

	pthread_mutex_lock(&x->w->lock);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	ck_bits_clear(&x->w->busy, s->of.tensor);
	x->nstages--;
	pthread_mutex_unlock(&x->w->lock);
}

/* --- status ------------------------------------------------------------------ */

void ck_transaction_status(struct ck_transaction *x,
			   struct ck_transaction_status *out)
{
	pthread_mutex_lock(&x->w->lock);
	*out = (struct ck_transaction_status){ .stages = x->nstages };
	pthread_mutex_unlock(&x->w->lock);
	pthread_rwlock_rdlock(&x->placing);
	if (x->batch)
		out->staged = ck_batch_count(x->batch, &out->bytes);
	pthread_rwlock_unlock(&x->placing);
}
