/* SPDX-License-Identifier: MIT */
/*
 * xport_local: the transport between processes of one machine, see xport_local.h.
 * Each rank has a stream socket, a queue of outgoing parcels, and one incoming
 * message. The number of bytes done is stored for both.
 */
#include "xport_local.h"
#include "ckptfs/memory.h"
#include "dist/transport/transport_internal.h"
#include "xport_mesh.h"

#include <errno.h>
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	TURN = 1 << 20,	    /* bytes of one rank before the next one's turn */
	DROPPED = 16 << 10, /* bytes discarded by one read */
};

struct rank {
	int fd; /* -1: this rank itself, or a lost rank */
	bool lost;

	struct ck_parcels out;
	bool full;	   /* the socket cannot be written now */
	uint64_t out_done; /* written bytes of the first parcel */
	uint8_t out_head[CK_WIRE_HEAD];

	uint64_t in_done; /* received bytes of a message */
	uint8_t in_head[CK_WIRE_HEAD];
	struct ck_wire_head head; /* valid once received */
	uint8_t *body;		  /* CK_WIRE_BODY_MAX bytes of pages */
	uint8_t *to;		  /* the payload; NULL: discarded */
};

struct local {
	struct ck_transport_base b; /* first */
	struct pollfd *polled; /* the event, all ranks, and those of `also` */
	size_t cap;
	uint8_t dropped[DROPPED];
	struct rank ranks[];
};

static struct local *local_of(struct ck_transport *x)
{
	return (struct local *)x;
}

/* --- parcels --------------------------------------------------------------------- */

static void local_send(struct ck_transport *x, struct ck_parcel *p)
{
	struct local *l = local_of(x);

	if (p->to >= x->size || l->ranks[p->to].lost)
		ck_parcels_push(&l->b.refused, p);
	else
		ck_parcels_push(
			p->to == x->rank ? &l->b.own : &l->ranks[p->to].out, p);
}

/* Shuts the socket down; reading then reports the rank as lost. */
static void local_drop(struct ck_transport *x, uint32_t rank)
{
	const struct local *l = local_of(x);

	if (rank < x->size && l->ranks[rank].fd >= 0)
		(void)shutdown(l->ranks[rank].fd, SHUT_RDWR);
}

/* --- expected payloads ------------------------------------------------------------- */

static int local_expect(struct ck_transport *x, uint32_t from, uint64_t id,
			uint8_t *to, uint64_t len)
{
	struct local *l = local_of(x);

	if (from >= x->size || l->ranks[from].lost)
		return 0;
	return ck_transport_expect(&l->b, from, id, to, len);
}

/* --- a rank is lost -------------------------------------------------------------------- */

static void lose(struct local *l, uint32_t i)
{
	struct rank *r = &l->ranks[i];

	ck_fd_cleanup(&r->fd);
	r->lost = true;
	r->to = NULL;
	ck_transport_forget(&l->b, i);
	ck_transport_refuse(&l->b, &r->out);
	l->b.called = true;
	l->b.x.lost(l->b.x.arg, i);
}

/* True if the socket operation must be retried. */
static bool is_passing(int err)
{
	return err == EAGAIN || err == EINTR;
}

/* --- writing --------------------------------------------------------------------------- */

static uint64_t message_bytes(const struct ck_wire_head *h)
{
	return CK_WIRE_HEAD + (uint64_t)h->body + h->payload;
}

/* The rest of the first parcel, at most `most` bytes. Returns the number of
 * iovecs. */
static size_t left_of_first(struct rank *r, uint64_t most, struct iovec out[3])
{
	const struct ck_parcel *p = r->out.first;
	const void *starts[] = { r->out_head, p->body.p, p->payload };
	const uint64_t lens[] = { CK_WIRE_HEAD, p->head.body, p->head.payload };
	uint64_t skip = r->out_done;
	size_t n = 0;

	for (size_t i = 0; i < CK_ARRAY_SIZE(starts); i++) {
		uint64_t gone = ck_min(skip, lens[i]);
		uint64_t take = ck_min(lens[i] - gone, most);

		skip -= gone;
		most -= take;
		if (take)
			out[n++] = (struct iovec){
				(void *)((uintptr_t)starts[i] + gone), take
			};
	}
	return n;
}

static void count_written(struct local *l, struct rank *r, uint64_t n)
{
	r->out_done += n;
	if (r->out_done < message_bytes(&r->out.first->head))
		return;
	r->out_done = 0;
	ck_transport_give_back(&l->b, ck_parcels_pop(&r->out), 0);
}

