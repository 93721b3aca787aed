/* SPDX-License-Identifier: MIT */
/*
 * Frames of an IPC channel: both directions over sockets with small buffers, a peer that
 * disconnects after each byte, malformed frames, and the limit of memory.
 */
#include "dist/rpc/link_internal.h"
#include "tap.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

struct two {
	struct ck_frames end[2];
};

static void sockets(int fds[2], int bytes)
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		abort();
	for (int i = 0; i < 2 && bytes; i++)
		if (setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &bytes,
			       sizeof(bytes)))
			abort();
}

static struct two *two_make(int bytes)
{
	struct two *t = calloc(1, sizeof(*t));
	int fds[2];

	if (!t)
		abort();
	sockets(fds, bytes);
	t->end[0].fd = fds[0];
	t->end[1].fd = fds[1];
	return t;
}

static void two_free(struct two *t)
{
	for (int i = 0; i < 2; i++) {
		if (t->end[i].fd >= 0)
			close(t->end[i].fd);
		ck_frames_fini(&t->end[i]);
	}
	free(t);
}

/* --- messages made from a number ------------------------------------------------------------ */

struct sample {
	struct ck_frame frame;
	struct ck_wire_head head;
	uint8_t first; /* first byte of the body; each next byte adds 7 */
};

static uint32_t sample_length(uint64_t *r)
{
	static const uint32_t most[] = { 1, 20, 3000, 70000, CK_WIRE_BODY_MAX };
	uint32_t m = most[tap_random(r) % (tap_random(r) % 8 ? 3 : 5)];

	return tap_random(r) % 4 ? (uint32_t)(tap_random(r) % (m + 1UL)) : m;
}

static struct sample sample_of(uint64_t number, int way)
{
	uint64_t r = number * 2 + (unsigned)way + 1000;
	struct sample s = { .frame = { .peer = (uint32_t)tap_random(&r),
				       .kind = CK_FRAME_MESSAGE,
				       .place = tap_random(&r),
				       .room = tap_random(&r) } };

	s.first = (uint8_t)(tap_random(&r) & 0xff);
	if (tap_random(&r) % 10 == 0) {
		s.frame.kind = tap_random(&r) % 2 ? CK_FRAME_LOST
						  : CK_FRAME_DROP;
		return s;
	}
	s.head = (struct ck_wire_head){ .type = CK_WIRE_READ,
					.answer = tap_random(&r) % 2,
					.id = tap_random(&r),
					.epoch = (uint32_t)tap_random(&r),
					.body = sample_length(&r) };
	if (s.head.answer)
		s.head.payload = tap_random(&r) % (CK_WIRE_READ_MAX + 1UL);
	return s;
}

static uint8_t body_byte(const struct sample *s, size_t i)
{
	return (uint8_t)((s->first + 7 * i) & 0xff);
}

static int sample_put(struct ck_frames *f, const struct sample *s)
{
	static char body[CK_WIRE_BODY_MAX];

	for (size_t i = 0; i < s->head.body; i++)
		body[i] = (char)body_byte(s, i);
	return ck_frames_put(f, &s->frame,
			     s->frame.kind == CK_FRAME_MESSAGE ? &s->head
							       : NULL,
			     (struct ck_str){ body, s->head.body });
}

static bool sample_is(const struct sample *s, const struct ck_framed *f)
{
	if (f->frame.peer != s->frame.peer || f->frame.kind != s->frame.kind ||
	    f->frame.place != s->frame.place ||
	    f->frame.room != s->frame.room || f->body.len != s->head.body)
		return false;
	for (size_t i = 0; i < f->body.len; i++)
		if ((uint8_t)f->body.p[i] != body_byte(s, i))
			return false;
	return s->frame.kind != CK_FRAME_MESSAGE ||
	       (f->head.type == s->head.type &&
		f->head.answer == s->head.answer && f->head.id == s->head.id &&
		f->head.epoch == s->head.epoch &&
		f->head.payload == s->head.payload);
}

/* --- both directions ------------------------------------------------------------------------ */

struct traffic {
	struct two *t;
	uint64_t random;
	uint64_t put[2], got[2]; /* by direction */
	unsigned wrong;
	bool spoil; /* canary: a received byte is changed */
};

static void traffic_get(struct traffic *x, int way)
{
	struct ck_frames *f = &x->t->end[!way];
	struct ck_framed out;
	int rc = ck_frames_read(f), next;

	if (x->spoil && f->in.len > 200)
		f->in.data[f->in.len - 1] ^= 1;
	while ((next = ck_frames_next(f, &out)) > 0) {
		struct sample s = sample_of(x->got[way]++, way);

		x->wrong += !sample_is(&s, &out);
	}
	x->wrong += rc != 0 || next != 0;
}

