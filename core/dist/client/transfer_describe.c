/* SPDX-License-Identifier: MIT */
/*
 * transfer_describe: encodes copy descriptors of a remote client as a transfer
 * list (transfer_list.h), for rounds. Each descriptor is requested from the
 * first replica of its file, if that rank takes part in rounds, and becomes one
 * READ. A batch is encoded completely or not at all; then it is read by the
 * usual way.
 *
 * State: the rounds of struct ck_remote_client, under its routes_lock. Any
 * thread.
 */
#include "dist/proto/transfer_list.h"
#include "places.h"

#include <errno.h>

int ck_remote_client_rounds(struct ck_remote_client *r,
			    const struct ck_round_routes *by)
{
	uint32_t *ranks = calloc(by->n + 1UL, sizeof(*ranks));
	const uint32_t *before;

	if (!ranks)
		return -ENOMEM;
	if (by->n)
		memcpy(ranks, by->ranks, by->n * sizeof(*ranks));
	pthread_rwlock_wrlock(&r->routes_lock);
	before = r->rounds.ranks;
	r->rounds = (struct ck_round_routes){ by->set, ranks, by->n };
	pthread_rwlock_unlock(&r->routes_lock);
	free((void *)(uintptr_t)before);
	return 0;
}

/* Encodes one descriptor, whose file is the number at the file server. False if
 * it needs more than one READ, if `out` is full, or if out of memory. */
static bool put(struct ck_described *out, const struct ck_copy_desc *m,
		struct ck_want *want)
{
	struct ck_copy_desc copy = *m;
	struct ck_reads reads;
	struct ck_query query;
	bool whole, fits;

	ck_reads_begin(&reads, &copy, 1);
	if (!ck_reads_left(&reads) || ck_query_read(&reads, &query))
		return false;
	want->body = (struct ck_str){ query.body.data, query.head.body };
	whole = !ck_reads_left(&reads) && ck_query_bytes(&query) == want->bytes;
	fits = whole && ck_want_put(out->out, out->room, &out->used, want);
	ck_query_fini(&query);
	return fits;
}

/* Encodes one descriptor of this client. Must hold routes_lock. False if it
 * cannot be done by a round. */
static bool describe_one(const struct ck_remote_client *r,
			 const struct ck_copy_desc *m, struct ck_described *out)
{
	struct ck_copy_desc at_owner = *m;
	struct ck_location at;
	struct ck_want want = { 0 };
	uint64_t bytes, end;
	size_t from = (size_t)(m->to - out->base);

	if (m->to < out->base || from >= out->size ||
	    !ck_copy_desc_measure(m, &bytes, &end) || bytes == 0 ||
	    bytes > out->size - from ||
	    !ck_places_find(&r->routes, m->file, 0, &at) ||
	    at.number == UINT32_MAX || at.peer >= r->rounds.n ||
	    !ck_calls_is_up(r->routes.calls, at.peer))
		return false;
	want.rank = r->rounds.ranks[at.peer];
	want.at = (uint32_t)from;
	want.bytes = (uint32_t)bytes;
	at_owner.file = at.number;
	return want.rank != UINT32_MAX && put(out, &at_owner, &want);
}

/* True if the destination of the descriptor is contiguous: the bytes arrive
 * packed. */
static bool is_packed(const struct ck_copy_desc *m)
{
	uint64_t bytes = m->run;

	for (uint32_t k = m->nloops; k > 0; k--) {
		if (m->loops[k - 1].count > 1 && m->loops[k - 1].dst != bytes)
			return false;
		if (!ck_mul(&bytes, bytes, m->loops[k - 1].count))
			return false;
	}
	return true;
}

bool ck_places_describe(struct ck_backend *backend,
			const struct ck_copy_batch *batch,
			struct ck_described *out)
{
	struct ck_remote_client *r = (struct ck_remote_client *)backend;
	bool all;

	out->used = 0;
	pthread_rwlock_rdlock(&r->routes_lock);
	out->set = r->rounds.set;
	all = batch->n && batch->n <= CK_WANTS_MOST && out->set &&
	      out->set == ck_calls_epoch(r->routes.calls);
	for (size_t i = 0; i < batch->n && all; i++)
		all = is_packed(&batch->list[i]) &&
		      describe_one(r, &batch->list[i], out);
	pthread_rwlock_unlock(&r->routes_lock);
	return all;
}

void ck_places_delivered(struct ck_backend *backend,
			 const struct ck_copy_batch *batch)
{
	struct ck_remote_client *r = (struct ck_remote_client *)backend;
	struct ck_location at;
	uint64_t bytes, end;

	pthread_rwlock_rdlock(&r->routes_lock);
	for (size_t i = 0; i < batch->n; i++)
		if (ck_places_find(&r->routes, batch->list[i].file, 0, &at) &&
		    ck_copy_desc_measure(&batch->list[i], &bytes, &end)) {
			ck_stats_read(r->stats, at.peer, bytes);
			ck_stats_received(r->stats, at.peer, bytes);
		}
	pthread_rwlock_unlock(&r->routes_lock);
}
