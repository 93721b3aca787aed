/* SPDX-License-Identifier: MIT */
/*
 * encode_request: builds all requests except READ (split_reads.c). No state;
 * one thread at a time per request.
 */
#include "dist/dist_internal.h"

#include <errno.h>

void ck_query_fini(struct ck_query *a)
{
	ck_buf_fini(&a->body);
	ck_arena_fini(&a->loops);
	free(a->parts);
	*a = (struct ck_query){ 0 };
}

static void begin(struct ck_query *a, enum ck_wire_type type)
{
	*a = (struct ck_query){ .head = { .type = (uint16_t)type } };
}

static int finish(struct ck_query *a)
{
	int rc = a->body.err;

	a->head.body = (uint32_t)a->body.len;
	if (rc)
		ck_query_fini(a);
	return rc;
}

int ck_query_ping(struct ck_query *a)
{
	begin(a, CK_WIRE_PING);
	return finish(a);
}

int ck_query_list(struct ck_query *a, struct ck_str directory, uint64_t cursor)
{
	if (directory.len > CK_WIRE_NAME_MAX)
		return -ENAMETOOLONG;
	begin(a, CK_WIRE_LIST);
	ck_buf_u64(&a->body, cursor);
	ck_wire_text_put(&a->body, directory);
	return finish(a);
}

/* Returns how many of the names fit into one request. */
static size_t names_that_fit(const struct ck_str *names, size_t n)
{
	size_t len = CK_STAT_HEAD, i;

	for (i = 0; i < n && i < CK_WIRE_STAT_MAX; i++) {
		if (names[i].len > CK_WIRE_NAME_MAX)
			break;
		len += 2 + names[i].len;
		if (len > CK_WIRE_BODY_MAX)
			break;
	}
	return i;
}

int ck_query_stat(struct ck_query *a, struct ck_ids shown,
		  const struct ck_str *names, size_t n, size_t *taken)
{
	*taken = names_that_fit(names, n);
	if (*taken == 0)
		return -ENAMETOOLONG;
	begin(a, CK_WIRE_STAT);
	a->n = (uint32_t)*taken;
	ck_buf_u32(&a->body, shown.uid);
	ck_buf_u32(&a->body, shown.gid);
	ck_buf_u32(&a->body, a->n);
	for (size_t i = 0; i < *taken; i++)
		ck_wire_text_put(&a->body, names[i]);
	return finish(a);
}

static bool runs_fit(const struct ck_wire_run *runs, size_t n)
{
	uint64_t bytes = 0;

	if (n == 0 || n > (CK_WIRE_BODY_MAX - 8) / CK_DIGEST_ROW)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!ck_add(&bytes, bytes, runs[i].len) ||
		    bytes > CK_WIRE_DIGEST_MAX)
			return false;
	return true;
}

int ck_query_digest(struct ck_query *a, const struct ck_wire_run *runs,
		    size_t n)
{
	if (!runs_fit(runs, n))
		return -E2BIG;
	begin(a, CK_WIRE_DIGEST);
	ck_buf_u32(&a->body, (uint32_t)n);
	ck_buf_u32(&a->body, 0);
	for (size_t i = 0; i < n; i++) {
		ck_buf_u32(&a->body, runs[i].file);
		ck_buf_u32(&a->body, 0);
		ck_buf_u64(&a->body, runs[i].fpos);
		ck_buf_u64(&a->body, runs[i].len);
	}
	return finish(a);
}
