/* SPDX-License-Identifier: MIT */
/*
 * nccl_epochs: one communicator at a time, made and aborted by a thread of its
 * own (states: enum ck_epoch_state). The caller's thread starts rounds on it
 * while it is up, under the lock, and checks their progress. All calls of NCCL
 * that can block are made by the thread.
 */
#include "nccl_epochs.h"

#include <errno.h>

enum {
	UP_MSEC = 10000,   /* limit to make a communicator */
	PAUSE_MSEC = 1000, /* pause after a failure before the next attempt, */
	PAUSES = 9,	   /* doubled at most so often */
	LOOK_NSEC = 200000,
	/* a running round that is not polled for so long is aborted */
	LEFT_MSEC = 5000,
	CLOSE_MSEC = 2000,
};

/* --- calls of NCCL -------------------------------------------------------- */

uint32_t ck_nccl_epochs_place(const uint32_t *members, uint32_t n,
			      uint32_t rank)
{
	uint32_t low = 0, high = n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (members[middle] < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && members[low] == rank ? low : n;
}

static ncclResult_t transfer(struct ck_nccl_epochs *e,
			     const struct ck_gpu_transfer *t, uint32_t peer)
{
	void *at = (void *)(uintptr_t)t->at;

	if (t->bytes == 0)
		return ncclSuccess;
	return t->sends ? e->nccl->ncclSend(at, t->bytes, ncclUint8, (int)peer,
					    e->comm.comm, e->comm.stream)
			: e->nccl->ncclRecv(at, t->bytes, ncclUint8, (int)peer,
					    e->comm.comm, e->comm.stream);
}

/* Starts the transfers of a round as one group. members: ranks of the
 * communicator, ascending, by which peers are translated; NULL: peers are
 * indices. Must be called by the thread that has the communicator. */
static int start(struct ck_nccl_epochs *e, const struct ck_gpu_round *round,
		 const uint32_t *members, uint32_t n)
{
	ncclResult_t rc = e->nccl->ncclGroupStart();

	if (rc != ncclSuccess)
		return ck_nccl_errno(rc);
	for (size_t i = 0; i < round->n && rc == ncclSuccess; i++) {
		uint32_t peer = round->list[i].peer;

		if (members)
			peer = ck_nccl_epochs_place(members, n, peer);
		rc = transfer(e, &round->list[i], peer);
	}
	return ck_nccl_errno(ck_nccl_group_end(e->nccl, rc));
}

static int look(struct ck_nccl_epochs *e)
{
	return ck_nccl_errno(ck_nccl_comm_state(&e->comm, e->nccl));
}

static int is_marked(struct ck_nccl_epochs *e)
{
	return ck_nccl_comm_is_marked(&e->comm);
}

/* --- the thread: making a communicator ------------------------------------ */

/* True if the caller has requested another communicator, or closes. */
static bool is_stale(struct ck_nccl_epochs *e, const struct ck_epoch *want)
{
	bool stale;

	pthread_mutex_lock(&e->thread.lock);
	stale = e->thread.closing || e->want.number != want->number;
	pthread_mutex_unlock(&e->thread.lock);
	return stale;
}

/* Polls until state() is not -EINPROGRESS. Returns its result, or: -EINTR if
 * the communicator is not wanted any more; -ETIMEDOUT after UP_MSEC. */
static int await(struct ck_nccl_epochs *e, const struct ck_epoch *want,
		 int (*state)(struct ck_nccl_epochs *e))
{
	const struct timespec rest = { .tv_nsec = LOOK_NSEC };
	int rc = state(e);

	while (rc == -EINPROGRESS) {
		if (is_stale(e, want))
			return -EINTR;
		if (ck_msec_now() - want->since > UP_MSEC)
			return -ETIMEDOUT;
		(void)nanosleep(&rest, NULL);
		rc = state(e);
	}
	return rc;
}

/* False if the rank that began the epoch could not make a token. */
static bool has_token(const struct ck_epoch *want)
{
	static const uint8_t zeros[CK_ROUND_TOKEN];

	return memcmp(want->token, zeros, sizeof(zeros)) != 0;
}

static int begin(struct ck_nccl_epochs *e, const struct ck_epoch *want)
{
	ncclConfig_t config = ck_nccl_config();
	ncclUniqueId id;
	ncclResult_t rc;

	_Static_assert(sizeof(id) == CK_ROUND_TOKEN, "a token is an identity");
	memcpy(&id, want->token, sizeof(id));
	rc = e->nccl->ncclCommInitRankConfig(&e->comm.comm, (int)want->n, id,
					     (int)want->self, &config);
	return rc == ncclInProgress ? 0 : ck_nccl_errno(rc);
}

/* Exchanges a few bytes between each two ranks, so that NCCL connects them. */
static int meet(struct ck_nccl_epochs *e, const struct ck_epoch *want)
{
	struct ck_gpu_transfer *list = calloc(2UL * want->n, sizeof(*list));
	struct ck_gpu_round all = { .list = list };
	int rc;

	if (!list)
		return -ENOMEM;
	for (uint32_t i = 0; i < want->n; i++) {
		CUdeviceptr place = e->comm.bytes +
				    (CUdeviceptr)CK_NCCL_COMM_APART * (1 + i);

		if (i == want->self)
			continue;
		list[all.n++] = (struct ck_gpu_transfer){ i, true,
							  e->comm.bytes,
							  CK_NCCL_COMM_APART };
		list[all.n++] = (struct ck_gpu_transfer){ i, false, place,
							  CK_NCCL_COMM_APART };
	}
	rc = start(e, &all, NULL, want->n);
	free(list);
	if (rc == 0)
		rc = await(e, want, look);
	if (rc == 0)
		rc = ck_nccl_comm_mark(&e->comm);
	return rc ? rc : await(e, want, is_marked);
}

/* Makes a communicator; a single rank needs no communicator. With more ranks than a round
 * may have, NCCL connects two ranks in their first round. */
static int make(struct ck_nccl_epochs *e, const struct ck_epoch *want)
{
	int rc;

	if (want->n == 1)
		return 0;
	if (want->n > INT32_MAX || want->self >= want->n || !has_token(want))
		return -EINVAL;
	rc = begin(e, want);
	if (rc == 0)
		rc = await(e, want, look);
	if (rc == 0 && want->n <= CK_ROUND_RANKS)
		rc = meet(e, want);
	return rc;
}

/* --- the thread: its loop ------------------------------------------------- */

/* Must hold the lock. */
static void become(struct ck_nccl_epochs *e, enum ck_epoch_state state)
{
	e->state = state;
	e->since = ck_msec_now();
}

/* Makes the wanted communicator. Must hold the lock, which is released
 * meanwhile, as in finish(). */
static void renew(struct ck_nccl_epochs *e)
{
	const struct ck_epoch want = e->want;
	int rc;

	pthread_mutex_unlock(&e->thread.lock);
	ck_nccl_comm_abort(&e->comm, e->nccl);
	rc = make(e, &want);
	if (rc)
		ck_nccl_comm_abort(&e->comm, e->nccl);
	pthread_mutex_lock(&e->thread.lock);
	if (e->thread.closing || e->want.number != want.number)
		return;
	e->failures = rc ? e->failures + 1 : 0;
	become(e, rc ? CK_EPOCH_FAILED : CK_EPOCH_UP);
}

static void finish(struct ck_nccl_epochs *e)
{
	pthread_mutex_unlock(&e->thread.lock);
	ck_nccl_comm_abort(&e->comm, e->nccl);
	pthread_mutex_lock(&e->thread.lock);
	if (e->state == CK_EPOCH_ENDING)
		become(e, CK_EPOCH_NONE);
}

/* Watches a running round: aborts the communicator if it is not polled. Must
 * hold the lock. */
static void watch(struct ck_nccl_epochs *e)
{
	bool left;

	e->watching = true;
	left = ck_nccl_thread_wait(&e->thread, e->last_poll, LEFT_MSEC);
	e->watching = false;
	if (left)
		become(e, CK_EPOCH_ENDING);
}

static void *run(void *arg)
{
	struct ck_nccl_epochs *e = arg;

	(void)ck_device_use(e->comm.device);
	pthread_mutex_lock(&e->thread.lock);
	while (!e->thread.closing)
		if (e->state == CK_EPOCH_WANTED)
			renew(e);
		else if (e->state == CK_EPOCH_ENDING)
			finish(e);
		else if (e->state == CK_EPOCH_UP && e->last_poll)
			watch(e);
		else
			pthread_cond_wait(&e->thread.changed, &e->thread.lock);
	pthread_mutex_unlock(&e->thread.lock);
	ck_nccl_comm_abort(&e->comm, e->nccl);
	ck_nccl_thread_end(&e->thread);
	return NULL;
}

/* --- the caller ------------------------------------------------------------------------------ */

static void ask(struct ck_nccl_epochs *e, enum ck_epoch_state state)
{
	become(e, state);
	pthread_cond_signal(&e->thread.changed);
}

void ck_nccl_epochs_renew(struct ck_nccl_epochs *e, uint32_t n, uint32_t self,
			  const uint8_t token[static CK_ROUND_TOKEN])
{
	pthread_mutex_lock(&e->thread.lock);
	e->want.number++;
	e->want.since = ck_msec_now();
	e->want.n = n;
	e->want.self = self;
	memcpy(e->want.token, token, CK_ROUND_TOKEN);
	ask(e, CK_EPOCH_WANTED);
	pthread_mutex_unlock(&e->thread.lock);
}

int ck_nccl_epochs_state(struct ck_nccl_epochs *e)
{
	enum ck_epoch_state state;

	pthread_mutex_lock(&e->thread.lock);
	state = e->state;
	pthread_mutex_unlock(&e->thread.lock);
	if (state == CK_EPOCH_UP)
		return 0;
	return state == CK_EPOCH_FAILED ? -EIO : -EINPROGRESS;
}

/* True if the pause after a failure is not over. A later epoch makes the next
 * attempt, so a rank must request a round. Must hold the lock. */
static bool is_paused(const struct ck_nccl_epochs *e, uint64_t age)
{
	return age < (uint64_t)PAUSE_MSEC << ck_min(e->failures - 1, PAUSES);
}

int ck_nccl_epochs_is_ready(struct ck_nccl_epochs *e)
{
	uint64_t age;
	int rc;

	pthread_mutex_lock(&e->thread.lock);
	age = ck_msec_now() - e->since;
	if (e->state == CK_EPOCH_UP)
		rc = 1;
	else if (e->state == CK_EPOCH_FAILED)
		rc = is_paused(e, age) ? -EIO : 1;
	else
		rc = age > UP_MSEC ? -EIO : 0;
	pthread_mutex_unlock(&e->thread.lock);
	return rc;
}

void ck_nccl_epochs_drop(struct ck_nccl_epochs *e)
{
	pthread_mutex_lock(&e->thread.lock);
	e->last_poll = 0;
	if (e->state == CK_EPOCH_UP)
		ask(e, CK_EPOCH_ENDING);
	pthread_mutex_unlock(&e->thread.lock);
}

bool ck_nccl_epochs_is_dropped(struct ck_nccl_epochs *e)
{
	bool dropped;

	pthread_mutex_lock(&e->thread.lock);
	dropped = e->state != CK_EPOCH_ENDING;
	pthread_mutex_unlock(&e->thread.lock);
	return dropped;
}

/* --- the caller: rounds --------------------------------------------------- */

int ck_nccl_epochs_start(struct ck_nccl_epochs *e,
			 const struct ck_gpu_round *round,
			 const uint32_t *members, uint32_t n)
{
	int rc = -EIO;

	pthread_mutex_lock(&e->thread.lock);
	if (e->state == CK_EPOCH_UP) {
		rc = start(e, round, members, n);
		e->last_poll = ck_msec_now();
		if (!e->watching)
			pthread_cond_signal(&e->thread.changed);
	}
	pthread_mutex_unlock(&e->thread.lock);
	return rc;
}

int ck_nccl_epochs_poll(struct ck_nccl_epochs *e)
{
	int rc = -EIO;

	pthread_mutex_lock(&e->thread.lock);
	if (e->state == CK_EPOCH_UP) {
		rc = look(e);
		e->last_poll = ck_msec_now();
	}
	pthread_mutex_unlock(&e->thread.lock);
	return rc;
}

void ck_nccl_epochs_rest(struct ck_nccl_epochs *e)
{
	pthread_mutex_lock(&e->thread.lock);
	e->last_poll = 0;
	pthread_mutex_unlock(&e->thread.lock);
}

/* --- creation and end ----------------------------------------------------- */

int ck_nccl_epochs_open(struct ck_nccl_epochs *e, const struct ck_nccl *nccl,
			struct ck_device *g, struct ck_diag *d)
{
	int rc;

	e->nccl = nccl;
	e->since = ck_msec_now();
	ck_nccl_thread_init(&e->thread);
	rc = ck_nccl_comm_open(&e->comm, g, 1 + CK_ROUND_RANKS, d);
	if (rc)
		return rc;
	return ck_nccl_thread_start(&e->thread, run, e, d);
}

bool ck_nccl_epochs_close(struct ck_nccl_epochs *e)
{
	if (!ck_nccl_thread_close(&e->thread, CLOSE_MSEC))
		return false;
	ck_nccl_comm_close(&e->comm);
	return true;
}
