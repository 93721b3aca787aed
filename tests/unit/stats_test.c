/* SPDX-License-Identifier: MIT */
/* Counters of one and of several hosts, their text as JSON, and the time of requests. */
#include "source/stats.h"
#include "tap.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>

static struct ck_stats *make(const char *const *names, uint32_t n)
{
	struct ck_stats *s = ck_stats_make(n);

	if (!s)
		abort();
	for (uint32_t i = 0; i < n; i++)
		s->hosts[i].name = names[i];
	return s;
}

static void no_rows(void *arg, struct ck_buf *out)
{
	(void)arg;
	(void)out;
}

static void is_text(const struct ck_stats *s, const char *want)
{
	struct ck_buf text = { 0 };

	ck_stats_print(s, no_rows, NULL, &text);
	eq_i64(text.err, 0);
	eq_mem(text.data, text.len, want, strlen(want));
	ck_buf_fini(&text);
}

static void test_nothing(void)
{
	static const char *const names[] = { "a", "b.c" };
	struct ck_stats *one = make(names, 1), *two = make(names, 2);

	is_text(one,
		"{\"read_bytes\":0,\"file_bytes\":{\"a\":0},"
		"\"errors\":{},\"seconds\":0.000000,"
		"\"wire_bytes\":{},\"copies\":0,\"waits\":{},"
		"\"cache_bytes\":0,\"restarts\":0,\"gpu_bytes\":0,\"rounds\":0,\"paths\":[]}\n");
	is_text(two,
		"{\"read_bytes\":0,\"file_bytes\":{\"a\":0,\"b.c\":0},"
		"\"errors\":{},\"seconds\":0.000000,"
		"\"wire_bytes\":{\"b.c\":0},\"copies\":0,\"waits\":{},"
		"\"cache_bytes\":0,\"restarts\":0,\"gpu_bytes\":0,\"rounds\":0,\"paths\":[]}\n");
	free(one);
	free(two);
}

/* Two processes of this host, and two of the last. */
static void test_all(void)
{
	static const char *const names[] = { "a", "a", "b", "c", "c" };
	struct ck_stats *s = make(names, CK_ARRAY_SIZE(names));

	for (uint32_t i = 0; i < s->n; i++) {
		ck_stats_read(s, i, UINT64_C(1) << 8 * i);
		ck_stats_received(s, i, UINT64_C(2) << 8 * i);
	}
	ck_stats_read(s, s->n, 7);
	ck_stats_received(s, UINT32_MAX, 7);
	ck_stats_answered(s, UINT64_C(5000000000), 0);
	ck_stats_answered(s, 1, 0);
	ck_stats_answered(s, 9, -EIO);
	ck_stats_answered(s, 9, -EIO);
	ck_stats_answered(s, 9, -ESTALE);
	ck_count(&s->copies, 3);
	ck_count(&s->cache_bytes, 10);
	ck_count(&s->cache_bytes, (uint64_t)-4);
	ck_count(&s->restarts, 1);
	is_text(s,
		"{\"read_bytes\":5000000001,"
		"\"file_bytes\":{\"a\":257,\"b\":65536,\"c\":4311744512},"
		"\"errors\":{\"EIO\":2,\"ESTALE\":1},\"seconds\":0.000000,"
		"\"wire_bytes\":{\"b\":131072,\"c\":8623489024},"
		"\"copies\":3,\"waits\":{},"
		"\"cache_bytes\":6,\"restarts\":1,\"gpu_bytes\":0,\"rounds\":0,\"paths\":[]}\n");
	free(s);
}

/* Errnos that Linux lacks, and numbers out of range. */
static void test_unknown(void)
{
	static const int rows[] = { -41, -58, -4095, INT32_MIN + 1 };
	static const char *const name = "a";
	struct ck_stats *s = make(&name, 1);

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++)
		ck_stats_answered(s, 1, rows[i]);
	ck_stats_answered(s, 1, -EHWPOISON);
	is_text(s,
		"{\"read_bytes\":0,\"file_bytes\":{\"a\":0},"
		"\"errors\":{\"other\":4,\"EHWPOISON\":1},\"seconds\":0.000000,"
		"\"wire_bytes\":{},\"copies\":0,\"waits\":{},"
		"\"cache_bytes\":0,\"restarts\":0,\"gpu_bytes\":0,\"rounds\":0,\"paths\":[]}\n");
	free(s);
}

static void test_waits(void)
{
	static const uint64_t msec[] = { 0,	  1,	   2,	      3,
					 4,	  7,	   8,	      4194303,
					 4194304, 8388608, UINT64_MAX };
	static const char *const name = "a";
	struct ck_stats *s = make(&name, 1);

	for (size_t i = 0; i < CK_ARRAY_SIZE(msec); i++)
		ck_stats_waited(s, msec[i]);
	is_text(s,
		"{\"read_bytes\":0,\"file_bytes\":{\"a\":0},"
		"\"errors\":{},\"seconds\":0.000000,"
		"\"wire_bytes\":{},\"copies\":0,"
		"\"waits\":{\"1\":1,\"2\":1,\"4\":2,\"8\":2,\"16\":1,"
		"\"4194304\":1,\"8388608\":3},"
		"\"cache_bytes\":0,\"restarts\":0,\"gpu_bytes\":0,\"rounds\":0,\"paths\":[]}\n");
	free(s);
}

