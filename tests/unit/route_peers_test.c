/* SPDX-License-Identifier: MIT */
/*
 * route_peers: random reads of random layouts over files of which some are remote, by
 * several threads, through a requester and owners over a line that is disturbed. Each
 * comes to what it comes to with all files here, unless it was interrupted, or a peer
 * was lost that it needed.
 */
#include "answerer.h"
#include "line_thread.h"
#include "truth.h"

enum { THREADS = 3, READS = 6, PEERS = 2, NSETS = 1 << (BIG + 2) };

struct trial {
	struct world *w;
	unsigned remote; /* bits of files */
	struct headers headers;
	struct ck_open_slice *here, *there;
	struct ck_route route;
};

struct reader {
	pthread_t thread;
	struct trial *t;
	uint64_t random;
	unsigned came, failed, interrupted, wrong;
	uint8_t want[OUT_BYTES], got[OUT_BYTES];
	struct ck_read r;
	bool was_interrupted;

	pthread_mutex_t lock;
	bool reads; /* under lock: r is on its way */
};

static struct ck_files *sets[NSETS]; /* by what is remote */
static struct ck_file_server *owner;
static struct line_thread line;
static struct ck_remote_client requester;
static struct ck_location files_at[BIG + 2];
static struct reader readers[THREADS];
static unsigned readers_left; /* atomic */

/* --- one who reads --------------------------------------------------------------------- */

static bool is_right(const struct reader *d, int rc, int want)
{
	if (rc == -EINTR)
		return d->was_interrupted;
	if (rc == -EIO && !line.calm)
		return d->t->remote != 0;
	return rc == want &&
	       (rc || memcmp(d->got, d->want, (size_t)d->r.len) == 0);
}

static void read_begin(struct reader *d, uint64_t vpos, uint64_t len)
{
	pthread_mutex_lock(&d->lock);
	d->r = (struct ck_read){
		.from = d->t->there, .vpos = vpos, .len = len, .to = d->got
	};
	d->was_interrupted = false;
	d->reads = true;
	pthread_mutex_unlock(&d->lock);
}

static void read_end(struct reader *d)
{
	pthread_mutex_lock(&d->lock);
	d->reads = false;
	pthread_mutex_unlock(&d->lock);
}

static void read_one(struct reader *d)
{
	uint64_t size = d->t->w->slice.size;
	uint64_t vpos = boxes_below(&d->random, size + 1);
	uint64_t len = boxes_below(&d->random, size - vpos + 1);
	int want = world_read_into(d->t->w, d->t->here, vpos, len, d->want);
	int rc;

	read_begin(d, vpos, len);
	rc = ck_io_read(&d->t->route, &d->r);
	read_end(d);
	d->wrong += !is_right(d, rc, want);
	d->came += rc == 0;
	d->interrupted += rc == -EINTR;
	d->failed += rc && rc != -EINTR;
}

