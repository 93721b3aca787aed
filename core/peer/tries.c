/* SPDX-License-Identifier: MIT */
/* tries: see tries.h. */
#include "ckptfs/tries.h"

#include <errno.h>

enum {
	SOON_MSEC = 2000,
	SOON_MOST = 3, /* times, then there is more in the way */
};

/* So many times soon, for a host that is just back may need a moment. */
static uint64_t pause_of(const struct ck_tries *t, unsigned failed)
{
	uint64_t msec = t->every;

	if (failed <= SOON_MOST)
		return ck_min(msec, SOON_MSEC);
	for (unsigned i = SOON_MOST; i < failed && msec < CK_TRIES_PAUSE_MOST;
	     i++)
		msec = ck_min(2 * msec, CK_TRIES_PAUSE_MOST);
	return msec;
}

static bool is_suspect(const struct ck_tries_host *host)
{
	return !host->up && (host->failed || host->doubtful);
}

/* When it is tried again, if nothing else happens: soon where there is no job any more. */
static void wait(struct ck_tries *t, uint64_t now)
{
	t->due = now +
		 (t->hosts[0].up ? t->every : ck_min(t->every, SOON_MSEC));
	for (size_t i = 1; i < t->n; i++)
		if (is_suspect(&t->hosts[i]) && t->hosts[i].due > now)
			t->due = ck_min(t->due, t->hosts[i].due);
}

int ck_tries_make(struct ck_tries *t, const bool *up, size_t n, uint64_t every,
		  uint64_t now)
{
	*t = (struct ck_tries){ .n = n, .every = every, .most = n };
	t->hosts = calloc(n + 1, sizeof(*t->hosts));
	if (!t->hosts)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		t->hosts[i].up = up[i];
	wait(t, now);
	return 0;
}

void ck_tries_fini(struct ck_tries *t)
{
	free(t->hosts);
	*t = (struct ck_tries){ 0 };
}

bool ck_tries_look(struct ck_tries *t, const bool *up, uint64_t now)
{
	bool missing = false;

	for (size_t i = 0; i < t->n; i++) {
		struct ck_tries_host *host = &t->hosts[i];

		if (host->up && !up[i]) {
			*host = (struct ck_tries_host){ .up = false };
			t->due = 0;
		}
		host->up = up[i];
		missing |= !up[i];
	}
	return missing && now >= t->due;
}

/* Who is tried first: one that has made no job fail by itself, then one with which none was
 * tried for longer. */
static bool is_before(const struct ck_tries *t, size_t i, size_t other)
{
	const struct ck_tries_host *a = &t->hosts[i], *b = &t->hosts[other];

	if (!a->failed != !b->failed)
		return !a->failed;
	return a->last != b->last ? a->last < b->last : i < other;
}

/* Some of those that are doubtful; then of those that have made jobs fail one at a time. */
static bool is_next(const struct ck_tries *t, size_t i, uint64_t now)
{
	size_t before = 0, most = t->hosts[i].failed ? 1 : t->most;

	for (size_t k = 1; k < t->n; k++)
		before += k != i && is_suspect(&t->hosts[k]) &&
			  t->hosts[k].due <= now && is_before(t, k, i);
	return before < most;
}

static enum ck_try choose(const struct ck_tries *t, size_t i, uint64_t now)
{
	const struct ck_tries_host *host = &t->hosts[i];

	if (host->up)
		return CK_TRY_UP;
	if (i == 0 || !is_suspect(host))
		return CK_TRY_WANTED;
	return host->due <= now && is_next(t, i, now) ? CK_TRY_DOUBTFUL
						      : CK_TRY_LEFT_OUT;
}

void ck_tries_choose(struct ck_tries *t, uint64_t now, uint8_t *how)
{
	for (size_t i = 0; i < t->n; i++) {
		how[i] = (uint8_t)choose(t, i, now);
		t->hosts[i].offered = how[i] != CK_TRY_LEFT_OUT;
	}
}

/* Some that have answered before are tried next. */
static bool is_anyone_left(const struct ck_tries *t, uint64_t now)
{
	for (size_t i = 1; i < t->n; i++)
		if (is_suspect(&t->hosts[i]) && t->hosts[i].due <= now)
			return true;
	return false;
}

/* A host that does not answer any more makes no job fail, and takes no other one's turn. */
void ck_tries_nobody(struct ck_tries *t, uint64_t now)
{
	t->failed = 0;
	for (size_t i = 1; i < t->n; i++) {
		if (!t->hosts[i].offered || !is_suspect(&t->hosts[i]))
			continue;
		t->hosts[i].doubtful = false;
		t->hosts[i].failed = 0;
	}
	wait(t, now);
	if (is_anyone_left(t, now))
		t->due = now;
}

/* --- who it was ----------------------------------------------------------------------- */

