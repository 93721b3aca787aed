/* SPDX-License-Identifier: MIT */
/*
 * group_commit: commits several tensors together. The stages of a transaction share
 * the files of one batch, and complete items are staged in it. A commit takes the
 * batch, whose files are not written after that. Stages that are not complete then
 * copy their bytes to the files of the next batch: the only case in which bytes are
 * written twice. Holding x->placing for writing excludes all stages meanwhile.
 */
#include "commit_internal.h"

#include <errno.h>

/* True if the stage has written bytes that are not staged. */
static bool is_open(const struct ck_stage *s)
{
	return s->touched && !s->spoiled;
}

void ck_batch_settle(struct ck_transaction *x, const struct ck_batch *b,
		     bool lost)
{
	pthread_rwlock_wrlock(&x->placing);
	for (struct ck_stage *s = x->stages; s; s = s->next) {
		if (s->kept_in != b)
			continue;
		s->kept_in = NULL;
		if (lost && !s->touched)
			ck_stage_lose(s, "its commit failed; write it again");
	}
	pthread_rwlock_unlock(&x->placing);
}

int ck_cuts_movable(const struct ck_cuts *cuts, const struct ck_writer *w,
		    struct ck_diag *d)
{
	int rc = 0;

	for (uint32_t i = 0; i < cuts->n && !rc; i++)
		rc = ck_metadata_movable(w->cp, cuts->cuts[i].chunk, d);
	return rc;
}

/* Whether another program saved the checkpoint is checked by the commit. */
int ck_cuts_check(const struct ck_cuts *cuts, struct ck_writer *w,
		  struct ck_diag *d)
{
	int rc = ck_cuts_movable(cuts, w, d);

	if (rc == 0)
		rc = ck_owner_check(w, d);
	return rc == -ESTALE ? 0 : rc;
}

/* --- staged items ----------------------------------------------------------------- */

static void list_tensors(struct ck_outcome *out, const struct ck_batch *b)
{
	for (uint32_t i = 0; i < b->tensors.n; i++)
		if (ck_bits_has(&b->tensors, i))
			out->tensors[out->n++] = i;
	out->boxes = b->nkept;
	for (size_t i = 0; i < b->nkept; i++)
		out->bytes += b->kept[i].length;
}

/* Must hold placing for writing. */
static int outcome_fill(struct ck_outcome *out, const struct ck_transaction *x,
			struct ck_diag *d)
{
	const struct ck_batch *b = x->batch;

	ck_outcome_fini(out);
	out->tensors = calloc(b->ntensors + 1UL, sizeof(*out->tensors));
	if (!out->tensors)
		return ck_fail(d, ENOMEM, "out of memory");
	list_tensors(out, b);
	for (const struct ck_stage *s = x->stages; s; s = s->next)
		out->open += is_open(s);
	return 0;
}

int ck_outcome_make(struct ck_outcome *out, struct ck_transaction *x,
		    struct ck_diag *d)
{
	int rc;

	*out = (struct ck_outcome){ 0 };
	pthread_rwlock_wrlock(&x->placing);
	rc = outcome_fill(out, x, d);
	pthread_rwlock_unlock(&x->placing);
	return rc;
}

void ck_outcome_fini(struct ck_outcome *out)
{
	free(out->tensors);
	*out = (struct ck_outcome){ 0 };
}

/* --- taking the batch ------------------------------------------------------------- */

static void stage_move(struct ck_stage *s, struct ck_batch *to)
{
	if (ck_stage_move(s, to))
		ck_stage_lose(s, "others were committed meanwhile, and what "
				 "was written could not be kept; write it "
				 "again");
}

int ck_batch_take(struct ck_transaction *x, struct ck_batch **out,
		  struct ck_outcome *of, struct ck_diag *d)
{
	struct ck_batch *next = ck_batch_make(x->w, true);
	int rc;

	if (!next)
		return ck_fail(d, ENOMEM, "out of memory");
	pthread_rwlock_wrlock(&x->placing);
	rc = outcome_fill(of, x, d);
	if (rc == 0) {
		*out = x->batch;
		x->batch = next;
		for (struct ck_stage *s = x->stages; s; s = s->next)
			stage_move(s, next);
	}
	pthread_rwlock_unlock(&x->placing);
	if (rc)
		ck_batch_free(next);
	return rc;
}

int ck_transaction_drop(struct ck_transaction *x, struct ck_outcome *out,
			struct ck_diag *d)
{
	int rc;

	*out = (struct ck_outcome){ 0 };
	pthread_mutex_lock(&x->w->commit_lock);
	pthread_rwlock_wrlock(&x->placing);
	rc = outcome_fill(out, x, d);
	if (rc == 0)
		ck_batch_clear(x->batch);
	pthread_rwlock_unlock(&x->placing);
	if (rc == 0)
		ck_batch_settle(x, x->batch, false);
	pthread_mutex_unlock(&x->w->commit_lock);
	return rc;
}
