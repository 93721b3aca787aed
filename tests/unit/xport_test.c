/* SPDX-License-Identifier: MIT */
/*
 * xport: ranks that ask each other at random, both ways at once and themselves too, and
 * what they have said arrives as it was, in order; wake() and `also`. Ranks that are wrong
 * are in xport_raw_test.c, how they join in xport_join_test.c.
 */
#include "xport_exchange.h"
#include "xport_local.h"

enum { RANKS = 4, JOIN_MSEC = 60000 };

/* --- buffers of sockets as small as can be -------------------------------------------- */

static bool tiny;

static int small(int fd)
{
	const int bytes = 1;

	if (fd >= 0 && tiny)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes,
				 sizeof(bytes));
	return fd;
}

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);

int __wrap_socket(int domain, int type, int protocol)
{
	return small(__real_socket(domain, type, protocol));
}

int __real_accept4(int fd, void *a, void *len, int flags);
int __wrap_accept4(int fd, void *a, void *len, int flags);

int __wrap_accept4(int fd, void *a, void *len, int flags)
{
	return small(__real_accept4(fd, a, len, flags));
}

/* --- ranks that are threads -------------------------------------------------------------- */

struct thread_rank {
	struct side side;
	char directory[64];
};

static void *rank_thread(void *arg)
{
	struct thread_rank *t = arg;
	struct side *s = &t->side;
	int rc = ck_transport_local(t->directory, s->rank, s->e->size,
				    JOIN_MSEC, &s->x);

	check(s, rc == 0, "join");
	if (rc == 0)
		side_run(s);
	return NULL;
}

/* How much was wrong. */
static uint64_t run_exchange(struct exchange e)
{
	struct thread_rank *ranks = calloc(e.size, sizeof(*ranks));
	pthread_t threads[RANKS];
	char directory[64];
	uint64_t wrong = 0;

	if (!ranks)
		abort();
	xport_directory(directory);
	for (uint32_t i = 0; i < e.size; i++) {
		ranks[i].side = (struct side){ .e = &e, .rank = i };
		memcpy(ranks[i].directory, directory, sizeof(directory));
		if (pthread_create(&threads[i], NULL, rank_thread, &ranks[i]))
			abort();
	}
	for (uint32_t i = 0; i < e.size; i++) {
		pthread_join(threads[i], NULL);
		wrong += ranks[i].side.wrong;
	}
	eq_i64(rmdir(directory), 0);
	free(ranks);
	return wrong;
}

static void test_exchange(uint64_t seed)
{
	const uint64_t n = TAP_SLOW ? 20 : 60;
	struct exchange e = { .seed = seed,
			      .window = 4,
			      .most = 8 << 20,
			      .body_most = CK_WIRE_BODY_MAX };

	for (e.size = 1; e.size <= RANKS; e.size++) {
		e.requests = n / e.size;
		eq_u64(run_exchange(e), 0);
	}
	e.size = 3;
	e.requests = 12;
	tiny = true;
	e.most = 1 << 20;
	eq_u64(run_exchange(e), 0);
	tiny = false;
}

/* The check sees a single byte. */
static void test_flipped(uint64_t seed)
{
	struct exchange e = {
		.seed = seed,
		.window = 4,
		.size = 2,
		.requests = 20,
		.most = 8 << 20,
		.body_most = CK_WIRE_BODY_MAX,
	};
	struct talk t;

	do
		t = talk_of(&e, 0, 1, ++e.flip);
	while (t.body + t.payload == 0 || t.how != EXACT);
	if (e.flip > e.requests)
		e.requests = e.flip;
	eq_u64(run_exchange(e), 1);
}

static void test_waiting(void)
{
	char directory[64];
	struct ck_transport *x;

	xport_directory(directory);
	eq_err(ck_transport_local(directory, 0, 1, 60, &x), 0);
	test_wake(x);
	test_also(x);
	x->close(x);
	eq_i64(rmdir(directory), 0);
}

int main(void)
{
	uint64_t seed = tap_seed(0x12ab);
	size_t before = open_descriptors();

	alarm(300);
	test_waiting();
	test_exchange(seed);
	test_flipped(seed);
	eq_u64(open_descriptors(), before);
	return tap_done();
}