static void traffic_step(struct traffic *x, uint64_t most)
{
	int way = (int)(tap_random(&x->random) % 2);
	struct ck_frames *f = &x->t->end[way];
	struct sample s;

	switch (tap_random(&x->random) % 3) {
	case 0:
		if (x->put[way] == most || ck_frames_waiting(f) > 3 << 20)
			return;
		s = sample_of(x->put[way]++, way);
		x->wrong += sample_put(f, &s) != 0;
		return;
	case 1: x->wrong += ck_frames_flush(f) != 0; return;
	default: traffic_get(x, way);
	}
}

static unsigned traffic_run(uint64_t seed, int bytes, uint64_t most, bool spoil)
{
	struct traffic x = { .t = two_make(bytes),
			     .random = seed,
			     .spoil = spoil };

	while ((x.got[0] < most || x.got[1] < most) && !x.wrong)
		traffic_step(&x, most);
	for (int way = 0; way < 2; way++)
		x.wrong += ck_frames_waiting(&x.t->end[way]) != 0;
	two_free(x.t);
	return x.wrong;
}

static void test_both_ways(void)
{
	static const int bytes[] = { 1, 8 << 10, 256 << 10 };
	uint64_t seed = tap_seed(5);

	for (size_t i = 0; i < CK_ARRAY_SIZE(bytes); i++)
		eq_u64(traffic_run(seed + i, bytes[i], TAP_SLOW ? 60 : 300,
				   false),
		       0);
	ok(traffic_run(seed, 1, 60, true) > 0);
}

/* --- single frames --------------------------------------------------------------------------- */

/* Appends the bytes of a frame as sent. */
static void spell(struct ck_buf *b, const struct ck_frame *frame,
		  const struct ck_wire_head *head, struct ck_str body)
{
	uint8_t bytes[CK_WIRE_HEAD];

	ck_buf_u32(b, frame->peer);
	ck_buf_u32(b, frame->kind);
	ck_buf_u64(b, frame->place);
	ck_buf_u64(b, frame->room);
	if (!head)
		return;
	ck_wire_head_put(head, bytes);
	ck_buf_add(b, bytes, sizeof(bytes));
	ck_buf_str(b, body);
}

static const struct ck_frame a_message = { 3, CK_FRAME_MESSAGE, 1, 2 };
static const struct ck_frame a_loss = { 4, CK_FRAME_LOST, 0, 0 };

/* Writes all bytes at once; the socket has room for them. */
static void write_all(int fd, const char *bytes, size_t len)
{
	if (len && write(fd, bytes, len) != (ssize_t)len)
		abort();
}

/* The number of complete frames before *rc, the result that ends them. */
static unsigned frames_count(struct ck_frames *f, int *rc)
{
	struct ck_framed out;
	unsigned n = 0;

	while ((*rc = ck_frames_next(f, &out)) > 0)
		n++;
	return n;
}

static void cut_at(const struct ck_buf *b, size_t len, const size_t ends[3],
		   unsigned *wrong)
{
	struct two *t = two_make(0);
	unsigned want = 0;
	int rc;

	while (want < 3 && ends[want] <= len)
		want++;
	write_all(t->end[0].fd, b->data, len);
	close(t->end[0].fd);
	t->end[0].fd = -1;
	*wrong += ck_frames_read(&t->end[1]) != -EPIPE;
	*wrong += frames_count(&t->end[1], &rc) != want || rc != 0;
	*wrong += ck_frames_put(&t->end[1], &a_loss, NULL, CK_STR("")) !=
		  -EPIPE;
	two_free(t);
}

static void test_gone_at_every_byte(void)
{
	const struct ck_wire_head one = { .type = CK_WIRE_LIST, .body = 9 };
	const struct ck_wire_head two = { .type = CK_WIRE_PING };
	struct ck_buf b = { 0 };
	unsigned wrong = 0, canary = 0;
	size_t ends[3];

	spell(&b, &a_message, &one, CK_STR("123456789"));
	ends[0] = b.len;
	spell(&b, &a_loss, NULL, CK_STR(""));
	ends[1] = b.len;
	spell(&b, &a_message, &two, CK_STR(""));
	ends[2] = b.len;
	for (size_t len = 0; len <= b.len; len++)
		cut_at(&b, len, ends, &wrong);
	eq_u64(wrong, 0);
	ends[0]--;
	for (size_t len = 0; len <= b.len; len++)
		cut_at(&b, len, ends, &canary);
	eq_u64(canary, 1);
	ck_buf_fini(&b);
}

