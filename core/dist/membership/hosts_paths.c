/* SPDX-License-Identifier: MIT */
/*
 * hosts_paths: measures how fast bytes arrive from each host, and reports it. A
 * measurement reads one file for a moment as a program would: a local file,
 * which may be in the page cache, or a remote one by requests. It first reads a
 * few bytes for the latency, then longer and longer pieces for the rate, while
 * there is time.
 *
 * A host is unknown, measured, or failed after TRIES attempts. Any thread may
 * measure; results are atomic.
 */
#include "ckptfs/memory.h"
#include "hosts_internal.h"

#include <errno.h>

enum {
	MOMENT_MSEC = 50,
	TRIES = 3,	    /* attempts at a host that fails */
	FEW = 4096,	    /* bytes */
	FEW_TIMES = 5,	    /* reads at most; the shortest counts */
	FEW_MSEC = 10,	    /* enough for the latency */
	FIRST = 64 << 10,   /* bytes of the first piece */
	MORE = 4,	    /* factor of the following pieces */
	MOST = 8 << 20,	    /* bytes of the longest piece */
	MSEC = 1000 * 1000, /* nanoseconds */
	SEC = 1000 * MSEC,
};

/* A measurement. */
struct sample {
	struct ck_hosts *hosts;
	bool here;
	uint32_t file;
	uint64_t size;
	uint8_t *to;
	struct timespec end;
	/* The result: */
	uint64_t rate, nsec;
};

static uint64_t nsec_of(struct timespec t)
{
	return (uint64_t)t.tv_sec * SEC + (uint64_t)t.tv_nsec;
}

static uint64_t nsec_now(void)
{
	return nsec_of(ck_time_in(CLOCK_MONOTONIC, 0));
}

static int bring_here(const struct sample *s, uint64_t len)
{
	struct ck_copy_desc move = { .file = s->file, .run = len, .to = s->to };
	struct ck_copy_batch batch = { .list = &move, .n = 1 };
	struct ck_local_backend host;

	ck_local_backend_init(&host, s->hosts->set);
	/* Completes before it returns. */
	(void)host.backend.start(&host.backend, &batch);
	ck_stats_read(s->hosts->elsewhere.stats, 0, batch.read);
	return move.rc;
}

/* Reads len bytes. *nsec: the duration. */
static int bring(const struct sample *s, uint64_t len, uint64_t *nsec)
{
	uint64_t begun = nsec_now();
	int rc = s->here ? bring_here(s, len)
			 : ck_hosts_read(&s->hosts->requester, s->file, 0, len,
					 s->to, &s->end);

	*nsec = ck_max(nsec_now() - begun, 1);
	return rc;
}

static uint64_t rate_of(uint64_t bytes, uint64_t nsec)
{
	return ck_max((uint64_t)((double)bytes * SEC / (double)nsec), 1);
}

/* Measures the latency. A slow path is read once only. */
static int measure_few(struct sample *s)
{
	uint64_t len = ck_min(s->size, FEW), nsec, sum = 0;
	int rc = 0;

	s->nsec = UINT64_MAX;
	for (int i = 0; i < FEW_TIMES && sum < FEW_MSEC * MSEC; i++) {
		rc = bring(s, len, &nsec);
		if (rc)
			break;
		s->nsec = ck_min(s->nsec, nsec);
		sum += nsec;
	}
	if (s->nsec == UINT64_MAX)
		return rc;
	s->rate = rate_of(len, s->nsec);
	return 0;
}

/* Returns true if len bytes may arrive in time. The first piece has no estimate
 * but the latency; the others have the rate so far. */
static bool is_time(const struct sample *s, uint64_t len)
{
	uint64_t now = nsec_now(), end = nsec_of(s->end);
	double wants = len <= FIRST ? (double)s->nsec
				    : (double)len * SEC / (double)s->rate;

	return now < end && wants < (double)(end - now);
}

static void measure_many(struct sample *s)
{
	uint64_t most = ck_min(s->size, MOST), len = FEW, nsec;

	while (len < most) {
		len = ck_min(ck_max(len * MORE, FIRST), most);
		if (!is_time(s, len) || bring(s, len, &nsec))
			break;
		s->rate = ck_max(s->rate, rate_of(len, nsec));
	}
}

/* Selects the largest file that is read on a host. Returns false if no file
 * is read there. */
static bool find_sample(struct ck_hosts *h, const char *name, struct sample *s)
{
	*s = (struct sample){ .hosts = h, .here = name == h->hosts[0].name };
	for (uint32_t i = 0; i < h->nfiles; i++) {
		const char *on = ck_hosts_host(&h->elsewhere, i, 0);
		uint64_t size = ck_files_info(h->set, i)->size;

		if (!on || strcmp(on, name) != 0 || size <= s->size)
			continue;
		s->file = i;
		s->size = size;
	}
	return s->size > 0;
}

