/* SPDX-License-Identifier: MIT */
/* nccl_team: see nccl_team.h. */
#include "nccl_team.h"

#include <errno.h>
#include <stdio.h>

enum {
	UP_MSEC = 20000,    /* in which communicators are up, or will not be */
	MOVE_MSEC = 2000,   /* in which a group is over */
	AGAIN_MSEC = 60000, /* until it is tried again */
	LOOK_NSEC = 200000,
	PATIENCE = 10000, /* ms more, for calls of NCCL that are to end soon */
	CLOSE_MSEC = 5000,
};

/* --- what is asked of NCCL ---------------------------------------------------------------- */

static ncclResult_t transfer(struct ck_nccl_team *t,
			     const struct ck_transfer *x)
{
	const struct ck_nccl_lane *from = &t->lanes[x->from];
	const struct ck_nccl_lane *to = &t->lanes[x->to];
	void *src = (void *)(uintptr_t)x->src, *dst = (void *)(uintptr_t)x->dst;
	ncclResult_t rc = t->nccl->ncclSend(
		src, x->bytes, ncclUint8, (int)x->to, from->comm, from->stream);

	if (rc != ncclSuccess)
		return rc;
	return t->nccl->ncclRecv(dst, x->bytes, ncclUint8, (int)x->from,
				 to->comm, to->stream);
}

/* For who has the communicators, as the next. */
static ncclResult_t start(struct ck_nccl_team *t,
			  const struct ck_transfer *list)
{
	ncclResult_t rc = t->nccl->ncclGroupStart();

	if (rc != ncclSuccess)
		return rc;
	for (; list && rc == ncclSuccess; list = list->next)
		rc = transfer(t, list);
	return ck_nccl_group_end(t->nccl, rc);
}

/* ncclInProgress: of some of them the last call has not come to its end. */
static ncclResult_t look(struct ck_nccl_team *t)
{
	ncclResult_t all = ncclSuccess;

	for (uint32_t i = 0; i < t->n; i++) {
		ncclResult_t one = ck_nccl_lane_state(&t->lanes[i], t->nccl);

		if (one == ncclInProgress)
			all = one;
		else if (one != ncclSuccess)
			return one;
	}
	return all;
}

/* Of each, in its context. */
static int each(struct ck_nccl_team *t, int (*call)(struct ck_nccl_lane *l),
		uint32_t *which)
{
	for (*which = 0; *which < t->n; (*which)++) {
		struct ck_nccl_lane *l = &t->lanes[*which];
		int rc = ck_device_use(l->device);

		if (rc == 0)
			rc = call(l);
		if (rc)
			return rc;
	}
	return 0;
}

int ck_nccl_team_mark(struct ck_nccl_team *t, uint32_t *which)
{
	return each(t, ck_nccl_lane_mark, which);
}

int ck_nccl_team_is_marked(struct ck_nccl_team *t, uint32_t *which)
{
	return each(t, ck_nccl_lane_is_marked, which);
}

/* --- the thread: making them --------------------------------------------------------------- */

static bool is_closing(struct ck_nccl_team *t)
{
	bool closing;

	pthread_mutex_lock(&t->thread.lock);
	closing = t->thread.closing;
	pthread_mutex_unlock(&t->thread.lock);
	return closing;
}

static int fail(const struct ck_nccl_team *t, ncclResult_t rc, const char *what,
		struct ck_diag *d)
{
	return rc == ncclSuccess ? 0 : ck_nccl_fail(t->nccl, rc, what, d);
}

/* Whether there is time for another look, after a little while. */
static int rest(struct ck_nccl_team *t, uint64_t end, struct ck_diag *d)
{
	const struct timespec pause = { .tv_nsec = LOOK_NSEC };

	if (is_closing(t))
		return ck_fail(d, EINTR, "it is not wanted any more");
	if (ck_msec_now() > end)
		return ck_fail(d, EIO, "the GPUs do not come together in %d s",
			       UP_MSEC / 1000);
	(void)nanosleep(&pause, NULL);
	return 0;
}

static int await(struct ck_nccl_team *t, uint64_t end, const char *what,
		 struct ck_diag *d)
{
	ncclResult_t state = look(t);

	while (state == ncclInProgress) {
		int rc = rest(t, end, d);

		if (rc)
			return rc;
		state = look(t);
	}
	return fail(t, state, what, d);
}

static int await_marked(struct ck_nccl_team *t, uint64_t end, struct ck_diag *d)
{
	uint32_t which;
	int rc = ck_nccl_team_mark(t, &which);

	if (rc == 0)
		rc = ck_nccl_team_is_marked(t, &which);
	while (rc == -EINPROGRESS) {
		rc = rest(t, end, d);
		if (rc)
			return rc;
		rc = ck_nccl_team_is_marked(t, &which);
	}
	if (rc)
		return ck_fail(d, EIO, "GPU %d fails",
			       t->lanes[which].device->ordinal);
	return 0;
}

