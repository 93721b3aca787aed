/* SPDX-License-Identifier: MIT */
/*
 * gpurounds: the link to a rank, dispatch of messages to both roles, and time.
 * States: not joined; joined, after CK_FRAME_JOB; failed, with the error in rc.
 * One thread.
 */
#include "gpurounds_internal.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>

enum {
	/* limit of unsent bytes; messages beyond it are dropped */
	WAITING_MOST = 4 << 20,
	LETTERS_MOST = 64, /* limit of rounds of messages to itself per turn */
	PREPARE_MSEC = 4000, /* limit until all ranks are ready */
	ROUND_MSEC = 2000,   /* limit of a round */
	LEAST_MSEC = 100,
	END_TURNS = 2000, /* ms to abort the running round */
	SOON_USEC = 200,  /* interval while a device is polled */
};

/* --- messages out ---------------------------------------------------------------------- */

void ck_gpurounds_put(struct ck_gpurounds *r, const struct ck_frame *frame,
		      const struct ck_wire_head *head, struct ck_str body)
{
	int rc = r->rc ? 0 : ck_frames_put(&r->frames, frame, head, body);

	if (rc)
		r->rc = rc;
}

static void send_self(struct ck_gpurounds *r, struct ck_str body)
{
	struct ck_gpurounds_local_message *l = malloc(sizeof(*l) + body.len);

	if (!l)
		return; /* lost, as messages may be */
	l->next = NULL;
	l->len = body.len;
	memcpy(l->bytes, body.p, body.len);
	*r->last = l;
	r->last = &l->next;
}

static void send(struct ck_round_user *u, uint32_t to, struct ck_str body)
{
	struct ck_gpurounds *r = (struct ck_gpurounds *)u;
	const struct ck_frame frame = { .peer = to, .kind = CK_FRAME_MESSAGE };
	const struct ck_wire_head head = { .type = CK_WIRE_ROUND,
					   .body = (uint32_t)body.len };

	if (to == r->rank)
		send_self(r, body);
	else if (ck_frames_waiting(&r->frames) < WAITING_MOST)
		ck_gpurounds_put(r, &frame, &head, body);
}

/* --- callbacks of rounds -------------------------------------------------- */

static void prepare(struct ck_round_user *u, struct ck_round *round,
		    struct ck_str what)
{
	struct ck_gpurounds *r = (struct ck_gpurounds *)u;

	if (!ck_gpurounds_initiator_prepare(r, round))
		ck_gpurounds_participant_prepare(r, round, what);
}

static void ended(struct ck_round_user *u, struct ck_round *round, int rc)
{
	struct ck_gpurounds *r = (struct ck_gpurounds *)u;

	if (!ck_gpurounds_initiator_ended(r, round, rc))
		ck_gpurounds_participant_ended(r, round);
}

static void over(struct ck_round_user *u, uint64_t op, int rc)
{
	ck_gpurounds_initiator_over((struct ck_gpurounds *)u, op, rc);
}

/* --- joining a job -------------------------------------------------------- */

static uint32_t share_of(uint32_t msec, uint32_t most)
{
	return (uint32_t)ck_max(LEAST_MSEC, ck_min(msec, most));
}

static int join(struct ck_gpurounds *r, struct ck_diag *d)
{
	struct ck_gpu *gpu = r->options.gpu;
	struct ck_round_backend *backend;
	struct ck_rounds_options o = {
		.rank = r->rank,
		.size = r->size,
		.most = GPU_PARTICIPATING,
		.prepare_msec = share_of(r->msec / 4, PREPARE_MSEC),
		.round_msec = share_of(r->msec / 8, ROUND_MSEC),
	};
	int rc = gpu->join(gpu, r->rank, r->memory, r->options.size, &backend,
			   d);

	if (rc)
		return rc;
	r->rounds = ck_rounds_make(&o, &r->user, backend, ck_msec_now());
	if (r->rounds)
		return 0;
	(void)gpu->leave(gpu);
	return ck_fail(d, ENOMEM, "out of memory");
}