static void blame(struct ck_tries *t, size_t i, uint64_t now)
{
	struct ck_tries_host *host = &t->hosts[i];

	host->failed++;
	host->doubtful = false;
	host->last = now;
	host->due = now + pause_of(t, host->failed);
	host->untold |= !host->told;
	t->most = t->n;
}

/* How many of those that are not up were so. */
static size_t count(const struct ck_tries *t, const uint8_t *tried,
		    enum ck_tried what)
{
	size_t n = 0;

	for (size_t i = 1; i < t->n; i++)
		n += !t->hosts[i].up && tried[i] == what;
	return n;
}

static void doubt(struct ck_tries *t, size_t i, uint64_t now)
{
	struct ck_tries_host *host = &t->hosts[i];

	host->doubtful = true;
	host->last = now;
	host->due = now;
}

/* It was one of those n. */
static void suspect(struct ck_tries *t, const uint8_t *tried,
		    enum ck_tried what, size_t n, uint64_t now)
{
	for (size_t i = 1; i < t->n; i++) {
		if (t->hosts[i].up || tried[i] != what)
			continue;
		if (n == 1)
			blame(t, i, now);
		else
			doubt(t, i, now);
	}
	if (n > 1)
		t->most = n / 2;
}

/* No other one is suspected of that. */
static void blame_bad(struct ck_tries *t, const uint8_t *tried, uint64_t now)
{
	for (size_t i = 1; i < t->n; i++) {
		if (t->hosts[i].up)
			continue;
		if (tried[i] == CK_TRIED_BAD)
			blame(t, i, now);
		else if (tried[i] != CK_TRIED_NOT)
			t->hosts[i].doubtful = false;
	}
}

static void failed_by_nobody(struct ck_tries *t, uint64_t now)
{
	t->failed++;
	t->due = now + (t->hosts[0].up ? pause_of(t, t->failed)
				       : ck_min(t->every, SOON_MSEC));
}

/* By this host, or by one that is up and may start nothing now: others do not wait longer
 * for that. */
static void failed_here(struct ck_tries *t, uint64_t now)
{
	failed_by_nobody(t, now);
	t->due = ck_min(t->due, now + t->every);
}

static bool is_bad_itself(const struct ck_tries *t, const uint8_t *tried)
{
	bool is = tried[0] == CK_TRIED_BAD;

	for (size_t i = 1; i < t->n; i++)
		is |= t->hosts[i].up && tried[i] == CK_TRIED_BAD;
	return is;
}

/* A job of nobody else has failed: that is none of the others' doing, and what they were
 * suspected of may be the same. */
static void forgive(struct ck_tries *t)
{
	for (size_t i = 1; i < t->n; i++) {
		t->hosts[i].doubtful = false;
		t->hosts[i].failed = 0;
	}
	t->most = t->n;
}

/* Where some are bad, it was they. Where nothing was started on some, it was one of these;
 * others had no time for it. */
void ck_tries_failed(struct ck_tries *t, const uint8_t *tried, uint64_t now)
{
	size_t bad = tried ? count(t, tried, CK_TRIED_BAD) : 0;
	size_t absent = tried ? count(t, tried, CK_TRIED_ABSENT) : 0;
	size_t in = tried ? count(t, tried, CK_TRIED_IN) : 0;
	bool others = (bad && absent) || ((bad || absent) && in);

	if (!bad && tried && is_bad_itself(t, tried)) {
		failed_here(t, now);
		return;
	}
	if (bad + absent + in == 0) {
		if (tried && !t->hosts[0].up)
			forgive(t);
		failed_by_nobody(t, now);
		return;
	}
	t->failed = 0;
	if (bad)
		blame_bad(t, tried, now);
	else if (absent)
		suspect(t, tried, CK_TRIED_ABSENT, absent, now);
	else
		suspect(t, tried, CK_TRIED_IN, in, now);
	wait(t, now);
	if (others || is_anyone_left(t, now) || !t->hosts[0].up)
		t->due = now;
}

void ck_tries_over(struct ck_tries *t, const bool *in, const bool *up,
		   uint64_t now)
{
	t->failed = 0;
	t->most = t->n;
	for (size_t i = 0; i < t->n; i++) {
		if (up[i])
			t->hosts[i] = (struct ck_tries_host){ .up = true };
		else
			t->hosts[i].up = false;
		if (i && in[i] && !up[i])
			blame(t, i, now);
	}
	wait(t, now);
	if (is_anyone_left(t, now))
		t->due = now;
}

size_t ck_tries_tell(struct ck_tries *t)
{
	size_t i = 0;

	while (i < t->n && !t->hosts[i].untold)
		i++;
	if (i < t->n) {
		t->hosts[i].untold = false;
		t->hosts[i].told = true;
	}
	return i;
}
