/* SPDX-License-Identifier: MIT */
/*
 * link: the mount's end of a link to a rank. A calling thread writes its
 * request into the socket itself. The thread of the link receives replies, runs
 * the timers of the calls, and sends what the socket did not accept.
 *
 * States: connected; dead, if the rank has closed its end or has sent an
 * invalid frame: then all calls fail; ending, set by ck_link_free(). A dead
 * link is not reconnected.
 */
#include "link.h"
#include "dist/dist_internal.h"
#include "link_internal.h"
#include "payload_alloc.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* bytes of requests that the socket did not accept */
enum { WAITING_MAX = 4 << 20 };

struct ck_link {
	/* Constant: */
	struct ck_line line; /* first */
	struct ck_calls *calls;
	uint8_t *memory;
	uint64_t size;
	int event;	/* wakes the thread */
	uint64_t share; /* bytes of the memory for one peer */
	uint32_t npeers;
	uint32_t *ranks; /* of peers */
	uint32_t *peers; /* of ranks; npeers or above: not a peer */
	pthread_t thread;

	pthread_mutex_t lock;
	/* Under lock, except `frames.in`, which belongs to the thread: */
	struct ck_frames frames;
	struct ck_payload_alloc rooms;
	bool dead; /* the rank has closed its end */
	/* Atomic: */
	bool ending;
};

/* --- struct ck_line: any thread ------------------------------------------- */

static void wake(struct ck_line *line)
{
	ck_event_wake(((const struct ck_link *)line)->event);
}

/* True if the peer has as many unanswered requests as its file server permits,
 * or has used its share of the memory. */
static bool is_busy(const struct ck_link *l, uint32_t peer,
		    const struct ck_query *a)
{
	struct ck_payload_alloc_sum has = ck_payload_alloc_of(&l->rooms, peer);
	uint64_t bytes = ck_query_bytes(a);

	return has.requests >= CK_WIRE_OPEN_MAX ||
	       has.bodies + a->head.body > CK_WIRE_BODIES_MAX ||
	       (bytes && has.bytes && has.bytes + bytes > l->share);
}

/* Enters the request, and allocates blocks for the payload of its reply. */
static int room_take(struct ck_link *l, uint32_t peer, const struct ck_query *a,
		     struct ck_frame *frame)
{
	if (is_busy(l, peer, a))
		return -EAGAIN;
	frame->room = ck_query_bytes(a);
	return ck_payload_alloc_take(&l->rooms, peer, a->head.id, a->head.body,
				     frame->room, &frame->place);
}

static int put(struct ck_link *l, uint32_t peer, const struct ck_query *a)
{
	struct ck_frame frame = { .peer = l->ranks[peer],
				  .kind = CK_FRAME_MESSAGE };
	struct ck_str body = { a->body.data, a->head.body };
	int rc;

	if (l->dead || frame.peer == CK_LINK_NO_RANK)
		/* lost: the thread reports it, or the peer is down already */
		return 0;
	if (ck_frames_waiting(&l->frames) > WAITING_MAX)
		return -EAGAIN;
	rc = room_take(l, peer, a, &frame);
	if (rc)
		return rc;
	rc = ck_frames_put(&l->frames, &frame, &a->head, body);
	if (rc)
		ck_payload_alloc_give(&l->rooms, peer, a->head.id);
	l->dead = rc == -EPIPE;
	return l->dead ? 0 : rc;
}

static int line_send(struct ck_line *line, uint32_t peer,
		     const struct ck_query *a)
{
	struct ck_link *l = (struct ck_link *)line;
	bool late;
	int rc;

	pthread_mutex_lock(&l->lock);
	rc = put(l, peer, a);
	late = l->dead || ck_frames_waiting(&l->frames);
	pthread_mutex_unlock(&l->lock);
	if (late)
		wake(line);
	return rc;
}

/* --- the thread ------------------------------------------------------------------------- */

/* Sets m->payload to the blocks of the request that m answers. Returns 0, or
 * -EPROTO if the request has no blocks or too few. */
