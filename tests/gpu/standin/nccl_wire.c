/* SPDX-License-Identifier: MIT */
/*
 * nccl_wire: messages between two ranks. Each sends a notice about every transfer when it reaches
 * it. Once both have done so, the notices are compared, and the bytes are transferred.
 */
#include "nccl_comms.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DATA = 64 << 10 };

struct frame {
	enum { WAY, NOTICE, BYTES, BYE } kind;

	uint32_t way; /* the direction of the receiver */
	struct comm_notice notice;
	uint64_t len; /* of the following bytes */
};

static void say(struct comm_peer *peer, const struct frame *frame)
{
	if (!peer->silent)
		ck_buf_add(&peer->out, frame, sizeof(*frame));
}

static uint32_t other(enum comm_way way)
{
	return way == COMM_SEND ? COMM_RECV : COMM_SEND;
}

void comm_say_way(struct comm_peer *peer, enum comm_way way)
{
	const struct frame f = { .kind = WAY, .way = other(way) };

	if (!peer->sent[way])
		say(peer, &f);
	peer->sent[way] = true;
}

void comm_say_bye(struct comm_peer *peer)
{
	const struct frame f = { .kind = BYE };

	say(peer, &f);
}

/* --- matched transfers ------------------------------------------------------------------- */

static void compare(const struct comm_transfer *t, const struct comm_notice *n)
{
	const char *call = t->way == COMM_SEND ? "ncclSend" : "ncclRecv";

	if (n->count != t->count || n->type != t->type)
		standin_die(call,
			    "%llu of type %u here, %llu of type %u at rank %d",
			    (unsigned long long)t->count, t->type,
			    (unsigned long long)n->count, (unsigned)n->type,
			    t->peer);
	if (n->nth != t->nth || n->of != t->of)
		standin_die(call,
			    "the %llu. of %llu of a group here, the %llu. of "
			    "%llu at rank %d",
			    (unsigned long long)t->nth,
			    (unsigned long long)t->of,
			    (unsigned long long)n->nth,
			    (unsigned long long)n->of, t->peer);
}

static void match(struct comm_peer *peer, enum comm_way way)
{
	struct comm_transfer *t = peer->now[way];

	while (t && peer->notices[way]) {
		struct comm_notice *n = peer->notices[way];

		if (!t->matched) {
			compare(t, n);
			t->matched = true;
			peer->notices[way] = n->next;
			free(n);
		}
		t = t->behind;
	}
}

/* Ends transfers that have all their bytes. */
static void settle(struct comm_peer *peer, enum comm_way way)
{
	struct comm_transfer *t = peer->now[way];

	while (t && t->matched && t->done == t->bytes) {
		t->round->left--;
		t = t->behind;
		peer->now[way] = t;
		comms_wake(NULL);
	}
}

void comm_post(struct comm_transfer *t)
{
	struct comm_peer *peer = &t->round->comm->peers[t->peer];
	struct comm_transfer **end = &peer->now[t->way];
	const struct frame f = { .kind = NOTICE,
				 .way = other(t->way),
				 .notice = { NULL, t->count, t->type, t->nth,
					     t->of } };

	while (*end)
		end = &(*end)->behind;
	*end = t;
	say(peer, &f);
	match(peer, t->way);
	settle(peer, t->way);
}

/* --- in --------------------------------------------------------------------------------- */

static void notice_keep(struct comm_peer *peer, const struct frame *f)
{
	struct comm_notice **end = &peer->notices[f->way],
			   *own = malloc(sizeof(*own));

	if (!own)
		standin_die("NCCL", "no memory for the stand-in");
	*own = f->notice;
	own->next = NULL;
	while (*end)
		end = &(*end)->next;
	*end = own;
	match(peer, f->way);
	settle(peer, f->way);
}

/* Bytes arrive only after the receiver's notice. If the communicator was aborted since then,
 * they are dropped. */
static void bytes_take(struct comm_peer *peer, const char *bytes, uint64_t len)
{
	struct comm_transfer *t = peer->now[COMM_RECV];

	if (!t)
		return;
	if (len > t->bytes - t->done)
		standin_die("ncclRecv", "more bytes than there are");
	memcpy(t->memory + t->done, bytes,
	       len - (len && standin_is_short("ncclRecv")));
	t->done += len;
	settle(peer, COMM_RECV);
}

