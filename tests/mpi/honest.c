/* SPDX-License-Identifier: MIT */
/*
 * honest: a rank with the transport of ckptfs among malicious ranks (liar_case.h). The transport
 * accepts the messages of a malicious rank up to the first invalid one, then reports that rank as
 * lost, once. The honest ranks continue to exchange messages.
 *
 *	honest PLUGIN FIRST
 */
#include "liar_case.h"
#include "mpi_rank.h"

#include <sys/mman.h>

enum { RANKS = 16, ROUNDS = 300 };

struct scene {
	struct ck_transport *x;
	unsigned first; /* lie */
	unsigned got[RANKS], lost[RANKS], got_when_lost[RANKS];
	unsigned sent[RANKS], unsent[RANKS];
	uint8_t *to[RANKS]; /* receives replies with id 7 */
	unsigned rounds;    /* pings and replies of the honest ranks */
	uint32_t rank;
	unsigned wrong;
};

static struct scene s;

static void check(bool good, const char *what, uint32_t rank)
{
	if (good)
		return;
	s.wrong++;
	printf("# rank %u of rank %u, lie %u: %s\n", s.rank, rank,
	       s.first + rank - LIARS, what);
}

static void parcel_sent(struct ck_parcel *p, int rc)
{
	s.sent[p->to]++;
	s.unsent[p->to] += rc != 0;
	free(p);
}

static void send_new(uint32_t to, struct ck_wire_head head, uint8_t *payload)
{
	struct ck_parcel *p = calloc(1, sizeof(*p));

	if (!p)
		abort();
	*p = (struct ck_parcel){
		.to = to, .head = head, .payload = payload, .sent = parcel_sent
	};
	s.x->send(s.x, p);
}

static void ping(uint32_t to, bool answer)
{
	send_new(
		to,
		(struct ck_wire_head){ .type = CK_WIRE_PING, .answer = answer },
		NULL);
}

static void got_of_honest(uint32_t from, const struct ck_message *m)
{
	if (!m->head.answer)
		ping(from, true);
	else if (++s.rounds)
		ping(from, false);
}

static void got(void *arg, uint32_t from, const struct ck_message *m)
{
	(void)arg;
	s.got[from]++;
	if (from < LIARS) {
		got_of_honest(from, m);
		return;
	}
	check(!s.lost[from], "heard when it was lost", from);
	if (!m->head.answer)
		return;
	check(m->payload.p == (const char *)s.to[from] &&
		      m->payload.len == PAYLOAD && m->body.len == BODY &&
		      are_bytes(m->body.p, BODY, 1),
	      "an answer", from);
}

static void lost(void *arg, uint32_t rank)
{
	(void)arg;
	s.lost[rank]++;
	s.got_when_lost[rank] = s.got[rank];
	/* The transport must not write to the payload of a lost rank. */
	if (rank >= LIARS &&
	    mprotect(s.to[rank], lie_payload(SECOND_LONG), PROT_NONE))
		abort();
}

static void begin(void)
{
	for (uint32_t i = LIARS; i < s.x->size; i++) {
		void *p = mmap(NULL, lie_payload(SECOND_LONG),
			       PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			abort();
		s.to[i] = p;
		if (s.x->expect(s.x, i, 7, p, lie_payload(SECOND_LONG)))
			abort();
		/* The malicious rank has not received these, or not all of them, when it is lost. */
		ping(i, false);
		if (s.first + i - LIARS == TAKES_NONE)
			send_new(i,
				 (struct ck_wire_head){ .type = CK_WIRE_READ,
							.answer = true,
							.payload = PAYLOAD },
				 p);
	}
	ping(1 - s.x->rank, false);
}

static bool is_done(void)
{
	for (uint32_t i = LIARS; i < s.x->size; i++)
		if (!s.lost[i])
			return false;
	return s.rounds >= ROUNDS || s.lost[1 - s.x->rank];
}

/* Messages to a lost rank complete with an error. */
static void check_liar(uint32_t i)
{
	unsigned lie = s.first + i - LIARS, unsent = s.unsent[i];

	check(s.lost[i] == 1, "not lost once", i);
	check(s.got[i] == lie_heard(lie), "not heard as long as it was right",
	      i);
	ping(i, false);
	for (unsigned k = 0; k < 100 && s.unsent[i] == unsent; k++)
		if (s.x->wait(s.x, NULL, 0, 100))
			abort();
	check(s.unsent[i] == unsent + 1, "a parcel to it", i);
	check(s.x->expect(s.x, i, 8, s.to[i], 1) == 0, "expect", i);
	check(s.got_when_lost[i] == s.got[i], "heard after it was lost", i);
}

int main(int argc, char **argv)
{
	uint64_t start;
	uint32_t rank, size;

	if (argc != 3)
		return 2;
	s.x = rank_open(argv[1]);
	s.first = (unsigned)atoi(argv[2]);
	s.x->got = got;
	s.x->lost = lost;
	s.rank = rank = s.x->rank;
	size = s.x->size;
	begin();
	start = now_msec();
	while (!is_done() && now_msec() - start < 10000)
		if (s.x->wait(s.x, NULL, 0, 100))
			abort();
	for (uint32_t i = LIARS; i < size; i++)
		check_liar(i);
	start = now_msec();
	s.x->close(s.x);
	check(now_msec() - start < 4000, "close", LIARS);
	for (uint32_t i = LIARS; i < size; i++) {
		bool takes_none = s.first + i - LIARS == TAKES_NONE;

		check(s.sent[i] == (takes_none ? 3 : 2), "completed messages",
		      i);
		check(!takes_none || s.unsent[i] == 2,
		      "a message that was not received", i);
	}
	rank_end(rank, size, s.wrong == 0);
}
