/* SPDX-License-Identifier: MIT */
/*
 * gpulink with a GPU worker that the test simulates. The simulated worker never replies to one
 * slot, replies to others continuously, replies to an earlier use of a slot, or receives no
 * message for a while. Each waiting request completes in time.
 */
#include "tap.h"

#include "gpu/worker/gpulink.h"
#include "gpu/worker/gpulink_internal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
	TIMES = 10, /* factor of the link's accelerated clock */
	PINNED = 64 << 20,
	OPEN_MSEC = 20000,
	SOON_MSEC = 10000,
	MEMORIES = 600, /* more RELEASE messages than fit into the socket */
};

static atomic_bool hurries, /* the clock of the link is accelerated */
	holds;		    /* the link's thread blocks when it is woken */
static atomic_bool is_held;

uint64_t __wrap_ck_msec_now(void);
uint64_t __real_ck_msec_now(void);
int __wrap_eventfd_read(int fd, eventfd_t *out);
int __real_eventfd_read(int fd, eventfd_t *out);

uint64_t __wrap_ck_msec_now(void)
{
	return __real_ck_msec_now() * (atomic_load(&hurries) ? TIMES : 1);
}

int __wrap_eventfd_read(int fd, eventfd_t *out)
{
	while (atomic_load(&holds)) {
		atomic_store(&is_held, true);
		(void)poll(NULL, 0, 1);
	}
	return __real_eventfd_read(fd, out);
}

/* A gather request. */
struct one {
	struct ck_gather_slot *slot;
	sem_t *done;
	int rc;
};

static void came(struct ck_gather_slot *s, int rc)
{
	struct one *o = s->arg;

	o->rc = rc;
	sem_post(o->done);
}

/* --- the simulated worker -------------------------------------------------------------- */

struct played {
	struct ck_gpulink *link;
	atomic_int sock;
	int memory;
	pthread_t thread;
	bool wrong_use;	 /* replies to an earlier use of a slot */
	uint32_t silent; /* the slot without a reply */
	bool turns;	 /* sends heartbeats */
	atomic_bool over, deaf;
	atomic_uint released; /* number of received RELEASE messages */
};

static int played_start(void *arg, int sock, int memory)
{
	struct played *p = arg;

	if (p->sock >= 0)
		return -EBUSY; /* the test simulates one worker only */
	p->sock = dup(sock);
	p->memory = dup(memory);
	return 0;
}

/* Changes the request to its reply. False if there is no reply. */
static bool played_answers(struct played *p, struct ck_gpu_message *m)
{
	switch (m->kind) {
	case CK_GPU_ALLOCATE:
		m->kind = CK_GPU_ALLOCATED;
		m->rc = 0;
		return true;
	case CK_GPU_RELEASE: atomic_fetch_add(&p->released, 1); return false;
	case CK_GPU_GATHER:
		m->kind = CK_GPU_DONE;
		m->use -= p->wrong_use;
		return m->slot != p->silent;
	default: return false;
	}
}

static void *played_run(void *arg)
{
	struct played *p = arg;
	struct ck_gpu_message m = { .kind = CK_GPU_READY, .text = "played" };

	while (p->sock < 0)
		(void)poll(NULL, 0, 1);
	if (ck_gpu_send(p->sock, &m, true))
		return NULL;
	while (!atomic_load(&p->over)) {
		struct pollfd fd = { .fd = p->sock, .events = POLLIN };

		m = (struct ck_gpu_message){ .kind = CK_GPU_TURNS };
		if (p->turns && ck_gpu_send(p->sock, &m, true))
			break;

		if (atomic_load(&p->deaf) || poll(&fd, 1, 10) != 1) {
			(void)poll(NULL, 0, 1);
			continue;
		}
		if (ck_gpu_take(p->sock, &m, NULL))
			break;
		if (played_answers(p, &m) && ck_gpu_send(p->sock, &m, true))
			break;
	}
	return NULL;
}

static void played_begin(struct played *p, uint32_t timeout_msec)
{
	struct ck_gpulink_options options = { .pinned = PINNED,
					      .timeout_msec = timeout_msec,
					      .start = played_start,
					      .arg = p,
					      .host = "here" };
	struct ck_diag d = { 0 };

	p->sock = -1;
	if (ck_thread_start(&p->thread, played_run, p) ||
	    ck_gpulink_make(&options, &p->link) ||
	    ck_gpulink_wait(p->link, OPEN_MSEC, &d))
		abort();
}

