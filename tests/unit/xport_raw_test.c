/* SPDX-License-Identifier: MIT */
/*
 * xport: a rank whose peers are sockets of this test. One peer sends garbage, stops in the middle
 * of a message, dies, or never reads. The other peers are not affected.
 */
#include "xport_case.h"
#include "xport_garbage.h"
#include "xport_local.h"
#include "xport_mesh.h"

#include <signal.h>
#include <sys/wait.h>

enum { BAD, GOOD, OURS, SIZE }; /* ranks */

enum { PAYLOAD = 1 << 20, BODY = 100, WAIT_MSEC = 60000 };

/* --- sockets --------------------------------------------------------------------------- */

static int raw_accept(const char *directory, uint32_t rank, int listener)
{
	struct ck_mesh_hello hello;
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0 ||
	    recv(fd, &hello, sizeof(hello), MSG_WAITALL) != sizeof(hello))
		abort();
	if (hello.magic != CK_MESH_MAGIC || hello.size != SIZE ||
	    hello.rank != OURS)
		abort();
	close(listener);
	unlink(address(directory, rank).sun_path);
	return fd;
}

/* --- a scenario: a transport, and two ranks that are sockets ---------------------------- */

static struct scene {
	char directory[64];
	struct ck_transport *x;
	int raw[2];
	unsigned got[2], lost[2], sent, unsent;
	unsigned got_when_lost;
	struct ck_message last; /* its bytes are freed */
	bool body_right;
	/* PAYLOAD bytes for an answer of BAD with id 7. */
	uint8_t *to;
} s;

static void scene_got(void *arg, uint32_t from, const struct ck_message *m)
{
	(void)arg;
	s.got[from]++;
	s.last = *m;
	s.body_right = are_bytes(m->body.p, m->body.len, 1);
}

static void scene_lost(void *arg, uint32_t rank)
{
	(void)arg;
	s.lost[rank]++;
	s.got_when_lost = s.got[rank];
}

static void scene_sent(struct ck_parcel *p, int rc)
{
	(void)p;
	ok(rc == 0 || rc == -EIO);
	if (rc)
		s.unsent++;
	else
		s.sent++;
}

static void begin(void)
{
	int listeners[2];

	s = (struct scene){ .to = malloc(PAYLOAD) };
	if (!s.to)
		abort();
	memset(s.to, 0, PAYLOAD);
	xport_directory(s.directory);
	for (uint32_t i = 0; i < OURS; i++)
		listeners[i] = raw_listen(s.directory, i);
	eq_err(ck_transport_local(s.directory, OURS, SIZE, WAIT_MSEC, &s.x), 0);
	s.x->got = scene_got;
	s.x->lost = scene_lost;
	for (uint32_t i = 0; i < OURS; i++)
		s.raw[i] = raw_accept(s.directory, i, listeners[i]);
	eq_err(s.x->expect(s.x, BAD, 7, s.to, PAYLOAD), 0);
	eq_err(s.x->expect(s.x, BAD, 8, s.to, PAYLOAD), 0);
}

static void end(void)
{
	s.x->close(s.x);
	for (uint32_t i = 0; i < OURS; i++)
		if (s.raw[i] >= 0)
			close(s.raw[i]);
	eq_i64(rmdir(s.directory), 0);
	free(s.to);
}

/* Waits until *count is `want`. False on timeout, or if it is larger. */
static bool until(const unsigned *count, unsigned want)
{
	for (unsigned i = 0; i < 20000 && *count < want; i++)
		if (s.x->wait(s.x, NULL, 0, WAIT_MSEC))
			return false;
	return *count == want;
}

/* Runs the transport until pending work is done. */
static void settle(void)
{
	for (unsigned i = 0; i < 10; i++)
		if (s.x->wait(s.x, NULL, 0, 1))
			abort();
}

static const struct ck_wire_head a_read = { .type = CK_WIRE_READ,
					    .answer = true,
					    .id = 7,
					    .payload = PAYLOAD,
					    .body = BODY };

/* Makes the answer to a READ. Returns its length. */
static size_t put_read(uint8_t **out)
{
	uint8_t *p = malloc(CK_WIRE_HEAD + BODY + PAYLOAD);

	if (!p)
		abort();
	ck_wire_head_put(&a_read, p);
	fill_bytes(p + CK_WIRE_HEAD, BODY, 1);
	fill_bytes(p + CK_WIRE_HEAD + BODY, PAYLOAD, 2);
	*out = p;
	return CK_WIRE_HEAD + BODY + PAYLOAD;
}

static struct ck_parcel parcel(uint32_t to, const uint8_t *body)
{
	return (struct ck_parcel){
		.to = to,
		.head = { .type = CK_WIRE_STAT, .body = CK_WIRE_BODY_MAX },
		.body = { (const char *)body, CK_WIRE_BODY_MAX },
		.sent = scene_sent,
	};
}

/* The bad rank is lost, once. Its expected answers are not written, and the good rank still
 * works. */