static void *reader_run(void *arg)
{
	struct reader *d = arg;

	for (unsigned i = 0; i < READS; i++)
		read_one(d);
	__atomic_fetch_sub(&readers_left, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* --- one who interrupts -------------------------------------------------------------------- */

static void interrupt(struct reader *d)
{
	pthread_mutex_lock(&d->lock);
	if (d->reads) {
		d->was_interrupted = true;
		ck_route_interrupt(&d->t->route, &d->r.waiter);
	}
	pthread_mutex_unlock(&d->lock);
}

static void interrupt_some(uint64_t *random)
{
	while (__atomic_load_n(&readers_left, __ATOMIC_ACQUIRE)) {
		if (boxes_one_in(random, 20))
			interrupt(&readers[boxes_below(random, THREADS)]);
		sched_yield();
	}
}

/* --- trials ------------------------------------------------------------------------------------ */

static struct ck_files *set_of(unsigned remote)
{
	if (!sets[remote])
		sets[remote] = files_open_remote(remote);
	return sets[remote];
}

static unsigned readers_run(struct trial *t, uint64_t *random)
{
	unsigned wrong = 0;

	readers_left = THREADS;
	for (unsigned i = 0; i < THREADS; i++) {
		struct reader *d = &readers[i];

		d->t = t;
		d->random = tap_random(random) | 1;
		if (pthread_create(&d->thread, NULL, reader_run, d))
			abort();
	}
	interrupt_some(random);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(readers[i].thread, NULL);
		wrong += readers[i].wrong;
		readers[i].wrong = 0;
	}
	return wrong;
}

static unsigned check_trial(struct trial *t, uint64_t *random)
{
	static const char *const dtypes[] = {
		"float32", "bfloat16", "uint8", "complex64", "int16", "float64"
	};
	uint64_t windows[8 * 2 * BOXES_DIMS];
	unsigned wrong;

	random_world(t->w, dtypes, 6, windows, random);
	t->remote = (unsigned)boxes_below(random, NSETS);
	t->here = world_open(t->w);
	t->there = headers_open(&t->headers, t->w, set_of(t->remote),
				(unsigned)boxes_below(random, 4));
	ck_route_init(&t->route, set_of(t->remote), &requester.backend);
	wrong = readers_run(t, random);
	ck_route_fini(&t->route);
	ck_open_slice_free(t->here);
	ck_open_slice_free(t->there);
	return wrong + t->headers.wrong + (t->headers.given != t->headers.put);
}

static unsigned check_trials(uint64_t trials, uint64_t seed, bool calm,
			     bool lie)
{
	static struct trial t;
	uint64_t random = seed | 1;
	unsigned wrong = 0;

	line = (struct line_thread){ .npeers = PEERS,
				     .calm = calm,
				     .lie = lie };
	for (unsigned i = 0; i < PEERS; i++)
		line.owner[i] = owner;
	t.w = world_make();
	line_thread_begin(&line, 500, seed);
	ck_remote_client_init(&requester,
			      &(struct ck_routes){ .calls = line.calls,
						   .files = files_at,
						   .n = BIG + 2 });
	line_thread_serve(&line, &requester);
	for (uint64_t i = 0; i < trials; i++)
		wrong += check_trial(&t, &random);
	line_thread_end(&line);
	ck_remote_client_fini(&requester);
	world_free(t.w);
	return wrong;
}

/* Number i is file i, which is number i of its owner too. */
static void owner_begin(void)
{
	struct ck_str names[BIG + 2];
	char text[BIG + 2][4];
	struct ck_buf answer;
	struct ck_query a;
	size_t taken;

	for (unsigned i = 0; i < BIG + 2; i++) {
		snprintf(text[i], sizeof(text[i]), "f%u", i % 10);
		names[i] = ck_str_from(text[i]);
		files_at[i] = (struct ck_location){ i % PEERS, i };
	}
	owner = ck_file_server_make(dir, CK_BENEATH_NO_SYMLINKS, 16);
	if (!owner ||
	    ck_query_stat(&a, (struct ck_ids){ getuid(), getgid() }, names,
			  BIG + 2, &taken) ||
	    taken != BIG + 2 || wire_serve(owner, &a, &answer))
		abort();
	ck_buf_fini(&answer);
	ck_query_fini(&a);
}

static void tell(const char *what)
{
	unsigned came = 0, failed = 0, interrupted = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		came += readers[i].came;
		failed += readers[i].failed;
		interrupted += readers[i].interrupted;
		readers[i].came = readers[i].failed = 0;
		readers[i].interrupted = 0;
	}
	printf("# %s: %u reads came, %u failed, %u were interrupted; %" PRIu64
	       " answers, %" PRIu64 " renewals, %" PRIu64
	       " times a peer was lost\n",
	       what, came, failed, interrupted, line.answered, line.renewed,
	       line.lost);
	ok(came > 100);
}

static void test_random(void)
{
	uint64_t trials = tap_cases("CKPTFS_CASES", TAP_SLOW ? 150 : 600,
				    TAP_SLOW ? 2000 : 20000);
	uint64_t seed = tap_seed(1777);

	eq_u64(check_trials(trials, seed, true, false), 0);
	tell("calm");
	eq_u64(check_trials(trials, seed + 1, false, false), 0);
	tell("not calm");
	ok(check_trials(100, 5, true, true) > 50);
}

int main(void)
{
	if (!world_begin())
		return 2;
	owner_begin();
	for (unsigned i = 0; i < THREADS; i++)
		pthread_mutex_init(&readers[i].lock, NULL);
	test_random();
	for (unsigned i = 0; i < THREADS; i++)
		pthread_mutex_destroy(&readers[i].lock);
	for (unsigned i = 0; i < NSETS; i++)
		ck_files_free(sets[i]);
	ck_file_server_free(owner);
	return world_end();
}
