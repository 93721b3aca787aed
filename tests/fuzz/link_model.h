/* SPDX-License-Identifier: MIT */
/*
 * link_model: the model of link_fuzz: the requests that a link has sent to its worker process,
 * the frames that this process has sent, and the slots of the shared memory that it may write.
 */
#ifndef CK_LINK_MODEL_H
#define CK_LINK_MODEL_H

#include "dist/client/remote_client.h"
#include "dist/rpc/link.h"
#include "frames_script.h"
#include "must.h"

enum {
	PEERS = 2,
	BLOCK = 64 << 10,
	MEMORY = 4 * BLOCK,
	SLOTS = 8,
	SIMPLE = 4, /* the first slots: a LIST, STAT, DIGEST and PING */
	MOVES = 3,  /* of each other slot */
	ROOM = 200,
	WIDE = 3 * BLOCK - 17, /* bytes of the last slot's moves */
	STEPS = 64,
	HELD = 200,
};

/* A slot of the memory that the worker process may write for a request. */
struct held {
	uint32_t peer;
	uint64_t id, place, room;
	bool back; /* released to the mount */
};

/* A request of the test. */
struct slot {
	struct ck_call call; /* first */
	bool asked;	     /* sent, and not completed */
	struct ck_copy_batch batch;
	struct ck_copy_desc list[MOVES];
	uint8_t *to; /* ROOM bytes, or WIDE */
	bool changed; /* the memory changed since the request, or before its answer */
};

static struct {
	struct ck_link *link;
	struct ck_remote_client requester;
	struct slot slots[SLOTS];
	int sock;		  /* end of the worker process */
	struct ck_frames backend; /* frames received there */
	struct speech speech;
	uint64_t last_id; /* last id received there */
	/* Offsets of the last requests of moves, by the number of the file. */
	uint64_t places[SLOTS * MOVES];
	uint64_t widest; /* bytes of the last READ */
	struct held held[HELD];
	size_t nheld;
	struct heard heard[HELD]; /* frames of the worker process */
	size_t nheard;
	uint64_t sent[PEERS], dropped[PEERS]; /* messages, drops */
	bool malformed;			      /* it sent an invalid frame */
	bool lost_track;		      /* not all slots are in held */
	bool unsure[PEERS];		      /* until the next step */
	bool dead;
} t;

static uint8_t *memory;

/* --- slots that the worker process may write ------------------------------------------------ */

static bool is_frame(const struct heard *h)
{
	return h->frame.peer < PEERS && h->frame.kind != CK_FRAME_DROP;
}

/* Any answer releases the slot of its request, and LOST all slots of its peer. If the frame is
 * LOST or an early answer, the model cannot know whether it includes requests that are sent
 * meanwhile. */
static void take_frame(const struct heard *h)
{
	bool all = h->frame.kind == CK_FRAME_LOST;

	t.sent[h->frame.peer] += !all;
	t.unsure[h->frame.peer] |= all || h->head.id > t.last_id;
	for (size_t i = 0; i < t.nheld; i++) {
		struct held *x = &t.held[i];

		x->back |= x->peer == h->frame.peer &&
			   (all || x->id == h->head.id);
	}
}

static void take_sent(void)
{
	struct heard h;
	int rc = 0;

	while (!t.malformed && (rc = speech_next(&t.speech, &h)) > 0) {
		t.malformed = !is_frame(&h);
		if (t.malformed)
			return;
		take_frame(&h);
		if (t.nheard < HELD)
			t.heard[t.nheard++] = h;
	}
	t.malformed |= rc < 0;
}

/* True if this peer has sent the answer, or has sent more than the model records. */
static bool has_sent(uint32_t peer, const struct ck_wire_head *head)
{
	bool sent = t.nheard == HELD;

	take_sent();
	for (size_t i = 0; i < t.nheard; i++)
		sent |= t.heard[i].frame.kind == CK_FRAME_MESSAGE &&
			t.heard[i].frame.peer == peer &&
			t.heard[i].head.id == head->id &&
			t.heard[i].head.epoch == head->epoch;
	return sent;
}

/* Records the slot of a request. It must not overlap a slot that is not released. */
static void hold(const struct ck_framed *f)
{
	struct held now = { f->frame.peer, f->head.id, f->frame.place,
			    f->frame.room, false };

	for (size_t i = 0; i < t.nheld; i++) {
		const struct held *x = &t.held[i];

		must(x->back || now.place >= x->place + x->room ||
		     x->place >= now.place + now.room);
	}
	if (t.nheld < HELD)
		t.held[t.nheld++] = now;
	else
		t.lost_track = true;
}

/* Records the offset for the bytes of each move of a READ. */
static void note_read(const struct ck_framed *f)
{
	struct ck_cur c = ck_cur_make(f->body.p, f->body.len);
	uint64_t at = f->frame.place, fpos, bytes, count;
	uint32_t n, number, nloops;

	must(ck_cur_u32(&c, &n) && ck_cur_skip(&c, 4));
	for (uint32_t i = 0; i < n; i++) {
		must(ck_cur_u32(&c, &number) && number < SLOTS * MOVES);
		must(ck_cur_u32(&c, &nloops) && ck_cur_u64(&c, &fpos));
		must(ck_cur_u64(&c, &bytes));
		for (uint32_t k = 0; k < nloops; k++) {
			must(ck_cur_u64(&c, &count) && ck_cur_skip(&c, 8));
			bytes *= count;
		}
		t.places[number] = at;
		at += bytes;
	}
	must(at == f->frame.place + f->frame.room && at <= MEMORY);
	t.widest = f->frame.room;
}

static void take_request(const struct ck_framed *f)
{
	must(!f->head.answer && f->head.id > t.last_id);
	t.last_id = f->head.id;
	must((f->head.type == CK_WIRE_READ) == (f->frame.room > 0));
	if (f->frame.room)
		note_read(f);
	if (f->frame.room && t.unsure[f->frame.peer])
		t.lost_track = true;
	else if (f->frame.room)
		hold(f);
}

/* Reads the requests of the link. Returns their number. */
static unsigned mover_reads(void)
{
	struct ck_framed f;
	unsigned n = 0;
	int rc;

	if (t.sock < 0)
		return 0;
	take_sent();
	rc = ck_frames_read(&t.backend);
	must(rc == 0);
	while ((rc = ck_frames_next(&t.backend, &f)) > 0) {
		uint32_t peer = f.frame.peer;

		must(peer < PEERS && f.frame.kind != CK_FRAME_LOST);
		if (f.frame.kind == CK_FRAME_DROP) {
			must(++t.dropped[peer] <= t.sent[peer]);
			continue;
		}
		take_request(&f);
		n++;
	}
	must(rc == 0);
	return n;
}

#endif
