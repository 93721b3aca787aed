/* SPDX-License-Identifier: MIT */
/*
 * gpulink: a real GPU worker on the fake driver gathers slots of a link, and each byte is
 * compared with a brute-force copy. Workers die, hang, lose their device, find no device, and
 * receive invalid requests: each waiting request completes in time, and the next worker serves.
 *
 *	LD_LIBRARY_PATH=STANDIN gpulink_test CKPTFS
 */
#include "boxes.h"
#include "only_child.h"
#include "tap.h"

#include "dist/launch/control_msg.h"
#include "dist/launch/rendezvous.h"
#include "dist/launch/subprocess.h"
#include "gpu/worker/gpulink.h"
#include "gpu/worker/gpuwire.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
	PINNED = 16 << 20,
	OPEN_MSEC = 20000,
	COPIES = 40, /* at most, in a slot */
	AT_A_TIME = 5,
	SOON_MSEC = 10000,
};

static char *program;

/* --- a worker -------------------------------------------------------------------------- */

struct fixture {
	struct ck_subprocess job; /* forks the workers */
	int sock;		  /* connected to `job` */
	struct ck_gpulink *link;
	struct ck_diag why;
};

static int worker_start(void *arg, int sock, int memory)
{
	const struct fixture *f = arg;
	const struct ck_control_msg note = { .kind = CK_CONTROL_MSG_START,
					     .files = { sock, memory, -1 } };

	return ck_control_msg_send(f->sock, &note, false);
}

/* standin: options of the fake driver. */
static void forker_start(struct fixture *f, const char *standin)
{
	static char serve[] = "serve", gpus[] = "--gpus", zero[] = "0";
	char *words[] = { program, serve, gpus, zero, NULL };

	setenv("CKPTFS_STANDIN", standin, 1);
	if (ck_control_msg_job(words, &f->sock, &f->job))
		abort();
}

/* Returns the result of the wait for the first worker. */
static int begin(struct fixture *f, const char *standin, uint32_t timeout_msec)
{
	struct ck_gpulink_options options = { .pinned = PINNED,
					      .timeout_msec = timeout_msec,
					      .start = worker_start,
					      .arg = f,
					      .host = "here" };

	*f = (struct fixture){ .sock = -1 };
	forker_start(f, standin);
	if (ck_gpulink_make(&options, &f->link))
		abort();
	return ck_gpulink_wait(f->link, OPEN_MSEC, &f->why);
}

static void forker_end(struct fixture *f)
{
	close(f->sock);
	ck_subprocess_end(&f->job, 1000);
}

static void end(struct fixture *f)
{
	ck_gpulink_free(f->link);
	forker_end(f);
}

/* The current worker, or 0. */
static pid_t worker_now(const struct fixture *f)
{
	return only_child(f->job.process);
}

/* --- a gather request ------------------------------------------------------------------ */

struct one {
	struct ck_gather_slot *slot;
	sem_t *done;
	int rc;
	uint8_t *want; /* the expected result */
	bool *known;   /* for each byte: true if its value is defined */
};

static void came(struct ck_gather_slot *s, int rc)
{
	struct one *o = s->arg;

	o->rc = rc;
	sem_post(o->done);
}

/* Executes a copy, run by run. A byte that several copies write is not known, since copies are
 * not ordered. */
static void expect(struct one *o, const struct ck_gather_desc *c, uint32_t loop,
		   uint64_t src, uint64_t dst)
{
	const struct ck_loop *l = &o->slot->loops[c->loop + loop];

	if (loop < c->nloops) {
		for (uint64_t i = 0; i < l->count; i++)
			expect(o, c, loop + 1, src + i * l->src,
			       dst + i * l->dst);
		return;
	}
	memcpy(o->want + dst, o->slot->fill + src, c->run);
	memset(o->known + dst, true, c->run);
}

/* Adds a nest of random loops that writes each byte at most once, and counts the bytes of its
 * source and destination. */