/* Returns the number of written bytes, or 0 if the socket is full. After an error the
 * received bytes can still be read; then the rank is lost. */
static uint64_t write_some(struct rank *r, uint64_t most)
{
	struct iovec pieces[3];
	struct msghdr m = { .msg_iov = pieces };
	ssize_t n;

	if (r->out_done == 0)
		ck_wire_head_put(&r->out.first->head, r->out_head);
	m.msg_iovlen = left_of_first(r, most, pieces);
	n = sendmsg(r->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n > 0)
		return (uint64_t)n;
	if (n == 0 || !is_passing(errno))
		(void)shutdown(r->fd, SHUT_RDWR);
	r->full = true;
	return 0;
}

static void write_rank(struct local *l, struct rank *r)
{
	uint64_t left = TURN;

	while (r->fd >= 0 && r->out.first && !r->full && left) {
		uint64_t n = write_some(r, left);

		left -= n;
		if (n)
			count_written(l, r, n);
	}
}

/* --- reading --------------------------------------------------------------------------- */

/* Destination of the next bytes of a message, at most *len bytes. */
static uint8_t *next_place(struct local *l, struct rank *r, uint64_t *len)
{
	uint64_t at = r->in_done;

	if (at < CK_WIRE_HEAD) {
		*len = CK_WIRE_HEAD - at;
		return r->in_head + at;
	}
	at -= CK_WIRE_HEAD;
	if (at < r->head.body) {
		*len = r->head.body - at;
		return r->body + at;
	}
	at -= r->head.body;
	*len = r->head.payload - at;
	if (r->to)
		return r->to + at;
	*len = ck_min(*len, DROPPED);
	return l->dropped;
}

/* False if the bytes are not a valid message. */
static bool count_read(struct local *l, uint32_t i, uint64_t n)
{
	struct rank *r = &l->ranks[i];
	struct ck_message m = { 0 };
	const uint8_t *to;

	r->in_done += n;
	if (r->in_done == CK_WIRE_HEAD) {
		if (ck_wire_head_get(r->in_head, &r->head))
			return false;
		r->to = ck_transport_take_expected(&l->b, i, &r->head);
	}
	if (r->in_done < CK_WIRE_HEAD || r->in_done < message_bytes(&r->head))
		return true;
	m.head = r->head;
	m.body = (struct ck_str){ (const char *)r->body, r->head.body };
	to = r->to;
	r->in_done = 0;
	r->to = NULL;
	ck_transport_got(&l->b, i, &m, to);
	return true;
}

static void read_rank(struct local *l, uint32_t i)
{
	struct rank *r = &l->ranks[i];
	uint64_t left = TURN;

	while (left) {
		uint64_t len;
		uint8_t *to = next_place(l, r, &len);
		ssize_t n = recv(r->fd, to, ck_min(len, left), MSG_DONTWAIT);

		if (n < 0 && is_passing(errno))
			return;
		if (n <= 0 || !count_read(l, i, (uint64_t)n)) {
			lose(l, i);
			return;
		}
		left -= (uint64_t)n;
	}
}

/* --- waiting --------------------------------------------------------------------------- */

static int prepare_poll(struct local *l, const struct pollfd *also, nfds_t n)
{
	struct pollfd *p = ck_grow(l->polled, &l->cap, (size_t)l->b.x.size + 1,
				   n, sizeof(*p));

	if (!p)
		return -ENOMEM;
	l->polled = p;
	*p++ = (struct pollfd){ .fd = l->b.event, .events = POLLIN };
	for (uint32_t i = 0; i < l->b.x.size; i++) {
		const struct rank *r = &l->ranks[i];

		*p++ = (struct pollfd){
			.fd = r->fd,
			.events = r->out.first ? POLLIN | POLLOUT : POLLIN,
		};
	}
	for (nfds_t i = 0; i < n; i++)
		*p++ = also[i];
	return 0;
}

/* True if wake() was called. */
static bool was_woken(struct local *l)
{
	return l->polled[0].revents && ck_event_drain(l->b.event);
}

static bool see_also(const struct local *l, struct pollfd *also, nfds_t n)
{
	const struct pollfd *p = &l->polled[(size_t)l->b.x.size + 1];
	bool any = false;

	for (nfds_t i = 0; i < n; i++) {
		also[i].revents = p[i].revents;
		any |= p[i].revents != 0;
	}
	return any;
}