static void check_bad_is_lost(unsigned got)
{
	struct ck_parcel p = parcel(BAD, s.to);
	unsigned unsent = s.unsent;

	ok(until(&s.lost[BAD], 1));
	eq_u64(s.got_when_lost, got);
	eq_err(s.x->expect(s.x, BAD, 9, s.to, PAYLOAD), 0);
	s.x->send(s.x, &p);
	ok(until(&s.unsent, unsent + 1));
	say_ping(s.raw[GOOD]);
	ok(until(&s.got[GOOD], 1));
	settle();
	ok(s.lost[BAD] == 1 && s.lost[GOOD] == 0 && s.got[BAD] == got);
}

/* --- invalid messages -------------------------------------------------------------------- */

static void test_garbage(void)
{
	static uint8_t body[CK_WIRE_BODY_MAX];

	for (size_t i = 0; i < CK_ARRAY_SIZE(garbage); i++) {
		const struct garbage *g = &garbage[i];
		struct ck_parcel p = parcel(BAD, body);
		struct ck_wire_head ping = { .type = CK_WIRE_PING };
		uint8_t head[2 * CK_WIRE_HEAD];

		begin();
		s.x->send(s.x, &p);
		settle();
		garbage_put(g, PAYLOAD, BODY, head);
		ck_wire_head_put(&ping, head + CK_WIRE_HEAD);
		say_ping(s.raw[BAD]);
		say(s.raw[BAD], head, sizeof(head));
		ok(until(&s.unsent, 1));
		check_bad_is_lost(1);
		ok(s.to[0] == 0 && s.sent == 0);
		end();
	}
}

static void test_cut(void)
{
	static const size_t cuts[] = {
		0, 1, 63, 64, 65, 163, 164, 165, 5000, 100000,
	};
	uint8_t *bytes;
	size_t len = put_read(&bytes);

	for (size_t i = 0; i < CK_ARRAY_SIZE(cuts); i++) {
		begin();
		say(s.raw[BAD], bytes, cuts[i]);
		settle();
		ok(s.lost[BAD] == 0 && s.got[BAD] == 0);
		close(s.raw[BAD]);
		s.raw[BAD] = -1;
		check_bad_is_lost(0);
		end();
	}
	free(bytes);
	ok(len > 100000);
}

/* An answer arrives in pieces, followed by a second one with the same id, which is not
 * expected. */
static void test_pieces(void)
{
	uint8_t *bytes;
	size_t len = put_read(&bytes);

	begin();
	for (unsigned round = 0; round < 2; round++) {
		for (size_t at = 0, n; at < len; at += n) {
			n = at < 200 ? 1 : ck_min(len - at, 70001);
			say(s.raw[BAD], bytes + at, n);
			eq_err(s.x->wait(s.x, NULL, 0, 0), 0);
		}
		ok(until(&s.got[BAD], round + 1));
		ok(s.body_right && s.last.body.len == BODY);
		ok(s.last.payload.p == (round ? NULL : (const char *)s.to));
		eq_u64(s.last.payload.len, round ? 0 : PAYLOAD);
		ok(are_bytes(s.to, PAYLOAD, 2));
	}
	end();
	free(bytes);
}

/* --- ranks that die ------------------------------------------------------------------------ */

static pid_t child_that_sends(int fd, const uint8_t *bytes, size_t len)
{
	pid_t child = fork();

	if (child < 0)
		abort();
	if (child)
		return child;
	say(fd, bytes, len);
	for (;;)
		pause();
}

static void kill_child(pid_t child)
{
	int status;

	kill(child, SIGKILL);
	eq_i64(waitpid(child, &status, 0), child);
}

static void test_killed(void)
{
	static uint8_t body[CK_WIRE_BODY_MAX];
	struct ck_parcel p[2] = { parcel(BAD, body), parcel(BAD, body) };
	uint8_t *bytes;
	size_t half = put_read(&bytes) / 2;
	pid_t child;

	begin();
	s.x->send(s.x, &p[0]);
	s.x->send(s.x, &p[1]);
	child = child_that_sends(s.raw[BAD], bytes, half);
	close(s.raw[BAD]);
	s.raw[BAD] = -1;
	half -= CK_WIRE_HEAD + BODY;
	for (unsigned i = 0; i < 6000 && !are_bytes(s.to, half / 8 * 8, 2); i++)
		eq_err(s.x->wait(s.x, NULL, 0, 10), 0);
	ok(are_bytes(s.to, half / 8 * 8, 2));
	ok(s.got[BAD] == 0 && s.lost[BAD] == 0 && s.unsent == 0);
	kill_child(child);
	ok(until(&s.unsent, 2));
	check_bad_is_lost(0);
	eq_u64(s.sent, 0);
	end();
	free(bytes);
}