static void random_copy(struct ck_gather_slot *s, uint64_t *random)
{
	struct ck_gather_desc *c = &s->copies[s->ncopies++];
	uint64_t src_end, dst_end;

	*c = (struct ck_gather_desc){
		.run = 1 +
		       boxes_below(random, boxes_one_in(random, 4) ? 3000 : 20),
		.loop = s->nloops,
		.nloops = (uint32_t)boxes_below(random, 4),
	};
	src_end = dst_end = c->run;
	for (uint32_t k = c->nloops; k-- > 0;) {
		struct ck_loop *l = &s->loops[c->loop + k];

		l->count = 1 + boxes_below(random, 5);
		l->src = src_end + boxes_below(random, 4);
		l->dst = dst_end + boxes_below(random, 4);
		src_end += (l->count - 1) * l->src;
		dst_end += (l->count - 1) * l->dst;
	}
	s->nloops += c->nloops;
	c->src = s->filled;
	c->dst = s->results;
	s->filled += (uint32_t)src_end;
	s->results += (uint32_t)dst_end;
}

static void one_make(struct one *o, struct ck_gather_slot *s, sem_t *done,
		     uint64_t *random)
{
	uint64_t copies = 1 + boxes_below(random, COPIES);

	*o = (struct one){ .slot = s, .done = done };
	for (uint64_t i = 0;
	     i < copies && s->filled < s->room / 4 && s->results < s->room / 4;
	     i++)
		random_copy(s, random);
	for (uint32_t i = 0; i < s->filled; i++)
		s->fill[i] = (uint8_t)boxes_below(random, 256);
	memset(s->result, 0x5a, s->results);
	o->want = calloc(1, s->results);
	o->known = calloc(1, s->results);
	for (uint32_t i = 0; i < s->ncopies; i++)
		expect(o, &s->copies[i], 0, s->copies[i].src, s->copies[i].dst);
	s->done = came;
	s->arg = o;
}

static bool one_is_right(const struct one *o)
{
	for (uint32_t i = 0; i < o->slot->results; i++)
		if (o->known[i] && o->slot->result[i] != o->want[i])
			return false;
	return true;
}

static void one_free(struct ck_gather_engine *g, struct one *o)
{
	g->put(g, o->slot);
	free(o->want);
	free(o->known);
}

struct tally {
	unsigned sent, failed, wrong;
};

/* Gathers up to AT_A_TIME slots at once. */
static void gather_some(struct ck_gather_engine *g, struct tally *t,
			uint64_t *random)
{
	struct one ones[AT_A_TIME];
	unsigned n = 0;
	sem_t done;

	sem_init(&done, 0, 0);
	while (n < AT_A_TIME) {
		struct ck_gather_slot *s = g->take(g);

		if (!s)
			break;
		one_make(&ones[n], s, &done, random);
		g->start(g, s);
		n++;
	}
	for (unsigned i = 0; i < n; i++)
		while (sem_wait(&done))
			;
	for (unsigned i = 0; i < n; i++) {
		t->sent++;
		t->failed += ones[i].rc != 0;
		t->wrong += ones[i].rc == 0 && !one_is_right(&ones[i]);
		one_free(g, &ones[i]);
	}
	sem_destroy(&done);
	if (n == 0)
		(void)poll(NULL, 0, 10);
}

/* Gathers until `right` slots were right, or until the time limit. */
static struct tally gather_until(struct fixture *f, unsigned right,
				 uint64_t *random)
{
	struct ck_gather_engine *g = ck_gpulink_gather_engine(f->link);
	uint64_t end_msec = ck_msec_now() + SOON_MSEC + 20ULL * right;
	struct tally t = { 0 };

	while (t.sent - t.failed < right && ck_msec_now() < end_msec)
		gather_some(g, &t, random);
	return t;
}

/* --- tests ----------------------------------------------------------------------------- */

static void test_random(void)
{
	unsigned n = (unsigned)tap_cases("CKPTFS_CASES", 100,
					 TAP_SLOW ? 100 : 300);
	uint64_t random = tap_seed(1) | 1;
	struct fixture f;
	struct tally t;

	eq_err(begin(&f, "", 30000), 0);
	t = gather_until(&f, n, &random);
	printf("# %u gatherings\n", t.sent);
	ok(t.sent >= n);
	eq_u64(t.failed, 0);
	eq_u64(t.wrong, 0);
	end(&f);
}

