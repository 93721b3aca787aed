/* SPDX-License-Identifier: MIT */
/*
 * tap: unit tests as plain programs that print TAP. A failed check prints
 * where and both values and the program goes on; the exit status is 1 if any
 * check failed.
 *
 *	int main(void)
 *	{
 *		eq_u64(1 + 1, 2);
 *		return tap_done();
 *	}
 */
#ifndef CK_TAP_H
#define CK_TAP_H

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Sanitizers of this build: tests that are only long run less, tests that
 * need signals of their own cannot run under TAP_THREADS. A build that is not
 * optimized, as for coverage, is slow too. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TAP_ADDRESSES 1
#endif
#if __has_feature(thread_sanitizer)
#define TAP_THREADS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TAP_ADDRESSES 1
#endif
#if defined(__SANITIZE_THREAD__)
#define TAP_THREADS 1
#endif
#ifndef TAP_ADDRESSES
#define TAP_ADDRESSES 0
#endif
#ifndef TAP_THREADS
#define TAP_THREADS 0
#endif
#if defined(__OPTIMIZE__)
#define TAP_SLOW (TAP_ADDRESSES || TAP_THREADS)
#else
#define TAP_SLOW 1
#endif

static unsigned tap_count, tap_failed;

static inline bool tap_result(bool good, const char *file, int line,
			      const char *what)
{
	/* A child of fork(2) must not print the parent's lines again: ThreadSanitizer
	 * flushes stdout in _exit(2). */
	if (tap_count++ == 0)
		(void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	if (!good)
		tap_failed++;
	printf("%sok %u - %s:%d %s\n", good ? "" : "not ", tap_count, file,
	       line, what);
	return good;
}

static inline void tap_eq_u64(uint64_t got, uint64_t want, const char *file,
			      int line, const char *what)
{
	if (!tap_result(got == want, file, line, what))
		printf("# got %" PRIu64 ", want %" PRIu64 "\n", got, want);
}

static inline void tap_eq_i64(int64_t got, int64_t want, const char *file,
			      int line, const char *what)
{
	if (!tap_result(got == want, file, line, what))
		printf("# got %" PRId64 ", want %" PRId64 "\n", got, want);
}

static inline void tap_eq_mem(const void *got, size_t got_len, const void *want,
			      size_t want_len, const char *file, int line,
			      const char *what)
{
	bool good = got_len == want_len &&
		    (want_len == 0 || memcmp(got, want, want_len) == 0);

	if (!tap_result(good, file, line, what))
		printf("# got %zu bytes \"%.*s\"\n# want %zu bytes \"%.*s\"\n",
		       got_len, (int)(got_len < 200 ? got_len : 200),
		       got ? (const char *)got : "", want_len,
		       (int)(want_len < 200 ? want_len : 200),
		       want ? (const char *)want : "");
}

static inline void tap_eq_text(const char *got, const char *want,
			       const char *file, int line, const char *what)
{
	tap_eq_mem(got, strlen(got), want, strlen(want), file, line, what);
}

static inline int tap_done(void)
{
	printf("1..%u\n", tap_count);
	return tap_failed ? 1 : 0;
}

/* Says that the whole program has nothing to check here. */
static inline int tap_skip_all(const char *why)
{
	printf("1..0 # SKIP %s\n", why);
	return 0;
}

/* True in `tests/run --all`: new seeds and long counts. Everywhere else a test
 * does the same at every run. */
static inline bool tap_is_long(void)
{
	const char *text = getenv("CKPTFS_ALL");

	return text && *text;
}

/* The seed of a property test: CKPTFS_SEED; in the long run a new one; else
 * `fixed`. Printed. Never 0. */
static inline uint64_t tap_seed(uint64_t fixed)
{
	const char *text = getenv("CKPTFS_SEED");
	uint64_t seed = fixed;
	struct timespec now;

	if (text && *text) {
		seed = strtoull(text, NULL, 0);
	} else if (tap_is_long()) {
		clock_gettime(CLOCK_REALTIME, &now);
		seed = (uint64_t)now.tv_sec * 1000000 +
		       (uint64_t)now.tv_nsec / 1000;
	}
	seed = seed ? seed : 1;
	printf("# CKPTFS_SEED=%" PRIu64 "\n", seed);
	return seed;
}

/* How many cases a test has: the environment variable `name`; in the long run
 * `many`; else `few`. */
static inline uint64_t tap_cases(const char *name, uint64_t few, uint64_t many)
{
	const char *text = getenv(name);

	if (text && *text)
		return strtoull(text, NULL, 0);
	return tap_is_long() ? many : few;
}

/* The same by a factor: n in the long run, else a quarter; a sixteenth where the
 * build is slow. */
static inline size_t tap_times(size_t n)
{
	return tap_is_long() ? n : n / (TAP_SLOW ? 16 : 4);
}

/* xorshift64*: state must not be 0. */
#ifdef __clang__
__attribute__((no_sanitize("integer")))
#endif
static inline uint64_t
tap_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545F4914F6CDD1D);
}

#define ok(cond) tap_result((cond), __FILE__, __LINE__, #cond)
#define eq_u64(got, want)                                                      \
	tap_eq_u64((got), (want), __FILE__, __LINE__, #got " == " #want)
#define eq_i64(got, want)                                                      \
	tap_eq_i64((got), (want), __FILE__, __LINE__, #got " == " #want)
/* rc is 0 or a negative errno. */
#define eq_err(rc, want)                                                       \
	tap_eq_i64((rc), (want), __FILE__, __LINE__, #rc " == " #want)
#define eq_mem(got, got_len, want, want_len)                                   \
	tap_eq_mem((got), (got_len), (want), (want_len), __FILE__, __LINE__,   \
		   #got " == " #want)
#define eq_text(got, want)                                                     \
	tap_eq_text((got), (want), __FILE__, __LINE__, #got " == " #want)

#endif
