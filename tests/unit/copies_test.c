/* SPDX-License-Identifier: MIT */
/*
 * Selection of replicas: all cases of up to three hosts with all kinds of replicas, and random
 * cases of up to five hosts. A model gives, for each host, whether its replica is used, and
 * the reason.
 */
#include "dist/client/replica_select.h"
#include "tap.h"

enum { HOSTS = 5, KINDS = 6, NEEDED = 10 };

/* The replica of a host: no file, two files of one size, a file whose size is exact, and two
 * files that are too short. */
static struct ck_file_copy kind_of(unsigned kind)
{
	static const struct ck_file_copy kinds[KINDS] = {
		{ .has = false, .size = 12 },
		{ .has = true, .size = 12, .digest = { 1 } },
		{ .has = true, .size = 12, .digest = { 1, [15] = 1 } },
		{ .has = true, .size = NEEDED, .digest = { 1 } },
		{ .has = true, .size = NEEDED - 1, .digest = { 3 } },
		{ .has = true, .size = 0, .digest = { 0 } },
	};

	return kinds[kind];
}

struct question {
	struct ck_replica_query asked;
	struct ck_file_copy copies[HOSTS];
	uint32_t prefer[HOSTS];
	uint64_t loads[HOSTS];
};

static void point(struct question *q)
{
	q->asked.copies = q->copies;
	q->asked.prefer = q->prefer;
	q->asked.loads = q->loads;
}

/* --- the model ---------------------------------------------------------------------------- */

/* True if the host has a file that is long enough, or no host has one. */
static bool counts(const struct question *q, uint32_t host)
{
	bool any_whole = false;

	for (uint32_t i = 0; i < q->asked.n; i++)
		any_whole |= q->copies[i].has &&
			     q->copies[i].size >= q->asked.needed;
	return q->copies[host].has &&
	       (!any_whole || q->copies[host].size >= q->asked.needed);
}

static bool equal(const struct question *q, uint32_t a, uint32_t b)
{
	return !q->asked.compared ||
	       (q->copies[a].size == q->copies[b].size &&
		memcmp(q->copies[a].digest, q->copies[b].digest, 16) == 0);
}

/* The host whose replica is right, or n if there is no such host. *differ: not all are equal. */
static uint32_t right_one(const struct question *q, bool *differ)
{
	uint32_t n = q->asked.n, right = n;

	*differ = false;
	for (uint32_t i = n; i > 0 && i--;)
		if (counts(q, i))
			right = i;
	for (uint32_t a = 0; a < n; a++)
		for (uint32_t b = 0; b < n; b++)
			*differ |= counts(q, a) && counts(q, b) &&
				   !equal(q, a, b);
	if (!*differ)
		return right;
	for (uint32_t i = 0; i < q->asked.nprefer; i++)
		if (q->prefer[i] < n && counts(q, q->prefer[i]))
			return q->prefer[i];
	return n;
}

/* True if replica a is used before replica b. */
static bool earlier(const struct question *q, uint32_t a, uint32_t b)
{
	if (a == q->asked.here)
		return true;
	if (b == q->asked.here)
		return false;
	return q->loads[a] != q->loads[b] ? q->loads[a] < q->loads[b] : a < b;
}

static bool list_is_right(const struct question *q,
			  const struct ck_replica_choice *got,
			  const uint32_t *list, uint32_t right)
{
	uint32_t used = 0, server = q->asked.n;

	for (uint32_t i = 0; i < q->asked.n; i++) {
		bool is_in = false;

		for (uint32_t k = 0; k < got->n; k++)
			is_in |= list[k] == i;
		if (is_in != (counts(q, i) && equal(q, i, right)))
			return false;
		used += is_in;
		if (is_in &&
		    (server == q->asked.n || q->loads[i] < q->loads[server]))
			server = i;
	}
	for (uint32_t k = 1; k < got->n; k++)
		if (!earlier(q, list[k - 1], list[k]))
			return false;
	return used == got->n && got->server == server;
}

static bool short_is_right(const struct question *q,
			   const struct ck_replica_choice *got)
{
	for (uint32_t i = 0; i < q->asked.n; i++)
		if (q->copies[i].has && !counts(q, i))
			return got->too_short == i;
	return got->too_short == q->asked.n;
}

static unsigned outcomes[3], shorts, settled;