/* More small copies than fit into the queue; other copies may be split. */
static void test_too_many(void)
{
	struct ck_gather_slot *s;
	struct ck_gather_engine *g;
	struct fixture f;
	struct one o;
	sem_t done;

	sem_init(&done, 0, 0);
	eq_err(begin(&f, "", 30000), 0);
	g = ck_gpulink_gather_engine(f.link);
	s = g->take(g);
	o = (struct one){ .slot = s, .done = &done };
	/* Each nest has one loop more than a tile may have. */
	for (uint32_t k = 0; k < 12; k++)
		s->loops[k] = (struct ck_loop){ 2, 3ULL << k, 3ULL << k };
	s->nloops = 12;
	while (s->ncopies < s->copies_most)
		s->copies[s->ncopies++] =
			(struct ck_gather_desc){ .run = 2, .nloops = 12 };
	s->filled = s->results = 3 << 12;
	s->done = came;
	s->arg = &o;
	g->start(g, s);
	while (sem_wait(&done))
		;
	eq_err(o.rc, -EOVERFLOW);
	g->put(g, s);
	end(&f);
	sem_destroy(&done);
}

/* A killed worker is replaced, also with requests in flight. */
static void test_killed(void)
{
	uint64_t random = 5;
	struct fixture f;
	struct tally t;

	eq_err(begin(&f, "", 30000), 0);
	for (unsigned i = 0; i < 3; i++) {
		pid_t pid = worker_now(&f);

		t = gather_until(&f, 10, &random);
		ok(pid > 0 && kill(pid, SIGKILL) == 0);
		t = gather_until(&f, 10, &random);
		ok(t.sent - t.failed >= 10);
		eq_u64(t.wrong, 0);
		ok(worker_now(&f) != pid);
	}
	end(&f);
}

/* standin: a recurring fault of the fake driver. */
static void test_fault(const char *standin, uint32_t timeout_msec)
{
	uint64_t random = 7;
	struct fixture f;
	struct tally t;

	printf("# %s\n", standin);
	eq_err(begin(&f, standin, timeout_msec), 0);
	t = gather_until(&f, 60, &random);
	printf("# %u gathered, %u failed\n", t.sent, t.failed);
	ok(t.sent - t.failed >= 60);
	ok(t.failed > 0);
	eq_u64(t.wrong, 0);
	end(&f);
}

static void test_none(const char *standin, int rc, const char *text)
{
	struct ck_buf out = { 0 };
	struct fixture f;

	eq_err(begin(&f, standin, 30000), rc);
	ok(strstr(f.why.text, text) != NULL);
	ok(!ck_gpulink_gather_engine(f.link)->take(
		ck_gpulink_gather_engine(f.link)));
	ck_gpulink_print(f.link, false, &out);
	ok(strstr(out.data, "\"path\":\"gpu\",\"used\":false,\"reason\":") &&
	   strstr(out.data, text) != NULL);
	ck_buf_fini(&out);
	end(&f);
}

static void test_measured(void)
{
	struct ck_buf out = { 0 };
	struct fixture f;

	eq_err(begin(&f, "", 30000), 0);
	ck_gpulink_measure(f.link);
	ck_gpulink_print(f.link, true, &out);
	printf("# %s\n", out.data);
	ok(strstr(out.data, "\"path\":\"gpu\",\"GBps\":") != NULL);
	ok(strstr(out.data, ",\"used\":true},") != NULL);
	ck_buf_fini(&out);
	end(&f);
}

/* --- invalid requests ------------------------------------------------------------------ */

/* A worker whose channel the test uses directly. */
struct raw {
	struct fixture f;
	int sock, memory;
	struct ck_gather_slot slot; /* the first */
	uint8_t *at;
};

static bool raw_hears_any(struct raw *r, struct ck_gpu_message *m)
{
	struct pollfd fd = { .fd = r->sock, .events = POLLIN };

	return poll(&fd, 1, SOON_MSEC) == 1 &&
	       ck_gpu_take(r->sock, m, NULL) == 0;
}

/* Receives the reply to a request. False if the worker has closed the channel. */
static bool raw_hears(struct raw *r, struct ck_gpu_message *m)
{
	bool hears;

	do
		hears = raw_hears_any(r, m);
	while (hears && m->kind == CK_GPU_TURNS);
	return hears;
}

static void raw_start(struct raw *r)
{
	struct ck_gpu_message m;
	int ends[2];

	if (ck_control_msg_sockets(ends) ||
	    worker_start(&r->f, ends[1], r->memory))
		abort();
	close(ends[1]);
	if (r->sock >= 0)
		close(r->sock);
	r->sock = ends[0];
	if (!raw_hears(r, &m) || m.kind != CK_GPU_READY)
		abort();
}