static void test_nobody(void)
{
	ck_stats_answered(NULL, 1, 0);
	ck_stats_answered(NULL, 1, -EIO);
	ck_stats_waited(NULL, 1);
	ck_stats_received(NULL, 0, 1);
	ck_stats_read(NULL, 0, 1);
	ok(true);
}

/* A reset keeps the number of cached bytes. */
static void test_reset(void)
{
	static const char *const names[] = { "a", "b" };
	struct ck_stats *s = make(names, 2);

	memset(s, 0x55, offsetof(struct ck_stats, n));
	s->cache_bytes = 10;
	for (uint32_t i = 0; i < 2; i++) {
		ck_stats_read(s, i, 5);
		ck_stats_received(s, i, 5);
	}
	ck_stats_reset(s);
	ck_stats_reset(NULL);
	is_text(s,
		"{\"read_bytes\":0,\"file_bytes\":{\"a\":0,\"b\":0},"
		"\"errors\":{},\"seconds\":0.000000,"
		"\"wire_bytes\":{\"b\":0},\"copies\":0,\"waits\":{},"
		"\"cache_bytes\":10,\"restarts\":0,\"gpu_bytes\":0,\"rounds\":0,\"paths\":[]}\n");
	free(s);
}

/* Counters of one host, with its name. */
static void test_here(void)
{
	struct ck_stats *s = ck_stats_make_here();
	struct ck_buf text = { 0 }, want = { 0 };
	char name[256];

	if (!s)
		abort();
	ck_stats_name_host(name, sizeof(name));
	ok(*name && !strpbrk(name, "\"\\ \n"));
	ck_stats_read(s, 0, 5);
	s->nsec = UINT64_C(61000002999);
	ck_stats_print(s, NULL, NULL, &text);
	ck_buf_printf(&want,
		      "{\"read_bytes\":0,\"file_bytes\":{\"%s\":5},"
		      "\"errors\":{},\"seconds\":61.000002}\n",
		      name);
	eq_mem(text.data, text.len, want.data, want.len);
	ck_buf_fini(&text);
	ck_buf_fini(&want);
	free(s);
}

/* A request is counted once, by the thread that ends it. */
static void test_time(void)
{
	struct ck_stats *s = ck_stats_make_here();
	struct ck_request_time taken;

	if (!s)
		abort();
	ck_request_time_end();
	ck_request_time_begin(NULL);
	ck_request_time_end();
	ck_request_time_begin(s);
	taken = ck_request_time_take();
	ok(taken.begun && taken.stats == s);
	ck_request_time_end();
	eq_u64(s->nsec, 0);
	taken.begun -= 1000000000;
	ck_request_time_resume(&taken);
	ck_request_time_end();
	ok(s->nsec >= 1000000000);
	s->nsec = 0;
	ck_request_time_end();
	eq_u64(s->nsec, 0);
	ck_request_time_count(&taken);
	ok(s->nsec >= 1000000000);
	free(s);
}

/* A letter that JSON escapes, a line break and bytes that are no text. */
static void test_paths(void)
{
	static const struct ck_stats_path rows[] = {
		{ "a", "file", 1.5, 20, true, NULL },
		{ "b.c", "mpi", 0, 0, false, "a \"b\" \\ c\n\xff" },
	};
	static const char want[] =
		"{\"host\":\"a\",\"path\":\"file\",\"GBps\":1.500000,\"us\":20.0,"
		"\"used\":true},"
		"{\"host\":\"b.c\",\"path\":\"mpi\",\"used\":false,"
		"\"reason\":\"a \\\"b\\\" \\\\ c%0A%FF\"},";
	struct ck_buf text = { 0 };

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++)
		ck_stats_print_path(&rows[i], &text);
	eq_mem(text.data, text.len, want, strlen(want));
	ck_buf_fini(&text);
}

/* --- threads -------------------------------------------------------------------------- */

enum { THREADS = 4, TIMES = 20000 };

static void *count_on(void *arg)
{
	struct ck_stats *s = arg;

	for (unsigned i = 0; i < TIMES; i++) {
		ck_stats_answered(s, 3, 0);
		ck_stats_answered(s, 3, -EIO);
		ck_stats_waited(s, 5);
		ck_stats_received(s, 1, 2);
		ck_stats_read(s, 0, 1);
	}
	return NULL;
}

static void test_threads(void)
{
	static const char *const names[] = { "a", "b" };
	struct ck_stats *s = make(names, 2);
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, count_on, s))
			abort();
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	is_text(s,
		"{\"read_bytes\":240000,\"file_bytes\":{\"a\":80000,\"b\":0},"
		"\"errors\":{\"EIO\":80000},\"seconds\":0.000000,"
		"\"wire_bytes\":{\"b\":160000},\"copies\":0,"
		"\"waits\":{\"8\":80000},"
		"\"cache_bytes\":0,\"restarts\":0,\"gpu_bytes\":0,\"rounds\":0,\"paths\":[]}\n");
	free(s);
}

int main(void)
{
	test_nothing();
	test_all();
	test_unknown();
	test_waits();
	test_nobody();
	test_reset();
	test_here();
	test_time();
	test_paths();
	test_threads();
	return tap_done();
}
