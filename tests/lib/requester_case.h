/* SPDX-License-Identifier: MIT */
/* requester_case: a remote client, and a line that queues requests until the test lets
 * the file servers reply.
 */
#ifndef CK_REMOTE_CLIENT_CASE_H
#define CK_REMOTE_CLIENT_CASE_H

#include "peer_moves.h"

/* A line that queues requests, and lets the file servers reply. */
static struct {
	struct ck_line line; /* first */
	struct packets packets;
	unsigned reads;
} line;

static struct owners owners;
static struct ck_calls *calls;
static struct ck_remote_client requester;
static struct ck_stats *stats; /* by owner; from begin() to end() */
static struct ck_location files[SET_FILES];
static unsigned ended;
static uint32_t case_timeout = 10000, case_silence = 5000; /* msec */

static inline int line_send(struct ck_line *l, uint32_t peer,
			    const struct ck_query *a)
{
	struct packet *p = packets_add(&line.packets);

	(void)l;
	wire_add_ask(&p->bytes, a);
	p->head = a->head;
	p->peer = peer;
	line.reads += a->head.type == CK_WIRE_READ;
	return 0;
}

static inline void line_wake(struct ck_line *l)
{
	(void)l;
}

static inline void begin(void)
{
	struct ck_calls_options options = {
		.npeers = OWNERS,
		.ping_msec = (uint32_t)ck_min(1000, case_timeout / 8),
		.silence_msec = case_silence,
		.timeout_msec = case_timeout,
		.window = CK_WIRE_READ_MAX,
	};

	line.line = (struct ck_line){ line_send, line_wake };
	line.reads = ended = 0;
	stats = ck_stats_make(OWNERS);
	if (!stats)
		abort();
	options.stats = stats;
	calls = ck_calls_make(&options, &line.line, 0);
	if (!calls)
		abort();
	whereabouts_fill(files, OWNERS);
	ck_remote_client_init(&requester,
			      &(struct ck_routes){ .calls = calls,
						   .files = files,
						   .n = SET_FILES });
	requester.stats = stats;
}

static inline void end(void)
{
	ck_remote_client_fini(&requester);
	ck_calls_free(calls);
	free(stats);
	packets_fini(&line.packets);
}

static inline void count_end(struct ck_copy_batch *batch)
{
	(void)batch;
	ended++;
}

/* Everything that is asked is answered, the last one first. */
static inline void answer_all(void)
{
	while (line.packets.n) {
		struct packet p = packets_take(&line.packets,
					       line.packets.n - 1);
		struct ck_message m;

		packet_answer(&p, owners.owner[p.peer]);
		m = packet_open(&p);
		eq_err(ck_calls_take(calls, p.peer, &m, 1), 0);
		ck_buf_fini(&p.bytes);
	}
}

static inline int start(struct ck_copy_batch *batch)
{
	batch->done = count_end;
	return requester.backend.start(&requester.backend, batch);
}

#endif
