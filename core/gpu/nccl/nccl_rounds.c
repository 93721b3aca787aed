/* SPDX-License-Identifier: MIT */
/*
 * nccl_rounds: the round backend with NCCL (struct ck_round_backend). A round
 * waits until the communicator of its epoch is up, and is then a group
 * (nccl_group.h). One round at a time; one thread.
 */
#include "nccl_rounds.h"
#include "nccl_group.h"

#include <errno.h>

struct rounds {
	struct ck_nccl_rounds is; /* first */
	struct ck_nccl nccl;
	struct ck_nccl_epochs epochs;
	uint32_t rank;
	uint32_t *members, n; /* of this epoch; NULL if out of memory */
	/* The last round begun: */
	const struct ck_gpu_round *round;
	bool waits; /* for the communicator */
	struct ck_nccl_group group;
};

static struct rounds *rounds_of(struct ck_round_backend *m)
{
	return (struct rounds *)m;
}

/* --- a round ---------------------------------------------------------------------------- */

static bool is_empty(const struct ck_gpu_round *round)
{
	for (size_t i = 0; i < round->n; i++)
		if (round->list[i].bytes)
			return false;
	return true;
}

/* The round has ended without a group. */
static int over(struct rounds *x, int rc)
{
	x->waits = false;
	x->group.rc = rc;
	return 0;
}

static int wait_for_comm(struct rounds *x)
{
	int rc = is_empty(x->round) ? 0 : ck_nccl_epochs_state(&x->epochs);

	if (rc == -EINPROGRESS)
		return rc;
	if (rc || is_empty(x->round))
		return over(x, rc);
	x->waits = false;
	ck_nccl_group_begin(
		&x->group,
		ck_nccl_epochs_start(&x->epochs, x->round, x->members, x->n));
	return 0;
}

static int poll_round(struct ck_round_backend *m, struct ck_round *r)
{
	struct rounds *x = rounds_of(m);
	int rc = 0;

	(void)r;
	(void)ck_device_use(x->epochs.comm.device);
	if (x->waits)
		rc = wait_for_comm(x);
	if (rc == 0)
		rc = ck_nccl_group_advance(&x->group);
	return rc ? rc : x->group.rc;
}

static bool is_sound(const struct rounds *x, const struct ck_gpu_round *round)
{
	if (!x->members)
		return false;
	for (size_t i = 0; i < round->n; i++)
		if (round->list[i].peer == x->rank ||
		    ck_nccl_epochs_place(x->members, x->n,
					 round->list[i].peer) == x->n)
			return false;
	return true;
}

static int begin_round(struct ck_round_backend *m, struct ck_round *r)
{
	struct rounds *x = rounds_of(m);

	if (!is_sound(x, r->arg))
		return -EINVAL;
	x->round = r->arg;
	x->waits = true;
	return 0;
}

static void abort_round(struct ck_round_backend *m, struct ck_round *r)
{
	struct rounds *x = rounds_of(m);

	(void)r;
	if (x->waits)
		(void)over(x, -ECANCELED);
	else
		ck_nccl_group_abort(&x->group, -ECANCELED);
}

/* --- an epoch ----------------------------------------------------------------------------- */

static void begin_epoch(struct ck_round_backend *m, uint64_t epoch,
			const uint32_t *members, uint32_t n,
			const uint8_t token[static CK_ROUND_TOKEN])
{
	struct rounds *x = rounds_of(m);

	(void)epoch;
	free(x->members);
	x->n = n;
	x->members = calloc(n, sizeof(*members));
	if (x->members)
		memcpy(x->members, members, n * sizeof(*members));
	ck_nccl_epochs_renew(&x->epochs, n,
			     ck_nccl_epochs_place(members, n, x->rank), token);
}

/* Without a token from NCCL it stays zero, and no communicator is made. */
static void make_token(struct ck_round_backend *m,
		       uint8_t out[static CK_ROUND_TOKEN])
{
	struct rounds *x = rounds_of(m);
	ncclUniqueId id;

	memset(out, 0, CK_ROUND_TOKEN);
	if (x->nccl.ncclGetUniqueId(&id) == ncclSuccess)
		memcpy(out, &id, sizeof(id));
}

/* --- creation and end ----------------------------------------------------- */

static int is_ready(struct ck_nccl_rounds *x)
{
	return ck_nccl_epochs_is_ready(&((struct rounds *)x)->epochs);
}

static bool is_broken(const struct ck_nccl_rounds *x)
{
	return ((const struct rounds *)x)->group.broken;
}

static bool end(struct ck_nccl_rounds *is)
{
	struct rounds *x = (struct rounds *)is;

	if (!ck_nccl_epochs_close(&x->epochs))
		return false;
	ck_nccl_fini(&x->nccl);
	free(x->members);
	free(x);
	return true;
}

int ck_nccl_rounds_make(struct ck_device *g, uint32_t rank,
			struct ck_nccl_rounds **out, struct ck_diag *d)
{
	struct rounds *x = calloc(1, sizeof(*x));
	int rc;

	*out = NULL;
	if (!x)
		return ck_fail(d, ENOMEM, "out of memory");
	x->is = (struct ck_nccl_rounds){ .backend = { .epoch = begin_epoch,
						      .token = make_token,
						      .begin = begin_round,
						      .poll = poll_round,
						      .abort = abort_round },
					 .is_ready = is_ready,
					 .is_broken = is_broken,
					 .end = end };
	x->rank = rank;
	x->group.epochs = &x->epochs;
	rc = ck_nccl_load(&x->nccl, d);
	if (rc) {
		free(x);
		return rc;
	}
	ck_nccl_name(&x->nccl, x->is.nccl, sizeof(x->is.nccl));
	rc = ck_nccl_epochs_open(&x->epochs, &x->nccl, g, d);
	if (rc) {
		(void)end(&x->is);
		return rc;
	}
	*out = &x->is;
	return 0;
}
