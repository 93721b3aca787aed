/* SPDX-License-Identifier: MIT */
/*
 * link: any bytes as the messages of a worker process to its mount: frames, and bytes in their
 * shared memory. The link runs completely except for its thread, whose turns run here, without
 * waiting. Input: steps (see frames_script.h).
 *
 * - An invalid frame ends the link, and only a peer that has sent a message is dropped.
 * - A call completes once, by its own peer.
 * - The bytes of a READ are those of its slot in the memory, and are written only to the
 *   destinations of its moves.
 * - A slot that the worker process may write is not used for another request.
 * - When the peers are lost, all calls have completed, and all memory and windows are free.
 */
#include "link_model.h"
#include "wire_case.h"

#include <errno.h>
#include <poll.h>

enum what {
	MOVER_SENDS, /* bytes */
	ASK,	     /* u8 slot */
	DROP,	     /* u8 slot */
	MEMORY_HAS,  /* u24 offset; bytes */
	MOVER_GONE,
	WHATS
};

/* The time does not advance here. */
static const struct ck_calls_options options = { .npeers = PEERS,
						 .ping_msec = 3600 * 1000,
						 .silence_msec = 7200 * 1000,
						 .timeout_msec = 7200 * 1000,
						 .window = 2 * BLOCK,
						 .epoch = 1 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __real_poll(struct pollfd *fds, nfds_t n, int msec);
int __wrap_poll(struct pollfd *fds, nfds_t n, int msec);

/* Never waits: no event can occur meanwhile. Repeats a call that the fuzzer's timer interrupts. */
int __wrap_poll(struct pollfd *fds, nfds_t n, int msec)
{
	int rc;

	(void)msec;
	do
		rc = __real_poll(fds, n, 0);
	while (rc < 0 && errno == EINTR);
	return rc;
}

/* --- moves ----------------------------------------------------------------------------------- */

struct copied {
	const uint8_t *from;
	uint8_t *to;
	uint64_t run;
};

static void copy_run(void *arg, uint64_t fpos, uint64_t dst)
{
	struct copied *c = arg;

	(void)fpos;
	memcpy(c->to + dst, c->from, c->run);
	c->from += c->run;
}

static void keep_run(void *arg, uint64_t fpos, uint64_t dst)
{
	const struct copied *c = arg;

	(void)fpos;
	memcpy(c->to + dst, c->from + dst, c->run);
}

static size_t room_of(const struct slot *s)
{
	return s == &t.slots[SLOTS - 1] ? WIDE : ROOM;
}

/* Checks the bytes of completed moves. A failed move may have written any bytes. */
static void moves_done(struct ck_copy_batch *batch)
{
	static uint8_t want[WIDE];
	struct slot *s = batch->arg;

	must(s->asked);
	s->asked = false;
	(void)mover_reads();
	memset(want, '.', room_of(s));
	for (size_t i = 0; i < batch->n; i++) {
		const struct ck_copy_desc *m = &batch->list[i];
		uint8_t *at = want + (m->to - s->to);
		struct copied put = { memory + t.places[m->file], at, m->run },
			      kept = { m->to, at, m->run };

		must(m->rc <= 0 && m->rc > -4096 && m->rc != -EPROTO);
		if (m->rc || s->changed)
			each_run(m, keep_run, &kept);
		else
			each_run(m, copy_run, &put);
	}
	must(memcmp(want, s->to, room_of(s)) == 0);
}

/* Two moves of the first peer, one of them with loops, and one move of the second peer. */
static void moves_begin(struct slot *s)
{
	static const struct ck_loop nest[] = { { 3, 40, 100 }, { 4, 9, 10 } };
	uint32_t first = (uint32_t)(s - t.slots) * MOVES;
	bool wide = room_of(s) == WIDE;

	memset(s->to, '.', room_of(s));
	s->list[0] = (struct ck_copy_desc){
		.nloops = 2, .loops = nest, .fpos = 5, .run = 4, .to = s->to
	};
	s->list[1] = (struct ck_copy_desc){ .run = wide ? WIDE - 150 : 20,
					    .to = s->to + 150 };
	s->list[2] = (struct ck_copy_desc){ .run = 7, .to = s->to + 130 };
	for (uint32_t i = 0; i < MOVES; i++)
		s->list[i].file = first + i;
	if (wide)
		s->list[0] = s->list[1];
	s->batch = (struct ck_copy_batch){ .list = s->list,
					   .n = wide ? 1 : MOVES,
					   .done = moves_done,
					   .arg = s };
}

/* --- other calls ------------------------------------------------------------------------------ */

static int take(const struct ck_query *a, const struct ck_message *m)
{
	struct ck_name_stat looked[2];
	struct ck_page page;
	struct ck_page_row row;
	uint8_t sum[16];
	int rc;

	switch (a->head.type) {
	case CK_WIRE_LIST:
		rc = ck_reply_list(a, m, &page);
		while (rc == 0 && ck_page_next(&page, &row))
			must(row.name.len > 0);
		return rc;
	case CK_WIRE_STAT: return ck_reply_stat(a, m, looked);
	case CK_WIRE_DIGEST: return ck_reply_digest(a, m, sum);
	default: return take_ping(a, m);
	}
}

static int came(struct ck_call *c, const struct ck_message *m, int rc)
{
	struct slot *s = (struct slot *)c;

	must(s->asked);
	s->asked = false;
	must(m ? rc == 0 : rc == -EIO || rc == -EINTR);
	if (m) {
		must(ck_query_check(&c->query, &m->head) == 0);
		must(has_sent(c->peer, &m->head));
		rc = take(&c->query, m);
		must(rc <= 0);
	}
	ck_query_fini(&c->query);
	return m && rc == -EPROTO ? -EPROTO : 0;
}

static void call_begin(struct slot *s)
{
	static const struct ck_str names[] = { { "a", 1 }, { "b/c", 3 } };
	static const struct ck_wire_run run = { 0, 0, 100 };
	uint32_t number = (uint32_t)(s - t.slots);
	struct ck_query *a = &s->call.query;
	size_t n;
	int rc;

	switch (number) {
	case 0: rc = ck_query_list(a, CK_STR(""), 0); break;
	case 1:
		rc = ck_query_stat(a, (struct ck_ids){ 0, 0 }, names, 2, &n);
		break;
	case 2: rc = ck_query_digest(a, &run, 1); break;
	default: rc = ck_query_ping(a); break;
	}
	must(rc == 0);
	s->call.peer = number % PEERS;
	s->call.done = came;
}

/* --- steps -------------------------------------------------------------------------------------- */

static void turn(void)
{
	must(ck_link_turn(t.link, &t.dead));
	(void)mover_reads();
	must(t.dead || !t.malformed);
	memset(t.unsure, 0, sizeof(t.unsure));
}

static void mover_sends(struct ck_str bytes)
{
	if (t.sock >= 0)
		speech_send(&t.speech, t.sock, bytes);
}

static void ask(struct slot *s)
{
	struct ck_backend *backend = &t.requester.backend;

	if (s->asked)
		return;
	s->asked = true;
	s->changed = false;
	if (s >= &t.slots[SIMPLE]) {
		moves_begin(s);
		must(backend->start(backend, &s->batch) == -EINPROGRESS);
	} else {
		call_begin(s);
		ck_calls_send(ck_link_calls(t.link), &s->call);
	}
}

static void drop(struct slot *s)
{
	struct ck_backend *backend = &t.requester.backend;

	if (s >= &t.slots[SIMPLE])
		backend->interrupt(backend, &s->batch);
	else if (s->asked)
		ck_calls_drop(ck_link_calls(t.link), &s->call);
}

static void put_bytes(struct ck_str bytes)
{
	struct ck_cur c = ck_cur_make(bytes.p, bytes.len);
	uint8_t high;
	uint16_t low;
	size_t place;

	if (!ck_cur_u8(&c, &high) || !ck_cur_u16(&c, &low))
		return;
	for (size_t i = 0; i < SLOTS; i++)
		t.slots[i].changed = true;
	place = ((size_t)high << 16 | low) % MEMORY;
	memcpy(memory + place, c.p, ck_min(ck_cur_left(&c), MEMORY - place));
}

static void mover_gone(void)
{
	if (t.sock >= 0)
		close(t.sock);
	t.sock = -1;
}

static void do_step(const struct step *step)
{
	struct slot *s =
		&t.slots[step->bytes.len ? (uint8_t)step->bytes.p[0] % SLOTS
					 : 0];

	switch (step->what % WHATS) {
	case MOVER_SENDS: mover_sends(step->bytes); break;
	case ASK: ask(s); break;
	case DROP: drop(s); break;
	case MEMORY_HAS: put_bytes(step->bytes); return;
	default: mover_gone(); break;
	}
	turn();
}

/* --- the end -------------------------------------------------------------------------------------- */

static bool any_asked(void)
{
	bool any = false;

	for (size_t i = 0; i < SLOTS; i++)
		any |= t.slots[i].asked;
	return any;
}

static void give_all(bool lost)
{
	for (size_t i = 0; i < t.nheld; i++)
		t.held[i].back |= lost;
}

/* Sends LOST, or an answer, of all peers: they are down, or up again. */
static void send_of_all(bool lost)
{
	const struct ck_wire_head head = { .type = CK_WIRE_PING,
					   .answer = true,
					   .id = UINT64_MAX,
					   .epoch = 1 };
	struct ck_frame frame = { .kind = lost ? CK_FRAME_LOST
					       : CK_FRAME_MESSAGE };
	struct ck_frames *f = &t.backend;

	for (; frame.peer < PEERS; frame.peer++)
		must(ck_frames_put(f, &frame, lost ? NULL : &head,
				   CK_STR("")) == 0);
	must(ck_frames_waiting(f) == 0);
	give_all(lost);
	turn();
	/* Requests that were sent just before the frames arrived. */
	give_all(lost);
}

static int came_last(struct ck_call *c, const struct ck_message *m, int rc)
{
	must(!m && rc == -EIO);
	ck_query_fini(&c->query);
	return 0;
}

/* Sends a READ of the whole memory, more than a window and a share. It is sent at once only if no
 * other request uses them. */
static void ask_for_all(struct ck_call *c, uint32_t peer)
{
	static uint8_t to[1]; /* not written */
	static struct ck_copy_desc all = { .run = MEMORY, .to = to };
	struct ck_reads reads;

	ck_reads_begin(&reads, &all, 1);
	must(ck_reads_left(&reads));
	must(ck_query_read(&reads, &c->query) == 0);
	c->peer = peer;
	c->done = came_last;
	t.widest = 0;
	ck_calls_send(ck_link_calls(t.link), c);
	must(mover_reads() == 1 && t.widest == MEMORY);
}

/* True if no slot of the memory is in use. */
static bool all_are_back(void)
{
	bool all = !t.lost_track;

	for (size_t i = 0; i < t.nheld; i++)
		all &= t.held[i].back;
	return all;
}

static void check_free(void)
{
	struct ck_call all[PEERS], now = { .peer = 0 };

	/* The slot of an answered request is free at once. */
	if (!any_asked() && all_are_back() &&
	    ck_calls_is_up(ck_link_calls(t.link), 0))
		ask_for_all(&now, 0);
	send_of_all(true);
	must(!t.dead && !any_asked());
	for (uint32_t i = 0; i < PEERS; i++) {
		all[i] = (struct ck_call){ .peer = i };
		send_of_all(false);
		must(ck_calls_is_up(ck_link_calls(t.link), i));
		ask_for_all(&all[i], i);
		send_of_all(true);
	}
	must(!t.dead);
}

/* --- inputs ---------------------------------------------------------------------------------- */

/* The files of slot 6 have replicas on the other peer. */
static const struct ck_other_place others[MOVES] = { { 18, { 1, 18 } },
						     { 19, { 1, 19 } },
						     { 20, { 0, 20 } } };

static void begin(int sock)
{
	static struct ck_location files[SLOTS * MOVES];
	static uint8_t to[SLOTS][ROOM], wide[WIDE];
	const struct ck_link_options o = {
		.sock = sock, .memory = -1, .size = MEMORY, .calls = options
	};

	for (uint32_t i = 0; i < SLOTS * MOVES; i++)
		files[i] = (struct ck_location){ i % MOVES == 2, i };
	for (size_t i = 0; i < SLOTS; i++) {
		t.slots[i].asked = false;
		t.slots[i].to = i == SLOTS - 1 ? wide : to[i];
	}
	t.last_id = t.speech.at = t.nheld = t.nheard = 0;
	for (uint32_t i = 0; i < PEERS; i++)
		t.sent[i] = t.dropped[i] = 0;
	t.malformed = t.dead = t.lost_track = false;
	must(ck_link_make(&o, &t.link) == 0);
	ck_remote_client_init(
		&t.requester,
		&(struct ck_routes){ .calls = ck_link_calls(t.link),
				     .files = files,
				     .n = SLOTS * MOVES });
	t.requester.routes.others = others;
	t.requester.routes.nothers = MOVES;
}

static void end(void)
{
	mover_gone();
	turn();
	must(t.dead && !any_asked());
	ck_remote_client_fini(&t.requester);
	ck_link_free(t.link);
	ck_frames_fini(&t.backend);
	ck_buf_fini(&t.speech.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_cur script = ck_cur_make(data, size);
	struct step step;
	int ends[2];

	if (!memory)
		memory = memory_make(MEMORY);
	sockets_make(ends);
	t.sock = t.backend.fd = ends[1];
	begin(ends[0]);
	for (unsigned i = 0; i < STEPS && step_next(&script, &step); i++)
		do_step(&step);
	/* No frame is incomplete. */
	if (!t.dead && t.sock >= 0 && t.speech.at == t.speech.bytes.len)
		check_free();
	end();
	return 0;
}
