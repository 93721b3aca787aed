/* SPDX-License-Identifier: MIT */
/*
 * A worker process takes part in a round of another rank while its device has no room. It waits
 * for a short time and then refuses; its rank may also refuse the READ. The bytes then take
 * another route. Rank 0, the initiator, is the test; rank 1 is the participant.
 */
#include "dist/rpc/link_internal.h"
#include "gpu/worker/gpurounds.h"
#include "tap.h"

#include "dist/round/rounds.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS = 2, SIZE = 64 << 20, BYTES = 1000, SOON_MSEC = 60000 };

/* --- a fake device and round mover --------------------------------------------------------- */

static unsigned refusals,
	packs; /* refusals: how often pack() will still refuse */
static struct ck_gpu_parcel parcel = { .at = 4096, .size = BYTES };

static void mover_epoch(struct ck_round_backend *m, uint64_t epoch,
			const uint32_t *members, uint32_t n,
			const uint8_t token[static CK_ROUND_TOKEN])
{
	(void)m, (void)epoch, (void)members, (void)n, (void)token;
}

static void mover_token(struct ck_round_backend *m,
			uint8_t out[static CK_ROUND_TOKEN])
{
	(void)m;
	memset(out, 0, CK_ROUND_TOKEN);
}

static int mover_moves(struct ck_round_backend *m, struct ck_round *r)
{
	(void)m, (void)r;
	return 0;
}

static void mover_abort(struct ck_round_backend *m, struct ck_round *r)
{
	(void)m, (void)r;
}

static struct ck_round_backend backend = {
	.epoch = mover_epoch,
	.token = mover_token,
	.begin = mover_moves,
	.poll = mover_moves,
	.abort = mover_abort,
};

static int gpu_join(struct ck_gpu *g, uint32_t rank, uint8_t *memory,
		    size_t size, struct ck_round_backend **out,
		    struct ck_diag *d)
{
	(void)g, (void)rank, (void)memory, (void)size, (void)d;
	*out = &backend;
	return 0;
}

static bool gpu_leave(struct ck_gpu *g)
{
	(void)g;
	return true;
}

static int gpu_is_up(struct ck_gpu *g)
{
	(void)g;
	return 1;
}

static int gpu_pack(struct ck_gpu *g, const uint8_t *from, uint64_t bytes,
		    struct ck_gpu_parcel **out)
{
	(void)g, (void)from;
	if (bytes != BYTES)
		abort();
	if (refusals) {
		refusals--;
		return -EAGAIN;
	}
	packs++;
	*out = &parcel;
	return 0;
}

static int gpu_is_packed(struct ck_gpu *g, struct ck_gpu_parcel *p)
{
	(void)g, (void)p;
	return 1;
}

static void gpu_unpack(struct ck_gpu *g, struct ck_gpu_parcel *p)
{
	(void)g;
	if (p != &parcel || packs == 0)
		abort();
	packs--;
}

static struct ck_gpu gpu = {
	.join = gpu_join,
	.leave = gpu_leave,
	.is_up = gpu_is_up,
	.pack = gpu_pack,
	.is_packed = gpu_is_packed,
	.unpack = gpu_unpack,
};

/* --- the initiator --------------------------------------------------------------------------- */

struct letter {
	struct letter *next;
	size_t len;
	char bytes[];
};

struct asker {
	struct ck_round_user user; /* first */
	struct ck_frames frames;
	struct ck_rounds *rounds;
	struct letter *own; /* messages to itself, newest first */
	unsigned overs;
	int rc;	      /* of the last round that ended */
	uint32_t due; /* not used: the test polls more often */
};

static void asker_send(struct ck_round_user *u, uint32_t to, struct ck_str body)
{
	struct asker *a = (struct asker *)u;
	const struct ck_frame frame = { .kind = CK_FRAME_MESSAGE };
	const struct ck_wire_head head = { .type = CK_WIRE_ROUND,
					   .body = (uint32_t)body.len };
	struct letter *l;

	if (to == 1) {
		if (ck_frames_put(&a->frames, &frame, &head, body))
			abort();
		return;
	}
	l = malloc(sizeof(*l) + body.len);
	if (!l)
		abort();
	memcpy(l->bytes, body.p, body.len);
	l->len = body.len;
	l->next = a->own;
	a->own = l;
}