static int payload_find(struct ck_link *l, const struct ck_framed *f,
			uint32_t peer, struct ck_message *m)
{
	uint64_t place = 0, room = 0;
	bool has;

	if (f->head.payload == 0)
		return 0;
	pthread_mutex_lock(&l->lock);
	has = ck_payload_alloc_find(&l->rooms, peer, f->head.id, &place, &room);
	pthread_mutex_unlock(&l->lock);
	if (!has || f->head.payload > room)
		return -EPROTO;
	m->payload = (struct ck_str){ (const char *)l->memory + place,
				      f->head.payload };
	return 0;
}

static void room_give(struct ck_link *l, uint32_t peer, uint64_t id)
{
	pthread_mutex_lock(&l->lock);
	ck_payload_alloc_give(&l->rooms, peer, id);
	pthread_mutex_unlock(&l->lock);
}

/* The peer goes down first: otherwise another thread could allocate blocks for
 * a request that is never answered. */
static void lose(struct ck_link *l, uint32_t peer)
{
	ck_calls_lost(l->calls, peer);
	pthread_mutex_lock(&l->lock);
	ck_payload_alloc_give_all(&l->rooms, peer);
	pthread_mutex_unlock(&l->lock);
}

/* A peer has sent an invalid reply: its later messages are not wanted. */
static void drop(struct ck_link *l, uint32_t peer)
{
	const struct ck_frame frame = { .peer = l->ranks[peer],
					.kind = CK_FRAME_DROP };

	ck_calls_lost(l->calls, peer);
	pthread_mutex_lock(&l->lock);
	if (ck_frames_put(&l->frames, &frame, NULL, CK_STR("")))
		l->dead = true;
	pthread_mutex_unlock(&l->lock);
}

/* Returns -EPROTO for an invalid frame, which is a fault of the rank. An
 * invalid message is a fault of the peer: only its connection is dropped. */
static int take_message(struct ck_link *l, const struct ck_framed *f)
{
	struct ck_message m = { .head = f->head, .body = f->body };
	uint32_t rank = f->frame.peer;
	uint32_t peer = rank < l->npeers ? l->peers[rank] : l->npeers;
	int rc;

	if (peer >= l->npeers || (f->frame.kind != CK_FRAME_MESSAGE &&
				  f->frame.kind != CK_FRAME_LOST))
		return -EPROTO;
	if (f->frame.kind == CK_FRAME_LOST) {
		lose(l, peer);
		return 0;
	}
	rc = payload_find(l, f, peer, &m);
	if (rc == 0)
		rc = ck_calls_take(l->calls, peer, &m, ck_msec_now());
	room_give(l, peer, f->head.id);
	if (rc)
		drop(l, peer);
	return 0;
}

static int take_all(struct ck_link *l)
{
	struct ck_framed f;
	int rc = ck_frames_read(&l->frames), next;

	while ((next = ck_frames_next(&l->frames, &f)) > 0)
		if (take_message(l, &f))
			return -EPROTO;
	return next < 0 ? next : rc;
}

static int flush(struct ck_link *l)
{
	int rc;

	pthread_mutex_lock(&l->lock);
	rc = l->dead ? -EPIPE : ck_frames_flush(&l->frames);
	pthread_mutex_unlock(&l->lock);
	return rc;
}

static void die(struct ck_link *l)
{
	pthread_mutex_lock(&l->lock);
	l->dead = true;
	pthread_mutex_unlock(&l->lock);
	ck_calls_end(l->calls);
}

static short wanted_events(struct ck_link *l)
{
	bool waits;

	pthread_mutex_lock(&l->lock);
	waits = ck_frames_waiting(&l->frames);
	pthread_mutex_unlock(&l->lock);
	return waits ? POLLIN | POLLOUT : POLLIN;
}

