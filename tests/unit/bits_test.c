/* SPDX-License-Identifier: MIT */
/* Bit sets of any size, access past the end, and two threads that change adjacent bits. */
#include "base/bits.h"
#include "tap.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Every third bit is set, tested, counted, and cleared by both functions. */
static void test_size(size_t n)
{
	struct ck_bits b;
	size_t wrong = 0;

	eq_err(ck_bits_make(&b, n), 0);
	eq_u64(b.n, n);
	eq_u64(ck_bits_count(&b), 0);
	for (size_t i = 0; i < n; i += 3)
		i % 2 ? ck_bits_set(&b, i) : ck_bits_set_atomic(&b, i);
	for (size_t i = 0; i < n; i++)
		wrong += ck_bits_has(&b, i) != (i % 3 == 0);
	eq_u64(wrong, 0);
	eq_u64(ck_bits_count(&b), (n + 2) / 3);
	for (size_t i = 0; i < n; i += 6)
		ck_bits_clear(&b, i);
	for (size_t i = 0; i < n; i++)
		wrong += ck_bits_has(&b, i) != (i % 6 == 3);
	for (size_t i = 0; i < n; i++)
		wrong += ck_bits_clear_atomic(&b, i) != (i % 6 == 3);
	eq_u64(wrong, 0);
	eq_u64(ck_bits_count(&b), 0);
	for (size_t i = 0; i < n; i++)
		ck_bits_set(&b, i);
	eq_u64(ck_bits_count(&b), n);
	ck_bits_clear_all(&b);
	for (size_t i = 0; i < n; i++)
		wrong += ck_bits_has(&b, i);
	eq_u64(wrong, 0);
	eq_u64(ck_bits_count(&b), 0);
	ck_bits_fini(&b);
	eq_u64(b.n, 0);
}

static void test_none(void)
{
	struct ck_bits b = { 0 };

	eq_u64(ck_bits_count(&b), 0);
	ck_bits_clear_all(&b);
	ck_bits_fini(&b);
}

/* Testing a bit past the end aborts the program. */
static void test_end(size_t n)
{
#ifndef NDEBUG
	struct ck_bits b;
	int status = 0;
	pid_t child;

	eq_err(ck_bits_make(&b, n), 0);
	child = fork();
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
		close(STDERR_FILENO);
		_exit(ck_bits_has(&b, n));
	}
	eq_u64((uint64_t)waitpid(child, &status, 0), (uint64_t)child);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	ck_bits_fini(&b);
#else
	(void)n; /* the bound is an assertion */
#endif
}

/* --- two threads ---------------------------------------------------------- */

enum { BITS = 130, ROUNDS = 20000 };

struct half {
	struct ck_bits *b;
	size_t first; /* of each second bit, which this thread owns */
	size_t wrong;
};

/* Only this thread changes these bits, so each has the value last written. */
static void *change_half(void *arg)
{
	struct half *h = arg;

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (size_t i = h->first; i < BITS; i += 2)
			ck_bits_set_atomic(h->b, i);
		for (size_t i = h->first; i < BITS; i += 2)
			h->wrong += !ck_bits_clear_atomic(h->b, i);
	}
	for (size_t i = h->first; i < BITS; i += 2)
		ck_bits_set_atomic(h->b, i);
	return NULL;
}

static void test_neighbours(void)
{
	struct ck_bits b;
	struct half odd = { &b, 1, 0 }, even = { &b, 0, 0 };
	pthread_t thread;

	eq_err(ck_bits_make(&b, BITS), 0);
	ok(pthread_create(&thread, NULL, change_half, &odd) == 0);
	change_half(&even);
	ok(pthread_join(thread, NULL) == 0);
	eq_u64(odd.wrong, 0);
	eq_u64(even.wrong, 0);
	eq_u64(ck_bits_count(&b), BITS);
	ck_bits_fini(&b);
}

int main(void)
{
	static const size_t sizes[] = {
		0, 1, 7, 8, 9, 63, 64, 65, 128, 1000000
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(sizes); i++) {
		test_size(sizes[i]);
		test_end(sizes[i]);
	}
	test_none();
	test_neighbours();
	return tap_done();
}