/* Changes one or more numbers of a valid request. */
static void spoil(struct raw *r, struct ck_gpu_message *m, uint64_t *random)
{
	struct ck_gather_desc *c =
		&r->slot.copies[boxes_below(random, r->slot.ncopies)];
	struct ck_loop *l = &r->slot.loops[c->loop];
	uint64_t n = boxes_one_in(random, 3) ? UINT64_MAX
					     : boxes_below(random, 1 << 23);

	n >>= boxes_below(random, 40);
	switch (boxes_below(random, 12)) {
	case 0: c->src = n; break;
	case 1: c->dst = n; break;
	case 2: c->run = n; break;
	case 3: c->loop = (uint32_t)n; break;
	case 4: c->nloops = (uint32_t)n; break;
	case 5: c->change = (uint8_t)n; break;
	case 6: l->count = n; break;
	case 7: l->src = n; break;
	case 8: l->dst = n; break;
	case 9: m->filled = (uint32_t)n; break;
	case 10: m->ncopies = (uint32_t)n; break;
	default: m->slot = (uint32_t)n; break;
	}
}

static void raw_begin(struct raw *r, const char *standin)
{
	*r = (struct raw){ .f.sock = -1, .sock = -1 };
	forker_start(&r->f, standin);
	r->memory = ck_rendezvous_memory(4 * ck_gpu_slot_size());
	r->at = mmap(NULL, 4 * ck_gpu_slot_size(), PROT_READ | PROT_WRITE,
		     MAP_SHARED, r->memory, 0);
	raw_start(r);
}

static void raw_end(struct raw *r)
{
	munmap(r->at, 4 * ck_gpu_slot_size());
	close(r->memory);
	close(r->sock);
	forker_end(&r->f);
}

/* A valid request. */
static struct ck_gpu_message raw_fill(struct raw *r, uint64_t *random)
{
	ck_gpu_slot_at(r->at, 0, &r->slot);
	for (unsigned k = 0; k < 5; k++)
		random_copy(&r->slot, random);
	return (struct ck_gpu_message){ .kind = CK_GPU_GATHER,
					.filled = r->slot.filled,
					.results = r->slot.results,
					.ncopies = r->slot.ncopies,
					.nloops = r->slot.nloops };
}

/* The worker sends heartbeats for a request that its device never completes. */
static void test_turns(void)
{
	uint64_t random = tap_seed(1) | 1;
	struct ck_gpu_message m;
	struct raw r;

	raw_begin(&r, "run=0");
	m = raw_fill(&r, &random);
	if (ck_gpu_send(r.sock, &m, true))
		abort();
	for (int i = 0; i < 3; i++)
		ok(raw_hears_any(&r, &m) && m.kind == CK_GPU_TURNS);
	raw_end(&r);
}

/* The worker executes valid requests, and replies with an error to all others and exits. The fake
 * driver would abort the worker if it executed an invalid one. */
static void test_spoiled(void)
{
	uint64_t random = tap_seed(1) | 1;
	unsigned done = 0, refused = 0, silent = 0;
	struct raw r;

	raw_begin(&r, "");
	for (unsigned i = 0; i < 150; i++) {
		struct ck_gpu_message m = raw_fill(&r, &random);

		if (i)
			spoil(&r, &m, &random);
		if (ck_gpu_send(r.sock, &m, true))
			abort();
		if (!raw_hears(&r, &m))
			silent++;
		else if (m.kind == CK_GPU_DONE)
			done++;
		else if (m.kind == CK_GPU_FAILED)
			refused++;
		if (m.kind != CK_GPU_DONE)
			raw_start(&r);
	}
	printf("# %u were done, %u refused\n", done, refused);
	eq_u64(silent, 0);
	ok(done > 5 && refused > 5);
	raw_end(&r);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		printf("Bail out! usage: gpulink_test CKPTFS\n");
		return 1;
	}
	program = argv[1];
	test_random();
	test_too_many();
	test_killed();
	test_fault("fail=operation:150:ILLEGAL_ADDRESS", 30000);
	test_fault("run=300", 500);
	test_none("devices=0", -ENODEV, "CUDA_ERROR_NO_DEVICE");
	test_none("memory=1000000", -ENOSPC, "of its memory");
	test_none("fail=cuMemHostRegister:1:OUT_OF_MEMORY", -ENOSPC,
		  "cannot be pinned");
	test_fault("fail=cuEventRecord:150:OUT_OF_MEMORY", 30000);
	test_measured();
	test_turns();
	test_spoiled();
	return tap_done();
}
