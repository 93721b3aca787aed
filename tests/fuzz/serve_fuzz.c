/* SPDX-License-Identifier: MIT */
/*
 * serve: any bytes as messages to a rank that serves a link: from the process of a mount, and from
 * other ranks over a simulated transport. The rank runs completely except for its threads: their
 * work is one of the steps (see frames_script.h). Input: a byte of flags, then steps.
 *
 * - The rank ends after an invalid request of the mount, and with the last mount. With some options
 *   it also ends if another rank ends or is lost. It notifies the other ranks of its own end.
 * - Bytes of the shared memory change only in the slot of a request.
 * - Each request gets one answer.
 * - A rank that sends an answer without a request is dropped, and a rank that the mount drops.
 * - When all requests are done, all counters are 0.
 * - Messages of a process for rounds can end only its own link.
 */
#include "serve_model.h"

#include <errno.h>

enum has {
	NO_LINK = 1,
	NO_OWNER = 2,
	OTHER_MOUNT = 4, /* rank OTHER has a mount */
	UNTIL_TOLD = 8,
	UNTIL_LOST = 16, /* takes precedence over UNTIL_TOLD */
	HAS_ROUNDS = 32,
};

enum what {
	LINK_SENDS, /* bytes */
	RANK_SENDS, /* u8 rank; a message */
	RANK_LOST,  /* u8 rank */
	WORK,
	SENT,
	READ_LINK,
	LINK_GONE,
	PROCESS_SENDS, /* bytes */
	PROCESS_GONE,
	WHATS
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- the transport ------------------------------------------------------------------------- */

static void know(struct knowns *all, uint32_t rank,
		 const struct ck_wire_head *head)
{
	if (all->n == MOST)
		t.stop = true;
	else
		all->list[all->n++] = (struct known){ .rank = rank,
						      .head = *head };
}

/* The expected answer with that id, or NULL. */
static struct expected *expected_of(uint32_t from, uint64_t id)
{
	for (size_t i = 0; i < t.nexpected; i++) {
		struct expected *e = &t.expected[i];

		if (!e->over && e->from == from && e->id == id)
			return e;
	}
	return NULL;
}

static int play_expect(struct ck_transport *x, uint32_t from, uint64_t id,
		       uint8_t *to, uint64_t len)
{
	struct expected *e = expected_of(from, id);
	const uint8_t *all = serve()->ends[CK_FROM_LINK].memory;
	uint64_t place = (uint64_t)(to - all);

	(void)x;
	must(from < RANKS && from != RANK && len > 0);
	must(to >= all && place <= MEMORY && len <= MEMORY - place);
	if (t.lost[from])
		return 0;
	if (!e && t.nexpected == MOST)
		return -ENOMEM;
	if (!e)
		e = &t.expected[t.nexpected++];
	*e = (struct expected){ from, id, place, len, false };
	return 0;
}

/* A note of the rank to another one. The body of a ROUND is empty if the rank takes no part in
 * rounds. */
static void check_note(const struct ck_parcel *p)
{
	bool over = serve()->ends[CK_FROM_ROUNDS].frames->fd < 0;

	if (p->head.type == CK_WIRE_ROUND) {
		must(t.used && (p->head.body || over));
		return;
	}
	must(p->head.type == CK_WIRE_OVER ? t.stop : t.sock < 0);
	must(p->head.body == 0 && p->head.payload == 0);
}

/* A forwarded request: the mount has sent it. */
static void check_request(const struct ck_parcel *p)
{
	const struct expected *e = expected_of(p->to, p->head.id);
	bool sent = false;

	take_sent();
	for (size_t i = 0; i < t.nheard; i++) {
		const struct heard *h = &t.heard[i];

		sent |= h->frame.peer == p->to && h->head.id == p->head.id &&
			h->head.type == p->head.type &&
			h->head.body == p->head.body && !h->head.answer;
	}
	must(sent || t.stop);
	know(&t.passed, p->to, &p->head);
	if (e && !t.stop)
		t.passed.list[t.passed.n - 1].room = e->len;
}

static void check_answer(const struct ck_parcel *p)
{
	for (size_t i = 0; i < t.asked.n; i++) {
		struct known *k = &t.asked.list[i];

		if (!k->used && k->rank == p->to &&
		    is_answer_to(&p->head, &k->head)) {
			k->used = true;
			return;
		}
	}
	must(t.stop);
}

/* Reads all bytes, so that ASan detects invalid ones. */
static void touch(const void *bytes, uint64_t len)
{
	static volatile uint8_t last;

	for (uint64_t i = 0; i < len; i++)
		last = ((const uint8_t *)bytes)[i];
	(void)last;
}

static void play_send(struct ck_transport *x, struct ck_parcel *p)
{
	uint8_t bytes[CK_WIRE_HEAD];
	struct ck_wire_head back;

	(void)x;
	must(p->to < RANKS && p->to != RANK);
	ck_wire_head_put(&p->head, bytes);
	must(ck_wire_head_get(bytes, &back) == 0);
	must(p->body.len == p->head.body);
	touch(p->body.p, p->head.body);
	touch(p->payload, p->head.payload);
	if (p->head.answer)
		check_answer(p);
	else if (p->head.type >= CK_WIRE_REQUESTS)
		check_note(p);
	else
		check_request(p);
	p->next = NULL;
	*t.last = p;
	t.last = &p->next;
}

static bool give_back(void)
{
	struct ck_parcel *p = t.first;

	if (!p)
		return false;
	t.first = p->next;
	if (!t.first)
		t.last = &t.first;
	p->sent(p, t.lost[p->to] ? -EIO : 0);
	return true;
}

static void play_close(struct ck_transport *x)
{
	(void)x;
	while (give_back())
		;
}

static void play_wake(struct ck_transport *x)
{
	(void)x;
}

/* A rank is dropped only after a forbidden message, or for the mount. */
static void play_drop(struct ck_transport *x, uint32_t rank)
{
	(void)x;
	must(rank < RANKS && rank != RANK);
	take_sent();
	must(!t.trusted[rank] || t.cancelled[rank] || t.stop);
	t.dropped[rank] = true;
}

static void lose(uint32_t rank)
{
	if (rank >= RANKS || rank == RANK || t.lost[rank])
		return;
	t.lost[rank] = true;
	t.mounts[rank] = false;
	for (size_t i = 0; i < t.nexpected; i++)
		t.expected[i].over |= t.expected[i].from == rank;
	t.x.lost(t.x.arg, rank);
}

/* The forwarded request that the answer belongs to, or NULL. */
static struct known *answered(uint32_t from, const struct ck_wire_head *head)
{
	for (size_t i = 0; i < t.passed.n; i++) {
		struct known *k = &t.passed.list[i];

		if (!k->over && k->rank == from &&
		    is_answer_to(head, &k->head) && head->payload <= k->room)
			return k;
	}
	return NULL;
}

/* True if a rank may send the message. Marks an answered request. */
static bool may_send(uint32_t from, const struct ck_message *m)
{
	struct known *k = answered(from, &m->head);
	uint64_t cost;

	if (!m->head.answer)
		return (m->head.type >= CK_WIRE_REQUESTS &&
			(t.used || m->head.type != CK_WIRE_ROUND)) ||
		       ck_file_server_cost(m, &cost) == 0;
	if (k)
		k->over = true;
	return k;
}

/* Writes the payload of an expected answer into its slot. */
static void put_payload(uint32_t from, struct ck_message *m)
{
	struct expected *e = m->head.answer ? expected_of(from, m->head.id)
					    : NULL;

	const uint8_t *to = serve()->ends[CK_FROM_LINK].memory;

	if (e && m->head.payload && m->head.payload <= e->len) {
		memset(memory + e->place, 'r', m->head.payload);
		memset(may + e->place, 1, m->head.payload);
		m->payload = (struct ck_str){ (const char *)to + e->place,
					      m->head.payload };
	}
	if (e)
		e->over = true;
}

static void know_note(uint32_t from, const struct ck_wire_head *head)
{
	if (head->type == CK_WIRE_UNMOUNTED)
		t.mounts[from] = false;
	else if (head->type == CK_WIRE_OVER)
		t.over_sent = true;
}

static void deliver(uint32_t from, struct ck_message *m)
{
	bool note = m->head.type >= CK_WIRE_REQUESTS;

	put_payload(from, m);
	if (!t.dropped[from])
		t.trusted[from] &= may_send(from, m);
	if (!t.dropped[from] && note)
		know_note(from, &m->head);
	else if (!t.dropped[from] && !m->head.answer)
		know(&t.asked, from, &m->head);
	if (t.stop)
		return;
	t.x.got(t.x.arg, from, m);
	must(t.trusted[from] || t.dropped[from]);
}

/* Delivers a complete message; an invalid one loses the rank. */
static void rank_sends(struct ck_str bytes)
{
	struct ck_cur c = ck_cur_make(bytes.p, bytes.len);
	struct ck_message m = { .payload = { NULL, 0 } };
	struct ck_str head;
	uint8_t rank;
	char *body;

	if (!ck_cur_u8(&c, &rank) || rank >= RANKS || rank == RANK ||
	    t.lost[rank] || !ck_cur_bytes(&c, CK_WIRE_HEAD, &head))
		return;
	if (ck_wire_head_get((const uint8_t *)head.p, &m.head) ||
	    !ck_cur_bytes(&c, m.head.body, &m.body)) {
		lose(rank);
		return;
	}
	body = malloc(m.body.len + 1);
	must(body);
	memcpy(body + 1, m.body.p, m.body.len);
	m.body.p = body + 1;
	deliver(rank, &m);
	free(body);
}

/* --- steps ----------------------------------------------------------------------------------- */

/* True if one of the next jobs takes long. */
static bool any_is_long(const struct ck_serve *s)
{
	for (uint32_t i = 0; i < s->nsenders; i++)
		for (unsigned q = 0; q < CK_SERVE_QUEUES; q++) {
			const struct ck_serve_job *j =
				s->senders[i].waiting[q].first;

			if (j && is_long(&j->request, j->cost))
				return true;
		}
	return false;
}

/* Runs one job, unless one of the next jobs takes long. */
static bool work(void)
{
	struct ck_serve *s = serve();
	bool done;

	if (any_is_long(s)) {
		t.stop = true;
		return false;
	}
	pthread_mutex_lock(&s->lock);
	done = ck_serve_work(s);
	pthread_mutex_unlock(&s->lock);
	return done;
}

static void link_end(void)
{
	if (t.sock >= 0)
		close(t.sock);
	t.sock = -1;
}

static void process_end(void)
{
	if (t.process >= 0)
		close(t.process);
	t.process = -1;
}

static void process_sends(struct ck_str bytes)
{
	if (t.process >= 0 && bytes.len)
		(void)!send(t.process, bytes.p, bytes.len,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void do_step(const struct step *step)
{
	uint8_t rank = step->bytes.len ? (uint8_t)step->bytes.p[0] : 0;

	switch (step->what % WHATS) {
	case LINK_SENDS:
		if (t.sock >= 0)
			speech_send(&t.speech, t.sock, step->bytes);
		take_sent();
		break;
	case RANK_SENDS: rank_sends(step->bytes); break;
	case RANK_LOST: lose(rank); break;
	case WORK: (void)work(); break;
	case SENT: (void)give_back(); break;
	case READ_LINK: link_read(); break;
	case PROCESS_SENDS: process_sends(step->bytes); break;
	case PROCESS_GONE: process_end(); break;
	default: link_end(); break;
	}
}

static bool any_waits(const struct ck_serve *s)
{
	bool any = s->answered.first || t.first ||
		   ck_frames_waiting(s->ends[CK_FROM_ROUNDS].frames) ||
		   ck_frames_waiting(s->ends[CK_FROM_LINK].frames);

	for (uint32_t i = 0; i < RANKS; i++)
		any |= t.dropped[i] && !t.lost[i];
	for (uint32_t i = 0; i < s->nsenders; i++)
		for (unsigned q = 0; q < CK_SERVE_QUEUES; q++)
			any |= s->senders[i].waiting[q].first != NULL;
	return any;
}

static void check_none_is_left(const struct ck_serve *s)
{
	for (uint32_t i = 0; i < s->nsenders; i++)
		must(s->senders[i].open == 0 && s->senders[i].asked == 0 &&
		     s->senders[i].used == 0);
	for (uint32_t i = 0; i < RANKS; i++)
		must(!t.lost[i] || (s->passed.ranks[i].open == 0 &&
				    s->passed.ranks[i].bodies == 0));
}

/* Completes all requests, and then checks that all counters are 0. */
static void finish(const struct pollfd links[static CK_FROM_RANK])
{
	short events = links[CK_FROM_LINK].revents |
		       links[CK_FROM_ROUNDS].revents;

	must(t.rounds++ < ROUNDS);
	while (!t.stop && work())
		;
	while (give_back())
		;
	link_read();
	if (t.stop || any_waits(serve()) ||
	    events & (POLLIN | POLLOUT | POLLHUP))
		return;
	must(!t.malformed);
	check_none_is_left(serve());
	check_ranks_done();
	if (t.sock >= 0)
		check_mount_done();
	t.stop = true;
}

/* The answers to one sender use at most its share, or are a single larger one. */
static void check_bounds(void)
{
	const struct ck_serve *s = serve();

	for (uint32_t i = 0; i < s->nsenders; i++) {
		must(s->senders[i].open <= 2 * CK_WIRE_OPEN_MAX + 1);
		must(s->senders[i].asked <=
		     2 * CK_WIRE_BODIES_MAX + CK_WIRE_BODY_MAX);
		must(s->senders[i].used <= COST_MAX);
	}
}

/* Polls again if the fuzzer's timer interrupts the call. */
static bool look(struct pollfd *also, nfds_t n)
{
	return TEMP_FAILURE_RETRY(poll(also, n, 0)) >= 0;
}

/* Runs one step. A dropped rank may send one more message before it is lost. */
static void go_on(struct pollfd *also, nfds_t n)
{
	bool dropped[RANKS];
	struct step step;

	memcpy(dropped, t.dropped, sizeof(dropped));
	if (!t.stop && step_next(&t.script, &step))
		do_step(&step);
	else if (!t.stop && look(also, n))
		finish(also);
	for (uint32_t i = 0; i < RANKS; i++)
		if (dropped[i])
			lose(i);
}

static int play_wait(struct ck_transport *x, struct pollfd *also, nfds_t n,
		     int msec)
{
	(void)x, (void)msec;
	if (n == 0) { /* it waits until its last messages are sent */
		while (give_back())
			;
		return 0;
	}
	must(n == CK_FROM_RANK + 1);
	serve()->share = SHARE;
	check_bounds();
	go_on(also, n);
	must(look(also, n));
	also[CK_FROM_RANK].revents = t.stop ? POLLIN : 0;
	return 0;
}

/* --- inputs ---------------------------------------------------------------------------------- */

static void begin_rank(uint32_t rank)
{
	t.lost[rank] = t.dropped[rank] = t.cancelled[rank] = false;
	t.trusted[rank] = true;
	t.notified[rank] = 0;
}

static void begin(const uint8_t *data, size_t size)
{
	ck_buf_fini(&t.speech.bytes);
	ck_frames_fini(&t.mount);
	t.speech.at = 0;
	t.nheard = t.nexpected = t.asked.n = t.passed.n = 0;
	t.rounds = 0;
	t.stop = t.malformed = t.over_sent = false;
	t.first = NULL;
	t.last = &t.first;
	for (uint32_t i = 0; i < RANKS; i++)
		begin_rank(i);
	t.script = ck_cur_make(data, size);
	t.process = -1;
	t.x = (struct ck_transport){ .rank = RANK,
				     .size = RANKS,
				     .send = play_send,
				     .expect = play_expect,
				     .wait = play_wait,
				     .drop = play_drop,
				     .wake = play_wake,
				     .close = play_close };
}

/* True if the rank has a reason to end. */
static bool has_reason(enum ck_serve_until until)
{
	bool lost = false;

	for (uint32_t i = 0; i < RANKS; i++)
		lost |= t.lost[i];
	return t.stop || (!t.mounts[OTHER] && t.sock < 0) ||
	       (until != CK_UNTIL_UNMOUNTED && t.over_sent) ||
	       (until == CK_UNTIL_LOST && lost);
}

/* Permits changes in the slots of this rank's own answers. */
static void allow_rooms(void)
{
	for (size_t i = 0; i < t.nheard; i++) {
		const struct heard *h = &t.heard[i];

		if (h->frame.peer == RANK && h->head.type == CK_WIRE_READ)
			memset(may + h->frame.place, 1, h->frame.room);
	}
}

static void check_memory(void)
{
	static uint8_t untouched[MEMORY];

	if (!untouched[0])
		memset(untouched, '.', MEMORY);
	if (memcmp(memory, untouched, MEMORY) == 0)
		return;
	allow_rooms();
	for (size_t i = 0; i < MEMORY; i++)
		must(may[i] || memory[i] == '.');
	memset(memory, '.', MEMORY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_serve_options o = { .xport = &t.x,
				      .link = -1,
				      .rounds = { .link = -1,
						  .memory = OTHER_MEMORY,
						  .size = MEMORY },
				      .stop = -1,
				      .size = MEMORY,
				      .memory = -1,
				      .threads = 1,
				      .mounts = t.mounts };
	int ends[2], of_rounds[2], rc;

	if (size == 0)
		return 0;
	owner_renew();
	if (!memory)
		memory = memory_make(MEMORY);
	sockets_make(ends);
	sockets_make(of_rounds);
	begin(data + 1, size - 1);
	o.owner = data[0] & NO_OWNER ? NULL : dir.owner;
	o.link = data[0] & NO_LINK ? -1 : ends[1];
	o.until = data[0] & UNTIL_LOST ? CK_UNTIL_LOST
				       : (data[0] & UNTIL_TOLD) / UNTIL_TOLD;
	t.mounts[RANK] = o.link >= 0;
	t.mounts[OTHER] = data[0] & OTHER_MOUNT;
	t.sock = t.mount.fd = ends[0];
	if (o.link < 0)
		link_end();
	t.used = data[0] & HAS_ROUNDS;
	o.rounds.link = t.used ? of_rounds[1] : -1;
	t.process = of_rounds[0];
	rc = ck_serve_run(&o);
	must(rc == -EPROTO || (rc == 0 && has_reason(o.until)));
	check_memory();
	memset(may, 0, sizeof(may));
	link_end();
	process_end();
	close(ends[1]);
	close(of_rounds[1]);
	return 0;
}