/* Starts the worker with a timeout that exceeds the test, and an unposted semaphore. */
static struct ck_gather_engine *set_out(struct played *p, sem_t *done)
{
	sem_init(done, 0, 0);
	played_begin(p, 30000);
	return ck_gpulink_gather_engine(p->link);
}

/* Simulates the death of the worker. */
static void played_die(struct played *p)
{
	atomic_store(&p->over, true);
	pthread_join(p->thread, NULL);
	close(p->sock);
}

static void played_end(struct played *p)
{
	if (!atomic_load(&p->over))
		played_die(p);
	ck_gpulink_free(p->link);
	close(p->memory);
}

/* --- gather requests ----------------------------------------------------------------------- */

/* Sends the first free slot with one small copy. */
static struct ck_gather_slot *send_any(struct ck_gather_engine *g,
				       struct one *o, sem_t *done)
{
	struct ck_gather_slot *s = g->take(g);

	if (!s)
		return NULL;
	*o = (struct one){ .slot = s, .done = done, .rc = 1 };
	s->copies[0] = (struct ck_gather_desc){ .run = 16 };
	s->filled = s->results = 16;
	s->ncopies = 1;
	s->done = came;
	s->arg = o;
	g->start(g, s);
	return s;
}

static bool comes_in(sem_t *done, unsigned msec)
{
	struct timespec end = ck_time_in(CLOCK_REALTIME, msec);
	int rc;

	do
		rc = sem_timedwait(done, &end);
	while (rc && errno == EINTR);
	return rc == 0;
}

/* --- tests ----------------------------------------------------------------------------- */

/* One request gets no reply, while others do continuously. */
static void test_starved(void)
{
	struct played p = { .silent = 0 };
	uint64_t begun;
	struct one victim, other;
	struct ck_gather_engine *g;
	unsigned others = 0;
	sem_t done, more;

	sem_init(&done, 0, 0);
	sem_init(&more, 0, 0);
	played_begin(&p, 1500);
	g = ck_gpulink_gather_engine(p.link);
	ok(send_any(g, &victim, &done) != NULL);
	begun = ck_msec_now();
	while (sem_trywait(&done) && ck_msec_now() - begun < SOON_MSEC) {
		if (send_any(g, &other, &more)) {
			others += comes_in(&more, SOON_MSEC);
			g->put(g, other.slot);
		}
		(void)poll(NULL, 0, 20);
	}
	printf("# %u others\n", others);
	eq_err(victim.rc, -EIO);
	ok(others > 10 && ck_msec_now() - begun < 5000);
	g->put(g, victim.slot);
	played_end(&p);
}

/* A slow worker gets no further requests; an interrupted caller does not wait. */
static void test_interrupted(void)
{
	struct played p = { .silent = 0 };
	struct one first, second;
	struct ck_gather_engine *g;
	uint64_t begun;
	sem_t done;

	g = set_out(&p, &done);
	ok(send_any(g, &first, &done) != NULL);
	begun = ck_msec_now();
	while (send_any(g, &second, &done) &&
	       ck_msec_now() - begun < SOON_MSEC) {
		ok(comes_in(&done, SOON_MSEC));
		g->put(g, second.slot);
		(void)poll(NULL, 0, 100);
	}
	ok(ck_msec_now() - begun < 4000);
	g->interrupt(g, first.slot);
	ok(comes_in(&done, 500));
	eq_err(first.rc, -EINTR);
	/* The worker still owns the slot. */
	ok(!g->take(g));
	played_end(&p);
}

/* A reply to an earlier use of a slot is ignored. */
static void test_wrong_use(void)
{
	struct played p = { .silent = UINT32_MAX, .wrong_use = true };
	struct ck_gather_engine *g;
	struct one o;
	sem_t done;

	g = set_out(&p, &done);
	ok(send_any(g, &o, &done) != NULL);
	ok(comes_in(&done, SOON_MSEC));
	eq_err(o.rc, -EIO);
	g->put(g, o.slot);
	played_end(&p);
}

static struct ck_gather_memory *allocate(struct ck_gather_engine *g)
{
	const bool cancelled = false;
	const struct ck_gather_alloc want = { .bytes = 16,
					      .cancelled = &cancelled };
	struct ck_gather_memory *memory;