bool ck_link_turn(struct ck_link *l, bool *dead)
{
	uint32_t msec = ck_calls_tick(l->calls, ck_msec_now());
	struct pollfd fds[] = { { .fd = l->event, .events = POLLIN },
				{ .fd = *dead ? -1 : l->frames.fd,
				  .events = wanted_events(l) } };

	if (poll(fds, 2, (int)msec) < 0)
		return true;
	if (fds[0].revents)
		(void)ck_event_drain(l->event);
	if (__atomic_load_n(&l->ending, __ATOMIC_ACQUIRE))
		return false;
	if (!*dead && (flush(l) || (fds[1].revents && take_all(l)))) {
		*dead = true;
		die(l);
	}
	return true;
}

static void *run(void *arg)
{
	struct ck_link *l = arg;
	bool dead = false;

	while (ck_link_turn(l, &dead))
		;
	ck_calls_release(l->calls);
	ck_calls_end(l->calls);
	return NULL;
}

/* --- creation and end ----------------------------------------------------- */

static void destroy(struct ck_link *l)
{
	ck_calls_free(l->calls);
	free(l->ranks);
	free(l->peers);
	ck_payload_alloc_fini(&l->rooms);
	ck_frames_fini(&l->frames);
	pthread_mutex_destroy(&l->lock);
	if (l->memory)
		munmap(l->memory, l->size);
	if (l->event >= 0)
		close(l->event);
	free(l);
}

/* Maps peers to ranks and back. Peers without a rank are down. */
static int number(struct ck_link *l, const uint32_t *ranks)
{
	l->ranks = calloc(l->npeers, sizeof(*l->ranks));
	l->peers = calloc(l->npeers, sizeof(*l->peers));
	if (!l->ranks || !l->peers)
		return -ENOMEM;
	for (uint32_t i = 0; i < l->npeers; i++)
		l->peers[i] = l->npeers;
	for (uint32_t i = 0; i < l->npeers; i++) {
		uint32_t rank = ranks ? ranks[i] : i;

		l->ranks[i] = rank;
		if (rank == CK_LINK_NO_RANK)
			ck_calls_lost(l->calls, i);
		else if (rank >= l->npeers || l->peers[rank] < l->npeers)
			return -EINVAL;
		else
			l->peers[rank] = i;
	}
	ck_calls_release(l->calls);
	return 0;
}

static int prepare(struct ck_link *l, const struct ck_link_options *o)
{
	int rc = ck_link_map(o->memory, l->size, &l->memory);

	if (rc == 0)
		rc = ck_payload_alloc_make(&l->rooms, l->size);
	if (rc)
		return rc;
	l->event = ck_event_make();
	if (l->event < 0)
		return l->event;
	l->calls = ck_calls_make(&o->calls, &l->line, ck_msec_now());
	rc = l->calls ? number(l, o->ranks) : -ENOMEM;
	return rc ? rc
		  : ck_thread_start_init(&l->thread, &o->thread_init, run, l);
}

int ck_link_make(const struct ck_link_options *o, struct ck_link **out)
{
	struct ck_link *l;
	int rc;

	if (o->calls.npeers == 0 || o->calls.ping_msec == 0)
		return -EINVAL;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->line = (struct ck_line){ line_send, wake };
	l->size = o->size;
	l->npeers = o->calls.npeers;
	l->share = ck_max(o->size / (2 * (uint64_t)o->calls.npeers),
			  o->calls.window);
	l->event = -1;
	l->frames.fd = o->sock;
	pthread_mutex_init(&l->lock, NULL);
	rc = prepare(l, o);
	if (rc) {
		destroy(l);
		return rc;
	}
	close(o->memory);
	*out = l;
	return 0;
}

void ck_link_cut(struct ck_link *l)
{
	(void)shutdown(l->frames.fd, SHUT_RDWR);
}

struct ck_calls *ck_link_calls(struct ck_link *l)
{
	return l->calls;
}

void ck_link_free(struct ck_link *l)
{
	if (!l)
		return;
	__atomic_store_n(&l->ending, true, __ATOMIC_RELEASE);
	wake(&l->line);
	pthread_join(l->thread, NULL);
	close(l->frames.fd);
	destroy(l);
}