static int measure(struct sample *s)
{
	int rc;

	s->to = ck_pages_alloc(MOST);
	if (!s->to)
		return -ENOMEM;
	/* The pages are resident from now on. */
	memset(s->to, 1, ck_min(s->size, MOST));
	s->end = ck_time_in(CLOCK_MONOTONIC, MOMENT_MSEC);
	rc = measure_few(s);
	if (rc == 0)
		measure_many(s);
	ck_pages_free(s->to, MOST);
	return rc;
}

/* --- one host at a time --------------------------------------------------- */

static unsigned tries_of(const struct ck_hosts_host *host)
{
	return __atomic_load_n(&host->path_to.tries, __ATOMIC_RELAXED);
}

static bool is_known(const struct ck_hosts_host *host)
{
	return __atomic_load_n(&host->path_to.rate, __ATOMIC_RELAXED) > 0;
}

/* Returns the host with the fewest attempts; NULL if no host is left to
 * measure. */
static struct ck_hosts_host *next_host(struct ck_hosts *h)
{
	struct ck_hosts_host *next = NULL;

	for (uint32_t i = 0; i < h->n; i++) {
		struct ck_hosts_host *host = &h->hosts[i];

		if (host->again || is_known(host) || tries_of(host) >= TRIES ||
		    (i && !ck_hosts_load(h, host->name).up))
			continue;
		if (!next || tries_of(host) < tries_of(next))
			next = host;
	}
	return next;
}

static void note(struct ck_hosts_path *path_to, const struct sample *s, int rc)
{
	__atomic_fetch_add(&path_to->tries, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&path_to->err, rc, __ATOMIC_RELAXED);
	if (rc)
		return;
	__atomic_store_n(&path_to->nsec, s->nsec, __ATOMIC_RELAXED);
	__atomic_store_n(&path_to->rate, s->rate, __ATOMIC_RELAXED);
}

bool ck_hosts_measure(struct ck_hosts *h)
{
	struct ck_hosts_host *host;
	struct sample s;

	if (!__atomic_load_n(&h->revalidation, __ATOMIC_ACQUIRE))
		return false;
	host = next_host(h);
	if (!host)
		return false;
	if (find_sample(h, host->name, &s))
		note(&host->path_to, &s, measure(&s));
	else
		__atomic_store_n(&host->path_to.tries, TRIES, __ATOMIC_RELAXED);
	host = next_host(h);
	return host && tries_of(host) == 0;
}

void ck_hosts_measure_again(struct ck_hosts *h)
{
	for (uint32_t i = 0; i < h->n; i++) {
		__atomic_store_n(&h->hosts[i].path_to.rate, 0,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&h->hosts[i].path_to.err, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&h->hosts[i].path_to.tries, 0,
				 __ATOMIC_RELAXED);
	}
}

void ck_hosts_peer(const struct ck_hosts *h, uint32_t i,
		   struct ck_hosts_peer *out)
{
	const struct ck_hosts_host *host = &h->hosts[i], *first = host;

	while (first->again)
		first--;
	*out = (struct ck_hosts_peer){
		.name = host->name,
		.here = first == &h->hosts[0],
		.again = host->again,
	};
}

/* --- as rows -------------------------------------------------------------- */

/* Returns why the path is not used; NULL if it has not failed. */
static const char *why_not(const struct ck_hosts_host *host, bool here, bool up)
{
	int err = -__atomic_load_n(&host->path_to.err, __ATOMIC_RELAXED);

	if (!here && !up)
		return __atomic_load_n(&host->was_there, __ATOMIC_RELAXED)
			       ? "down"
			       : "missing";
	if (err == 0 || is_known(host))
		return NULL;
	return err == EINTR ? "nothing came in time" : strerrordesc_np(err);
}

static void print_way(const struct ck_hosts *h,
		      const struct ck_hosts_host *host, struct ck_buf *out)
{
	struct ck_hosts_load load = ck_hosts_load(h, host->name);
	bool here = host == &h->hosts[0];
	uint64_t rate = __atomic_load_n(&host->path_to.rate, __ATOMIC_RELAXED);
	uint64_t nsec = __atomic_load_n(&host->path_to.nsec, __ATOMIC_RELAXED);
	const struct ck_stats_path row = {
		.host = host->name,
		.path = here ? "file" : "mpi",
		.gbps = (double)rate / SEC,
		.usec = (double)nsec / 1000,
		.used = load.files && (here || load.up),
		.reason = why_not(host, here, load.up),
	};

	ck_stats_print_path(&row, out);
}

/* Without a mount, no thread has measured the rates before. */
void ck_hosts_paths(const struct ck_remote_source *e, struct ck_buf *out)
{
	struct ck_hosts *h = ck_hosts_of(e);

	while (h->let_wait && ck_hosts_measure(h))
		;
	for (uint32_t i = 0; i < h->n; i++)
		if (!h->hosts[i].again)
			print_way(h, &h->hosts[i], out);
}