/* Takes part in the job that the frame describes, if possible. */
static int take_job(struct ck_gpurounds *r, const struct ck_frame *f)
{
	struct ck_diag d = { 0 };
	int rc;

	if (r->joined || f->place == 0 || f->place > CK_ROUNDS_SIZE ||
	    f->peer >= f->place || f->room == 0 || f->room > UINT32_MAX)
		return -EPROTO;
	r->joined = true;
	r->rank = f->peer;
	r->size = (uint32_t)f->place;
	r->msec = (uint32_t)f->room;
	r->lost = calloc(r->size, sizeof(*r->lost));
	rc = r->lost ? join(r, &d) : ck_fail(&d, ENOMEM, "out of memory");
	if (rc)
		ck_gpurounds_decline(r->options.sock, d.text);
	r->options.joined(r->options.arg, rc,
			  rc ? d.text : r->options.gpu->nccl);
	return rc ? -ECANCELED : 0;
}

void ck_gpurounds_decline(int sock, const char *why)
{
	char body[CK_NO_ROUNDS];
	const struct ck_frame frame = { .kind = CK_FRAME_MESSAGE };
	struct ck_wire_head head = { .type = CK_WIRE_ROUND };
	struct ck_frames *frames = calloc(1, sizeof(*frames));

	if (!frames)
		return;
	frames->fd = sock;
	head.body = (uint32_t)ck_no_rounds_put(body, ck_str_from(why));
	(void)!ck_frames_put(frames, &frame, &head,
			     (struct ck_str){ body, head.body });
	ck_frames_fini(frames);
	free(frames);
}

/* --- messages in ------------------------------------------------------------------------ */

static void lose(struct ck_gpurounds *r, uint32_t rank)
{
	r->lost[rank] = true;
	ck_rounds_lost(r->rounds, rank, ck_msec_now());
}

/* A rank that sends an invalid message counts as lost. */
static void take_round(struct ck_gpurounds *r, uint32_t from,
		       struct ck_str body)
{
	if (ck_rounds_receive(r->rounds, from, body, ck_msec_now()))
		lose(r, from);
}

static int take_frame(struct ck_gpurounds *r, const struct ck_framed *f)
{
	const struct ck_wire_head *h = &f->head;

	if (f->frame.kind == CK_FRAME_JOB)
		return take_job(r, &f->frame);
	if (!r->rounds || f->frame.peer >= r->size)
		return -EPROTO;
	if (f->frame.kind == CK_FRAME_LOST) {
		lose(r, f->frame.peer);
		return 0;
	}
	if (f->frame.kind != CK_FRAME_MESSAGE)
		return -EPROTO;
	if (h->answer)
		return ck_gpurounds_participant_answer(r, f);
	if (h->type != CK_WIRE_ROUND || f->frame.peer == r->rank)
		return -EPROTO;
	if (!ck_no_rounds_is(f->body))
		take_round(r, f->frame.peer, f->body);
	else if (!r->lost[f->frame.peer])
		r->options.absent(r->options.arg, f->frame.peer,
				  ck_no_rounds_why(f->body));
	return 0;
}

static int take_all(struct ck_gpurounds *r)
{
	struct ck_framed f;
	int rc = ck_frames_read(&r->frames), next;

	while ((next = ck_frames_next(&r->frames, &f)) > 0) {
		int one = take_frame(r, &f);

		if (one)
			return one;
	}
	return next < 0 ? next : rc;
}

static void take_letters(struct ck_gpurounds *r)
{
	struct ck_gpurounds_local_message *all = r->first;

	r->first = NULL;
	r->last = &r->first;
	while (all) {
		struct ck_gpurounds_local_message *l = all;

		all = l->next;
		take_round(r, r->rank, (struct ck_str){ l->bytes, l->len });
		free(l);
	}
}

/* --- time ------------------------------------------------------------------------------- */

static void tick(struct ck_gpurounds *r)
{
	r->ticked = ck_msec_now();
	r->due = ck_rounds_tick(r->rounds, r->ticked);
}