/* The initiator always has room for received bytes. */
static void asker_prepare(struct ck_round_user *u, struct ck_round *r,
			  struct ck_str what)
{
	const struct ck_round_pair pair = { .peer = 1,
					    .received = { BYTES, 1 } };
	struct asker *a = (struct asker *)u;

	(void)what;
	if (ck_rounds_ready(a->rounds, r->op, &pair, 1))
		abort();
}

static void asker_ended(struct ck_round_user *u, struct ck_round *r, int rc)
{
	(void)u, (void)r, (void)rc;
}

static void asker_over(struct ck_round_user *u, uint64_t op, int rc)
{
	struct asker *a = (struct asker *)u;

	(void)op;
	a->overs++;
	a->rc = rc;
}

static void take(struct asker *a, uint32_t from, struct ck_str body)
{
	if (ck_rounds_receive(a->rounds, from, body, ck_msec_now()))
		abort();
}

/* Delivers messages to itself in the order in which they were sent. */
static void take_own(struct asker *a)
{
	while (a->own) {
		struct letter **at = &a->own, *l;

		while ((*at)->next)
			at = &(*at)->next;
		l = *at;
		*at = NULL;
		take(a, 0, (struct ck_str){ l->bytes, l->len });
		free(l);
	}
}

/* Rank 1 refuses the READ. */
static void refuse_read(struct asker *a, const struct ck_framed *asked)
{
	const struct ck_frame frame = { .peer = 1, .kind = CK_FRAME_MESSAGE };
	struct ck_wire_head head = asked->head;

	head.answer = true;
	head.err = EIO;
	head.body = 0;
	if (ck_frames_put(&a->frames, &frame, &head, CK_STR("")))
		abort();
}

static void asker_turn(struct asker *a)
{
	struct ck_framed f;

	if (ck_frames_flush(&a->frames) || ck_frames_read(&a->frames))
		abort();
	while (ck_frames_next(&a->frames, &f) > 0)
		if (f.head.type == CK_WIRE_READ)
			refuse_read(a, &f);
		else
			take(a, 1, f.body);
	take_own(a);
	a->due = ck_rounds_tick(a->rounds, ck_msec_now());
}

/* Starts a round. body: a READ, or empty: any bytes. */
static void ask(struct asker *a, struct ck_str body)
{
	const uint32_t ranks[RANKS] = { 0, 1 };
	const struct ck_want want = { .rank = 1, .bytes = BYTES, .body = body };
	uint8_t what[64] = { 0 }; /* the initiator: rank 0 */
	uint32_t used = 4;
	uint64_t op;

	if (!ck_want_put(what, sizeof(what), &used, &want) ||
	    ck_rounds_request(a->rounds, ranks, RANKS,
			      (struct ck_str){ (char *)what, used }, &op))
		abort();
}

/* --- both sides ------------------------------------------------------------------------------ */

struct scene {
	struct asker asker;
	struct ck_gpurounds *r;
	int socks[2], memory;
};

static void joined(void *arg, int rc, const char *text)
{
	(void)text;
	*(bool *)arg = rc == 0;
}

static uint32_t absent_rank;
static char absent_why[64];

static void absent(void *arg, uint32_t rank, struct ck_str why)
{
	(void)arg;
	absent_rank = rank;
	(void)snprintf(absent_why, sizeof(absent_why), "%.*s", (int)why.len,
		       why.p);
}

static void begin(struct scene *s)
{
	const struct ck_rounds_options o = { .size = RANKS,
					     .most = 4,
					     .prepare_msec = 60000,
					     .round_msec = 60000 };
	const struct ck_frame job = {
		.peer = 1, .kind = CK_FRAME_JOB, .place = RANKS, .room = 60000
	};
	static bool is_joined;

	memset(s, 0, sizeof(*s));
	s->memory = memfd_create("rounds", MFD_ALLOW_SEALING);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s->socks) ||
	    ftruncate(s->memory, SIZE) ||
	    fcntl(s->memory, F_ADD_SEALS, F_SEAL_SHRINK))
		abort();
	s->asker.frames.fd = s->socks[0];
	s->asker.user = (struct ck_round_user){ asker_send, asker_prepare,
						asker_ended, asker_over };
	s->asker.rounds = ck_rounds_make(&o, &s->asker.user, &backend,
					 ck_msec_now());
	if (!s->asker.rounds ||
	    ck_gpurounds_make(
		    &(struct ck_gpurounds_options){ .gpu = &gpu,
						    .sock = s->socks[1],
						    .memory = s->memory,
						    .size = SIZE,
						    .joined = joined,
						    .absent = absent,
						    .arg = &is_joined },
		    &s->r) ||
	    ck_frames_put(&s->asker.frames, &job, NULL, CK_STR("")))
		abort();
	eq_i64(ck_gpurounds_advance(s->r), 0);
	ok(is_joined);
}

