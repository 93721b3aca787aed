/* SPDX-License-Identifier: MIT */
/*
 * replica_select: selects replicas. Replicas that are too short are skipped,
 * the others are compared; if they differ, the preferred one and its equals
 * remain. The result is sorted by load. Pure functions: no state, no I/O, any
 * thread.
 */
#include "replica_select.h"

static bool has(const struct ck_replica_query *q, uint32_t host, uint64_t least)
{
	return q->copies[host].has && q->copies[host].size >= least;
}

static bool is_like(const struct ck_replica_query *q, uint32_t host,
		    uint32_t like)
{
	const struct ck_file_copy *a = &q->copies[host], *b = &q->copies[like];

	return !q->compared ||
	       (a->size == b->size &&
		memcmp(a->digest, b->digest, CK_COPY_DIGEST) == 0);
}

/* The next functions return q->n if there is no such host. */

static uint32_t first_that_has(const struct ck_replica_query *q, uint64_t least)
{
	uint32_t i = 0;

	while (i < q->n && !has(q, i, least))
		i++;
	return i;
}

static uint32_t first_too_short(const struct ck_replica_query *q,
				uint64_t least)
{
	uint32_t i = 0;

	while (i < q->n && (!q->copies[i].has || q->copies[i].size >= least))
		i++;
	return i;
}

static uint32_t first_unlike(const struct ck_replica_query *q, uint64_t least,
			     uint32_t like)
{
	uint32_t i = 0;

	while (i < q->n && (!has(q, i, least) || is_like(q, i, like)))
		i++;
	return i;
}

/* The replica that is used where replicas differ. */
static uint32_t preferred(const struct ck_replica_query *q, uint64_t least)
{
	for (uint32_t i = 0; i < q->nprefer; i++)
		if (q->prefer[i] < q->n && has(q, q->prefer[i], least))
			return q->prefer[i];
	return q->n;
}

/* This host comes first, then the host with the least bytes to serve. */
static bool is_before(const struct ck_replica_query *q, uint32_t a, uint32_t b)
{
	if (a == q->here || b == q->here)
		return a == q->here;
	return q->loads[a] < q->loads[b];
}

static void add(const struct ck_replica_query *q, struct ck_replica_choice *out,
		uint32_t *list, uint32_t host)
{
	uint32_t at = out->n++;

	for (; at > 0 && is_before(q, host, list[at - 1]); at--)
		list[at] = list[at - 1];
	list[at] = host;
	if (out->server == q->n || q->loads[host] < q->loads[out->server])
		out->server = host;
}

void ck_replica_select(const struct ck_replica_query *q,
		       struct ck_replica_choice *out, uint32_t *list)
{
	uint64_t least = q->needed;
	uint32_t like;

	*out = (struct ck_replica_choice){ .server = q->n, .too_short = q->n };
	out->one = first_that_has(q, least);
	if (out->one < q->n)
		out->too_short = first_too_short(q, least);
	else
		out->one = first_that_has(q, least = 0); /* all too short */
	like = out->one;
	if (like == q->n)
		return;
	out->other = first_unlike(q, least, like);
	if (out->other < q->n) {
		like = preferred(q, least);
		out->outcome = CK_COPIES_DIFFER;
		if (like == q->n)
			return;
	}
	out->outcome = CK_COPIES_FINE;
	for (uint32_t i = 0; i < q->n; i++)
		if (has(q, i, least) && is_like(q, i, like))
			add(q, out, list, i);
}