int ck_gpurounds_advance(struct ck_gpurounds *r)
{
	int rc = r->rc ? r->rc : ck_frames_flush(&r->frames);

	if (rc == 0)
		rc = take_all(r);
	if (rc || !r->rounds)
		return rc;
	ck_gpurounds_initiate(r);
	ck_gpurounds_initiator_advance(r);
	ck_gpurounds_participant_advance(r);
	tick(r);
	for (int i = 0; i < LETTERS_MOST && r->first; i++) {
		take_letters(r);
		tick(r);
	}
	return r->rc;
}

/* True if a device must be polled. */
static bool is_near(const struct ck_gpurounds *r)
{
	for (unsigned i = 0; i < GPU_INITIATED; i++)
		if (r->batches[i].round && !r->batches[i].ready)
			return true;
	for (const struct ck_gpurounds_part *p = r->parts; p; p = p->next)
		if (p->round && (p->state == GPU_PARCEL_READ ||
				 p->state == GPU_PARCEL_PACKED))
			return true;
	return r->waiting != NULL;
}

uint32_t ck_gpurounds_wait(const struct ck_gpurounds *r)
{
	uint64_t gone;

	if (!r->rounds)
		return UINT32_MAX;
	if (r->first)
		return 0;
	if (is_near(r))
		return SOON_USEC;
	if (r->due == CK_ROUNDS_IDLE)
		return UINT32_MAX;
	gone = ck_msec_now() - r->ticked;
	return gone >= r->due ? SOON_USEC
			      : (uint32_t)(r->due - gone) * UINT32_C(1000);
}

short ck_gpurounds_events(const struct ck_gpurounds *r)
{
	return ck_frames_waiting(&r->frames) ? POLLIN | POLLOUT : POLLIN;
}

uint32_t ck_gpurounds_open(const struct ck_gpurounds *r)
{
	return r ? r->open : 0;
}

void ck_gpurounds_add(struct ck_gpurounds *r, struct ck_gpurounds_request *w)
{
	if (!r->rounds || r->rc) {
		r->options.failed(r->options.arg, w, -EREMOTEIO);
		return;
	}
	r->open++;
	w->next = NULL;
	*r->waiting_end = w;
	r->waiting_end = &w->next;
}

/* --- creation and end ----------------------------------------------------- */

int ck_gpurounds_make(const struct ck_gpurounds_options *options,
		      struct ck_gpurounds **out)
{
	struct ck_gpurounds *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return -ENOMEM;
	r->user = (struct ck_round_user){ send, prepare, ended, over };
	r->options = *options;
	r->frames.fd = options->sock;
	r->last = &r->first;
	r->waiting_end = &r->waiting;
	rc = options->size < (uint64_t)GPU_PLACES * CK_GPU_PARCEL
		     ? -EINVAL
		     : ck_link_map(options->memory, options->size, &r->memory);
	if (rc) {
		free(r);
		return rc;
	}
	*out = r;
	return 0;
}

/* Aborts what NCCL transfers. Without success the device is usable only after
 * the process has ended. */
static bool rounds_end(struct ck_gpurounds *r)
{
	const struct timespec msec = { .tv_nsec = 1000000 };
	int left = END_TURNS;

	r->rc = -EPIPE;
	while (!ck_rounds_end(r->rounds, ck_msec_now()) && --left) {
		take_letters(r);
		tick(r);
		(void)nanosleep(&msec, NULL);
	}
	if (left)
		ck_rounds_free(r->rounds);
	r->rounds = NULL;
	return left > 0;
}

bool ck_gpurounds_free(struct ck_gpurounds *r)
{
	bool right = true;

	if (!r)
		return true;
	if (r->rounds) {
		right = rounds_end(r);
		ck_gpurounds_initiator_end(r, -EREMOTEIO);
		ck_gpurounds_participant_end(r);
	}
	if (right && r->lost)
		right = r->options.gpu->leave(r->options.gpu);
	while (r->first) {
		struct ck_gpurounds_local_message *next = r->first->next;

		free(r->first);
		r->first = next;
	}
	free(r->lost);
	ck_frames_fini(&r->frames);
	if (r->memory && right)
		(void)munmap(r->memory, r->options.size);
	free(r);
	return right;
}