	return g->allocate(g, &want, &memory) ? NULL : memory;
}

/* Many releases are sent while the worker receives no message: a later request waits, and does
 * not fail. */
static void test_deaf(void)
{
	static struct ck_gather_memory *all[MEMORIES];
	struct played p = { .silent = UINT32_MAX };
	struct ck_gather_engine *g;
	unsigned n = 0;
	uint64_t begun;
	struct one o;
	sem_t done;

	g = set_out(&p, &done);
	while (n < MEMORIES && (all[n] = allocate(g)))
		n++;
	eq_u64(n, MEMORIES);
	atomic_store(&p.deaf, true);
	while (n > 0)
		g->release(g, all[--n]);
	ok(send_any(g, &o, &done) != NULL);
	ok(!comes_in(&done, 100));
	atomic_store(&p.deaf, false);
	ok(comes_in(&done, SOON_MSEC));
	eq_err(o.rc, 0);
	g->put(g, o.slot);
	begun = ck_msec_now();
	while (p.released < MEMORIES && ck_msec_now() - begun < SOON_MSEC)
		(void)poll(NULL, 0, 1);
	eq_u64(p.released, MEMORIES);
	played_end(&p);
}

struct asked {
	struct ck_gather_engine *g;
	struct ck_gather_memory *memory;
	sem_t done;
};

static void *ask_run(void *arg)
{
	struct asked *a = arg;

	a->memory = allocate(a->g);
	sem_post(&a->done);
	return NULL;
}

/* A request that does not fit into the socket is sent later. */
static void test_no_room(void)
{
	const struct ck_gpu_message m = { .kind = CK_GPU_RELEASE };
	struct played p = { .silent = UINT32_MAX };
	struct asked a = { 0 };
	pthread_t thread;

	sem_init(&a.done, 0, 0);
	played_begin(&p, 30000);
	a.g = ck_gpulink_gather_engine(p.link);
	atomic_store(&p.deaf, true);
	(void)poll(NULL, 0,
		   50); /* the worker may still be receiving a message */
	while (ck_gpu_send(p.link->workers->sock, &m, false) == 0)
		;
	if (ck_thread_start(&thread, ask_run, &a))
		abort();
	ok(!comes_in(&a.done, 200));
	atomic_store(&p.deaf, false);
	ok(comes_in(&a.done, SOON_MSEC));
	pthread_join(thread, NULL);
	ok(a.memory != NULL);
	if (a.memory)
		a.g->release(a.g, a.memory);
	played_end(&p);
}

/* Blocks the link's thread, so that it receives no further message. */
static void hold(struct played *p)
{
	atomic_store(&is_held, false);
	atomic_store(&holds, true);
	(void)eventfd_write(p->link->wake, 1);
	while (!atomic_load(&is_held))
		(void)poll(NULL, 0, 1);
}

static struct ck_gather_engine *gather_engine;
static atomic_bool held_then;

static void came_of_memory(struct ck_gather_slot *s, int rc)
{
	atomic_store(&held_then,
		     gather_engine->holds(gather_engine, s->memory));
	came(s, rc);
}

/* Regression: requests to a dead worker return the same errors before and after its death is
 * detected. No gather request fails while the worker's memory seems valid. */
static void test_just_died(void)
{
	const bool cancelled = false;
	const struct ck_gather_alloc want = { .bytes = 16,
					      .cancelled = &cancelled };
	struct played p = { .silent = UINT32_MAX };
	struct ck_gather_memory *memory, *other;
	struct ck_gather_slot *s;
	struct ck_gather_engine *g;
	sem_t done;
	struct one o = { .rc = 1, .done = &done };

	gather_engine = g = set_out(&p, &done);
	memory = allocate(g);
	s = g->take(g);
	if (!memory || !s)
		abort();
	hold(&p);
	played_die(&p);
	eq_err(g->allocate(g, &want, &other), -EOPNOTSUPP);
	s->memory = memory;
	s->filled = s->results = 16;
	s->done = came_of_memory;
	s->arg = &o;
	g->start(g, s);
	ok(g->holds(g, memory));
	atomic_store(&holds, false);
	ok(comes_in(&done, SOON_MSEC));
	eq_err(o.rc, -EIO);
	ok(!atomic_load(&held_then));
	g->put(g, s);
	g->release(g, memory);
	played_end(&p);
}