/* All in one group, since each waits for the others. */
static int begin(struct ck_nccl_team *t, struct ck_diag *d)
{
	ncclConfig_t config = ck_nccl_config();
	ncclUniqueId id;
	ncclResult_t rc = t->nccl->ncclGetUniqueId(&id);

	if (rc == ncclSuccess)
		rc = t->nccl->ncclGroupStart();
	if (rc != ncclSuccess)
		return fail(t, rc, "NCCL", d);
	for (uint32_t i = 0; i < t->n && rc == ncclSuccess; i++) {
		struct ck_nccl_lane *l = &t->lanes[i];

		(void)ck_device_use(l->device);
		rc = t->nccl->ncclCommInitRankConfig(&l->comm, (int)t->n, id,
						     (int)i, &config);
		if (rc == ncclInProgress)
			rc = ncclSuccess;
	}
	rc = ck_nccl_group_end(t->nccl, rc);
	return fail(t, rc, "communicators", d);
}

/* A few bytes from each to one that is so far behind it. */
static ncclResult_t meet_one(struct ck_nccl_team *t, struct ck_transfer *list,
			     uint32_t apart)
{
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t to = (i + apart) % t->n;

		list[i] = (struct ck_transfer){
			.from = i,
			.to = to,
			.src = t->lanes[i].bytes,
			.dst = t->lanes[to].bytes + CK_LANE_APART,
			.bytes = CK_LANE_APART,
			.next = i + 1 < t->n ? &list[i + 1] : NULL,
		};
	}
	return start(t, list);
}

/* Each with each. */
static int meet(struct ck_nccl_team *t, uint64_t end, struct ck_diag *d)
{
	ck_auto_free struct ck_transfer *list = calloc(t->n, sizeof(*list));
	int rc = list ? 0 : ck_fail(d, ENOMEM, "out of memory");

	for (uint32_t apart = 1; apart < t->n && rc == 0; apart++) {
		rc = fail(t, meet_one(t, list, apart), "a first transfer", d);
		if (rc == 0)
			rc = await(t, end, "a first transfer", d);
	}
	return rc ? rc : await_marked(t, end, d);
}

static int make(struct ck_nccl_team *t, struct ck_diag *d)
{
	uint64_t end = ck_msec_now() + UP_MSEC;
	int rc = begin(t, d);

	if (rc == 0)
		rc = await(t, end, "communicators", d);
	return rc ? rc : meet(t, end, d);
}

/* Together, since each may wait for the others. */
static void end(struct ck_nccl_team *t)
{
	bool grouped = t->nccl->ncclGroupStart() == ncclSuccess;

	for (uint32_t i = 0; i < t->n; i++)
		ck_nccl_lane_abort(&t->lanes[i], t->nccl);
	if (grouped)
		(void)t->nccl->ncclGroupEnd();
}

/* --- the thread: what it is asked for ------------------------------------------------------ */

/* Under lock. */
static void become(struct ck_nccl_team *t, enum ck_team_state state)
{
	t->state = state;
	t->since = ck_msec_now();
	t->moving = 0;
	pthread_cond_broadcast(&t->thread.changed);
}

/* Under lock, which it leaves meanwhile; so the next. */
static void renew(struct ck_nccl_team *t)
{
	struct ck_diag why = { 0 };
	int rc;

	pthread_mutex_unlock(&t->thread.lock);
	rc = make(t, &why);
	if (rc)
		end(t);
	pthread_mutex_lock(&t->thread.lock);
	t->why = why;
	t->times += rc == 0;
	become(t, rc ? CK_TEAM_OFF : CK_TEAM_UP);
}

static void finish(struct ck_nccl_team *t)
{
	pthread_mutex_unlock(&t->thread.lock);
	end(t);
	pthread_mutex_lock(&t->thread.lock);
	become(t, CK_TEAM_OFF);
}

/* Under lock. */
static void watch(struct ck_nccl_team *t)
{
	if (!ck_nccl_thread_wait(&t->thread, t->moving, MOVE_MSEC))
		return;
	(void)ck_fail(&t->why, EIO, "a transfer has not ended in %d s",
		      MOVE_MSEC / 1000);
	become(t, CK_TEAM_ENDING);
}

