/* SPDX-License-Identifier: MIT */
/*
 * serve_model: what serve_fuzz knows of what was said, to whom and by whom, and what the
 * mount may hear because of that.
 */
#ifndef CK_SERVE_MODEL_H
#define CK_SERVE_MODEL_H

#include "../../core/dist/server/rank_loop_internal.h"
#include "frames_script.h"
#include "small_dir.h"

enum {
	RANK = 1,
	OTHER = 2, /* which may have a mount, too */
	RANKS = 3,
	MEMORY = 64 << 10,
	SHARE = 12 << 10,    /* of memory for answers, less than any real one */
	COST_MAX = 80 << 20, /* of any request */
	MOST = 200,	     /* requests of each kind, and what is expected */
	ROUNDS = 2000, /* more than it may take until nothing is left to do */
};

struct expected {
	uint32_t from;
	uint64_t id, place, len;
	bool over;
};

/* Of a rank's request or the answer to one. */
struct known {
	uint32_t rank;
	struct ck_wire_head head;
	uint64_t room; /* of one that was passed on */
	bool over;     /* that was answered */
	bool used;     /* the answer was seen */
};

struct knowns {
	struct known list[MOST];
	size_t n;
};

static struct {
	struct ck_transport x; /* first */
	struct ck_cur script;
	int sock;    /* the mount's end */
	int process; /* that of the process of rounds, which is not looked at */
	bool used;   /* there are rounds */
	struct speech speech;
	struct heard heard[MOST];
	size_t nheard;
	struct ck_frames mount; /* what comes there */
	struct ck_parcel *first, **last;
	bool lost[RANKS], dropped[RANKS];
	bool trusted[RANKS];  /* it has said nothing that may not be said */
	bool unwanted[RANKS]; /* the mount has enough of it */
	unsigned told[RANKS]; /* times that it was said to be lost */
	struct expected expected[MOST];
	size_t nexpected;
	struct knowns asked;  /* by other ranks */
	struct knowns passed; /* to them */
	bool malformed;	      /* what the mount said */
	bool mounts[RANKS];   /* which have one */
	bool told_over;	      /* by another rank */
	unsigned rounds;
	bool stop;
} t;

static uint8_t *memory;
static bool may[MEMORY]; /* change */

static struct ck_serve *serve(void)
{
	return t.x.arg;
}

/* --- what the mount said, and what it hears ---------------------------------------------- */

static bool is_good(const struct heard *h)
{
	uint64_t end;

	if (h->frame.kind == CK_FRAME_DROP)
		return h->frame.peer < RANKS && h->frame.peer != RANK;
	return h->frame.kind == CK_FRAME_MESSAGE && h->frame.peer < RANKS &&
	       !h->head.answer && h->head.type < CK_WIRE_REQUESTS &&
	       ck_add(&end, h->frame.place, h->frame.room) && end <= MEMORY;
}

static void hear_said(void)
{
	int rc = 0;

	while (!t.malformed && t.nheard < MOST &&
	       (rc = speech_next(&t.speech, &t.heard[t.nheard])) > 0) {
		const struct heard *h = &t.heard[t.nheard];

		t.malformed = !is_good(h);
		if (t.malformed)
			return;
		if (h->frame.kind == CK_FRAME_DROP)
			t.unwanted[h->frame.peer] = true;
		else
			t.nheard++;
	}
	t.malformed |= rc < 0;
	if (t.nheard == MOST)
		t.stop = true;
}

static bool is_answer_to(const struct ck_wire_head *h,
			 const struct ck_wire_head *request)
{
	return h->id == request->id && h->type == request->type &&
	       h->epoch == request->epoch && h->answer && !request->answer;
}

/* An answer of this rank: to one request, with its room. */
static void check_own(const struct ck_framed *f)
{
	for (size_t i = 0; i < t.nheard; i++) {
		struct heard *h = &t.heard[i];

		if (h->used || h->frame.peer != RANK ||
		    !is_answer_to(&f->head, &h->head) ||
		    h->frame.place != f->frame.place ||
		    h->frame.room != f->frame.room)
			continue;
		must(f->head.payload <= h->frame.room);
		h->used = true;
		return;
	}
	abort();
}

/* One of another rank: to one request that was passed on to it. */
static void check_passed(const struct ck_framed *f)
{
	for (size_t i = 0; i < t.passed.n; i++) {
		struct known *k = &t.passed.list[i];

		if (k->used || k->rank != f->frame.peer ||
		    !is_answer_to(&f->head, &k->head))
			continue;
		must(f->head.payload <= k->room);
		k->used = true;
		return;
	}
	abort();
}

/* It is said again of each request that comes after it. */
static void check_lost(uint32_t rank)
{
	must(t.lost[rank]);
	t.told[rank]++;
}

static void check_frame(const struct ck_framed *f)
{
	must(f->frame.peer < RANKS);
	if (f->frame.kind == CK_FRAME_LOST) {
		check_lost(f->frame.peer);
		return;
	}
	must(f->frame.kind == CK_FRAME_MESSAGE);
	must(f->head.answer && !t.told[f->frame.peer]);
	if (f->frame.peer == RANK)
		check_own(f);
	else
		check_passed(f);
}

/* --- when all is done --------------------------------------------------------------------- */

static unsigned heard_of(uint32_t rank)
{
	unsigned n = 0;

	for (size_t i = 0; i < t.nheard; i++)
		n += t.heard[i].frame.peer == rank;
	return n;
}

/* Requests of the mount for another rank: each was passed on, and then its answer too,
 * or it was said to be lost. */
static void check_rank_done(uint32_t rank)
{
	unsigned passed = 0, lost = t.lost[rank];

	for (size_t i = 0; i < t.passed.n; i++) {
		const struct known *k = &t.passed.list[i];

		passed += k->rank == rank;
		must(k->rank != rank || k->used == k->over);
	}
	must(t.told[rank] == lost + heard_of(rank) - passed);
	must(lost || t.told[rank] == 0);
}

/* All of this is only known of a mount that is still there. */
static void check_mount_done(void)
{
	for (size_t i = 0; i < t.nheard; i++)
		must(t.heard[i].used || t.heard[i].frame.peer != RANK);
	for (uint32_t i = 0; i < RANKS; i++)
		if (i != RANK)
			check_rank_done(i);
}

/* Nobody waits for an answer of this rank. */
static void check_ranks_done(void)
{
	for (size_t i = 0; i < t.asked.n; i++)
		must(t.asked.list[i].used || t.lost[t.asked.list[i].rank]);
}

/* --- reading what the mount hears ---------------------------------------------------------- */

static void link_read(void)
{
	struct ck_framed f;
	int rc;

	static char away[1 << 16];

	while (t.process >= 0 &&
	       recv(t.process, away, sizeof(away), MSG_DONTWAIT) > 0)
		;
	hear_said();
	if (t.stop || t.sock < 0)
		return;
	rc = ck_frames_read(&t.mount);
	must(rc == 0 || rc == -EPIPE);
	while ((rc = ck_frames_next(&t.mount, &f)) > 0)
		check_frame(&f);
	must(rc == 0);
}

#endif