/* True if a request completes within `msec` of the link's accelerated clock. The link is woken
 * every 2 ms. */
static bool comes_in_haste(struct played *p, sem_t *done, unsigned msec)
{
	uint64_t end = __real_ck_msec_now() + msec / TIMES;
	bool came = false;

	while (!came && __real_ck_msec_now() < end) {
		(void)eventfd_write(p->link->wake, 1);
		came = comes_in(done, 2);
	}
	return came;
}

/* Regression: a worker that is stopped or hung in a call is given up before the timeout of a
 * gather request; a worker that sends heartbeats is not. */
static void test_silent(bool turns)
{
	struct played p = { .silent = 0, .turns = turns };
	struct ck_gather_engine *g;
	struct one o;
	sem_t done;

	g = set_out(&p, &done);
	atomic_store(&hurries, true);
	ok(send_any(g, &o, &done) != NULL);
	ok(!comes_in_haste(&p, &done, 5000));
	if (turns) {
		ok(!comes_in_haste(&p, &done, 10000));
	} else {
		ok(comes_in_haste(&p, &done, 20000));
		eq_err(o.rc, -EIO);
		g->put(g, o.slot);
	}
	atomic_store(&hurries, false);
	played_end(&p);
}

/* Regression: time in which this process was stopped does not count against the worker. */
static void test_stopped_here(void)
{
	struct played p = { .silent = 0, .turns = true };
	struct ck_gather_engine *g;
	struct one o;
	sem_t done;

	g = set_out(&p, &done);
	ok(send_any(g, &o, &done) != NULL);
	usleep(1500000);
	atomic_store(&hurries, true); /* the clock jumps by many minutes */
	ok(!comes_in_haste(&p, &done, 3000));
	atomic_store(&hurries, false);
	played_end(&p);
}

static void *look_run(void *arg)
{
	struct ck_gpulink *l = arg;

	return ck_gpulink_is_overdue(l, l->workers) ? l : NULL;
}

/* Regression: a request sent at the start of a check for timeouts is not late. */
static void test_sent_while_looked(void)
{
	struct played p = { .silent = UINT32_MAX };
	struct ck_gather_slot *s;
	struct ck_gpulink_slot *slot;
	pthread_t thread;
	void *late;

	played_begin(&p, 1000);
	s = ck_gpulink_gather_engine(p.link)->take(
		ck_gpulink_gather_engine(p.link));
	slot = (struct ck_gpulink_slot *)s;
	pthread_mutex_lock(&p.link->lock);
	if (ck_thread_start(&thread, look_run, p.link))
		abort();
	(void)poll(NULL, 0, 100);
	slot->state = GPU_SLOT_IN_FLIGHT;
	slot->since = ck_msec_now();
	pthread_mutex_unlock(&p.link->lock);
	pthread_join(thread, &late);
	ok(!late);
	pthread_mutex_lock(&p.link->lock);
	slot->state = GPU_SLOT_TAKEN;
	pthread_mutex_unlock(&p.link->lock);
	ck_gpulink_gather_engine(p.link)->put(ck_gpulink_gather_engine(p.link),
					      s);
	played_end(&p);
}

static int first_fails(void *arg)
{
	(void)arg;
	return -EACCES;
}

static int start_counts(void *arg, int sock, int memory)
{
	(void)sock, (void)memory;
	atomic_fetch_add((atomic_uint *)arg, 1);
	return 0;
}

/* The first step of the link's thread fails. */
static void test_not_begun(void)
{
	atomic_uint starts = 0;
	struct ck_gpulink_options options = { .pinned = PINNED,
					      .timeout_msec = 1000,
					      .start = start_counts,
					      .thread_init = { first_fails,
							       NULL },
					      .arg = &starts,
					      .host = "here" };
	struct ck_gpulink *link;

	eq_err(ck_gpulink_make(&options, &link), -EACCES);
	eq_u64(atomic_load(&starts), 0);
}

int main(void)
{
	test_not_begun();
	test_sent_while_looked();
	test_starved();
	test_interrupted();
	test_wrong_use();
	test_deaf();
	test_no_room();
	test_just_died();
	test_silent(false);
	test_silent(true);
	test_stopped_here();
	return tap_done();
}
