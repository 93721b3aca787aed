/* SPDX-License-Identifier: MIT */
/*
 * stats: counters of reads and of time, one struct for a mount, and their text as JSON.
 * Counters are atomic and grow until a reset; any thread. The time of the current request
 * is a variable of each thread.
 */
#include "stats.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

enum { HOST_NAME = 256 }; /* bytes */

struct ck_stats *ck_stats_make(uint32_t n)
{
	struct ck_stats *s = calloc(1, sizeof(*s) + n * sizeof(s->hosts[0]));

	if (s)
		s->n = n;
	return s;
}

void ck_stats_name_host(char *out, size_t size)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	memset(out, 0, size);
	if (gethostname(out, size - 1))
		(void)snprintf(out, size, "localhost");
	for (char *p = out + strspn(out, letters); *p; p += strspn(p, letters))
		*p = '_';
}

struct ck_stats *ck_stats_make_here(void)
{
	struct ck_stats *s =
		calloc(1, sizeof(*s) + sizeof(s->hosts[0]) + HOST_NAME);
	char *name;

	if (!s)
		return NULL;
	name = (char *)&s->hosts[1];
	ck_stats_name_host(name, HOST_NAME);
	s->n = 1;
	s->hosts[0].name = name;
	return s;
}

void ck_stats_answered(struct ck_stats *s, uint64_t bytes, int rc)
{
	bool known = -rc < CK_STATS_ERRORS && strerrorname_np(-rc);

	if (!s)
		return;
	if (rc)
		ck_count(&s->errors[known ? -rc : 0], 1);
	else
		ck_count(&s->read_bytes, bytes);
}

void ck_stats_waited(struct ck_stats *s, uint64_t msec)
{
	unsigned i = msec ? 64 - (unsigned)__builtin_clzll(msec) : 0;

	if (s)
		ck_count(&s->waits[ck_min(i, CK_STATS_WAITS - 1)], 1);
}

void ck_stats_received(struct ck_stats *s, uint32_t peer, uint64_t bytes)
{
	if (s && peer < s->n)
		ck_count(&s->hosts[peer].wire_bytes, bytes);
}

void ck_stats_read(struct ck_stats *s, uint32_t peer, uint64_t bytes)
{
	if (s && peer < s->n)
		ck_count(&s->hosts[peer].file_bytes, bytes);
}

static void zero(uint64_t *counters, size_t n)
{
	for (size_t i = 0; i < n; i++)
		__atomic_store_n(&counters[i], 0, __ATOMIC_RELAXED);
}

void ck_stats_reset(struct ck_stats *s)
{
	if (!s)
		return;
	zero(&s->read_bytes, 1);
	zero(&s->copies, 1);
	zero(&s->restarts, 1);
	zero(&s->gpu_bytes, 1);
	zero(&s->rounds, 1);
	zero(&s->nsec, 1);
	zero(s->waits, CK_STATS_WAITS);
	zero(s->errors, CK_STATS_ERRORS);
	for (uint32_t i = 0; i < s->n; i++) {
		zero(&s->hosts[i].file_bytes, 1);
		zero(&s->hosts[i].wire_bytes, 1);
	}
}

/* --- time of requests ---------------------------------------------------------------- */

static _Thread_local struct ck_request_time current;