static void take(struct comm_peer *peer, const struct frame *f)
{
	switch (f->kind) {
	case WAY: peer->received[f->way] = true; break;
	case NOTICE: notice_keep(peer, f); break;
	case BYTES: bytes_take(peer, (const char *)(f + 1), f->len); break;
	case BYE: peer->bye = true; break;
	}
}

static void drop_front(struct ck_buf *b, size_t len)
{
	if (len == 0)
		return;
	memmove(b->data, b->data + len, b->len - len);
	b->len -= len;
}

/* Reads all complete frames, which are aligned to eight bytes. */
static void take_all(struct comm_peer *peer)
{
	const struct frame *f;
	size_t at = 0;

	while (peer->in.len - at >= sizeof(*f)) {
		f = (const void *)(peer->in.data + at);
		if (peer->in.len - at - sizeof(*f) < (f->len + 7) / 8 * 8)
			break;
		take(peer, f);
		at += sizeof(*f) + (f->len + 7) / 8 * 8;
	}
	drop_front(&peer->in, at);
}

/* A peer whose connection closed is silent from now on. */
static void input(struct comm_peer *peer)
{
	static _Thread_local char bytes[DATA];
	ssize_t n;

	do {
		n = recv(peer->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n > 0)
			ck_buf_add(&peer->in, bytes, (size_t)n);
	} while (n == sizeof(bytes) && peer->in.len < 2 * DATA);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		peer->silent = true;
	take_all(peer);
}

/* --- out -------------------------------------------------------------------------------- */

static void bytes_say(struct comm_peer *peer)
{
	struct comm_transfer *t = peer->now[COMM_SEND];

	while (t && t->matched && peer->out.len < DATA && !peer->silent) {
		static const char padding[8];
		struct frame f = { .kind = BYTES, .way = COMM_RECV };

		f.len = ck_min(DATA, t->bytes - t->done);
		say(peer, &f);
		ck_buf_add(&peer->out, t->memory + t->done, f.len);
		ck_buf_add(&peer->out, padding, (8 - f.len % 8) % 8);
		t->done += f.len;
		settle(peer, COMM_SEND);
		t = peer->now[COMM_SEND];
	}
}

static void output(struct comm_peer *peer)
{
	ssize_t n;

	bytes_say(peer);
	if (!peer->out.len)
		return;
	n = send(peer->fd, peer->out.data, peer->out.len,
		 MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0)
		drop_front(&peer->out, (size_t)n);
	else if (errno != EAGAIN && errno != EINTR)
		peer->silent = true;
	/* Refills the buffer, so that it is empty only after the last byte. */
	bytes_say(peer);
}

/* --- all peers --------------------------------------------------------------------------- */

void comm_exchange(struct ncclComm *comm)
{
	struct pollfd polled[COMM_RANKS + 1];
	bool leaving = comm->sent_bye && !comm->ended;
	uint64_t count;
	int n = comm->ranks;

	for (int i = 0; i < n; i++) {
		struct comm_peer *p = &comm->peers[i];
		bool full = !p->silent && p->fd >= 0;

		if (full)
			output(p);
		polled[i] = (struct pollfd){
			.fd = p->silent ? -1 : p->fd,
			.events = (short)(POLLIN | (p->out.len ? POLLOUT : 0))
		};
		if (p->in.err || p->out.err)
			standin_die("NCCL", "no memory for the stand-in");
	}
	polled[n] = (struct pollfd){ .fd = comm->wake, .events = POLLIN };
	comms_unlock();
	(void)poll(polled, (nfds_t)n + 1, leaving ? 1 : -1);
	comms_lock();
	if (polled[n].revents && read(comm->wake, &count, sizeof(count)) < 0)
		standin_die("NCCL", "a communicator that cannot wake");
	for (int i = 0; i < n; i++)
		if (polled[i].revents)
			input(&comm->peers[i]);
}

void comm_peer_end(struct comm_peer *peer)
{
	if (peer->fd >= 0)
		close(peer->fd);
	ck_buf_fini(&peer->in);
	ck_buf_fini(&peer->out);
	for (int way = 0; way < 2; way++)
		while (peer->notices[way]) {
			struct comm_notice *n = peer->notices[way];

			peer->notices[way] = n->next;
			free(n);
		}
}