static void read_all(struct local *l)
{
	for (uint32_t i = 0; i < l->b.x.size; i++) {
		short now = l->polled[i + 1].revents;

		if (now & POLLOUT)
			l->ranks[i].full = false;
		if (now & ~POLLOUT)
			read_rank(l, i);
	}
}

static void write_all(struct local *l)
{
	ck_transport_refuse(&l->b, &l->b.refused);
	ck_transport_deliver_own(&l->b);
	for (uint32_t i = 0; i < l->b.x.size; i++)
		write_rank(l, &l->ranks[i]);
}

/* Timeout of poll(). */
static int poll_msec(const struct local *l, bool ever, uint64_t end)
{
	uint64_t now = ck_msec_now();
	int left = (int)ck_min(end - ck_min(now, end), INT_MAX);

	if (l->b.called || l->b.own.first || l->b.refused.first)
		return 0;
	return ever ? -1 : left;
}

/* Sends and receives as much as possible, then waits. Returns 1 if wait() is
 * over. */
static int carry(struct local *l, struct pollfd *also, nfds_t n, bool ever,
		 uint64_t end)
{
	bool over;
	int rc;

	write_all(l);
	rc = prepare_poll(l, also, n);
	if (rc)
		return rc;
	rc = poll(l->polled, (nfds_t)l->b.x.size + 1 + n,
		  poll_msec(l, ever, end));
	if (rc < 0)
		return errno == EINTR ? l->b.called : -errno;
	over = see_also(l, also, n);
	over |= was_woken(l);
	read_all(l);
	return over || l->b.called || rc == 0;
}

static int local_wait(struct ck_transport *x, struct pollfd *also, nfds_t n,
		      int msec)
{
	struct local *l = local_of(x);
	uint64_t end = msec < 0 ? 0 : ck_msec_now() + (uint64_t)msec;
	int rc;

	for (nfds_t i = 0; i < n; i++)
		also[i].revents = 0;
	l->b.called = false;
	do
		rc = carry(l, also, n, msec < 0, end);
	while (rc == 0);
	return rc < 0 ? rc : 0;
}

/* --- beginning and end ------------------------------------------------------------------ */

static void local_free(struct local *l)
{
	for (uint32_t i = 0; i < l->b.x.size; i++) {
		ck_fd_cleanup(&l->ranks[i].fd);
		ck_pages_free(l->ranks[i].body, CK_WIRE_BODY_MAX);
	}
	ck_transport_base_fini(&l->b);
	free(l->polled);
	free(l);
}

static void local_close(struct ck_transport *x)
{
	struct local *l = local_of(x);

	for (uint32_t i = 0; i < x->size; i++)
		l->ranks[i].lost = true;
	for (uint32_t i = 0; i < x->size; i++)
		ck_transport_refuse(&l->b, &l->ranks[i].out);
	ck_transport_refuse_rest(&l->b);
	local_free(l);
}

static int make_room(struct local *l)
{
	int rc = ck_transport_base_init(&l->b);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < l->b.x.size; i++) {
		if (i == l->b.x.rank)
			continue;
		l->ranks[i].body = ck_pages_alloc(CK_WIRE_BODY_MAX);
		if (!l->ranks[i].body)
			return -ENOMEM;
	}
	return 0;
}

static struct local *make(uint32_t rank, uint32_t size)
{
	struct local *l = calloc(1, sizeof(*l) + size * sizeof(l->ranks[0]));

	if (!l)
		return NULL;
	l->b.x = (struct ck_transport){ .rank = rank,
					.size = size,
					.send = local_send,
					.expect = local_expect,
					.wait = local_wait,
					.drop = local_drop,
					.wake = ck_transport_wake,
					.close = local_close };
	l->b.event = -1;
	for (uint32_t i = 0; i < size; i++)
		l->ranks[i].fd = -1;
	return l;
}

int ck_transport_local(const char *directory, uint32_t rank, uint32_t size,
		       int msec, struct ck_transport **out)
{
	ck_auto_free int *fds = calloc(size, sizeof(*fds));
	struct local *l = make(rank, size);
	int rc = fds && l ? make_room(l) : -ENOMEM;

	if (rc == 0)
		rc = ck_mesh_join(directory, rank, size, msec, fds);
	for (uint32_t i = 0; rc == 0 && i < size; i++)
		l->ranks[i].fd = fds[i];
	if (rc == 0)
		*out = &l->b.x;
	else if (l)
		local_free(l);
	return rc;
}