/* --- malformed frames ------------------------------------------------------------------------ */

enum {
	KIND = 4, /* offsets in a frame */
	HEAD = CK_FRAME,
	VERSION = HEAD + 4,
	TYPE = HEAD + 6,
	FLAGS = HEAD + 8,
	ERR = HEAD + 12,
	PAYLOAD = HEAD + 24,
	BODY = HEAD + 32,
	ZEROS = HEAD + 40,
};

static const struct malformed {
	const char *name;
	size_t at, len; /* of the changed number */
	uint64_t value;
	bool answer;   /* the valid frame is a reply */
	uint32_t type; /* 0: LIST */
} malformed[] = {
	{ "kind 0", KIND, 4, 0, false, 0 },
	{ "an unknown kind", KIND, 4, CK_FRAME_KINDS, false, 0 },
	{ "kind 257", KIND, 4, 257, false, 0 },
	{ "kind of all ones", KIND, 4, UINT32_MAX, false, 0 },
	{ "magic: first byte", HEAD, 1, 0, false, 0 },
	{ "magic: second byte", HEAD + 1, 1, 0, false, 0 },
	{ "magic: third byte", HEAD + 2, 1, 0, false, 0 },
	{ "magic: last byte", HEAD + 3, 1, 0, false, 0 },
	{ "magic in the other byte order", HEAD, 4, 0x636b7077, false, 0 },
	{ "version 0", VERSION, 2, 0, false, 0 },
	{ "version 2", VERSION, 2, 2, false, 0 },
	{ "version 256", VERSION, 2, 256, false, 0 },
	{ "type 0", TYPE, 2, 0, false, 0 },
	{ "type 10", TYPE, 2, CK_WIRE_TYPES, false, 0 },
	{ "a reply to a type without replies", TYPE, 2, CK_WIRE_OVER, true, 0 },
	{ "a body of a type without a body", TYPE, 2, CK_WIRE_UNMOUNTED, false,
	  0 },
	{ "type of all ones", TYPE, 2, 0xffff, false, 0 },
	{ "flag 2", FLAGS, 4, 2, false, 0 },
	{ "flags 3", FLAGS, 4, 3, true, 0 },
	{ "the highest flag", FLAGS, 4, UINT32_C(1) << 31, false, 0 },
	{ "a request with an error", ERR, 4, EIO, false, CK_WIRE_PING },
	{ "an error and a body", ERR, 4, EIO, true, 0 },
	{ "error 4096", ERR, 4, CK_WIRE_ERR_MAX + 1, true, CK_WIRE_PING },
	{ "a negative error", ERR, 4, UINT32_MAX, true, CK_WIRE_PING },
	{ "a request with a payload", PAYLOAD, 8, 1, false, CK_WIRE_READ },
	{ "a payload of a LIST", PAYLOAD, 8, 1, true, 0 },
	{ "a payload of a STAT", PAYLOAD, 8, 1, true, CK_WIRE_STAT },
	{ "a payload of a DIGEST", PAYLOAD, 8, 16, true, CK_WIRE_DIGEST },
	{ "a payload of a PING", PAYLOAD, 8, 1, true, CK_WIRE_PING },
	{ "a payload too long", PAYLOAD, 8, CK_WIRE_READ_MAX + 1UL, true,
	  CK_WIRE_READ },
	{ "a payload of all ones", PAYLOAD, 8, UINT64_MAX, true, CK_WIRE_READ },
	{ "a body too long", BODY, 4, CK_WIRE_BODY_MAX + 1, false, 0 },
	{ "a body of 2 GiB", BODY, 4, UINT32_C(1) << 31, false, 0 },
	{ "a body of all ones", BODY, 4, UINT32_MAX, true, 0 },
	{ "not zero: first", ZEROS, 1, 1, false, 0 },
	{ "not zero: fourth", ZEROS + 3, 1, 128, false, 0 },
	{ "not zero: in the middle", ZEROS + 11, 1, 1, false, 0 },
	{ "not zero: last", ZEROS + 23, 1, 1, false, 0 },
};

/* Makes the frame of a row, or its valid form if spoil is false. Caller owns the bytes. */
static struct ck_buf malform(const struct malformed *m, bool spoil)
{
	struct ck_wire_head head = {
		.type = (uint16_t)(m->type ? m->type : CK_WIRE_LIST),
		.answer = m->answer,
		.body = m->type ? 0 : 3,
	};
	struct ck_buf b = { 0 };

