/* SPDX-License-Identifier: MIT */
/*
 * serve_model: the model of serve_fuzz: the sent messages with their senders and receivers, and
 * the frames that the mount may receive as a result.
 */
#ifndef CK_SERVE_MODEL_H
#define CK_SERVE_MODEL_H

#include "dist/server/rank_loop_internal.h"
#include "frames_script.h"
#include "small_dir.h"

enum {
	RANK = 1,
	OTHER = 2, /* which may have a mount, too */
	RANKS = 3,
	MEMORY = 64 << 10,
	SHARE = 12 << 10,    /* of memory for answers, less than any real one */
	COST_MAX = 80 << 20, /* of any request */
	MOST = 200,	     /* requests of each kind, and expected answers */
	ROUNDS = 2000,	     /* limit of steps until all work is done */
};

struct expected {
	uint32_t from;
	uint64_t id, place, len;
	bool over;
};

/* A request of a rank, or a request that was forwarded to it. */
struct known {
	uint32_t rank;
	struct ck_wire_head head;
	uint64_t room; /* size of its slot, if it was forwarded */
	bool over;     /* the rank has answered it */
	bool used;     /* its answer was received */
};

struct knowns {
	struct known list[MOST];
	size_t n;
};

static struct {
	struct ck_transport x; /* first */
	struct ck_cur script;
	int sock;    /* end of the mount */
	int process; /* end of the process for rounds, which is not checked */
	bool used;   /* the job has rounds */
	struct speech speech;
	struct heard heard[MOST];
	size_t nheard;
	struct ck_frames mount; /* frames that the mount receives */
	struct ck_parcel *first, **last;
	bool lost[RANKS], dropped[RANKS];
	bool trusted[RANKS];	  /* it has sent no forbidden message */
	bool cancelled[RANKS];	  /* the mount has dropped it */
	unsigned notified[RANKS]; /* number of LOST frames about it */
	struct expected expected[MOST];
	size_t nexpected;
	struct knowns asked;  /* requests of other ranks */
	struct knowns passed; /* forwarded requests */
	bool malformed;	      /* the mount has sent an invalid frame */
	bool mounts[RANKS];   /* the rank has a mount */
	bool over_sent;	      /* another rank has sent OVER */
	unsigned rounds;
	bool stop;
} t;

static uint8_t *memory;
static bool may[MEMORY]; /* the byte may change */

static struct ck_serve *serve(void)
{
	return t.x.arg;
}

/* --- frames that the mount sends and receives -------------------------------------------- */

static bool is_good(const struct heard *h)
{
	uint64_t end;

	if (h->frame.kind == CK_FRAME_DROP)
		return h->frame.peer < RANKS && h->frame.peer != RANK;
	return h->frame.kind == CK_FRAME_MESSAGE && h->frame.peer < RANKS &&
	       !h->head.answer && h->head.type < CK_WIRE_REQUESTS &&
	       ck_add(&end, h->frame.place, h->frame.room) && end <= MEMORY;
}

static void take_sent(void)
{
	int rc = 0;

	while (!t.malformed && t.nheard < MOST &&
	       (rc = speech_next(&t.speech, &t.heard[t.nheard])) > 0) {
		const struct heard *h = &t.heard[t.nheard];

		t.malformed = !is_good(h);
		if (t.malformed)
			return;
		if (h->frame.kind == CK_FRAME_DROP)
			t.cancelled[h->frame.peer] = true;
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

/* An answer of this rank belongs to one request, and has its slot. */
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

/* An answer of another rank belongs to one request that was forwarded to it. */
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

/* LOST is sent again for each later request to the rank. */
static void check_lost(uint32_t rank)
{
	must(t.lost[rank]);
	t.notified[rank]++;
}

static void check_frame(const struct ck_framed *f)
{
	must(f->frame.peer < RANKS);
	if (f->frame.kind == CK_FRAME_LOST) {
		check_lost(f->frame.peer);
		return;
	}
	must(f->frame.kind == CK_FRAME_MESSAGE);
	must(f->head.answer && !t.notified[f->frame.peer]);
	if (f->frame.peer == RANK)
		check_own(f);
	else
		check_passed(f);
}

/* --- checks at the end -------------------------------------------------------------------- */

static unsigned heard_of(uint32_t rank)
{
	unsigned n = 0;

	for (size_t i = 0; i < t.nheard; i++)
		n += t.heard[i].frame.peer == rank;
	return n;
}

/* Each request of the mount for another rank was forwarded, and so was its answer; or the mount
 * was notified that the rank is lost. */
static void check_rank_done(uint32_t rank)
{
	unsigned passed = 0, lost = t.lost[rank];

	for (size_t i = 0; i < t.passed.n; i++) {
		const struct known *k = &t.passed.list[i];

		passed += k->rank == rank;
		must(k->rank != rank || k->used == k->over);
	}
	must(t.notified[rank] == lost + heard_of(rank) - passed);
	must(lost || t.notified[rank] == 0);
}

/* Only for a mount that is still there. */
static void check_mount_done(void)
{
	for (size_t i = 0; i < t.nheard; i++)
		must(t.heard[i].used || t.heard[i].frame.peer != RANK);
	for (uint32_t i = 0; i < RANKS; i++)
		if (i != RANK)
			check_rank_done(i);
}

/* Each request of another rank has its answer, or that rank is lost. */
static void check_ranks_done(void)
{
	for (size_t i = 0; i < t.asked.n; i++)
		must(t.asked.list[i].used || t.lost[t.asked.list[i].rank]);
}

/* --- frames for the mount ------------------------------------------------------------------ */

static void link_read(void)
{
	struct ck_framed f;
	int rc;

	static char away[1 << 16];

	while (t.process >= 0 &&
	       recv(t.process, away, sizeof(away), MSG_DONTWAIT) > 0)
		;
	take_sent();
	if (t.stop || t.sock < 0)
		return;
	rc = ck_frames_read(&t.mount);
	must(rc == 0 || rc == -EPIPE);
	while ((rc = ck_frames_next(&t.mount, &f)) > 0)
		check_frame(&f);
	must(rc == 0);
}

#endif