static void end(struct scene *s)
{
	ok(ck_gpurounds_free(s->r));
	while (!ck_rounds_end(s->asker.rounds, ck_msec_now()))
		asker_turn(&s->asker);
	ck_rounds_free(s->asker.rounds);
	while (s->asker.own) {
		struct letter *next = s->asker.own->next;

		free(s->asker.own);
		s->asker.own = next;
	}
	ck_frames_fini(&s->asker.frames);
	close(s->socks[0]);
	close(s->socks[1]);
	close(s->memory);
	eq_u64(packs, 0);
}

/* Runs until a round ends. Returns false if that takes too long. */
static bool is_over(struct scene *s)
{
	uint64_t until = ck_msec_now() + SOON_MSEC;
	unsigned overs = s->asker.overs;

	while (s->asker.overs == overs && ck_msec_now() < until) {
		asker_turn(&s->asker);
		if (ck_gpurounds_advance(s->r))
			abort();
		(void)usleep(200);
	}
	return s->asker.overs > overs;
}

/* Starts a round, and compares its result. */
static void comes_to(struct scene *s, struct ck_str body, int rc)
{
	ask(&s->asker, body);
	ok(is_over(s));
	eq_i64(s->asker.rc, rc);
}

static void test_room(void)
{
	static struct scene s;

	begin(&s);
	comes_to(&s, CK_STR(""), 0);
	end(&s);
}

static void test_wait(void)
{
	static struct scene s;

	begin(&s);
	refusals = 20;
	comes_to(&s, CK_STR(""), 0);
	eq_u64(refusals, 0);
	end(&s);
}

/* The worker process refuses long before the deadline of the round. */
static void test_no_room(void)
{
	static struct scene s;

	begin(&s);
	refusals = UINT32_MAX;
	comes_to(&s, CK_STR(""), -EBUSY);
	refusals = 0;
	comes_to(&s, CK_STR(""), 0);
	end(&s);
}

/* The READ is malformed, so rank 1 refuses it. The next round succeeds. */
static void test_read_refused(void)
{
	static struct scene s;

	begin(&s);
	comes_to(&s, CK_STR("garbage"), -ENODATA);
	comes_to(&s, CK_STR(""), 0);
	end(&s);
}

/* A rank reports why it takes no part. A report from a rank that is lost is ignored. */
static void test_absent(void)
{
	static const char why[] = "\0\0no library", more[] = "\0\0or so";
	const struct ck_frame message = { .kind = CK_FRAME_MESSAGE };
	const struct ck_frame lost = { .kind = CK_FRAME_LOST };
	struct ck_wire_head head = { .type = CK_WIRE_ROUND,
				     .body = sizeof(why) - 1 };
	static struct scene s;

	begin(&s);
	absent_rank = UINT32_MAX;
	if (ck_frames_put(&s.asker.frames, &message, &head,
			  (struct ck_str){ why, head.body }) ||
	    ck_frames_put(&s.asker.frames, &lost, NULL, CK_STR("")))
		abort();
	eq_i64(ck_gpurounds_advance(s.r), 0);
	eq_u64(absent_rank, 0);
	ok(strcmp(absent_why, "no library") == 0);
	head.body = sizeof(more) - 1;
	if (ck_frames_put(&s.asker.frames, &message, &head,
			  (struct ck_str){ more, head.body }))
		abort();
	eq_i64(ck_gpurounds_advance(s.r), 0);
	ok(strcmp(absent_why, "no library") == 0);
	end(&s);
}

int main(void)
{
	test_absent();
	test_room();
	test_read_refused();
	test_wait();
	test_no_room();
	return tap_done();
}
