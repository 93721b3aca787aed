/* SPDX-License-Identifier: MIT */
/* nccl_spread: see nccl_spread.h. */
#include "nccl_spread.h"
#include "nccl_flight.h"
#include "nccl_team.h"

#include <errno.h>

enum {
	TOGETHER = 16, /* transfers in a group, at most */
};

/* First in, first out. */
struct queue {
	struct ck_transfer *first, **end;
};

struct spread {
	struct ck_nccl_spread is; /* first */
	struct ck_nccl nccl;
	struct ck_nccl_team team;
	struct queue waiting;
	struct ck_transfer *group; /* on its way */
	struct ck_nccl_flight flight;
	bool fails;   /* a device does, */
	uint32_t bad; /* and which one */
};

static void end_all(struct ck_transfer *list, int rc)
{
	while (list) {
		struct ck_transfer *next = list->next;

		list->next = NULL;
		list->rc = rc;
		list = next;
	}
}

static struct ck_transfer *take(struct queue *q, unsigned most)
{
	struct ck_transfer *first = q->first, **at = &q->first;

	while (*at && most--)
		at = &(*at)->next;
	q->first = *at;
	*at = NULL;
	if (!q->first)
		q->end = &q->first;
	return first;
}

/* --- what its flight is moved by ------------------------------------------------------------- */

static int look(void *arg)
{
	return ck_nccl_team_look(&((struct spread *)arg)->team);
}

/* Which device does what it must not. */
static int check(struct spread *x,
		 int (*call)(struct ck_nccl_team *t, uint32_t *which))
{
	uint32_t which;
	int rc = call(&x->team, &which);

	if (rc && rc != -EINPROGRESS) {
		x->fails = true;
		x->bad = which;
	}
	return rc;
}

static int mark(void *arg)
{
	return check(arg, ck_nccl_team_mark);
}

static int is_marked(void *arg)
{
	return check(arg, ck_nccl_team_is_marked);
}

static void rest(void *arg)
{
	ck_nccl_team_rest(&((struct spread *)arg)->team);
}

static void drop(void *arg)
{
	ck_nccl_team_drop(&((struct spread *)arg)->team);
}

static bool is_dropped(void *arg)
{
	return ck_nccl_team_is_dropped(&((struct spread *)arg)->team);
}

static const struct ck_nccl_crew crew = { look, mark, is_marked,
					  rest, drop, is_dropped };

/* --- groups ---------------------------------------------------------------------------------- */

/* False: there is none. */
static bool next_group(struct spread *x)
{
	if (x->waiting.first && !ck_nccl_team_is_up(&x->team))
		end_all(take(&x->waiting, UINT32_MAX), -EIO);
	if (!x->waiting.first)
		return false;
	x->group = take(&x->waiting, TOGETHER);
	ck_nccl_flight_begin(&x->flight,
			     ck_nccl_team_start(&x->team, x->group));
	return true;
}

/* What may be moved still is not over. */
static void turn(struct ck_nccl_spread *is)
{
	struct spread *x = (struct spread *)is;

	while (!x->flight.broken && (x->group || next_group(x)) &&
	       ck_nccl_flight_turn(&x->flight) == 0 && !x->flight.broken) {
		end_all(x->group, x->flight.rc ? -EIO : 0);
		x->group = NULL;
	}
}

/* --- functions of it ------------------------------------------------------------------------- */

static void add(struct ck_nccl_spread *is, struct ck_transfer *t)
{
	struct spread *x = (struct spread *)is;

	t->rc = -EINPROGRESS;
	t->next = NULL;
	*x->waiting.end = t;
	x->waiting.end = &t->next;
}

static bool is_on(struct ck_nccl_spread *is)
{
	struct spread *x = (struct spread *)is;

	return !ck_nccl_flight_ends(&x->flight) && ck_nccl_team_is_up(&x->team);
}

static void why(struct ck_nccl_spread *is, char *out, size_t size)
{
	ck_nccl_team_why(&((struct spread *)is)->team, out, size);
}

static bool is_broken(const struct ck_nccl_spread *is, uint32_t *which,
		      const char **what)
{
	const struct spread *x = (const struct spread *)is;

	*which = x->bad;
	*what = x->fails ? "a transfer" : "NCCL does not end a transfer";
	return x->flight.broken;
}

static void end(struct ck_nccl_spread *is)
{
	struct spread *x = (struct spread *)is;

	if (!ck_nccl_team_close(&x->team))
		return;
	ck_nccl_fini(&x->nccl);
	free(x);
}

int ck_nccl_spread_make(struct ck_device *const *devices, uint32_t n,
			struct ck_nccl_spread **out, struct ck_diag *d)
{
	struct spread *x = calloc(1, sizeof(*x));
	int rc;

	*out = NULL;
	if (!x)
		return ck_fail(d, ENOMEM, "out of memory");
	x->is = (struct ck_nccl_spread){ .add = add,
					 .turn = turn,
					 .is_on = is_on,
					 .why = why,
					 .is_broken = is_broken,
					 .end = end };
	x->waiting.end = &x->waiting.first;
	x->flight.crew = &crew;
	x->flight.arg = x;
	rc = ck_nccl_load(&x->nccl, d);
	if (rc) {
		free(x);
		return rc;
	}
	ck_nccl_name(&x->nccl, x->is.nccl, sizeof(x->is.nccl));
	rc = ck_nccl_team_open(&x->team, &x->nccl, devices, n, d);
	if (rc == 0)
		rc = ck_nccl_team_await(&x->team, d);
	if (rc)
		end(&x->is);
	else
		*out = &x->is;
	return rc;
}