static void *run(void *arg)
{
	struct ck_nccl_team *t = arg;

	pthread_mutex_lock(&t->thread.lock);
	while (!t->thread.closing)
		if (t->state == CK_TEAM_WANTED)
			renew(t);
		else if (t->state == CK_TEAM_ENDING)
			finish(t);
		else if (t->state == CK_TEAM_UP && t->moving)
			watch(t);
		else if (t->state == CK_TEAM_UP)
			pthread_cond_wait(&t->thread.changed, &t->thread.lock);
		else if (ck_nccl_thread_wait(&t->thread, t->since, AGAIN_MSEC))
			become(t, CK_TEAM_WANTED);
	pthread_mutex_unlock(&t->thread.lock);
	end(t);
	ck_nccl_thread_end(&t->thread);
	return NULL;
}

/* --- the caller ------------------------------------------------------------------------------ */

/* Until it is over, whatever NCCL does. */
int ck_nccl_team_await(struct ck_nccl_team *t, struct ck_diag *d)
{
	uint64_t since = ck_msec_now();
	int rc = 0;

	pthread_mutex_lock(&t->thread.lock);
	while (t->state == CK_TEAM_WANTED &&
	       !ck_nccl_thread_wait(&t->thread, since, UP_MSEC + PATIENCE))
		;
	if (t->state == CK_TEAM_WANTED)
		rc = ck_fail(d, EIO, "NCCL does not return from a call");
	else if (t->state != CK_TEAM_UP)
		rc = ck_fail(d, EIO, "%s", t->why.text);
	pthread_mutex_unlock(&t->thread.lock);
	return rc;
}

bool ck_nccl_team_is_up(struct ck_nccl_team *t)
{
	bool up;

	pthread_mutex_lock(&t->thread.lock);
	up = t->state == CK_TEAM_UP;
	pthread_mutex_unlock(&t->thread.lock);
	return up;
}

void ck_nccl_team_why(struct ck_nccl_team *t, char *out, size_t size)
{
	pthread_mutex_lock(&t->thread.lock);
	(void)snprintf(out, size, "%s", t->why.text);
	pthread_mutex_unlock(&t->thread.lock);
}

/* Under lock. What the caller asked for is not over, nor has it ended. */
static bool is_mine(const struct ck_nccl_team *t)
{
	return t->state == CK_TEAM_UP && t->times == t->used;
}

/* Under lock. */
static int note(struct ck_nccl_team *t, ncclResult_t rc)
{
	if (rc != ncclSuccess && rc != ncclInProgress)
		(void)ck_nccl_fail(t->nccl, rc, "a transfer", &t->why);
	return ck_nccl_errno(rc);
}

int ck_nccl_team_start(struct ck_nccl_team *t, const struct ck_transfer *list)
{
	int rc = -EIO;

	pthread_mutex_lock(&t->thread.lock);
	t->used = t->times;
	if (t->state == CK_TEAM_UP) {
		rc = note(t, start(t, list));
		t->moving = ck_msec_now();
		pthread_cond_broadcast(&t->thread.changed);
	}
	pthread_mutex_unlock(&t->thread.lock);
	return rc;
}

int ck_nccl_team_look(struct ck_nccl_team *t)
{
	int rc = -EIO;

	pthread_mutex_lock(&t->thread.lock);
	if (is_mine(t))
		rc = note(t, look(t));
	pthread_mutex_unlock(&t->thread.lock);
	return rc;
}

void ck_nccl_team_rest(struct ck_nccl_team *t)
{
	pthread_mutex_lock(&t->thread.lock);
	t->moving = 0;
	pthread_mutex_unlock(&t->thread.lock);
}

void ck_nccl_team_drop(struct ck_nccl_team *t)
{
	pthread_mutex_lock(&t->thread.lock);
	if (is_mine(t))
		become(t, CK_TEAM_ENDING);
	pthread_mutex_unlock(&t->thread.lock);
}

bool ck_nccl_team_is_dropped(struct ck_nccl_team *t)
{
	bool dropped;

	pthread_mutex_lock(&t->thread.lock);
	dropped = t->state != CK_TEAM_ENDING;
	pthread_mutex_unlock(&t->thread.lock);
	return dropped;
}

/* --- making ---------------------------------------------------------------------------------- */

int ck_nccl_team_open(struct ck_nccl_team *t, const struct ck_nccl *nccl,
		      struct ck_device *const *devices, uint32_t n,
		      struct ck_diag *d)
{
	int rc = 0;

	t->nccl = nccl;
	ck_nccl_thread_init(&t->thread);
	for (; t->n < n && rc == 0; t->n++)
		rc = ck_nccl_lane_open(&t->lanes[t->n], devices[t->n], 2, d);
	if (rc)
		return rc;
	return ck_nccl_thread_start(&t->thread, run, t, d);
}

bool ck_nccl_team_close(struct ck_nccl_team *t)
{
	if (!ck_nccl_thread_close(&t->thread, CLOSE_MSEC))
		return false;
	for (uint32_t i = 0; i < t->n; i++)
		ck_nccl_lane_close(&t->lanes[i]);
	return true;
}