/* Messages sent before the end of a connection are received, even if a write to it fails. */
static void test_last_words(void)
{
	static uint8_t body[CK_WIRE_BODY_MAX];
	struct ck_parcel p = parcel(BAD, body);

	begin();
	for (unsigned i = 0; i < 3; i++)
		say_ping(s.raw[BAD]);
	close(s.raw[BAD]);
	s.raw[BAD] = -1;
	s.x->send(s.x, &p);
	ok(until(&s.unsent, 1));
	check_bad_is_lost(3);
	end();
	/* A rank that has only shut down its receiving side is lost as well. */
	begin();
	eq_i64(shutdown(s.raw[BAD], SHUT_RD), 0);
	s.x->send(s.x, &p);
	ok(until(&s.unsent, 1));
	check_bad_is_lost(0);
	end();
}

/* Dropping a rank does not affect the others. */
static void test_dropped(void)
{
	static uint8_t body[CK_WIRE_BODY_MAX];
	struct ck_parcel p = parcel(BAD, body);

	begin();
	s.x->send(s.x, &p);
	s.x->drop(s.x, BAD);
	s.x->drop(s.x, s.x->rank);
	s.x->drop(s.x, s.x->size);
	ok(until(&s.unsent, 1));
	check_bad_is_lost(0);
	s.x->drop(s.x, BAD);
	settle();
	check_bad_is_lost(0);
	end();
}

/* --- a rank that never reads ----------------------------------------------------------------- */

/* Reads all available bytes of messages with `body`, checks them, and returns the new end. */
static size_t drain(int fd, const uint8_t *body, size_t at)
{
	const size_t whole = CK_WIRE_HEAD + CK_WIRE_BODY_MAX;
	static uint8_t bytes[64 << 10];
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		for (ssize_t i = 0; i < n; i++, at++)
			if (at % whole >= CK_WIRE_HEAD &&
			    bytes[i] != body[at % whole - CK_WIRE_HEAD])
				return 0;
	return at;
}

static void test_never_reads(void)
{
	enum { MANY = 30 };

	static uint8_t body[CK_WIRE_BODY_MAX];
	static struct ck_parcel p[2 * MANY];
	size_t all = (size_t)MANY * (CK_WIRE_HEAD + CK_WIRE_BODY_MAX), at = 0;

	fill_bytes(body, sizeof(body), 3);
	begin();
	for (uint32_t i = 0; i < CK_ARRAY_SIZE(p); i++) {
		p[i] = parcel(i % 2 ? GOOD : BAD, body);
		s.x->send(s.x, &p[i]);
	}
	for (unsigned i = 0; i < 20000 && at < all; i++) {
		eq_err(s.x->wait(s.x, NULL, 0, 1), 0);
		at = drain(s.raw[GOOD], body, at);
	}
	eq_u64(at, all);
	ok(s.sent == MANY && s.unsent == 0);
	say_ping(s.raw[BAD]);
	ok(until(&s.got[BAD], 1));
	/* wait() without an event succeeds. */
	eq_err(s.x->wait(s.x, NULL, 0, 20), 0);
	end();
	ok(s.sent == MANY && s.unsent == MANY);
}

/* --- messages to the rank itself, and calls from callbacks ------------------------------------ */

static unsigned echoes;
static struct ck_parcel echo_parcels[2];

static void echo_got(void *arg, uint32_t from, const struct ck_message *m)
{
	uint8_t *to = arg;

	if (m->head.answer)
		ok(m->payload.p == (const char *)to && m->payload.len == 100 &&
		   are_bytes(to, 100, 5));
	else
		s.x->send(s.x, &echo_parcels[1]);
	ok(from == OURS && m->body.len == BODY &&
	   are_bytes(m->body.p, BODY, 4));
	echoes++;
}

static void test_own(void)
{
	uint8_t body[BODY], payload[100], to[100];

	begin();
	fill_bytes(body, BODY, 4);
	fill_bytes(payload, sizeof(payload), 5);
	for (uint32_t i = 0; i < 2; i++)
		echo_parcels[i] = (struct ck_parcel){
			.to = OURS,
			.head = { .type = CK_WIRE_READ, .id = 3, .body = BODY },
			.body = { (const char *)body, BODY },
			.sent = scene_sent,
		};
	echo_parcels[1].head.answer = true;
	echo_parcels[1].head.payload = sizeof(payload);
	echo_parcels[1].payload = payload;
	s.x->got = echo_got;
	s.x->arg = to;
	eq_err(s.x->expect(s.x, OURS, 3, to, sizeof(to)), 0);
	s.x->send(s.x, &echo_parcels[0]);
	ok(echoes == 0 && s.sent == 0);
	ok(until(&echoes, 2));
	eq_u64(s.sent, 2);
	/* To a rank out of range, and a message that is unsent at the close. */
	echo_parcels[0].to = SIZE;
	s.x->send(s.x, &echo_parcels[0]);
	ok(until(&s.unsent, 1));
	s.x->send(s.x, &echo_parcels[1]);
	end();
	ok(s.sent == 2 && s.unsent == 2 && echoes == 2);
}

int main(void)
{
	size_t before = open_descriptors();

	alarm(300);
	test_garbage();
	test_dropped();
	test_cut();
	test_pieces();
	test_killed();
	test_last_words();
	test_never_reads();
	test_own();
	eq_u64(open_descriptors(), before);
	return tap_done();
}