static uint64_t nsec_now(void)
{
	struct timespec t = ck_time_in(CLOCK_MONOTONIC, 0);

	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void ck_request_time_begin(struct ck_stats *s)
{
	current.stats = s;
	current.begun = s ? nsec_now() : 0;
}

struct ck_request_time ck_request_time_take(void)
{
	struct ck_request_time taken = current;

	current.begun = 0;
	return taken;
}

void ck_request_time_resume(const struct ck_request_time *t)
{
	current = *t;
}

void ck_request_time_end(void)
{
	ck_request_time_count(&current);
	current.begun = 0;
}

void ck_request_time_count(const struct ck_request_time *t)
{
	if (t->begun)
		ck_count(&t->stats->nsec, nsec_now() - t->begun);
}

/* --- as text ------------------------------------------------------------------------- */

static uint64_t value(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void print_number(const char *name, const uint64_t *counter,
			 struct ck_buf *out)
{
	ck_buf_printf(out, "\"%s\":%ju,", name, (uintmax_t)value(counter));
}

/* Replaces the comma behind the last member, if any, by the end of the
 * object or list. */
static void close_with(struct ck_buf *out, const char *end)
{
	if (out->err == 0 && out->data[out->len - 1] == ',')
		out->len--;
	ck_buf_text(out, end);
}

/* Prints a counter for each host, summed over its processes. which: the offset
 * of the counter in a host. Names of hosts contain no character that JSON
 * escapes. */
static void print_hosts(const struct ck_stats *s, const char *name,
			size_t which, bool others_only, struct ck_buf *out)
{
	bool skip = others_only;
	uint64_t sum = 0;

	ck_buf_printf(out, "\"%s\":{", name);
	for (uint32_t i = 0; i < s->n; i++) {
		const struct ck_stats_host *h = &s->hosts[i];
		bool is_last = i + 1 == s->n || strcmp(h->name, h[1].name) != 0;

		sum += value((const uint64_t *)(const void *)((const char *)h +
							      which));
		if (!is_last)
			continue;
		if (!skip)
			print_number(h->name, &sum, out);
		skip = false;
		sum = 0;
	}
	close_with(out, "},");
}

static void print_waits(const struct ck_stats *s, struct ck_buf *out)
{
	ck_buf_text(out, "\"waits\":{");
	for (unsigned i = 0; i < CK_STATS_WAITS; i++) {
		uint64_t n = value(&s->waits[i]);

		if (n)
			ck_buf_printf(out, "\"%ju\":%ju,",
				      (uintmax_t)(UINT64_C(1) << i),
				      (uintmax_t)n);
	}
	close_with(out, "},");
}

static void print_errors(const struct ck_stats *s, struct ck_buf *out)
{
	ck_buf_text(out, "\"errors\":{");
	for (int i = 0; i < CK_STATS_ERRORS; i++) {
		const char *name = i ? strerrorname_np(i) : "other";
		uint64_t n = value(&s->errors[i]);

		if (n)
			print_number(name, &n, out);
	}
	close_with(out, "},");
}

void ck_stats_print_path(const struct ck_stats_path *p, struct ck_buf *out)
{
	ck_buf_printf(out, "{\"host\":\"%s\",\"path\":\"%s\",", p->host,
		      p->path);
	if (p->gbps > 0)
		ck_buf_printf(out, "\"GBps\":%.6f,\"us\":%.1f,", p->gbps,
			      p->usec);
	ck_buf_printf(out, "\"used\":%s", p->used ? "true" : "false");
	if (p->reason) {
		ck_buf_text(out, ",\"reason\":\"");
		/* ck_show() has replaced control characters. */
		for (const char *c = ck_show(ck_str_from(p->reason)); *c; c++)
			ck_buf_printf(out,
				      *c == '"' || *c == '\\' ? "\\%c" : "%c",
				      *c);
		ck_buf_text(out, "\"");
	}
	ck_buf_text(out, "},");
}

static void print_seconds(const struct ck_stats *s, struct ck_buf *out)
{
	uint64_t usec = value(&s->nsec) / 1000;

	ck_buf_printf(out, "\"seconds\":%ju.%06ju,",
		      (uintmax_t)(usec / 1000000), (uintmax_t)(usec % 1000000));
}

/* Prints the counters of other hosts and of GPUs. */
static void print_remote(const struct ck_stats *s,
			 void (*print_paths)(void *arg, struct ck_buf *out),
			 void *arg, struct ck_buf *out)
{
	print_hosts(s, "wire_bytes", offsetof(struct ck_stats_host, wire_bytes),
		    true, out);
	print_number("copies", &s->copies, out);
	print_waits(s, out);
	print_number("cache_bytes", &s->cache_bytes, out);
	print_number("restarts", &s->restarts, out);
	print_number("gpu_bytes", &s->gpu_bytes, out);
	print_number("rounds", &s->rounds, out);
	ck_buf_text(out, "\"paths\":[");
	print_paths(arg, out);
	close_with(out, "],");
}

void ck_stats_print(const struct ck_stats *s,
		    void (*print_paths)(void *arg, struct ck_buf *out),
		    void *arg, struct ck_buf *out)
{
	ck_buf_text(out, "{");
	print_number("read_bytes", &s->read_bytes, out);
	print_hosts(s, "file_bytes", offsetof(struct ck_stats_host, file_bytes),
		    false, out);
	print_errors(s, out);
	print_seconds(s, out);
	if (print_paths)
		print_remote(s, print_paths, arg, out);
	close_with(out, "}\n");
}