static bool is_right(struct question *q)
{
	struct ck_replica_choice got;
	uint32_t list[HOSTS], right;
	bool differ;

	point(q);
	ck_replica_select(&q->asked, &got, list);
	right = right_one(q, &differ);
	outcomes[got.outcome]++;
	shorts += got.too_short < q->asked.n;
	settled += differ && right < q->asked.n;
	if (!short_is_right(q, &got))
		return false;
	switch (got.outcome) {
	case CK_COPIES_NONE: return right == q->asked.n && !differ;
	case CK_COPIES_DIFFER:
		return differ && right == q->asked.n && counts(q, got.one) &&
		       counts(q, got.other) && !equal(q, got.one, got.other);
	case CK_COPIES_FINE: break;
	}
	return right < q->asked.n && list_is_right(q, &got, list, right);
}

/* --- cases ---------------------------------------------------------------------------------- */

/* Decodes a case of n hosts from its number. Returns false if there is no such case. */
static bool make(struct question *q, uint32_t n, uint64_t code)
{
	*q = (struct question){ .asked.n = n };
	for (uint32_t i = 0; i < n; i++, code /= KINDS)
		q->copies[i] = kind_of((unsigned)(code % KINDS));
	for (uint32_t i = 0; i < n; i++, code /= 2)
		q->loads[i] = code % 2;
	q->asked.here = (uint32_t)(code % (n + 1));
	code /= n + 1;
	q->asked.compared = code % 2;
	code /= 2;
	q->asked.needed = code % 2 ? NEEDED : 0;
	code /= 2;
	for (; q->asked.nprefer < 2 && code; code /= n + 2)
		q->prefer[q->asked.nprefer++] = (uint32_t)(code % (n + 2));
	return code == 0;
}

static void test_all(void)
{
	struct question q;
	uint64_t n, wrong = 0, cases = 0;

	for (n = 1; n <= 3; n++)
		for (uint64_t code = 0; make(&q, (uint32_t)n, code); code++) {
			wrong += !is_right(&q);
			cases++;
		}
	eq_u64(wrong, 0);
	printf("# %" PRIu64 " cases: %u without a copy, %u fine, %u differ; "
	       "%u settled, %u with one that is too short\n",
	       cases, outcomes[0], outcomes[1], outcomes[2], settled, shorts);
	ok(outcomes[0] && outcomes[1] && outcomes[2] && settled && shorts);
}

static void random_make(struct question *q, uint64_t *random)
{
	*q = (struct question){ .asked.n = (uint32_t)(1 + tap_random(random) %
								  HOSTS) };
	for (uint32_t i = 0; i < q->asked.n; i++) {
		q->copies[i] = kind_of((unsigned)(tap_random(random) % KINDS));
		q->loads[i] = tap_random(random) % 3;
	}
	q->asked.here = (uint32_t)(tap_random(random) % HOSTS);
	q->asked.compared = tap_random(random) % 4;
	q->asked.needed = tap_random(random) % 3 ? NEEDED : 0;
	q->asked.nprefer = (uint32_t)(tap_random(random) % HOSTS);
	for (uint32_t i = 0; i < q->asked.nprefer; i++)
		q->prefer[i] = (uint32_t)(tap_random(random) % HOSTS);
}

static void test_random(void)
{
	enum { CASES = 200000 };

	uint64_t random = tap_seed(5) | 1, wrong = 0;
	struct question q;

	for (unsigned i = 0; i < CASES; i++) {
		random_make(&q, &random);
		wrong += !is_right(&q);
	}
	eq_u64(wrong, 0);
}

/* All hosts without a replica use the same server, and the loading host does not depend on the
 * reader. */
static void test_readers(void)
{
	enum { CASES = 20000 };

	uint64_t random = tap_seed(6) | 1, wrong = 0;
	struct question q;

	for (unsigned i = 0; i < CASES; i++) {
		struct ck_replica_choice got, other;
		uint32_t list[HOSTS], others[HOSTS];

		random_make(&q, &random);
		point(&q);
		q.asked.here = q.asked.n;
		ck_replica_select(&q.asked, &got, list);
		for (uint32_t here = 0; here < q.asked.n; here++) {
			q.asked.here = here;
			ck_replica_select(&q.asked, &other, others);
			wrong += got.server != other.server ||
				 got.n != other.n ||
				 got.outcome != other.outcome;
			if (!q.copies[here].has && got.n)
				wrong += memcmp(list, others,
						got.n * sizeof(*list)) != 0;
			if (got.n && !q.copies[here].has)
				wrong += list[0] != got.server;
		}
	}
	eq_u64(wrong, 0);
}

int main(void)
{
	test_all();
	test_random();
	test_readers();
	return tap_done();
}
