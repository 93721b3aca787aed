/* SPDX-License-Identifier: MIT */
/*
 * hosts_digest: the digests of many files at one peer, to compare replicas. A
 * digest of a file is of a sample or of all bytes; a long file is split into
 * parts, and its digest is that of the digests of its parts. Several requests
 * are in flight at a time, since there may be thousands of files and distant
 * hosts.
 *
 * The calling thread sends and blocks; the connection's thread stores results.
 * A slot holds one request in flight.
 */
#include "hosts_internal.h"

#include <errno.h>
#include <semaphore.h>

enum {
	BLOCKS = 16, /* blocks of a sample */
	BLOCK = 4096,
	AT_ONCE = 32, /* requests for samples in flight */
	/* Requests for all bytes in flight; each may take seconds. */
	AT_ONCE_FULL = 2,
};

struct digesting;

struct slot {
	struct ck_call call; /* first */
	struct digesting *of;
	size_t item, part;
	bool busy; /* atomic: its request is in flight */
};

struct digesting {
	struct ck_calls *calls;
	uint32_t peer;
	enum ck_replicas how;
	struct ck_hosts_digest *list;
	/* The digests of all parts of all files, in their order. */
	uint8_t (*parts)[CK_COPY_DIGEST];
	sem_t free; /* free slots */
	unsigned nslots;
	struct slot slots[AT_ONCE];
};

/* --- parts of files ------------------------------------------------------- */

/* Sets the runs of the sample of a file that is longer. The first block begins
 * at 0, the last one ends with the file. */
static size_t sample(const struct ck_hosts_digest *file,
		     struct ck_wire_run runs[BLOCKS])
{
	uint64_t room = file->size - BLOCK, step = room / (BLOCKS - 1),
		 rest = room % (BLOCKS - 1);

	for (uint64_t i = 0; i < BLOCKS; i++)
		runs[i] = (struct ck_wire_run){
			file->number, step * i + rest * i / (BLOCKS - 1), BLOCK
		};
	return BLOCKS;
}

/* Sets the runs of a part of a file. Returns how many there are. */
static size_t runs_of(const struct digesting *d,
		      const struct ck_hosts_digest *file, size_t part,
		      struct ck_wire_run runs[BLOCKS])
{
	uint64_t from = (uint64_t)part * CK_WIRE_DIGEST_MAX;

	if (d->how != CK_REPLICAS_FULL && file->size > BLOCKS * BLOCK)
		return sample(file, runs);
	runs[0] = (struct ck_wire_run){ file->number, from,
					ck_min(file->size - from,
					       CK_WIRE_DIGEST_MAX) };
	return 1;
}

/* Returns the number of parts: at least 1; 0 if the size is implausible. */
static size_t parts_of(enum ck_replicas how, const struct ck_hosts_digest *file)
{
	const uint64_t most = (uint64_t)CK_WIRE_DIGEST_MAX << 20;
	uint64_t n = file->size / CK_WIRE_DIGEST_MAX +
		     (file->size % CK_WIRE_DIGEST_MAX > 0);

	if (how != CK_REPLICAS_FULL)
		return 1;
	return file->size > most ? 0 : (size_t)ck_max(n, 1);
}

/* --- requests ------------------------------------------------------------- */

static int call_done(struct ck_call *c, const struct ck_message *m, int rc)
{
	struct slot *s = (struct slot *)c;
	struct digesting *d = s->of;
	struct ck_hosts_digest *file = &d->list[s->item];

	if (m)
		rc = ck_reply_digest(&c->query, m, d->parts[s->part]);
	if (rc && file->rc == 0)
		file->rc = rc;
	ck_query_fini(&c->query);
	__atomic_store_n(&s->busy, false, __ATOMIC_RELEASE);
	sem_post(&d->free);
	return rc == -EPROTO ? rc : 0;
}

static void wait_for_one(struct digesting *d)
{
	while (sem_wait(&d->free))
		; /* a signal */
}

static struct slot *slot_take(struct digesting *d)
{
	struct slot *s = d->slots;

	wait_for_one(d);
	while (__atomic_load_n(&s->busy, __ATOMIC_ACQUIRE))
		s++;
	return s;
}

/* Sends the request for a part of a file. place: the index of its digest. */
static int query(struct digesting *d, size_t item, size_t part, size_t place)
{
	struct ck_wire_run runs[BLOCKS];
	size_t n = runs_of(d, &d->list[item], part, runs);
	struct slot *s = slot_take(d);
	int rc;

	*s = (struct slot){ .of = d, .item = item, .part = place };
	rc = ck_query_digest(&s->call.query, runs, n);
	if (rc) {
		sem_post(&d->free);
		return rc;
	}
	s->call.peer = d->peer;
	s->call.done = call_done;
	__atomic_store_n(&s->busy, true, __ATOMIC_RELEASE);
	ck_calls_send(d->calls, &s->call);
	return 0;
}

static int ask_all(struct digesting *d, size_t n)
{
	size_t place = 0;
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		size_t parts = parts_of(d->how, &d->list[i]);

		for (size_t part = 0; part < parts && rc == 0; part++)
			rc = query(d, i, part, place++);
	}
	for (unsigned i = 0; i < d->nslots; i++)
		wait_for_one(d);
	return rc;
}

/* --- results -------------------------------------------------------------- */

static int sum_up(const struct digesting *d, size_t n)
{
	size_t place = 0;

	for (size_t i = 0; i < n; i++) {
		size_t parts = parts_of(d->how, &d->list[i]);
		struct ck_hasher *sum;

		if (parts == 0)
			d->list[i].rc = -EFBIG;
		if (parts <= 1) {
			memcpy(d->list[i].digest, d->parts[place],
			       CK_COPY_DIGEST);
			place += parts;
			continue;
		}
		sum = ck_hasher_make(0);
		if (!sum)
			return -ENOMEM;
		ck_hasher_add(sum, (struct ck_str){ (char *)d->parts[place],
						    parts * CK_COPY_DIGEST });
		ck_hasher_sum128(sum, d->list[i].digest);
		ck_hasher_free(sum);
		place += parts;
	}
	return 0;
}

int ck_hosts_digest(struct ck_calls *calls, uint32_t peer, enum ck_replicas how,
		    struct ck_hosts_digest *list, size_t n)
{
	struct digesting *d = calloc(1, sizeof(*d));
	size_t parts = 0;
	int rc;

	for (size_t i = 0; i < n; i++) {
		list[i].rc = 0;
		parts += parts_of(how, &list[i]);
	}
	if (!d)
		return -ENOMEM;
	d->calls = calls;
	d->peer = peer;
	d->how = how;
	d->list = list;
	d->nslots = how == CK_REPLICAS_FULL ? AT_ONCE_FULL : AT_ONCE;
	d->parts = calloc(parts + 1, sizeof(*d->parts));
	sem_init(&d->free, 0, d->nslots);
	rc = d->parts ? ask_all(d, n) : -ENOMEM;
	if (rc == 0)
		rc = sum_up(d, n);
	sem_destroy(&d->free);
	free(d->parts);
	free(d);
	return rc;
}