	spell(&b, &a_message, &head, m->type ? CK_STR("") : CK_STR("abc"));
	for (size_t i = 0; i < m->len && spoil; i++)
		b.data[m->at + i] = (char)(m->value >> 8 * i & 0xff);
	return b;
}

/* A valid frame before it is received. The malformed one is then refused at each call. */
static bool is_refused(const struct malformed *m, bool spoil)
{
	struct two *t = two_make(0);
	struct ck_buf good = malform(m, false), b = malform(m, spoil);
	bool right;
	int rc;

	write_all(t->end[0].fd, good.data, good.len);
	write_all(t->end[0].fd, b.data, b.len);
	right = ck_frames_read(&t->end[1]) == 0 &&
		frames_count(&t->end[1], &rc) == 1 && rc == -EPROTO &&
		frames_count(&t->end[1], &rc) == 0 && rc == -EPROTO;
	two_free(t);
	ck_buf_fini(&good);
	ck_buf_fini(&b);
	return right;
}

static void test_malformed(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(malformed); i++) {
		tap_result(is_refused(&malformed[i], true), __FILE__, __LINE__,
			   malformed[i].name);
		/* Canary: the valid form of the frame is accepted. */
		if (is_refused(&malformed[i], false))
			tap_result(false, __FILE__, __LINE__,
				   "it is refused without it");
	}
}

/* --- memory ------------------------------------------------------------------------------------ */

enum { FLOOD = 48 << 20 }; /* bytes */

static void *flood(void *arg)
{
	const struct ck_wire_head head = { .type = CK_WIRE_LIST,
					   .body = 60000 };
	static const char body[60000];
	struct ck_buf b = { 0 };
	int fd = *(int *)arg;

	spell(&b, &a_message, &head, (struct ck_str){ body, sizeof(body) });
	for (size_t done = 0; done < FLOOD; done += b.len)
		for (size_t at = 0; at < b.len;) {
			ssize_t n = write(fd, b.data + at, b.len - at);

			if (n < 0)
				abort();
			at += (size_t)n;
		}
	shutdown(fd, SHUT_WR);
	ck_buf_fini(&b);
	return NULL;
}

/* However fast frames arrive, only a limited number of bytes is buffered. */
static void test_flood(void)
{
	struct two *t = two_make(0);
	struct ck_frames *f = &t->end[1];
	size_t most = 0, n = 0;
	pthread_t thread;
	int rc = 0, next;

	if (pthread_create(&thread, NULL, flood, &t->end[0].fd))
		abort();
	while (rc == 0) {
		rc = ck_frames_read(f);
		most = ck_max(most, f->in.cap);
		n += frames_count(f, &next);
	}
	pthread_join(thread, NULL);
	eq_err(rc, -EPIPE);
	ok(n >= FLOOD / 60088);
	ok(most <= 4 * CK_WIRE_BODY_MAX);
	two_free(t);
}

/* The send buffer never becomes empty, and its sent bytes are released. */
static void test_never_empty(void)
{
	const struct ck_wire_head head = { .type = CK_WIRE_LIST,
					   .body = 60000 };
	static const char body[60000];
	struct two *t = two_make(8 << 10);
	size_t most = 0, n = 0;
	int next;

	while (n < 500) {
		while (ck_frames_waiting(&t->end[0]) < CK_WIRE_BODY_MAX)
			if (ck_frames_put(
				    &t->end[0], &a_message, &head,
				    (struct ck_str){ body, sizeof(body) }))
				abort();
		most = ck_max(most, t->end[0].out.cap);
		if (ck_frames_read(&t->end[1]) || ck_frames_flush(&t->end[0]))
			abort();
		n += frames_count(&t->end[1], &next);
	}
	ok(most <= 4 * CK_WIRE_BODY_MAX);
	two_free(t);
}

/* --- no bytes received ----------------------------------------------------------------- */

static void test_nothing_yet(void)
{
	struct two *t = two_make(0);
	struct ck_framed out;

	eq_i64(ck_frames_next(&t->end[0], &out), 0);
	eq_err(ck_frames_read(&t->end[0]), 0);
	eq_i64(ck_frames_next(&t->end[0], &out), 0);
	two_free(t);
}

int main(void)
{
	test_both_ways();
	test_gone_at_every_byte();
	test_malformed();
	test_flood();
	test_never_empty();
	test_nothing_yet();
	return tap_done();
}
