/* SPDX-License-Identifier: MIT */
/*
 * retry_policy: which hosts that are down the next job includes, and when. A
 * host is up, wanted (down, and no job with it has failed) or a suspect. A
 * suspect becomes wanted again when it does not reply, or has been up. No I/O
 * and no clock. One thread.
 */
#include "retry_policy.h"

#include <errno.h>

enum {
	SOON_MSEC = 2000,
	SOON_MOST = 3, /* pauses that are short */
	LOG_AFTER = 2, /* failed jobs */
};

/* The first pauses are short, since a host that has just started may need a
 * moment. */
static uint64_t pause_of(const struct ck_retry_policy *t, unsigned failed)
{
	uint64_t msec = t->every;

	if (failed <= SOON_MOST)
		return ck_min(msec, SOON_MSEC);
	for (unsigned i = SOON_MOST;
	     i < failed && msec < CK_RETRY_POLICY_PAUSE_MOST; i++)
		msec = ck_min(2 * msec, CK_RETRY_POLICY_PAUSE_MOST);
	return msec;
}

static bool is_suspect(const struct ck_retry_policy_host *host)
{
	return !host->up && host->failed;
}

/* The next job is started after `every`, or soon if no job is running. */
static void pause(struct ck_retry_policy *t, uint64_t now)
{
	t->due = now +
		 (t->hosts[0].up ? t->every : ck_min(t->every, SOON_MSEC));
}

/* The same, or when a suspect is due. */
static void schedule(struct ck_retry_policy *t, uint64_t now)
{
	pause(t, now);
	for (size_t i = 1; i < t->n; i++)
		if (is_suspect(&t->hosts[i]))
			t->due = ck_min(t->due, t->hosts[i].due);
}

int ck_retry_policy_make(struct ck_retry_policy *t, const bool *up, size_t n,
			 uint64_t every, uint64_t now)
{
	*t = (struct ck_retry_policy){ .n = n, .every = every };
	t->hosts = calloc(n + 1, sizeof(*t->hosts));
	if (!t->hosts)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		t->hosts[i].up = up[i];
	schedule(t, now);
	return 0;
}

void ck_retry_policy_fini(struct ck_retry_policy *t)
{
	free(t->hosts);
	*t = (struct ck_retry_policy){ 0 };
}

bool ck_retry_policy_update(struct ck_retry_policy *t, const bool *up,
			    uint64_t now)
{
	bool missing = false;

	for (size_t i = 0; i < t->n; i++) {
		struct ck_retry_policy_host *host = &t->hosts[i];

		if (host->up && !up[i]) {
			*host = (struct ck_retry_policy_host){ .up = false };
			t->due = 0;
		}
		host->up = up[i];
		missing |= !up[i];
	}
	return missing && now >= t->due;
}

/* The suspect that has been due for longest; 0 if no suspect is due. */
static size_t next_suspect(const struct ck_retry_policy *t, uint64_t now)
{
	size_t next = 0;

	for (size_t i = 1; i < t->n; i++)
		if (is_suspect(&t->hosts[i]) && t->hosts[i].due <= now &&
		    (!next || t->hosts[i].due < t->hosts[next].due))
			next = i;
	return next;
}

void ck_retry_policy_choose(struct ck_retry_policy *t, uint64_t now,
			    uint8_t *how)
{
	t->suspect = next_suspect(t, now);
	for (size_t i = 0; i < t->n; i++) {
		const struct ck_retry_policy_host *host = &t->hosts[i];

		if (host->up)
			how[i] = CK_TRY_UP;
		else if (i == 0 || !is_suspect(host))
			how[i] = CK_TRY_WANTED;
		else
			how[i] = i == t->suspect ? CK_TRY_SUSPECT
						 : CK_TRY_LEFT_OUT;
	}
}

/* A suspect that does not answer any more makes no job fail. */
void ck_retry_policy_silent(struct ck_retry_policy *t, uint64_t now)
{
	if (t->suspect)
		t->hosts[t->suspect].failed = 0;
	schedule(t, now);
}

/* --- failed jobs ---------------------------------------------------------- */

static void suspect(struct ck_retry_policy *t, size_t i, uint64_t now)
{
	struct ck_retry_policy_host *host = &t->hosts[i];

	host->failed++;
	host->due = now + pause_of(t, host->failed);
}

/* Counts the hosts that are up, or down, and have this part; the first host,
 * which is in each job, counts as up. */
static size_t count(const struct ck_retry_policy *t, const uint8_t *tried,
		    bool up, enum ck_tried what)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += (i == 0 || t->hosts[i].up) == up && tried[i] == what;
	return n;
}

/* A job of this host alone has failed, so those before may have failed for the
 * same reason. */
static void clear_suspects(struct ck_retry_policy *t)
{
	for (size_t i = 1; i < t->n; i++)
		t->hosts[i].failed = 0;
}

void ck_retry_policy_failed(struct ck_retry_policy *t, const uint8_t *tried,
			    uint64_t now)
{
	size_t bad = tried ? count(t, tried, false, CK_TRIED_BAD) : 0;
	size_t in = tried ? count(t, tried, false, CK_TRIED_IN) : 0;

	if (!tried || (!bad && count(t, tried, true, CK_TRIED_BAD))) {
		pause(t, now);
		return;
	}
	if (bad + in == 0)
		clear_suspects(t);
	for (size_t i = 1; i < t->n; i++)
		if (!t->hosts[i].up &&
		    tried[i] == (bad ? CK_TRIED_BAD : CK_TRIED_IN))
			suspect(t, i, now);
	schedule(t, now);
	/* The job can be started without them, and reads may wait for it. */
	if ((bad && in) || (bad + in && !t->hosts[0].up))
		t->due = now;
}

void ck_retry_policy_over(struct ck_retry_policy *t, const bool *in,
			  const bool *up, uint64_t now)
{
	for (size_t i = 0; i < t->n; i++) {
		if (up[i])
			t->hosts[i] =
				(struct ck_retry_policy_host){ .up = true };
		else
			t->hosts[i].up = false;
		if (i && in[i] && !up[i])
			suspect(t, i, now);
	}
	schedule(t, now);
}

size_t ck_retry_policy_log(struct ck_retry_policy *t)
{
	size_t i = 0;

	while (i < t->n &&
	       (t->hosts[i].logged || t->hosts[i].failed < LOG_AFTER))
		i++;
	if (i < t->n)
		t->hosts[i].logged = true;
	return i;
}
